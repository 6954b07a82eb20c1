"""Limits the open log files: when too many are open, the oldest idle ones are closed. The next use opens them again.

Owner: the Disk. A file is closed only under the lock of its log, and only if it is not held. If the lock is taken, the file
is in use and stays open, so nothing waits here."""

from __future__ import annotations

import os
import resource
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final

from streamactors.broker.latencies import Latencies
from streamactors.broker.log.shortage import NO_DESCRIPTOR

if TYPE_CHECKING:
    from streamactors.broker.log.disk import LogFile

SHARE: Final = 2
"""Log files use half of the process's descriptors; the others are for connections."""

MOST: Final = 100_000


def default_limit() -> int:
    """Return how many log files this process may keep open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST if soft == resource.RLIM_INFINITY else max(min(soft // SHARE, MOST), 16)


class OpenFiles:
    """The open files of one Disk, in the order in which they were opened."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.write_spans: Latencies | None = None
        """How long writes take; None while nobody wants to know."""
        self._files: dict[LogFile, None] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._files)

    @property
    def room(self) -> int:
        """How many more log files may be open."""
        return max(self._limit - len(self._files), 0)

    def open(self, path: Path, flags: int) -> int:
        """Open a file and return its descriptor. If none is free, idle log files give theirs. Raises OSError."""
        flags |= os.O_CLOEXEC
        try:
            return os.open(path, flags, 0o644)
        except OSError as error:
            if error.errno not in NO_DESCRIPTOR or not self._evict(self._eighth):
                raise
            return os.open(path, flags, 0o644)

    def opened(self, file: LogFile) -> None:
        """Add an open file. Beyond the limit, close an eighth of the others, the oldest first."""
        with self._lock:
            self._files[file] = None
            if len(self._files) <= self._limit:
                return
        self._evict(self._eighth, file)

    @property
    def _eighth(self) -> int:
        return max(self._limit // 8, 1)

    def _evict(self, most: int, but: LogFile | None = None) -> int:
        """Close up to this number of idle files, the oldest first; return how many were closed."""
        with self._lock:
            others = [each for each in self._files if each is not but]
        closed = 0
        for each in others:
            closed += each.evict()
            if closed == most:
                break
        return closed

    def closed(self, file: LogFile) -> None:
        """Remove a closed file."""
        with self._lock:
            self._files.pop(file, None)
