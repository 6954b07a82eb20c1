"""grouped_within: lists of n elements, or of the elements of a span of time. A mark waits until the list with the elements before it is emitted."""

from __future__ import annotations

from typing import Any

from streamactors.durations import Duration
from streamactors.engine.island.connection import Connection
from streamactors.engine.logic import logic_of
from streamactors.engine.marks.marks import BLURS_MEMORY, Mark
from streamactors.engine.stage import In, Stage
from streamactors.stages.bases.emitting import EmittingLogic, keep
from streamactors.stages.checks import positive, span_ms


class GroupedWithin(Stage[In, list[In]]):
    """The stage of `Source.grouped_within`."""

    handling = BLURS_MEMORY

    def __init__(self, n: int, span: Duration) -> None:
        self.n = positive("grouped_within", "n", n)
        self.span_ms = span_ms("grouped_within", "span", span)


@logic_of(GroupedWithin)
class _GroupedWithinLogic(EmittingLogic):
    """A timer is set only when none is active, and checks the time when it fires: so a busy stream sets few timers."""

    only_waits = True
    stage: GroupedWithin[Any]

    def __init__(self, stage: GroupedWithin[Any]) -> None:
        super().__init__(stage)
        self._group: list[Any] = []
        self._due_ms = 0.0  # when the time of the group is over
        self._overdue = False  # the time is over, and there is no demand
        self._held: list[Mark] = []

    def on_start(self) -> None:
        self._since_ms = self.interpreter.now_ms()  # spans are counted from here
        self._state_want()

    def _state_want(self) -> None:
        room = self._room()
        if room > 0:
            self.in_.want(room)

    def _room(self) -> int:
        return self.stage.n * max(1, self.out.asked) - len(self._group)

    def on_pull(self, out: Connection) -> None:
        if self._end is not None:
            super().on_pull(out)
            return
        if self._group and (self._overdue or len(self._group) >= self.stage.n):
            self._emit([self._group], [])
        self._state_want()

    def on_push(self, in_: Connection) -> None:
        n, group = self.stage.n, self._group
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
        self._due_ms = now_ms + self.stage.span_ms - (now_ms - self._since_ms) % self.stage.span_ms

    def _emit(self, groups: list[list[Any]], rest: list[Any]) -> None:
        """Push groups, and the held marks after the first: they came before it was full."""
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
        return f"{len(self._group)} of {self.stage.n} elements"
