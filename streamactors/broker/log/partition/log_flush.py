"""Flush of one log: which files to sync, and what follows when the sync succeeds or fails.

Owner: PartitionLog; the flusher calls it. The lock is held at the beginning and the end of a flush, not during the sync, so
appends continue and the next flush covers them. When a flush fails, the log is truncated to the first append that required
a flush, offsets and producer state included. Otherwise retries would make duplicates or gaps.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from streamactors.broker.errors import StorageError
from streamactors.broker.log import logger
from streamactors.broker.log.disk import LogFile
from streamactors.broker.log.partition.log_core import LogCore
from streamactors.broker.log.partition.log_truncation import LogTruncation
from streamactors.broker.log.partition.required_flushes import RequiredFlushes
from streamactors.broker.log.segments.segment import Segment
from streamactors.broker.log.shortage import NO_DESCRIPTOR

FAILURES_BEFORE_OFFLINE: Final = 2


class FlushTicket(NamedTuple):
    """One flush: the segments to sync, their files (held open), and the offset that the flush makes durable."""

    up_to: int
    generation: int
    segments: tuple[Segment, ...]
    files: tuple[LogFile, ...]
    small_files: frozenset[Path]
    folder_changed: bool


class LogFlush:
    """Brings a log to the disk."""

    __slots__ = ("_clock_ms", "_failures", "_log", "_required", "_truncation")

    def __init__(
        self, log: LogCore, required: RequiredFlushes, truncation: LogTruncation, clock_ms: Callable[[], int]
    ) -> None:
        self._log = log
        self._required = required
        self._truncation = truncation
        self._clock_ms = clock_ms
        self._failures = 0  # failed flushes in a row

    def begin(self) -> FlushTicket:
        """Return a ticket for everything appended so far. Call `carry_out`, then `end` or `fail` with it."""
        log, files = self._log, self._log.segment_list
        with log.lock:
            segments: tuple[Segment, ...] = ()
            if log.recovery_point < log.end_offset:
                # Also the segment before the recovery point: it may have been truncated to this offset.
                segments = tuple(files.all[files.index_at(log.recovery_point - 1) :])
            for segment in segments:
                segment.log.hold()
                try:
                    segment.log.descriptor()  # Opened now, because retention may remove the file name during the sync.
                except OSError:
                    pass  # `carry_out` gets the same error and reports it.
            files.note_boundary(log.end_offset, files.active.size)
            small, changed = log.folder.take_unsynced()
            held = tuple(segment.log for segment in segments)  # A replaced segment gets another file meanwhile.
            return FlushTicket(log.end_offset, log.generation, segments, held, small, changed)

    def carry_out(self, ticket: FlushTicket) -> None:
        """Sync the files on the caller's thread. Raises OSError."""
        disk, path = self._log.folder.disk, self._log.folder.path
        for segment in ticket.segments:
            segment.sync()
        for small_file in ticket.small_files:
            disk.sync_file(small_file)
        if ticket.folder_changed:
            disk.sync_directory(path)
            disk.sync_directory(path.parent)

    def end(self, ticket: FlushTicket) -> None:
        """Record a successful flush."""
        log = self._log
        with log.lock:
            self._release(ticket)
            if ticket.generation != log.generation:
                return  # After a truncation, the synced bytes may belong to other records.
            self._failures = 0
            log.recovery_point = max(log.recovery_point, ticket.up_to)
            self._required.done(ticket.up_to)

    def fail(self, ticket: FlushTicket, error: OSError, now_ms: int) -> StorageError:
        """Record a failed flush: truncate the log to the first append that waits for it. Return the error.

        The kernel may have dropped the pages that it could not write. So the partition goes offline after a second failure
        in a row, and when the failure may concern records that were acknowledged without a flush. If only a descriptor was missing, no page
        is lost: the records stay, the error is a StorageShortage, and the next flush covers them.
        """
        log = self._log
        with log.lock:
            self._release(ticket)
            if log.deleted:
                return StorageError(f"{log.name}: the log was deleted")
            log.folder.put_back(ticket.small_files, ticket.folder_changed)
            if error.errno in NO_DESCRIPTOR:
                return log.disk_failed("flush to disk", error)
            self._failures += 1
            keep = self._required.limit(log.end_offset)
            failure = StorageError(f"{log.name}: cannot flush to disk: {error.strerror or error} ({log.folder.path})")
            if self._failures >= FAILURES_BEFORE_OFFLINE or log.recovery_point < min(keep, ticket.up_to):
                failure = log.disk_failed("flush to disk", error, lasts=True)
            else:
                logger.error("%s; %d records are removed", failure, log.end_offset - keep)
            if keep < log.end_offset:
                try:
                    self._truncation.truncate_to(keep, now_ms)
                except StorageError as worse:
                    # Their producers have an error, so no record may follow them. Records beyond the high watermark are never read.
                    return worse if log.offline is not None else log.disk_failed("flush to disk", error, lasts=True)
            return failure

    def _release(self, ticket: FlushTicket) -> None:
        for file in ticket.files:
            file.release()

    def flush(self) -> None:
        """Flush everything appended so far, on the caller's thread. Raises StorageError."""
        ticket = self.begin()
        try:
            self.carry_out(ticket)
        except OSError as error:
            raise self.fail(ticket, error, self._clock_ms()) from error
        self.end(ticket)
