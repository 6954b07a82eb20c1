"""Truncation: remove the end of a log, or all of it, with the state that the removed records left.

Owner: PartitionLog (`log.truncation`). A follower truncates at the offset where its log diverges from the leader's. A failed
flush truncates unacknowledged records. Source: Kafka's UnifiedLog.
"""

from __future__ import annotations

from streamactors.broker.log.partition.log_core import LogCore
from streamactors.broker.log.partition.required_flushes import RequiredFlushes
from streamactors.broker.log.producers.producer_replay import load_producers
from streamactors.broker.log.producers.producer_snapshot import snapshot_offsets
from streamactors.broker.log.segments.segment import Segment
from streamactors.broker.log.segments.segment_files import snapshot_path
from streamactors.broker.records.batch import iter_batches


class LogTruncation:
    """Removes records from an offset on."""

    __slots__ = ("_log", "_required")

    def __init__(self, log: LogCore, required: RequiredFlushes) -> None:
        self._log = log
        self._required = required

    def truncate_to(self, offset: int, now_ms: int) -> int:
        """Remove every batch that holds the offset or a later one. Return the new log end.

        An offset at or beyond the log end removes no record, only an epoch without records that begins at the log end. Raises StorageError."""
        log, files = self._log, self._log.segment_list
        with log.lock:
            if offset >= log.end_offset:
                # This node leads epoch 2 -> another one leads epoch 3 before a record is appended -> this log still names epoch 2 in its
                # fetches, and the new leader, which has no such epoch, answers each of them with the same end instead of records.
                if log.epochs.truncate_to(log.end_offset):
                    log.save_epochs()
                return log.end_offset
            if offset < log.log_start_offset:
                self._start_over(max(offset, 0), now_ms)
                return log.end_offset
            index = files.index_at(offset)
            kept, dropped = files.all[: index + 1], files.all[index + 1 :]
            segment = kept[-1]
            try:
                position, size, base_offset = segment.position_of(offset)
                end = min(offset, base_offset) if size else offset
                if end < log.log_start_offset:
                    self._start_over(offset, now_ms)
                    return log.end_offset
                files.transactions_of(segment)
                log.note_truncation(end)
                if dropped:
                    log.condemn(dropped, now_ms)
                segment.truncate(position, end)
            except OSError as error:
                raise log.go_offline("truncate", error) from error
            files.replace(kept)
            self._truncate_state(end, now_ms)
            if segment.next_offset() != end:
                # Compaction left no batch that ends here. The name of the new segment stores the end.
                log.begin_segment(now_ms, end)
            return end

    def truncate_fully_and_start_at(self, offset: int, now_ms: int) -> None:
        """Remove everything. The empty log begins at the offset. Raises StorageError."""
        with self._log.lock:
            self._start_over(offset, now_ms)

    def begin_with(self, records: memoryview, now_ms: int) -> None:
        """If the log is empty and begins inside the first of these batches, have it begin where the batch does. Raises StorageError.

        Deleted records move the start of a log into a batch. A copy of the log begins at this offset and is sent the whole batch."""
        log = self._log
        with log.lock:
            first = next(iter_batches(records), None) if log.log_start_offset == log.end_offset else None
            if first is not None and first.base_offset < log.end_offset <= first.last_offset:
                self._start_over(first.base_offset, now_ms)

    def _start_over(self, offset: int, now_ms: int) -> None:
        log, files = self._log, self._log.segment_list
        try:
            log.note_truncation(offset)
            log.condemn(files.all, now_ms)
            fresh = Segment.create(log.folder.disk, log.folder.path, offset, log.config, now_ms)
        except OSError as error:
            raise log.go_offline("truncate", error) from error
        files.replace([fresh])
        log.log_start_offset = log.high_watermark = offset
        if log.epochs.clear():
            log.save_epochs()
        self._truncate_state(offset, now_ms)

    def _truncate_state(self, end: int, now_ms: int) -> None:
        """Set offsets, epochs, snapshots and producer state back to the new end."""
        log, folder = self._log, self._log.folder
        log.generation += 1
        log.end_offset = end
        log.high_watermark = min(log.high_watermark, end)
        log.recovery_point = min(log.recovery_point, end)
        self._required.truncate_to(end)
        if log.epochs.truncate_to(end):
            log.save_epochs()
        try:
            for offset in snapshot_offsets(folder.disk, folder.path):
                if offset > end:
                    folder.disk.remove(snapshot_path(folder.path, offset))
            log.producer_state = load_producers(
                folder.disk, folder.path, log.segment_list.all, log.log_start_offset, end, now_ms, log.high_watermark
            )
        except OSError as error:
            raise log.go_offline("restore the producer state", error) from error
        log.first_unstable = log.producer_state.first_unstable()
