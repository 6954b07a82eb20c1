"""aggregate_with_boundary: one result for the elements up to a boundary that the user's function sets, or a timer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamactors.durations import Duration
from streamactors.engine.island.connection import Connection
from streamactors.engine.logic import logic_of
from streamactors.engine.marks.marks import BLURS_MEMORY
from streamactors.engine.stage import In, Out, Stage
from streamactors.engine.user_code import blame
from streamactors.errors import BuildError
from streamactors.stages.checks import plain_function, span_ms
from streamactors.stages.fold.grouping_by import GroupLogic

_NOTHING: Any = object()


class AggregateWithBoundary(Stage[In, Out]):
    """The stage of `Source.aggregate_with_boundary`."""

    handling = BLURS_MEMORY

    def __init__(
        self,
        allocate: Callable[[], Any],
        aggregate: Callable[[Any, Any], tuple[Any, bool]],
        harvest: Callable[[Any], Any],
        emit_on_timer: tuple[Callable[[Any], Any], Duration] | None = None,
    ) -> None:
        name = "aggregate_with_boundary"
        self.allocate = plain_function(name, allocate)
        self.fn = plain_function(name, aggregate)
        self.harvest = plain_function(name, harvest)
        self.predicate: Callable[[Any], Any] | None = None
        self.interval_ms = 0.0
        if emit_on_timer is not None:
            if not isinstance(emit_on_timer, tuple) or len(emit_on_timer) != 2:
                raise BuildError(f"{name}: emit_on_timer is a pair (predicate, interval), got {emit_on_timer!r}")
            self.predicate = plain_function(f"{name}: emit_on_timer", emit_on_timer[0])
            self.interval_ms = span_ms(name, "emit_on_timer", emit_on_timer[1])


@logic_of(AggregateWithBoundary)
class _AggregateLogic(GroupLogic):
    """`_group` says whether there is an aggregate: the base keeps marks after it."""

    stage: AggregateWithBoundary[Any, Any]
    _aggregate: Any = _NOTHING
    _overdue = False

    def on_start(self) -> None:
        if self.stage.predicate is not None:
            self.schedule_periodically("emit", self.stage.interval_ms, self.stage.interval_ms)

    def add(self, element: Any) -> Any:
        stage = self.stage
        before = stage.allocate() if self._aggregate is _NOTHING else self._aggregate
        self._aggregate, complete = stage.fn(before, element)
        self._group = [True]
        return self._harvested() if complete else None

    def _harvested(self) -> Any:
        aggregate = self._aggregate
        self.clear()
        return _Result(self.stage.harvest(aggregate))

    def clear(self) -> None:
        self._group, self._aggregate = [], _NOTHING

    def emit(self, results: list[Any]) -> None:
        super().emit([result.value for result in results])

    def push(self, results: list[Any]) -> None:
        self.out.push([result.value for result in results])

    def on_pull(self, out: Connection) -> None:
        super().on_pull(out)
        if self._overdue:
            self._emit_now()

    def on_timer(self, key: object) -> None:
        if self._aggregate is _NOTHING or self._end is not None:
            return
        predicate = self.stage.predicate
        assert predicate is not None
        try:
            due = predicate(self._aggregate)
        except BaseException as error:
            blame(error, self.name, self._aggregate, predicate)
            raise
        if due:
            self._emit_now()

    def _emit_now(self) -> None:
        """Emit the aggregate if there is demand, else with the next demand."""
        self._overdue = self._aggregate is not _NOTHING and (self._waiting is not None or not self.out.asked)
        if self._overdue or self._aggregate is _NOTHING or self._end is not None:
            return
        self.push([self._harvested()])
        for mark in self._held:
            self.out.mark(mark)
        self._held.clear()
        if self.out.asked:
            self.ask(self.out.asked)

    def on_complete(self, in_: Connection) -> None:
        self.cancel_timer("emit")
        self.emit_and_end([self._harvested()] if self._group else [], self._held)


class _Result:
    """A result, which may be None: the base takes None for none."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value
