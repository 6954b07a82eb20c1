"""A bound for the descriptors of logs: the oldest idle file is closed when too many are open, and opens again when used.

Owner: the Disk. A file is closed only under the lock of its log, and only if nobody holds it; a lock that is taken just now
means that the file is in use, so nothing ever waits here."""

from __future__ import annotations

import resource
import threading
from typing import Final, Protocol

SHARE: Final = 2
"""Half of the descriptors that the process may have; the others are for connections."""

MOST: Final = 100_000


class Guard(Protocol):
    """A lock."""

    def acquire(self, blocking: bool = True) -> bool: ...

    def release(self) -> None: ...


class Evictable(Protocol):
    """A file that can be asked to close for a while; it returns whether it did."""

    def evict(self) -> bool: ...


def default_limit() -> int:
    """How many files of logs this process may keep open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST if soft == resource.RLIM_INFINITY else max(min(soft // SHARE, MOST), 16)


class OpenFiles:
    """The open files of one Disk, in the order in which they were opened."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._files: dict[Evictable, None] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._files)

    def opened(self, file: Evictable) -> None:
        """Take note; close an eighth of the others, the oldest first, if there are too many now."""
        with self._lock:
            self._files[file] = None
            if len(self._files) <= self._limit:
                return
            others = [each for each in self._files if each is not file]
        left = max(self._limit // 8, 1)
        for each in others:
            if each.evict():
                left -= 1
                if left == 0:
                    return

    def closed(self, file: Evictable) -> None:
        """Take note."""
        with self._lock:
            self._files.pop(file, None)
