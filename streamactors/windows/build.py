"""From the steps of a blueprint to the operators of a task.

Owner: TaskFactory, for the moment of making a task. The choice that matters: an aggregation whose results are suppressed
until the window closes gives them out itself, from its own store, wherever nobody could tell the difference."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from streamactors.windows.aggregation import Aggregation
from streamactors.windows.blueprint import (
    AggregateStep,
    GroupByKeyStep,
    KeyByStep,
    RecordStep,
    Step,
    SuppressStep,
    TableStep,
    ToStreamStep,
    ToTableStep,
)
from streamactors.windows.buffered import Buffered
from streamactors.windows.changelog import TaskIdentity
from streamactors.windows.closing import Closing
from streamactors.windows.definitions import SessionWindows, TimeWindows, UnlimitedWindows
from streamactors.windows.metrics import EmitMetrics, SuppressMetrics, TaskMetrics
from streamactors.windows.operator import Operator, Surroundings
from streamactors.windows.record_steps import FilterRecords, GroupByKey, KeyBy, MapRecords
from streamactors.windows.session_windows import SessionOperator
from streamactors.windows.sliding_windows import SlidingOperator
from streamactors.windows.suppress import Suppress
from streamactors.windows.table_aggregate import LatestValue, TableAggregate
from streamactors.windows.table_steps import TableFilter, TableMapValues, ToStream
from streamactors.windows.task import WindowTask
from streamactors.windows.time_finals import TimeFinals
from streamactors.windows.time_updates import TimeUpdates

if TYPE_CHECKING:
    from streamactors.windows.compiler import TaskFactory

_BUCKETS: Final = 64  # into so many parts the time that windows wait is cut


class Build:
    """One walk along the steps."""

    def __init__(self, factory: TaskFactory, identity: TaskIdentity) -> None:
        self._factory = factory
        self._identity = identity
        self._metrics = TaskMetrics(f"0_{identity.partition}")
        if factory.on_task is not None:
            factory.on_task(self._metrics)
        self._around = Surroundings(factory.serdes, self._metrics, factory.on_failure, factory.changelog)
        if factory.keep_late:
            self._around.late = []
        self._stores = factory.stores()
        self._operators: list[Operator] = []
        self._buffers: list[Callable[[], Buffered]] = []
        self._steps = list(factory.blueprint.steps)

    def task(self) -> WindowTask:
        at = 0
        while at < len(self._steps):
            at += self._add(at)
        return WindowTask(
            self._operators, self._around, self._identity, self._factory.blueprint.idle_after_ms, self._buffers
        )

    def _add(self, at: int) -> int:
        """Add the operator of the step at `at`; return how many steps it takes care of."""
        step, around = self._steps[at], self._around
        match step:
            case GroupByKeyStep():
                self._operators.append(GroupByKey("group-by-key", around))
            case KeyByStep(fn):
                self._operators.append(KeyBy("key-by", around, fn))
            case RecordStep(fn, filters):
                self._operators.append(
                    FilterRecords("filter", around, fn) if filters else MapRecords("map", around, fn)
                )
            case ToTableStep(node, store):
                self._operators.append(LatestValue(node, store, around, self._stores))
            case AggregateStep():
                return self._add_aggregation(step, at)
            case TableStep(fn, filters, node):
                kind = TableFilter if filters else TableMapValues
                self._operators.append(kind(node, around, fn, self._knows_old(at), self._operators[-1]))
            case SuppressStep():
                self._add_suppression(step, at)
            case ToStreamStep():
                windowed = self._table_of(at) is not None
                self._operators.append(ToStream(around, windowed, self._operators[-1]))
        return 1

    def _add_aggregation(self, step: AggregateStep, at: int) -> int:
        """An aggregation, with the suppression behind it where one operator can do both."""
        windowing, around, stores = step.windowing, self._around, self._stores
        windows = windowing.windows
        if windows is None:
            self._operators.append(TableAggregate(step.node, step.store, around, step.aggregator, stores))
            return 1
        report, suppressed = self._finals_of(step, at)
        finals = report is not None or self._is_made_final(at)
        kafka = windowing.semantics == "kafka"
        spec: Aggregation[Any] = Aggregation(
            step.node, step.store, windows, step.aggregator, windowing.retention_ms, kafka, finals
        )
        operator: TimeUpdates | TimeFinals | SessionOperator | SlidingOperator
        if isinstance(windows, TimeWindows | UnlimitedWindows):
            if report is None:
                operator = TimeUpdates(spec, around, stores)
            else:
                bound = None if suppressed is None else suppressed.suppressed.buffer.record_bound
                operator = TimeFinals(spec, around, stores, report, bound)
        else:
            closing: Closing[Any] | None = None
            if report is not None:
                closing = Closing(report, windows.shortest_retention_ms // _BUCKETS)
            if isinstance(windows, SessionWindows):
                operator = SessionOperator(spec, around, stores, closing)
            else:
                operator = SlidingOperator(spec, around, stores, closing)
        self._operators.append(operator)
        if suppressed is None:
            return 1
        assert not isinstance(operator, TimeUpdates)
        self._buffers.append(operator.buffered)
        return 2

    def _finals_of(
        self, step: AggregateStep, at: int
    ) -> tuple[SuppressMetrics | EmitMetrics | None, SuppressStep | None]:
        """What an aggregation that gives final results itself reports to, and the suppression it does the work of.

        It can where nothing but the last update of a window is asked for and nobody weighs the buffer; the values then
        stay in the store. Of sessions and sliding windows a buffer also holds what was merged or deleted: there only
        an unbounded count, which is never deleted, does without. And in Kafka mode they are let go while they may
        still change."""
        if step.emits_on_close:
            report = EmitMetrics(step.node)
            self._metrics.emitting.append(report)
            return report, None
        behind = self._steps[at + 1] if at + 1 < len(self._steps) else None
        windows = step.windowing.windows
        assert windows is not None
        if (
            not isinstance(behind, SuppressStep)
            or not behind.suppressed.final
            or behind.suppressed.buffer.byte_bound is not None
            or behind.suppressed.early_every_ms is not None
            or self._factory.detailed_metrics
        ):
            return None, None
        if windows.inclusive_end and (
            behind.suppressed.buffer.record_bound is not None
            or step.windowing.semantics == "kafka"
            or step.aggregator.kind != "count"
        ):
            return None, None
        return self._suppress_metrics(behind), behind

    def _add_suppression(self, step: SuppressStep, at: int) -> None:
        windowing = self._table_of(at)
        windows = None if windowing is None else windowing.windowing.windows
        wait, bucket = step.suppressed.limit_ms, 0
        if step.suppressed.final:
            assert windowing is not None
            assert windows is not None
            wait = windows.wait_ms
            if windows.inclusive_end and windowing.windowing.semantics == "strict":
                wait += 1  # a window is open while its last millisecond is at the limit; before, nothing is final
            if isinstance(windows, TimeWindows | UnlimitedWindows):
                bucket = windows.advance_ms if isinstance(windows, TimeWindows) else 1
        report = self._suppress_metrics(step)
        operator = Suppress(
            step.node,
            step.store,
            self._around,
            step.suppressed,
            wait,
            isinstance(windows, SessionWindows),
            self._operators[-1],
            report,
            bucket,
        )
        self._operators.append(operator)
        self._buffers.append(operator.buffered)

    def _suppress_metrics(self, step: SuppressStep) -> SuppressMetrics:
        report = SuppressMetrics(step.node, step.store, self._factory.detailed_metrics)
        self._metrics.suppressed.append(report)
        return report

    def _table_of(self, at: int) -> AggregateStep | None:
        """The windowed aggregation whose table the step at `at` works on; None for a table without windows."""
        for step in reversed(self._steps[:at]):
            if isinstance(step, AggregateStep):
                return step if step.windowing.windows is not None else None
            if isinstance(step, ToTableStep):
                return None
        return None

    def _rest_of_table(self, at: int) -> list[Step]:
        """The steps behind `at` that still work on the same table."""
        rest: list[Step] = []
        for step in self._steps[at + 1 :]:
            if not isinstance(step, TableStep | SuppressStep):
                break
            rest.append(step)
        return rest

    def _is_made_final(self, at: int) -> bool:
        return any(isinstance(step, SuppressStep) and step.suppressed.final for step in self._rest_of_table(at))

    def _knows_old(self, at: int) -> bool:
        """Whether the updates of this table carry old values: always, but for a stream as a table that nobody
        suppresses, which Kafka Streams does not store."""
        start = at
        while isinstance(self._steps[start], TableStep | SuppressStep):
            start -= 1
        table = (*self._steps[start:at], *self._rest_of_table(at))
        return isinstance(table[0], AggregateStep) or any(isinstance(step, SuppressStep) for step in table)
