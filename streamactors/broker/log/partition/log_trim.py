"""Removal of records: retention and DeleteRecords at the start of a log, replacement of segments by compaction.

Owner: PartitionLog (`log.trim`). Retention never passes the high watermark. Source: Kafka's UnifiedLog.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from streamactors.broker.errors import OffsetOutOfRange, PolicyViolation, StorageShortage
from streamactors.broker.log.partition.log_core import LogCore
from streamactors.broker.log.segments.segment import Segment
from streamactors.broker.log.segments.segment_files import CLEANED_SUFFIX, SWAP_SUFFIX
from streamactors.broker.log.shortage import passes


class LogTrim:
    """Removes the oldest segments of a log and replaces segments after compaction."""

    __slots__ = ("_log",)

    def __init__(self, log: LogCore) -> None:
        self._log = log

    def delete_records(self, before: int, now_ms: int) -> int:
        """Set the log start to the offset (-1: the high watermark). Return the log start.

        Raises OffsetOutOfRange beyond the high watermark, PolicyViolation unless cleanup.policy has `delete`.
        """
        log = self._log
        with log.lock:
            log.check_online()
            if not log.config.deletes:
                policy = ",".join(log.config.cleanup_policy) or "none"
                raise PolicyViolation(
                    f"{log.name}: records cannot be deleted, cleanup.policy is {policy}; it needs delete"
                )
            target = log.high_watermark if before == -1 else before
            if not 0 <= target <= log.high_watermark:
                raise OffsetOutOfRange(
                    f"{log.name}: cannot delete records before offset {before}; the high watermark is {log.high_watermark}"
                )
            self.advance_log_start(target, now_ms)
            return log.log_start_offset

    def advance_log_start(self, offset: int, now_ms: int) -> None:
        """Raise the log start to the offset and drop the segments before it. A smaller offset changes nothing."""
        log = self._log
        with log.lock:
            if offset <= log.log_start_offset:
                return
            self._begin_at(offset)
            with suppress(StorageShortage):  # they are below the log start, and the next retention drops them
                self._drop_oldest(self._count_oldest(lambda segment, end: end <= offset), now_ms)

    def apply_retention(self, now_ms: int) -> int:
        """Drop the oldest segments by retention.ms, retention.bytes and log start. Return their number.

        `now_ms` is epoch milliseconds. No segment beyond the high watermark goes. An active segment is closed first.
        """
        log, files = self._log, self._log.segment_list
        with log.lock:
            if log.offline is not None or not log.configured:
                return 0
            dropped = self._drop_oldest(self._count_oldest(lambda segment, end: end <= log.log_start_offset), now_ms)
            config = log.config
            if not config.deletes:
                return dropped
            if config.retention_ms >= 0:
                oldest_ms = now_ms - config.retention_ms
                expired = self._count_oldest(lambda segment, end: segment.largest_timestamp() < oldest_ms)
                dropped += self._drop_oldest(expired, now_ms)
            if config.retention_bytes >= 0:
                excess = sum(segment.size for segment in files.all) - config.retention_bytes

                def too_much(segment: Segment, end: int) -> bool:
                    nonlocal excess
                    if excess < segment.size:
                        return False
                    excess -= segment.size
                    return True

                dropped += self._drop_oldest(self._count_oldest(too_much), now_ms)
            return dropped

    def _count_oldest(self, condemned: Callable[[Segment, int], bool]) -> int:
        """Count the oldest segments that `condemned` accepts, that are replicated, and that are not an empty active one."""
        log, files = self._log, self._log.segment_list
        count = 0
        for index, segment in enumerate(files.all):
            end = files.end_of(index, log.end_offset)
            if (
                end > log.high_watermark
                or (segment is files.active and segment.size == 0)
                or not condemned(segment, end)
            ):
                break
            count += 1
        return count

    def _drop_oldest(self, count: int, now_ms: int) -> int:
        if count == 0:
            return 0
        log, files = self._log, self._log.segment_list
        if count == len(files.all):
            log.begin_segment(now_ms, log.end_offset)
        try:
            log.condemn(files.all[:count], now_ms)
        except OSError as error:
            raise log.disk_failed("delete old segments", error) from error
        files.replace(files.all[count:])
        start = files.all[0].base_offset
        log.recovery_point = max(log.recovery_point, min(start, log.end_offset))
        if start > log.log_start_offset:
            self._begin_at(start)
        return count

    def _begin_at(self, offset: int) -> None:
        """Raise the log start, and remove the epochs that ended before it. Raises StorageError, unless the error is temporary.

        The file of the epochs may keep them: a start removes them, and the next change of the epochs writes the file."""
        log = self._log
        log.log_start_offset = offset
        kept = log.epochs.copy()
        if not kept.truncate_from_start(offset):
            return
        try:
            log.use_epochs(kept)
        except StorageShortage:
            log.epochs = kept

    def replace_segments(self, old: Sequence[Segment], new: Segment, now_ms: int, generation: int) -> bool:
        """Replace closed segments by a compacted one, whose files are synced and named .cleaned.

        Returns False without a change if a truncation or retention has removed an old segment, or a copy of the log was begun. After a
        crash at any point, recovery finds either the old segments or the new one.
        """
        log, files = self._log, self._log.segment_list
        with log.lock:
            index = files.all.index(old[0]) if old[0] in files.all else -1
            if (
                index < 0
                or log.closed
                or log.is_copied
                or files.all[index : index + len(old)] != list(old)
                or generation != log.generation
            ):
                return False
            try:
                new.change_suffix(CLEANED_SUFFIX, SWAP_SUFFIX)
                try:
                    log.folder.disk.sync_directory(log.folder.path)
                    log.condemn(
                        list(old), now_ms, lambda: new.change_suffix(SWAP_SUFFIX, ""), keep_snapshot=new.base_offset
                    )
                except OSError:
                    new.change_suffix(SWAP_SUFFIX, CLEANED_SUFFIX)  # recovery would replace later records with it
                    raise
            except OSError as error:
                raise log.disk_failed("replace compacted segments", error) from error
            try:
                log.folder.disk.sync_directory(log.folder.path)
            except OSError as error:
                if not passes(error):
                    raise log.disk_failed("replace compacted segments", error) from error
                # The next flush syncs the folder: `condemn` has noted that it must.
            new.unload_indexes()
            new.log.guard = log.lock
            files.replace([*files.all[:index], new, *files.all[index + len(old) :]])
            return True
