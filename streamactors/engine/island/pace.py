"""Pace: how long a slice of user calls may be, and how far demand may run ahead of a slow stage.

A long chunk must not keep other stages waiting. Two rules, both needed: (1) per stage, a slice is never longer than a quarter of the elements since
the last slow slice, and grows only while slices are quick; (2) the watch ends a slice that turns slow in the middle (the loop looks
at `stop_slice` after each element). Demand runs ahead of a stage by no more than about half a second of its work."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from streamactors.engine.island.connection import MAX_ASKED, Connection

if TYPE_CHECKING:
    from streamactors.actors.pool.elastic_pool import ElasticPool
    from streamactors.engine.island.interpreter import Interpreter

SLOW_SLICE_S = 0.002
QUICK_SLICE_S = 0.001
LONGEST_SLICE = 1_024
FIRST_WINDOW = 16
AHEAD_S = 0.5
NO_CHUNK: Final[list[Any]] = []


Loop = Callable[[Iterator[Any], list[Any], list[int]], None]
"""`loop(feed, out, stop)` takes elements of `feed`, appends results to `out`, and returns when the feed has ended or `stop` is filled."""

After = Callable[[BaseException, Any, list[Any]], BaseException | None]
"""`after(error, element, out)`: the loop raised at `element`. None: continue with the next element; an error: the stage fails with it."""


class Pace:
    """The slice length (`limit`) and demand window (`window`) of one stage that calls user code; both in elements.

    `take` and `give_back` begin and end a slice of an inlet; `run` begins one and loops over it. `begin` and `end` bound any other slice."""

    __slots__ = (
        "_began",
        "_chunk",
        "_each_s",
        "_feed",
        "_since_slow",
        "interpreter",
        "limit",
        "top",
        "widest",
        "window",
    )

    def __init__(self, interpreter: Interpreter, max_chunk: int | None = None) -> None:
        self.interpreter = interpreter
        self.top = min(LONGEST_SLICE, max_chunk or LONGEST_SLICE)
        self.limit = 1
        self.window = max_chunk or FIRST_WINDOW
        self.widest = 1 if self.top == 1 else MAX_ASKED
        self._since_slow = 0
        self._each_s = 0.0
        self._began = 0.0
        self._chunk = NO_CHUNK
        self._feed: Any = None

    # ── demand ────────────────────────────────────────────────────────────────────────────────────────────────────

    def ask(self, in_: Connection, asked: int, thins: bool) -> None:
        """State the demand of a stage whose downstream has a demand of `asked` results.

        `thins`: the stage may have fewer results than elements. It asks again when half of the elements have come; otherwise
        the chunks would get small."""
        n = self.window
        if n > asked:
            n = asked
        if thins:
            due = in_.asked + in_.ready
            if due * 2 > asked:
                n = due
        in_.want(n)

    # ── a slice of an inlet ───────────────────────────────────────────────────────────────────────────────────────

    def take(self, in_: Connection, most: int) -> Any:
        """Grab a slice of at most `most` elements and begin it; return an iterator over it with an exact length hint."""
        limit = self.limit
        self._chunk = chunk = in_.grab(most if most < limit else limit)
        self._feed = feed = iter(chunk)
        interpreter = self.interpreter  # as in `begin`
        interpreter.slice_no += 1
        interpreter.in_slice = True
        self._began = perf_counter()
        return feed

    @property
    def element(self) -> Any:
        """The element that was taken last; None in an empty slice."""
        chunk = self._chunk
        return chunk[len(chunk) - self._feed.__length_hint__() - 1] if chunk else None

    def run(self, in_: Connection, most: int, loop: Loop, out: list[Any], after: After) -> BaseException | None:
        """Run `loop` over a slice; return the error that stops the stage, or None. `give_back` must follow."""
        feed = self.take(in_, most)
        try:
            loop(feed, out, self.interpreter.stop_slice)
        except BaseException as error:  # noqa: BLE001  # whatever the user's function raised
            return self.resume(loop, error, out, after)
        return None

    def resume(self, loop: Loop, error: BaseException, out: list[Any], after: After) -> BaseException | None:
        """The loop raised: ask `after` about it, and run the loop over the rest of the slice."""
        stop = self.interpreter.stop_slice
        while True:
            failure = after(error, self.element, out)
            if failure is not None or stop:
                return failure
            try:
                loop(self._feed, out, stop)
            except BaseException as raised:  # noqa: BLE001  # whatever the user's function raised
                error = raised
            else:
                return None

    def give_back(self, in_: Connection, back: int = 0) -> None:
        """End the slice. The elements that the loop did not take go back to the inlet, with the last `back` that it took."""
        chunk = self._chunk
        n = len(chunk)
        left = self._feed.__length_hint__()
        self.end(n - left)
        self._chunk, self._feed = NO_CHUNK, None
        left += back
        if left:
            in_.unread(chunk[n - left :])

    # ── any slice ─────────────────────────────────────────────────────────────────────────────────────────────────

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
        limit = self.limit
        if not n or (seconds < QUICK_SLICE_S and limit == self.top and self.window == self.widest):
            return
        if seconds > SLOW_SLICE_S:
            self._since_slow = 0
            self.limit = max(1, min(limit, int(n * QUICK_SLICE_S / 2 / seconds)))
        else:
            self._since_slow += n
            if limit < self.top and seconds < QUICK_SLICE_S:
                self.limit = max(1, min(limit * 2, self._since_slow >> 2, self.top))
        if self.window < self.widest or seconds > SLOW_SLICE_S:
            self._resize_window(seconds / n)

    @property
    def learnt(self) -> tuple[int, int, int, float]:
        """What the slices so far have taught, to be set again after a slice that must not count."""
        return self.limit, self.window, self._since_slow, self._each_s

    @learnt.setter
    def learnt(self, known: tuple[int, int, int, float]) -> None:
        self.limit, self.window, self._since_slow, self._each_s = known

    def _resize_window(self, each_s: float) -> None:
        known = self._each_s
        self._each_s = each_s = each_s if not known else known + 0.3 * (each_s - known)
        self.window = max(1, min(self.window * 2, int(AHEAD_S / each_s) if each_s > 0 else MAX_ASKED, self.widest))


class SliceWatch:
    """Ends slices that take too long. One per pool, which calls `tick` every few ms while a cell runs."""

    def __init__(self) -> None:
        self.running: set[Interpreter] = set()
        self._seen: dict[Interpreter, int] = {}

    def tick(self) -> None:
        """End each slice that was already running at the tick before."""
        seen: dict[Interpreter, int] = {}
        for interpreter in list(self.running):
            active = interpreter.active
            if active is not None:
                active.busy_ticks += 1  # which stage takes the time; for the snapshot
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
