"""Pace: how long a slice of user calls may be, and how far demand may run ahead of a slow stage.

A chunk must make nobody wait. Two rules, both needed: (1) per stage, a slice is never longer than a quarter of the elements since
the last slow slice, and grows only while slices are quick; (2) the watch ends a slice that turns slow in the middle (the loop looks
at `stop_slice` after each element). Demand runs ahead of a stage by no more than about half a second of its work."""

from __future__ import annotations

import weakref
from time import perf_counter
from typing import TYPE_CHECKING

from streamactors.engine.connection import MAX_ASKED

if TYPE_CHECKING:
    from streamactors.actors.elastic_pool import ElasticPool
    from streamactors.engine.interpreter import Interpreter

SLOW_SLICE_S = 0.002
QUICK_SLICE_S = 0.001
LONGEST_SLICE = 1_024
FIRST_WINDOW = 16
AHEAD_S = 0.5


class Pace:
    """The slice length (`limit`) and demand window (`window`) of one stage that calls user code; both in elements."""

    __slots__ = ("_began", "_each_s", "_since_slow", "interpreter", "limit", "top", "window")

    def __init__(self, interpreter: Interpreter, max_chunk: int | None = None) -> None:
        self.interpreter = interpreter
        self.top = min(LONGEST_SLICE, max_chunk or LONGEST_SLICE)
        self.limit = 1
        self.window = max_chunk or FIRST_WINDOW
        self._since_slow = 0
        self._each_s = 0.0
        self._began = 0.0

    def begin(self) -> list[int]:
        """Start a slice; return the list that becomes non-empty when it should end early."""
        interpreter = self.interpreter
        interpreter.slice_no += 1
        interpreter.in_slice = True
        self._began = perf_counter()
        return interpreter.stop_slice

    def end(self, n: int) -> None:
        """A slice of `n` elements has ended."""
        seconds = perf_counter() - self._began
        interpreter = self.interpreter
        interpreter.in_slice = False
        if interpreter.stop_slice:
            interpreter.stop_slice.clear()
        if not n:
            return
        limit = self.limit
        if seconds > SLOW_SLICE_S:
            self._since_slow = 0
            self.limit = max(1, min(limit, int(n * QUICK_SLICE_S / 2 / seconds)))
        else:
            self._since_slow += n
            if limit < self.top and seconds < QUICK_SLICE_S:
                self.limit = max(1, min(limit * 2, self._since_slow >> 2, self.top))
        if self.window < MAX_ASKED or seconds > SLOW_SLICE_S:
            self._resize_window(seconds / n)

    def _resize_window(self, each_s: float) -> None:
        if self.top == 1:
            return
        known = self._each_s
        self._each_s = each_s = each_s if not known else known + 0.3 * (each_s - known)
        self.window = max(1, min(self.window * 2, int(AHEAD_S / each_s) if each_s > 0 else MAX_ASKED, MAX_ASKED))


class SliceWatch:
    """Tells loops that take too long to end their slice. One per pool; asked every few ms while anything runs."""

    def __init__(self) -> None:
        self.running: set[Interpreter] = set()
        self._seen: dict[Interpreter, int] = {}

    def tick(self) -> None:
        """End each slice that was already running at the tick before."""
        seen: dict[Interpreter, int] = {}
        for interpreter in list(self.running):
            if interpreter.in_slice:
                number = interpreter.slice_no
                if self._seen.get(interpreter) == number and not interpreter.stop_slice:
                    interpreter.stop_slice.append(number)
                seen[interpreter] = number
        self._seen = seen


_watches: weakref.WeakKeyDictionary[ElasticPool, SliceWatch] = weakref.WeakKeyDictionary()


def watch_of(pool: ElasticPool) -> SliceWatch:
    """Return the watch of a pool, hooked into it at the first call."""
    watch = _watches.get(pool)
    if watch is None:
        watch = _watches[pool] = SliceWatch()
        pool.watch(watch.tick)
    return watch
