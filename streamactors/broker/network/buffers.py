"""Receive buffers: taken while a large request is on its way, given back when it is done, counted all the time.

Owner: one processor. A buffer's pages cost the kernel more than filling them does, so buffers are kept for the next
request. The budget bounds what half-received requests of all connections may hold: past it a connection waits until
others are done."""

from __future__ import annotations

from typing import Final

_KEPT_BUFFERS: Final = 8
_LARGEST_KEPT: Final = 4 << 20


class BufferPool:
    """Buffers by size, and the budget for them. Sizes in bytes."""

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.in_use = 0
        self._kept: list[bytearray] = []

    @property
    def overdrawn(self) -> bool:
        """Whether more is in use than there should be."""
        return self.in_use > self.budget

    def admits(self, size: int) -> bool:
        """Whether a buffer of this size may be taken. One may always be, however large, or it would wait for ever."""
        return self.in_use + size <= self.budget or self.in_use == 0

    def take(self, size: int) -> bytearray:
        """Return a buffer of at least `size` bytes; what it holds is arbitrary."""
        kept = self._kept
        for index in range(len(kept) - 1, -1, -1):
            if size <= len(kept[index]) <= 2 * size:
                buffer = kept.pop(index)
                break
        else:
            buffer = bytearray(size)
        self.in_use += len(buffer)
        return buffer

    def give_back(self, buffer: bytearray) -> None:
        """Return a buffer to which no view is left that anybody reads."""
        self.in_use -= len(buffer)
        if len(self._kept) < _KEPT_BUFFERS and len(buffer) <= _LARGEST_KEPT:
            self._kept.append(buffer)
