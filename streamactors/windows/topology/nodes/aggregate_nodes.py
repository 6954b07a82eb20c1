"""The nodes of aggregations of a stream: with windows and without."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from streamactors.errors import BuildError
from streamactors.windows.definitions.aggregator import Aggregator
from streamactors.windows.definitions.suppressed import Suppressed
from streamactors.windows.definitions.windowing import Windowing
from streamactors.windows.definitions.windows import SessionWindows, TimeWindows, UnlimitedWindows
from streamactors.windows.metrics import EmitMetrics, SuppressMetrics
from streamactors.windows.operators.aggregate import AggregateSpec
from streamactors.windows.operators.operator import Operator, TaskEnvironment
from streamactors.windows.operators.suppress_buffer import BUCKETS
from streamactors.windows.operators.table_aggregate import TableAggregate
from streamactors.windows.operators.windowed.closing import Closing
from streamactors.windows.operators.windowed.session_windows import SessionOperator
from streamactors.windows.operators.windowed.sliding_windows import SlidingOperator
from streamactors.windows.operators.windowed.time_finals import TimeFinals
from streamactors.windows.operators.windowed.time_updates import TimeUpdates
from streamactors.windows.state.stores import Stores
from streamactors.windows.topology.model import Build, TopologyNode
from streamactors.windows.topology.nodes.table_nodes import SuppressNode, TableNode, ViewNode


class AggregateNode(TableNode):
    """count, reduce or aggregate. `old_from_init`: the first update of a key carries the initial value as its old one, as in Kafka Streams."""

    _derives = False

    def __init__(
        self, name: str, store: str, aggregator: Aggregator, windowing: Windowing, *, old_from_init: bool
    ) -> None:
        super().__init__(name)
        self.store = store
        self.aggregator = aggregator
        self.windowing = windowing
        self.old_from_init = old_from_init
        self.emits_on_close = False
        self.fill_empty_ms: int | None = None

    def _enable_old(self, force: bool) -> bool:
        return True

    def fill_empty(self, keep_ms: int) -> None:
        """Have final results of windows without rows, for `keep_ms` after the last window of a key. Raises BuildError where there can be none."""
        windows, where = self.windowing.windows, "emit_on_window_close: fill_empty"
        if not isinstance(windows, TimeWindows) or windows.advance_ms != windows.size_ms:
            raise BuildError(
                f"{where} needs tumbling windows (TimeWindows without advance_by): others have no window without rows"
            )
        if self.aggregator.kind == "reduce":
            raise BuildError(f"{where}: reduce has no value for a window without rows; use aggregate(init, add)")
        if self.windowing.semantics == "kafka":
            raise BuildError(f'{where}: Kafka Streams has no such results; use semantics="strict"')
        self.fill_empty_ms = keep_ms
        kept = max(self.windowing.retention_ms, windows.shortest_retention_ms + keep_ms)
        self.windowing = replace(self.windowing, retention_ms=kept)

    def first_old_is_none(self) -> None:
        self.old_from_init = False

    def carries(self, suppressed: Suppressed) -> bool:
        """Whether the aggregation itself may emit the final results of a suppression right after it, without the buffer.

        It may if the suppression wants only the last update of a window and nobody measures its buffer; the values then stay in the store.
        A buffer over sessions or sliding windows also holds what was merged or deleted, so there it may only for an unbounded suppression
        of a count, which is never deleted. In Kafka mode such windows are emitted while they may still change, so there it may not."""
        windows, buffer = self.windowing.windows, suppressed.buffer
        if windows is None or not suppressed.final or self.emits_on_close or len(self.children) > 1:
            return False
        if buffer.byte_bound is not None or suppressed.early_every_ms is not None:
            return False
        return not windows.inclusive_end or (
            buffer.record_bound is None and self.windowing.semantics != "kafka" and self.aggregator.kind == "count"
        )

    def operator(self, build: Build) -> Operator:
        env, stores, store = build.env, build.stores, str(self.store)
        windowing = self.windowing
        if windowing.windows is None:
            return TableAggregate(self.name, store, env, self.aggregator, stores, old_from_init=self.old_from_init)
        report: SuppressMetrics | EmitMetrics | None = None
        carried = next((child for child in self.children if child.carrier(build) is self), None)
        bound, needs_old = None, False
        if self.emits_on_close:
            report = EmitMetrics(self.name)
            env.metrics.emitting.append(report)
        elif isinstance(carried, SuppressNode):
            report = carried.metrics(build)
            bound = carried.suppressed.buffer.record_bound
            needs_old = any(isinstance(child, TableNode) for child in carried.children)
        spec: AggregateSpec[Any] = AggregateSpec(
            self.name,
            store,
            windowing.windows,
            self.aggregator,
            windowing.retention_ms,
            windowing.semantics == "kafka",
            report is not None or _made_final(self),
            self.old_from_init,
            self.fill_empty_ms,
        )
        operator = windowed_aggregation(spec, env, stores, report, bound, needs_old=needs_old)
        if carried is not None:
            assert not isinstance(operator, TimeUpdates)
            build.buffers.append(operator)
        return operator


def _made_final(node: TopologyNode) -> bool:
    """Whether a suppression until windows close works on the updates of a table."""
    return any(
        (isinstance(child, SuppressNode) and child.suppressed.final)
        or (isinstance(child, SuppressNode | ViewNode) and _made_final(child))
        for child in node.children
    )


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
