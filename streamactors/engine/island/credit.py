"""A credit window: how many elements may be on their way between a sender and a receiver that do not share an island."""

from __future__ import annotations

from time import perf_counter
from typing import Final

from streamactors.engine.island.pace import AHEAD_S, FIRST_WINDOW
from streamactors.gauges import Gauge

LARGEST_WINDOW: Final = 4_096


class CreditWindow:
    """The receiver's account of the credits that it has granted; the sender starts with `size` of them.

    A fixed window stays at its size. Without one the window follows the receiver: it starts at 16 and grows to 4,096 while
    elements leave quickly, and holds about half a second of the receiver's work when they do not.
    Owner: the receiver, one thread at a time."""

    __slots__ = ("_fixed", "_gauge", "_since_s", "_starved", "_taken", "outstanding", "size")

    def __init__(self, fixed: int | None, name: str = "a credit window") -> None:
        self._fixed = fixed is not None
        self.size = fixed or FIRST_WINDOW
        self.outstanding = self.size  # elements that may still be sent, are on their way, or are held by the receiver
        self._taken = 0
        self._since_s = perf_counter()
        self._starved = True  # the receiver has held nothing since the window was resized
        self._gauge = Gauge(f"{name}: elements that wait for the receiver", bound=fixed or LARGEST_WINDOW)

    def holds(self, n: int) -> None:
        """The receiver holds `n` elements, which it has not passed on yet."""
        self._gauge.reached(n)

    def taken(self, n: int, empty: bool) -> int:
        """The receiver has passed on `n` elements; `empty`: it holds no others. Return the credits to grant now, often 0.

        Credits are granted when half of the window is free."""
        self.outstanding -= n
        self._taken += n
        if empty:
            self._starved = True
        if self.outstanding * 2 > self.size:
            return 0
        if not self._fixed:
            self._resize(empty)
        credits = max(0, self.size - self.outstanding)
        self.outstanding += credits
        return credits

    def _resize(self, empty: bool) -> None:
        now_s = perf_counter()
        size = self.size * 2
        if not self._starved:
            size = min(size, int(self._taken / max(now_s - self._since_s, 1e-6) * AHEAD_S))
        self.size = max(1, min(size, LARGEST_WINDOW))
        self._taken = 0
        self._since_s = now_s
        self._starved = empty
