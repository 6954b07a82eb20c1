"""grouped_weighted_within: lists up to a weight, or of the elements of a span of time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamactors.durations import Duration
from streamactors.engine.island.connection import Connection
from streamactors.engine.logic import logic_of
from streamactors.engine.marks.marks import BLURS_MEMORY
from streamactors.engine.stage import In, Stage
from streamactors.stages.checks import plain_function, positive, span_ms
from streamactors.stages.fold.grouping_by import GroupLogic, cost_of, weight


class GroupedWeightedWithin(Stage[In, list[In]]):
    """The stage of `Source.grouped_weighted_within`."""

    handling = BLURS_MEMORY

    def __init__(
        self, max_weight: float, span: Duration, cost: Callable[[Any], float], max_number: int | None = None
    ) -> None:
        self.weight = weight("grouped_weighted_within", "max_weight", max_weight)
        self.span_ms = span_ms("grouped_weighted_within", "span", span)
        self.fn = plain_function("grouped_weighted_within", cost)
        self.number = None if max_number is None else positive("grouped_weighted_within", "max_number", max_number)


@logic_of(GroupedWeightedWithin)
class _WeightedWithinLogic(GroupLogic):
    """The timer is checked when it fires, so a busy stream sets few timers."""

    stage: GroupedWeightedWithin[Any]
    _weight = 0.0
    _due_ms = 0.0

    def _full(self) -> bool:
        number = self.stage.number
        return self._weight >= self.stage.weight or (number is not None and len(self._group) >= number)

    def add(self, element: Any) -> list[Any] | None:
        cost = cost_of(self.name, self.stage.fn, element)
        closed = None
        if self._group and (self._full() or self._weight + cost > self.stage.weight):
            closed = self._group
            self.clear()
        if not self._group:
            self._due_ms = self.interpreter.now_ms() + self.stage.span_ms
        self._group.append(element)
        self._weight += cost
        if closed is None and self._full():
            closed = self._group
            self.clear()
        return closed

    def clear(self) -> None:
        self._group, self._weight = [], 0.0

    def on_push(self, in_: Connection) -> None:
        super().on_push(in_)
        if self._group and not self.stopped:
            if self._full():
                self._due_ms = self.interpreter.now_ms()
                self._emit_due()
            elif not self.is_timer_active("span"):
                self.schedule_once("span", self._due_ms - self.interpreter.now_ms())

    def on_pull(self, out: Connection) -> None:
        super().on_pull(out)
        self._emit_due()

    def on_timer(self, key: object) -> None:
        if self._group:
            left_ms = self._due_ms - self.interpreter.now_ms()
            if left_ms > 0:
                self.schedule_once("span", left_ms)
            else:
                self._emit_due()

    def _emit_due(self) -> None:
        """Emit the list if its time is over and there is demand."""
        if (
            self._group
            and self._end is None
            and self._waiting is None
            and self.out.asked
            and self.interpreter.now_ms() >= self._due_ms
        ):
            group = self._group
            self.clear()
            self.out.push([group])
            for mark in self._held:
                self.out.mark(mark)
            self._held.clear()
            if self.out.asked:
                self.ask(self.out.asked)
