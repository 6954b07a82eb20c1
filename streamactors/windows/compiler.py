"""From a blueprint to tasks: chooses the operators.

Owner: the factory is immutable and may be shared; every task it makes has state of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from streamactors.errors import BuildError
from streamactors.windows.blueprint import (
    AggregateStep,
    Blueprint,
    GroupByKeyStep,
    KeyByStep,
    RecordStep,
    Step,
    SuppressStep,
    TableStep,
    ToStreamStep,
    ToTableStep,
    changelog_topic,
)
from streamactors.windows.buffered import Buffered
from streamactors.windows.changelog import TaskIdentity
from streamactors.windows.codec import Serdes
from streamactors.windows.definitions import SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows
from streamactors.windows.emitter import Emitter
from streamactors.windows.errors import OperatorFailed
from streamactors.windows.metrics import EmitMetrics, SuppressMetrics, TaskMetrics
from streamactors.windows.operator import Operator, Surroundings
from streamactors.windows.record_steps import FilterRecords, GroupByKey, KeyBy, MapRecords
from streamactors.windows.session_windows import SessionOperator
from streamactors.windows.sliding_windows import SlidingOperator
from streamactors.windows.stores import MemoryStores, Stores
from streamactors.windows.suppress import Suppress
from streamactors.windows.table_aggregate import LatestValue, TableAggregate
from streamactors.windows.table_steps import TableFilter, TableMapValues, ToStream
from streamactors.windows.task import WindowTask
from streamactors.windows.time_finals import TimeFinals
from streamactors.windows.time_updates import TimeUpdates

_BUCKETS = 64


@dataclass(frozen=True, slots=True)
class TaskFactory:
    """Makes tasks of one blueprint.

    `serdes`: bytes of the stream's keys and values. `changelog`: keep track of changes. `keep_late`: keep refused rows
    for `take_late`. `detailed_metrics`: record buffer sizes at every change. `on_failure`: asked when user code raised;
    True: the row is taken care of and skipped."""

    blueprint: Blueprint
    serdes: Serdes = field(default_factory=Serdes)
    changelog: bool = False
    keep_late: bool = False
    detailed_metrics: bool = False
    on_failure: Callable[[OperatorFailed], bool] | None = None
    stores: Callable[[], Stores] = MemoryStores

    def __call__(self, identity: TaskIdentity = TaskIdentity()) -> WindowTask:
        """A task without state, for one partition."""
        return _Build(self, identity).task()

    def changelog_topics(self, application: str) -> dict[str, str]:
        """Store name -> topic that keeps its changes."""
        return {store: changelog_topic(application, store) for store in self.blueprint.stores}


def compile(blueprint: Blueprint, **options: Any) -> TaskFactory:
    """Return the factory of tasks for `blueprint`; options are TaskFactory's fields.

    Raises BuildError for a blueprint that leads nowhere."""
    if not any(isinstance(step, AggregateStep | ToTableStep) for step in blueprint.steps):
        raise BuildError("a windowed computation needs count, reduce, aggregate or to_table; this one has none of them")
    if blueprint.late is not None:
        options.setdefault("keep_late", True)
    return TaskFactory(blueprint, **options)


class _Build:
    """One walk along the steps."""

    def __init__(self, factory: TaskFactory, identity: TaskIdentity) -> None:
        self._factory = factory
        self._identity = identity
        self._metrics = TaskMetrics(f"0_{identity.partition}")
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
        windowing, node, store, around = step.windowing, step.node, step.store, self._around
        windows, aggregator, stores = windowing.windows, step.aggregator, self._stores
        kafka = windowing.semantics == "kafka"
        finals = step.emits_on_close or self._is_made_final(at)
        if windows is None:
            self._operators.append(TableAggregate(node, store, around, aggregator, stores))
            return 1
        common = (node, store, around)
        if isinstance(windows, SessionWindows):
            emitter = self._emitter(step, windows.wait_ms) if step.emits_on_close else None
            self._operators.append(
                SessionOperator(*common, windows, aggregator, stores, windowing.retention_ms, finals, kafka, emitter)
            )
            return 1
        if isinstance(windows, SlidingWindows):
            emitter_of_panes: Emitter[Any] | None = None
            if step.emits_on_close:
                emitter_of_panes = self._emitter(step, windows.difference_ms + windows.wait_ms)
            self._operators.append(
                SlidingOperator(
                    *common, windows, aggregator, stores, windowing.retention_ms, finals, kafka, emitter_of_panes
                )
            )
            return 1
        report: SuppressMetrics | EmitMetrics
        if step.emits_on_close:
            report = EmitMetrics(node)
            self._metrics.emitting.append(report)
            bound = None
        else:
            behind = self._steps[at + 1] if at + 1 < len(self._steps) else None
            if not self._can_be_read_from_store(behind):
                self._operators.append(
                    TimeUpdates(*common, windows, aggregator, stores, windowing.retention_ms, finals)
                )
                return 1
            assert isinstance(behind, SuppressStep)
            report = self._suppress_metrics(behind)
            bound = behind.suppressed.buffer.record_bound
        operator = TimeFinals(*common, windows, aggregator, stores, windowing.retention_ms, report, bound, kafka)
        self._operators.append(operator)
        if isinstance(report, SuppressMetrics):
            self._buffers.append(operator.buffered)
            return 2
        return 1

    def _can_be_read_from_store(self, behind: Step | None) -> bool:
        """Whether a suppression needs no values of its own: final results only, and nobody weighs the buffer."""
        return (
            isinstance(behind, SuppressStep)
            and behind.suppressed.final
            and behind.suppressed.buffer.byte_bound is None
            and behind.suppressed.early_every_ms is None
            and not self._factory.detailed_metrics
        )

    def _add_suppression(self, step: SuppressStep, at: int) -> None:
        windowing = self._table_of(at)
        windows = None if windowing is None else windowing.windowing.windows
        wait, bucket = step.suppressed.limit_ms, 0
        if step.suppressed.final:
            assert windowing is not None
            assert windows is not None
            wait = windows.wait_ms
            if windows.inclusive_end and windowing.windowing.semantics == "strict":
                wait += (
                    1  # a window is open while its last millisecond is at the limit, and nothing final leaves before
                )
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

    def _emitter(self, step: AggregateStep, wait_ms: int) -> Emitter[Any]:
        report = EmitMetrics(step.node)
        self._metrics.emitting.append(report)
        return Emitter(report, wait_ms // _BUCKETS)

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
