"""The nodes of aggregations of a stream: with windows and without."""

from __future__ import annotations

from typing import Any

from streamactors.windows.definitions.aggregator import Aggregator
from streamactors.windows.definitions.blueprint import WindowingStep
from streamactors.windows.metrics import EmitMetrics
from streamactors.windows.operators.aggregate import AggregateSpec
from streamactors.windows.operators.chain import windowed_aggregation
from streamactors.windows.operators.operator import Operator
from streamactors.windows.operators.table_aggregate import TableAggregate
from streamactors.windows.topology.model import Build, Node
from streamactors.windows.topology.nodes.table_nodes import SuppressNode, TableNode


class AggregateNode(TableNode):
    """count, reduce or aggregate. `kafka`: the first update of a key carries the initial value as its old one."""

    _derives = False

    def __init__(self, name: str, store: str, aggregator: Aggregator, windowing: WindowingStep, *, kafka: bool) -> None:
        super().__init__(name)
        self.store = store
        self.aggregator = aggregator
        self.windowing = windowing
        self.kafka = kafka
        self.emits_on_close = False

    def _enable_old(self, force: bool) -> bool:
        return True

    def operator(self, build: Build) -> Operator:
        env, stores, store = build.env, build.stores, str(self.store)
        windowing = self.windowing
        if windowing.windows is None:
            return TableAggregate(self.name, store, env, self.aggregator, stores, old_from_init=self.kafka)
        report = None
        if self.emits_on_close:
            report = EmitMetrics(self.name)
            env.metrics.emitting.append(report)
        spec: AggregateSpec[Any] = AggregateSpec(
            self.name,
            store,
            windowing.windows,
            self.aggregator,
            windowing.retention_ms,
            windowing.semantics == "kafka",
            report is not None or _made_final(self),
            self.kafka,
        )
        return windowed_aggregation(spec, env, stores, report)


def _made_final(node: Node) -> bool:
    """Whether every way from a table leads to a suppression until its windows close."""
    return any(isinstance(child, SuppressNode) and child.suppressed.final for child in node.children)
