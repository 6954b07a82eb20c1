"""The chain of operators that a task runs, made from the steps of a blueprint.

Owner: TaskFactory, while it makes a task. The choice that matters: an aggregation whose results are suppressed until the
window closes emits them itself, from its own store, wherever nobody can see the difference."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from streamactors.windows.definitions.aggregator import Aggregator
from streamactors.windows.definitions.blueprint import (
    AggregateStep,
    GroupByKeyStep,
    KeyByStep,
    RecordStep,
    Step,
    SuppressStep,
    TableStep,
    ToStreamStep,
    ToTableStep,
    WindowingStep,
)
from streamactors.windows.definitions.suppressed import Suppressed
from streamactors.windows.definitions.windows import SessionWindows, TimeWindows, UnlimitedWindows
from streamactors.windows.metrics import EmitMetrics, SuppressMetrics
from streamactors.windows.operators.aggregate import AggregateSpec
from streamactors.windows.operators.buffered import Buffered
from streamactors.windows.operators.operator import Operator, TaskEnvironment
from streamactors.windows.operators.record_steps import FilterRecords, GroupByKey, KeyBy, MapRecords
from streamactors.windows.operators.suppress_buffer import BUCKETS, SuppressBuffer
from streamactors.windows.operators.table_aggregate import LatestValue, TableAggregate
from streamactors.windows.operators.table_steps import TableFilter, TableMapValues, ToStream
from streamactors.windows.operators.windowed.closing import Closing
from streamactors.windows.operators.windowed.session_windows import SessionOperator
from streamactors.windows.operators.windowed.sliding_windows import SlidingOperator
from streamactors.windows.operators.windowed.time_finals import TimeFinals
from streamactors.windows.operators.windowed.time_updates import TimeUpdates
from streamactors.windows.state.stores import Stores


class Chain:
    """`operators` in order; `buffers` return what each suppression holds. `detailed`: measure buffers at every change."""

    def __init__(self, steps: Iterable[Step], env: TaskEnvironment, stores: Stores, detailed: bool) -> None:
        self.operators: list[Operator] = []
        self.buffers: list[Callable[[], Buffered]] = []
        self._steps = list(steps)
        self._env = env
        self._stores = stores
        self._detailed = detailed
        at = 0
        while at < len(self._steps):
            at += self._add(at)

    def _add(self, at: int) -> int:
        """Add the operator of the step at `at`; return how many steps it carries out."""
        step, env = self._steps[at], self._env
        operator: Operator
        match step:
            case GroupByKeyStep():
                operator = GroupByKey("group-by-key", env)
            case KeyByStep(fn):
                operator = KeyBy("key-by", env, fn)
            case RecordStep(fn, filters):
                operator = FilterRecords("filter", env, fn) if filters else MapRecords("map", env, fn)
            case ToTableStep(node, store):
                operator = LatestValue(node, store, env, self._stores)
            case AggregateStep():
                return self._add_aggregation(step, at)
            case TableStep(fn, filters, node):
                kind = TableFilter if filters else TableMapValues
                operator = kind(node, env, fn, self._knows_old(at), self.operators[-1])
            case SuppressStep():
                operator = self._suppress_buffer(step, at)
                self.buffers.append(operator.buffered)
            case ToStreamStep():
                operator = ToStream(env, self._table_of(at) is not None, self.operators[-1])
        self.operators.append(operator)
        return 1

    def _add_aggregation(self, step: AggregateStep, at: int) -> int:
        """Add an aggregation, together with the suppression behind it where one operator can do both."""
        windowing, env, stores = step.windowing, self._env, self._stores
        windows = windowing.windows
        if windows is None:
            self.operators.append(TableAggregate(step.node, step.store, env, step.aggregator, stores))
            return 1
        report, suppressed = self._finals_of(step, at)
        kafka, finals = windowing.semantics == "kafka", report is not None or self._is_made_final(at)
        spec: AggregateSpec[Any] = AggregateSpec(
            step.node, step.store, windows, step.aggregator, windowing.retention_ms, kafka, finals
        )
        bound = None if suppressed is None else suppressed.suppressed.buffer.record_bound
        needs_old = suppressed is not None and bool(self._rest_of_table(at + 1))
        operator = windowed_aggregation(spec, env, stores, report, bound, needs_old=needs_old)
        self.operators.append(operator)
        if suppressed is None:
            return 1
        assert not isinstance(operator, TimeUpdates)
        self.buffers.append(operator.buffered)
        return 2

    def _finals_of(
        self, step: AggregateStep, at: int
    ) -> tuple[SuppressMetrics | EmitMetrics | None, SuppressStep | None]:
        """The metrics of an aggregation that emits final results itself, and the suppression that it replaces.

        It can replace a suppression that wants only the last update of a window and whose buffer nobody measures; the
        values then stay in the store. A buffer over sessions or sliding windows also holds what was merged or deleted,
        so there it can replace only an unbounded suppression of a count, which is never deleted. In Kafka mode such
        windows are emitted while they may still change, so there it replaces none."""
        if step.emits_on_close:
            report = EmitMetrics(step.node)
            self._env.metrics.emitting.append(report)
            return report, None
        behind = self._steps[at + 1] if at + 1 < len(self._steps) else None
        if (
            not isinstance(behind, SuppressStep)
            or self._detailed
            or not emits_finals_itself(step.windowing, step.aggregator, behind.suppressed)
        ):
            return None, None
        return self._suppress_metrics(behind), behind

    def _suppress_buffer(self, step: SuppressStep, at: int) -> SuppressBuffer:
        table = self._table_of(at)
        windowing = WindowingStep() if table is None else table.windowing
        report = self._suppress_metrics(step)
        return suppress_buffer(
            step.node, step.store, self._env, step.suppressed, [windowing], self.operators[-1], report, self._stores
        )

    def _suppress_metrics(self, step: SuppressStep) -> SuppressMetrics:
        report = SuppressMetrics(step.node, step.store, self._detailed)
        self._env.metrics.suppressed.append(report)
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
        """Whether the updates of this table carry old values. They always do, except for a stream as a table that
        nobody suppresses: Kafka Streams does not store such a table."""
        start = at
        while isinstance(self._steps[start], TableStep | SuppressStep):
            start -= 1
        table = (*self._steps[start:at], *self._rest_of_table(at))
        return isinstance(table[0], AggregateStep) or any(isinstance(step, SuppressStep) for step in table)


def windowed_aggregation(
    spec: AggregateSpec[Any],
    env: TaskEnvironment,
    stores: Stores,
    report: SuppressMetrics | EmitMetrics | None,
    max_records: int | None = None,
    *,
    needs_old: bool = False,
) -> TimeUpdates | TimeFinals | SessionOperator | SlidingOperator:
    """Return the operator of an aggregation over windows: of updates, or with `report` of final results.

    `needs_old`: steps on the same table need the old values of final results."""
    windows = spec.windows
    if isinstance(windows, TimeWindows | UnlimitedWindows):
        if report is None:
            return TimeUpdates(spec, env, stores)
        return TimeFinals(spec, env, stores, report, max_records, needs_old=needs_old)
    closing: Closing[Any] | None = None
    if report is not None:
        closing = Closing(report, windows.shortest_retention_ms // BUCKETS)
    inclusive = SessionOperator if isinstance(windows, SessionWindows) else SlidingOperator
    return inclusive(spec, env, stores, closing)


def emits_finals_itself(windowing: WindowingStep, aggregator: Aggregator, suppressed: Suppressed) -> bool:
    """Whether an aggregation may emit the final results of a suppression right behind it, without the buffer.

    See `Chain._finals_of`."""
    windows = windowing.windows
    if (
        windows is None
        or not suppressed.final
        or suppressed.buffer.byte_bound is not None
        or suppressed.early_every_ms is not None
    ):
        return False
    return not windows.inclusive_end or (
        suppressed.buffer.record_bound is None and windowing.semantics != "kafka" and aggregator.kind == "count"
    )


def suppress_buffer(
    node: str,
    store: str,
    env: TaskEnvironment,
    suppressed: Suppressed,
    above: Sequence[WindowingStep],
    parent: Operator,
    report: SuppressMetrics,
    stores: Stores,
) -> SuppressBuffer:
    """Return the operator of a suppression. `above`: the windows of the tables above it, those of its own keys first."""
    wait, bucket = suppressed.limit_ms, 0
    windows = above[0].windows
    if suppressed.final:
        wait = max(_wait_ms(windowing) for windowing in above)
        if isinstance(windows, TimeWindows | UnlimitedWindows):
            bucket = windows.advance_ms if isinstance(windows, TimeWindows) else 1
    session = isinstance(windows, SessionWindows)
    return SuppressBuffer(node, store, env, suppressed, wait, session, parent, report, stores, bucket)


def _wait_ms(windowing: WindowingStep) -> int:
    windows = windowing.windows
    assert windows is not None
    # an inclusive window is still open while its end equals the limit, so it is not final yet
    return windows.wait_ms + (windows.inclusive_end and windowing.semantics == "strict")
