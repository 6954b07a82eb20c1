"""Operators that count time from the stream's start: initial_delay, take_within, drop_within; and grouped_within.

All times are the system clock's. Marks: at once, exactly; grouped_within: behind the list that has the elements before them."""

from __future__ import annotations

from typing import Any

from streamactors.clock import Duration
from streamactors.engine.connection import Connection
from streamactors.engine.logic import Logic
from streamactors.engine.marks import BLURS_MEMORY, EXACT, EXACT_MEMORY, Mark
from streamactors.engine.stage import In, Stage
from streamactors.stages.checks import positive, span_ms
from streamactors.stages.emitting import EmittingLogic, keep
from streamactors.stages.passing import PassingLogic


class InitialDelay(Stage[In, In]):
    """Ask upstream for the first element only after `delay`.

    Emits when: upstream does, once the delay is over.   Backpressures when: downstream does, or the delay is not over.
    Completes when: upstream completes.           Cancels when: downstream cancels.
    Marks: at once, exact.
    """

    handling = EXACT

    def __init__(self, delay: Duration) -> None:
        self._delay_ms = span_ms("initial_delay", "delay", delay, zero=True)

    def logic(self) -> Logic:
        return _InitialDelayLogic(self._delay_ms)


class _InitialDelayLogic(PassingLogic):
    def __init__(self, delay_ms: float) -> None:
        self._delay_ms = delay_ms
        self._open = not delay_ms

    def on_start(self) -> None:
        if not self._open:
            self.schedule_once("delay", self._delay_ms)

    def on_pull(self, out: Connection) -> None:
        if self._open:
            self.in_.want(out.asked)

    def on_timer(self, key: object) -> None:
        self._open = True
        if self.out.asked:
            self.in_.want(self.out.asked)

    def snapshot_state(self) -> str:
        return "" if self._open else "waits for its delay to be over"


class TakeWithin(Stage[In, In]):
    """Pass what comes within `span` of the start, then complete.

    Emits when: upstream does.                    Backpressures when: downstream does.
    Completes when: the time is over, or upstream completes.   Cancels when: the time is over, or downstream cancels.
    Marks: at once, exact; remembers (when it started).
    """

    handling = EXACT_MEMORY

    def __init__(self, span: Duration) -> None:
        self._span_ms = span_ms("take_within", "span", span)

    def logic(self) -> Logic:
        return _TakeWithinLogic(self._span_ms)


class _TakeWithinLogic(PassingLogic):
    def __init__(self, span_ms: float) -> None:
        self._span_ms = span_ms

    def on_start(self) -> None:
        self.schedule_once("over", self._span_ms)

    def on_timer(self, key: object) -> None:
        self.complete_stage()


class DropWithin(Stage[In, In]):
    """Drop what comes within `span` of the start, pass the rest.

    Emits when: upstream does, once the time is over.   Backpressures when: downstream does.
    Completes when: upstream completes.           Cancels when: downstream cancels.
    Marks: at once, exact; remembers (when it started).
    """

    handling = EXACT_MEMORY

    def __init__(self, span: Duration) -> None:
        self._span_ms = span_ms("drop_within", "span", span)

    def logic(self) -> Logic:
        return _DropWithinLogic(self._span_ms)


class _DropWithinLogic(PassingLogic):
    def __init__(self, span_ms: float) -> None:
        self._span_ms = span_ms
        self._dropping = True

    def on_start(self) -> None:
        self._over_ms = self.interpreter.now_ms() + self._span_ms

    def on_push(self, in_: Connection) -> None:
        if self._dropping:
            self._dropping = self.interpreter.now_ms() < self._over_ms
            if self._dropping:
                in_.grab(in_.ready)
                in_.want(self.out.asked)
                return
        super().on_push(in_)


class GroupedWithin(Stage[In, list[In]]):
    """Collect elements into lists of n, or of what came within `span`, whichever is first; never an empty list.

    The time is counted from the last list that was full, or the start, in spans of that length.
    Emits when: n elements have come, or a span is over and one has.   Backpressures when: downstream does and a list is full.
    Completes when: upstream completes, behind what was left.   Cancels when: downstream cancels.
    Marks: behind the list that has the elements before them; blurs, remembers.
    """

    handling = BLURS_MEMORY

    def __init__(self, n: int, span: Duration) -> None:
        self._n = positive("grouped_within", "n", n)
        self._span_ms = span_ms("grouped_within", "span", span)

    def logic(self) -> Logic:
        return _GroupedWithinLogic(self._n, self._span_ms)


class _GroupedWithinLogic(EmittingLogic):
    """The timer is set when none is, and looks again when it fires: so a stream that flows sets few."""

    def __init__(self, n: int, span_ms: float) -> None:
        self._n = n
        self._span_ms = span_ms
        self._group: list[Any] = []
        self._due_ms = 0.0  # when the time of the group is over
        self._overdue = False  # it is, and downstream has not asked
        self._held: list[Mark] = []

    def on_start(self) -> None:
        self._since_ms = self.interpreter.now_ms()  # spans are counted from here
        self._state_want()

    def _state_want(self) -> None:
        room = self._room()
        if room > 0:
            self.in_.want(room)

    def _room(self) -> int:
        return self._n * max(1, self.out.asked) - len(self._group)

    def on_pull(self, out: Connection) -> None:
        if self._end is not None:
            super().on_pull(out)
            return
        if self._group and (self._overdue or len(self._group) >= self._n):
            self._emit([self._group], [])
        self._state_want()

    def on_push(self, in_: Connection) -> None:
        n, group = self._n, self._group
        chunk = in_.grab(self._room())
        now_ms = self.interpreter.now_ms()
        if chunk and not group:
            self._begin_span(now_ms)
        group += chunk
        if len(group) >= n:
            self._since_ms = now_ms
            whole = len(group) - len(group) % n
            if self.out.asked:  # else on_pull emits it
                self._emit([group[i : i + n] for i in range(0, whole, n)], group[whole:])
                self._begin_span(now_ms)
        if self._group and not self.is_timer_active("span"):
            self.schedule_once("span", self._due_ms - now_ms)
        self._state_want()

    def _begin_span(self, now_ms: float) -> None:
        self._due_ms = now_ms + self._span_ms - (now_ms - self._since_ms) % self._span_ms

    def _emit(self, groups: list[list[Any]], rest: list[Any]) -> None:
        """Push groups, the marks behind the first: they came when it was not full."""
        self._group = rest
        self._overdue = False
        if not self._held:
            self.out.push(groups)
            return
        self.out.push(groups[:1])
        for mark in self._held:
            self.out.mark(mark)
        self._held.clear()
        if groups[1:]:
            self.out.push(groups[1:])

    def on_timer(self, key: object) -> None:
        if not self._group:
            return
        left_ms = self._due_ms - self.interpreter.now_ms()
        if left_ms > 0:
            self.schedule_once("span", left_ms)
        elif self.out.asked:
            self._emit([self._group], [])
            self._state_want()
        else:
            self._overdue = True

    def on_mark(self, in_: Connection, mark: Mark) -> None:
        if self._group:
            keep(self._held, mark)
        else:
            self.out.mark(mark)

    def on_complete(self, in_: Connection) -> None:
        self.cancel_timer("span")
        group, self._group = self._group, []
        self.emit_and_end([group] if group else [], self._held)

    def snapshot_state(self) -> str:
        return f"{len(self._group)} of {self._n} elements"
