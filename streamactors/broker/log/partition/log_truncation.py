"""Truncation: remove the end of a log, or all of it, with the state that the removed records left.

Owner: PartitionLog (`log.truncation`). A follower truncates at the offset where its log diverges from the leader's. A failed
flush truncates unacknowledged records. Source: Kafka's UnifiedLog.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from streamactors.broker.log.partition.leader_epochs import LeaderEpochs
from streamactors.broker.log.partition.log_core import LogCore
from streamactors.broker.log.partition.required_flushes import RequiredFlushes
from streamactors.broker.log.producers.producer_replay import load_producers
from streamactors.broker.log.producers.producer_snapshot import snapshot_offsets
from streamactors.broker.log.producers.producer_state import ProducerState
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
                self._truncate_epochs(log.end_offset)
                return log.end_offset
            if offset < log.log_start_offset:
                self._start_over(max(offset, 0), now_ms)
                return log.end_offset
            index = files.index_at(offset)
            kept, dropped = files.all[: index + 1], files.all[index + 1 :]
            segment, epochs = kept[-1], log.epochs
            try:
                position, size, base_offset = segment.position_of(offset)
                end = min(offset, base_offset) if size else offset
                if end < log.log_start_offset:
                    self._start_over(offset, now_ms)
                    return log.end_offset
                files.transactions_of(segment)
                producers = self._producers_at(end, kept, log.log_start_offset, min(log.high_watermark, end), now_ms)
                log.note_truncation(end)
                self._truncate_epochs(end)
                log.condemn(dropped, now_ms, lambda: segment.truncate(position, end))
            except OSError as error:
                self._restore_epochs(epochs)
                raise log.disk_failed("truncate", error) from error
            files.replace(kept)
            self._end_at(end, producers)
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
        folder, epochs = log.folder, log.epochs
        try:
            for base in files.bases:  # a snapshot at the offset would be one of the removed records
                folder.disk.remove(snapshot_path(folder.path, base))
            producers = self._producers_at(offset, (), offset, offset, now_ms)
            log.note_truncation(offset)
            if log.epochs.entries:
                log.use_epochs(LeaderEpochs())

            def begin() -> Segment:
                return Segment.create(folder.disk, folder.path, offset, log.config, now_ms)

            fresh = log.condemn(files.all, now_ms, begin)
        except OSError as error:
            self._restore_epochs(epochs)
            raise log.disk_failed("truncate", error) from error
        files.replace([fresh])
        log.log_start_offset = log.high_watermark = offset
        self._end_at(offset, producers)

    def _truncate_epochs(self, end: int) -> None:
        """Remove the epochs that began at or after the new end. Raises StorageError.

        Before the records: after a crash in between, recovery removes batches of an unknown epoch."""
        log = self._log
        kept = log.epochs.copy()
        if kept.truncate_to(end):
            log.use_epochs(kept)

    def _restore_epochs(self, epochs: LeaderEpochs) -> None:
        """The records could not be removed, so their epochs stay. The file may lack them: a follower truncates again before it appends, and a leader
        writes the file with its new epoch."""
        log = self._log
        if log.epochs is not epochs:
            log.epochs = epochs
            with suppress(OSError):
                log.folder.save_epochs(epochs, None)

    def _producers_at(
        self, end: int, segments: Sequence[Segment], log_start: int, high_watermark: int, now_ms: int
    ) -> ProducerState:
        """Return the producers as of the new end, and remove the snapshots after it. Raises OSError."""
        folder = self._log.folder
        for offset in snapshot_offsets(folder.disk, folder.path):
            if offset > end:
                folder.disk.remove(snapshot_path(folder.path, offset))
        return load_producers(folder.disk, folder.path, segments, log_start, end, now_ms, high_watermark)

    def _end_at(self, end: int, producers: ProducerState) -> None:
        """Set offsets and producer state back to the new end. Nothing can fail here: the files are truncated."""
        log = self._log
        log.generation += 1
        log.end_offset = end
        log.high_watermark = min(log.high_watermark, end)
        log.recovery_point = min(log.recovery_point, end)
        self._required.truncate_to(end)
        log.producer_state = producers
        log.first_unstable = producers.first_unstable()
