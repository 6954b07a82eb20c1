"""Taking records away: truncation at the end, retention and delete-records at the start, compacted segments in between.

Owner: PartitionLog. Files are renamed to .deleted at once and removed after file.delete.delay.ms. Source: Kafka's
UnifiedLog; retention never passes the high watermark.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from streamactors.broker.errors import OffsetOutOfRange, PolicyViolation
from streamactors.broker.log.log_follow import LogFollow
from streamactors.broker.log.producer_replay import load_producers
from streamactors.broker.log.producer_snapshot import snapshot_offsets
from streamactors.broker.log.segment import Segment
from streamactors.broker.log.segment_files import CLEANED_SUFFIX, SWAP_SUFFIX, snapshot_path


class LogTrim(LogFollow):
    """The shortening side of a partition's log."""

    __slots__ = ()

    def truncate_to(self, offset: int, now_ms: int = 0) -> int:
        """Remove everything from the offset on, and the whole of a batch that holds it; return the log's new end.

        Raises StorageError. An offset at or beyond the end changes nothing."""
        with self.lock:
            if offset >= self.end_offset:
                return self.end_offset
            if offset < self.log_start_offset:
                self._start_over(max(offset, 0), now_ms)
                return self.end_offset
            index = self._segment_at(offset)
            kept, dropped = self.segments[: index + 1], self.segments[index + 1 :]
            segment = kept[-1]
            try:
                position, size, base_offset = segment.position_of(offset)
                end = min(offset, base_offset) if size else offset
                if end < self.log_start_offset:
                    self._start_over(offset, now_ms)
                    return self.end_offset
                self._note_cut(end)
                if dropped:
                    self._condemn(dropped, now_ms)
                segment.truncate(position, end)
            except OSError as error:
                raise self._go_offline("truncate", error) from error
            self._set_segments(kept)
            self._cut_state(end, now_ms)
            if segment.next_offset() != end:
                self._roll(
                    now_ms
                )  # compaction left nothing just before the end: the new segment's name says where it is
            return end

    def truncate_fully_and_start_at(self, offset: int, now_ms: int = 0) -> None:
        """Remove everything; the log is empty and begins at the offset. Raises StorageError."""
        with self.lock:
            self._start_over(offset, now_ms)

    def _start_over(self, offset: int, now_ms: int) -> None:
        try:
            self._note_cut(offset)
            self._condemn(self.segments, now_ms)
            fresh = Segment.create(self.disk, self.directory, offset, self.config, now_ms)
        except OSError as error:
            raise self._go_offline("truncate", error) from error
        self._set_segments([fresh])
        self.log_start_offset = offset
        self._cut_state(offset, now_ms)

    def _cut_state(self, end: int, now_ms: int) -> None:
        """Bring everything that is known beside the segments back to the new end."""
        self.generation += 1
        self.end_offset = end
        self.high_watermark = min(self.high_watermark, end)
        self.recovery_point = min(self.recovery_point, end)
        self._flush_from = min(self._flush_from, end)
        self._owed_to = min(self._owed_to, end)
        if self.epochs.truncate_to(end):
            self._save_epochs()
        try:
            for offset in snapshot_offsets(self.disk, self.directory):
                if offset > end:
                    self.disk.remove(snapshot_path(self.directory, offset))
            self.producer_state = load_producers(
                self.disk, self.directory, self.segments, self.log_start_offset, end, now_ms, self.high_watermark
            )
        except OSError as error:
            raise self._go_offline("take back what is known of its producers", error) from error
        self.first_unstable = self.producer_state.first_unstable()

    def delete_records(self, before: int, now_ms: int = 0) -> int:
        """Let the log begin at the offset (-1: at the high watermark); return where it begins.

        Raises OffsetOutOfRange beyond the high watermark, PolicyViolation unless cleanup.policy has `delete`.
        """
        with self.lock:
            self._check_online()
            if not self.config.deletes:
                policy = ",".join(self.config.cleanup_policy) or "none"
                raise PolicyViolation(
                    f"{self.name}: records cannot be deleted, cleanup.policy is {policy}; it needs delete"
                )
            target = self.high_watermark if before == -1 else before
            if not 0 <= target <= self.high_watermark:
                raise OffsetOutOfRange(
                    f"{self.name}: cannot delete records before offset {before}; the high watermark is {self.high_watermark}"
                )
            self.advance_log_start(target, now_ms)
            return self.log_start_offset

    def advance_log_start(self, offset: int, now_ms: int = 0) -> None:
        """Let the log begin at the offset, if it is beyond where it begins now, and drop the segments before it."""
        with self.lock:
            if offset <= self.log_start_offset:
                return
            self.log_start_offset = offset
            if self.epochs.truncate_from_start(offset):
                self._save_epochs()
            self._drop_oldest(self._count_oldest(lambda segment, end: end <= offset), now_ms)

    def apply_retention(self, now_ms: int) -> int:
        """Drop the oldest segments that retention.ms, retention.bytes or the log's start condemn; return how many.

        `now_ms` is epoch milliseconds. Never beyond the high watermark; an active segment is closed first.
        """
        with self.lock:
            if self.offline is not None or not self.configured:
                return 0
            dropped = self._drop_oldest(self._count_oldest(lambda segment, end: end <= self.log_start_offset), now_ms)
            config = self.config
            if not config.deletes:
                return dropped
            if config.retention_ms >= 0:
                oldest_ms = now_ms - config.retention_ms
                expired = self._count_oldest(lambda segment, end: segment.largest_timestamp() < oldest_ms)
                dropped += self._drop_oldest(expired, now_ms)
            if config.retention_bytes >= 0:
                excess = sum(segment.size for segment in self.segments) - config.retention_bytes

                def too_much(segment: Segment, end: int) -> bool:
                    nonlocal excess
                    if excess < segment.size:
                        return False
                    excess -= segment.size
                    return True

                dropped += self._drop_oldest(self._count_oldest(too_much), now_ms)
            return dropped

    def _count_oldest(self, condemned: Callable[[Segment, int], bool]) -> int:
        """Count the segments from the oldest on that are condemned, replicated and not an empty active one."""
        count = 0
        for index, segment in enumerate(self.segments):
            end = self._segment_end(index)
            if (
                end > self.high_watermark
                or (segment is self.active and segment.size == 0)
                or not condemned(segment, end)
            ):
                break
            count += 1
        return count

    def _drop_oldest(self, count: int, now_ms: int) -> int:
        if count == 0:
            return 0
        if count == len(self.segments):
            self._roll(now_ms)
        try:
            self._condemn(self.segments[:count], now_ms)
        except OSError as error:
            raise self._go_offline("delete old segments", error) from error
        self._set_segments(self.segments[count:])
        start = self.segments[0].base_offset
        self.recovery_point = max(self.recovery_point, min(start, self.end_offset))
        if start > self.log_start_offset:
            self.log_start_offset = start
            if self.epochs.truncate_from_start(start):
                self._save_epochs()
        return count

    def replace_segments(self, old: Sequence[Segment], new: Segment, now_ms: int, generation: int) -> bool:
        """Put a compacted segment, whose files are named .cleaned and synced, in the place of closed ones.

        False, and nothing done, if the log was truncated or trimmed so that the old ones are not all there any more. A
        crash at any point leaves either the old ones or the new one for recovery to find.
        """
        with self.lock:
            index = self.segments.index(old[0]) if old[0] in self.segments else -1
            if (
                index < 0
                or self.closed
                or self.segments[index : index + len(old)] != list(old)
                or generation != self.generation
            ):
                return False
            try:
                new.change_suffix(CLEANED_SUFFIX, SWAP_SUFFIX)
                self.disk.sync_directory(self.directory)
                self._condemn(list(old), now_ms, keep_snapshot=new.base_offset)
                new.change_suffix(SWAP_SUFFIX, "")
                self.disk.sync_directory(self.directory)
            except OSError as error:
                raise self._go_offline("replace compacted segments", error) from error
            new.unload_indexes()
            new.log.guard = self.lock
            self._set_segments([*self.segments[:index], new, *self.segments[index + len(old) :]])
            return True

    def expire_producers(self, now_ms: int, expiration_ms: int) -> int:
        """Forget producers that have not written for so long; return how many."""
        with self.lock:
            return self.producer_state.expire(now_ms, expiration_ms)
