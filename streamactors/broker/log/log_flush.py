"""Getting what was appended onto the disk: what to sync, and what a sync that happened, or failed, means.

Owner: PartitionLog; the flusher calls it. The lock is held to begin and to end a flush, never during it, so appends go on
and the next flush takes all of them. Rule of failure: the first append whose required flush failed and every later one
are gone, offsets and producer state included, or retries would make duplicates or holes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from streamactors.broker.errors import StorageError
from streamactors.broker.log.files import LogFile
from streamactors.broker.log.log_core import logger
from streamactors.broker.log.log_trim import LogTrim
from streamactors.broker.log.segment import Segment

FAILURES_BEFORE_OFFLINE: Final = 2


class FlushTicket(NamedTuple):
    """One flush: the segments to sync, their files held open, and the offset that will be safe then."""

    up_to: int
    generation: int
    segments: tuple[Segment, ...]
    files: tuple[LogFile, ...]
    small_files: frozenset[Path]
    directory_dirty: bool


class LogFlush(LogTrim):
    """The syncing side of a partition's log."""

    __slots__ = ()

    @property
    def unflushed(self) -> int:
        """How many offsets are not known to be on the disk."""
        return self.end_offset - self.recovery_point

    def begin_flush(self) -> FlushTicket:
        """Say what must be synced for everything appended so far. Every ticket must be ended."""
        with self.lock:
            segments: tuple[Segment, ...] = ()
            if self.recovery_point < self.end_offset:
                # from the one before on: it may have been cut back to this offset
                segments = tuple(self.segments[self._segment_at(self.recovery_point - 1) :])
            for segment in segments:
                segment.log.hold()
                try:
                    segment.log.descriptor()  # open from now on: retention may take the name away meanwhile
                except OSError:
                    pass  # `carry_out` meets it again, where it can be told
            self._note_boundary(self.end_offset, self.active.size)
            dirty, self._directory_dirty = self._directory_dirty, False
            small, self._unsynced = frozenset(self._unsynced), set()
            files = tuple(segment.log for segment in segments)
            return FlushTicket(self.end_offset, self.generation, segments, files, small, dirty)

    def carry_out(self, ticket: FlushTicket) -> None:
        """Do the syncs, on the caller's thread. Raises OSError."""
        for segment in ticket.segments:
            segment.sync()
        for path in ticket.small_files:
            self.disk.sync_file(path)
        if ticket.directory_dirty:
            self.disk.sync_directory(self.directory)
            self.disk.sync_directory(self.directory.parent)

    def end_flush(self, ticket: FlushTicket) -> None:
        """Take note of a flush that was done."""
        with self.lock:
            self._release(ticket)
            if ticket.generation != self.generation:
                return  # cut back meanwhile: what was synced may be other records than what is there now
            self._failures = 0
            self.recovery_point = max(self.recovery_point, ticket.up_to)
            self._owed_from = max(self._owed_from, ticket.up_to)
            self._flush_from = max(self._flush_from, ticket.up_to)

    def fail_flush(self, ticket: FlushTicket, error: OSError) -> StorageError:
        """Take note of a flush that failed: cut the log back to the first append that waited for it.

        The system may have dropped the pages that it could not write, so a second failure in a row, or one that may have
        hit records which were acknowledged without a flush, takes the partition offline.
        """
        with self.lock:
            self._release(ticket)
            if self.deleted:
                return StorageError(f"{self.name}: the log was deleted")
            self._directory_dirty = self._directory_dirty or ticket.directory_dirty
            self._unsynced |= ticket.small_files
            self._failures += 1
            keep = self.hw_limit
            failure = StorageError(f"{self.name}: cannot flush to disk: {error.strerror or error} ({self.directory})")
            if self._failures >= FAILURES_BEFORE_OFFLINE or self.recovery_point < min(keep, ticket.up_to):
                failure = self._go_offline("flush to disk", error)
            else:
                logger.error("%s; %d records are taken back", failure, self.end_offset - keep)
            if keep < self.end_offset:
                try:
                    self.truncate_to(keep)
                except StorageError as worse:
                    return worse  # offline by now; nothing beyond the high watermark is ever read
            return failure

    def _release(self, ticket: FlushTicket) -> None:
        for file in ticket.files:
            file.release()

    def flush(self) -> None:
        """Put everything appended so far onto the disk, on the caller's thread. Raises StorageError."""
        ticket = self.begin_flush()
        try:
            self.carry_out(ticket)
        except OSError as error:
            raise self.fail_flush(ticket, error) from error
        self.end_flush(ticket)
