"""Receive buffers for large requests, with a budget.

Owner: one processor. New memory pages cost more than filling them, so buffers are kept for later requests. The budget limits
the partly received requests of all connections. Beyond the budget, a connection waits until other requests are complete."""

from __future__ import annotations

from typing import Final

_KEPT_BUFFERS: Final = 8
_LARGEST_KEPT: Final = 4 << 20
_SCRATCH_BYTES: Final = 128 << 10
_KEPT_BYTES: Final = 64 << 20


class BufferPool:
    """Buffers by size, and the budget for them. Sizes in bytes."""

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.in_use = 0
        self._kept: list[bytearray] = []

    @property
    def overdrawn(self) -> bool:
        """Whether the buffers in use exceed the budget."""
        return self.in_use > self.budget

    def admits(self, size: int) -> bool:
        """Whether a buffer of this size may be taken. A single buffer of any size always may."""
        return self.in_use + size <= self.budget or self.in_use == 0

    def take(self, size: int) -> bytearray:
        """Return a buffer of at least `size` bytes. Its content is arbitrary."""
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
        """Take back a buffer. No reader may still use a view of it."""
        self.in_use -= len(buffer)
        if len(self._kept) < _KEPT_BUFFERS and len(buffer) <= _LARGEST_KEPT:
            self._kept.append(buffer)


class Buffers:
    """The receive buffers of all channels of one dispatcher."""

    def __init__(self) -> None:
        self.scratch = memoryview(bytearray(_SCRATCH_BYTES))
        self.pool = BufferPool(_KEPT_BYTES)
