"""The queue of a connection that a tap watches: it also hands each pushed element to the tap. An untapped connection has a plain queue.

Owner: the connection, on its island; the tap puts this queue in place of the plain one."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any


class TappedQueue(deque[Any]):
    """Remembers the last chunk that was pushed, and tells `hear` of each one."""

    last: list[Any] | None = None
    taps = 0
    """The open taps."""
    hear: Callable[[list[Any]], object] | None = None

    def append(self, item: Any) -> None:
        """Add a chunk or a mark."""
        if type(item) is list:
            self.last = item
            if self.hear is not None:
                self.hear(item)
        super().append(item)
