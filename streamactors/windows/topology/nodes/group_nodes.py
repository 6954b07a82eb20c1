"""The nodes of aggregations that need more than one step: of a table by another key, of several streams."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamactors.windows.definitions.aggregator import Aggregator
from streamactors.windows.definitions.windowing import Windowing
from streamactors.windows.operators.aggregate import AggregateSpec
from streamactors.windows.operators.operator import Operator
from streamactors.windows.operators.stream_steps import PassOn
from streamactors.windows.tables.cogroup import StoreTime, TagRows, share_store
from streamactors.windows.tables.grouping import GroupedTableAggregate, RegroupUpdates, TableAggregator
from streamactors.windows.topology.model import Build, TopologyNode
from streamactors.windows.topology.nodes.table_nodes import TableNode


class RegroupNode(TopologyNode):
    """table.group_by: each update to its groups."""

    def __init__(self, name: str, fn: Callable[[Any, Any], tuple[Any, Any]], table: TableNode) -> None:
        super().__init__(name)
        self.fn = fn
        self.table = table
        table.enable_old(True)

    def operator(self, build: Build) -> Operator:
        return RegroupUpdates(self.name, build.env, self.fn, self.table.versioned)


class GroupedTableNode(TableNode):
    """The aggregates of the groups of a table."""

    _derives = False

    def __init__(self, name: str, aggregator: TableAggregator) -> None:
        super().__init__(name)
        self.store = name
        self.aggregator = aggregator

    @property
    def closing(self) -> list[Windowing] | None:
        return None

    def _enable_old(self, force: bool) -> bool:
        return True

    def operator(self, build: Build) -> Operator:
        return GroupedTableAggregate(self.name, str(self.store), build.env, self.aggregator, build.stores)


class TagNode(TopologyNode):
    """Marks the rows of one stream of a cogroup."""

    def __init__(self, name: str, number: int, *, needs_value: bool) -> None:
        super().__init__(name)
        self.number = number
        self.needs_value = needs_value

    def operator(self, build: Build) -> Operator:
        return TagRows(self.name, build.env, self.number, self.needs_value)


class CogroupPartNode(TopologyNode):
    """Kafka mode, windows: the aggregation of one stream of a cogroup, in the store that all of them share."""

    def __init__(self, name: str, cogroup: str, number: int, aggregator: Aggregator, windowing: Windowing) -> None:
        super().__init__(name)
        self.cogroup = cogroup
        self.number = number
        self.aggregator = aggregator
        self.windowing = windowing
        if number == 0:
            self.store = cogroup
        self.first: CogroupPartNode = self

    def operator(self, build: Build) -> Operator:
        windows = self.windowing.windows
        assert windows is not None
        spec: AggregateSpec[Any] = AggregateSpec(
            self.name, self.cogroup, windows, self.aggregator, self.windowing.retention_ms, True, False, True
        )
        time = build.shared(("cogroup", self.cogroup), StoreTime)
        first = None if self.first is self else build.of(self.first)
        return share_store(spec, build.env, build.stores, time, first)


class CogroupNode(TableNode):
    """Kafka mode, windows: the table after the parts."""

    _derives = False

    def __init__(self, name: str, parts: list[CogroupPartNode]) -> None:
        super().__init__(name)
        self.parts = parts
        self.windowing = parts[0].windowing
        self.reads = list(parts)

    def _enable_old(self, force: bool) -> bool:
        return True

    def operator(self, build: Build) -> Operator:
        return CogroupResult(self.name, build.env, build.of(self.parts[0]))


class CogroupResult(PassOn):
    """Passes the updates of the parts on, and reads from their store."""

    def __init__(self, node: str, env: Any, part: Operator) -> None:
        super().__init__(node, env)
        self._part = part
        self.read = part.read  # type: ignore[method-assign]
