"""Keeps descriptors free for the logs: connections are refused before the logs run out of descriptors.

Owner: the server, on the data plane's thread. The log files may use a part of the process's descriptors (`open_files`). What they do not use at the
moment is free for them at any time."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable
from typing import Final

OTHERS: Final = 64
"""Descriptors for small files, folders and connections to other nodes."""
OTHERS_SHARE: Final = 8
"""They are at most this part of all: a process may have few."""


class DescriptorReserve:
    """Says whether a further connection may be accepted."""

    def __init__(self, log_room: Callable[[], int]) -> None:
        """`log_room` is how many more log files may be open."""
        self._log_room = log_room

    def has_room(self, descriptor: int) -> bool:
        """Whether connections may be accepted after this one.

        The system gives the lowest free number, so that all numbers below a new descriptor are in use. Cost: one system call."""
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft == resource.RLIM_INFINITY:
            return True
        return descriptor < soft - min(OTHERS, soft // OTHERS_SHARE) - self._log_room()

    def has_room_again(self, like: int) -> bool:
        """Whether connections may be accepted now; `like` is any open descriptor."""
        try:
            lowest = os.dup(like)
        except OSError:
            return False
        os.close(lowest)
        return self.has_room(lowest)
