"""The nodes of a join by foreign key; `joins/foreign_key.py` says what each does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamactors.windows.joins.foreign_key import (
    ForeignSubscriptions,
    Resolve,
    Subscribe,
    TellSubscribers,
    ValueHashes,
)
from streamactors.windows.operators.operator import Operator
from streamactors.windows.tables.source import ExistingDeletions
from streamactors.windows.topology.model import Build, TopologyNode
from streamactors.windows.topology.nodes.join_nodes import all_below
from streamactors.windows.topology.nodes.table_nodes import TableNode, TableSourceNode


def _hashes(build: Build, left: TableNode) -> ValueHashes:
    """Return the hashes of the values of a left table."""
    hashes: ValueHashes = build.shared((ValueHashes, left), lambda: ValueHashes(build.env))
    return hashes


class SubscribeNode(TopologyNode):
    """Downstream of the left table."""

    def __init__(self, name: str, table: TableNode, foreign_key: Callable[[Any, Any], Any], *, left: bool) -> None:
        super().__init__(name)
        self.table = table
        self.foreign_key = foreign_key
        self.left = left

    def operator(self, build: Build) -> Operator:
        return Subscribe(
            self.name,
            build.env,
            self.foreign_key,
            _hashes(build, self.table),
            left=self.left,
            partition=build.partition,
            skips_stale=self.table.versioned,
        )


class SubscriptionsNode(TopologyNode):
    """Downstream of the topic of subscriptions."""

    def __init__(self, name: str, store: str, right: TableNode) -> None:
        super().__init__(name)
        self.store = store
        self.right = right
        self.reads = [right, *all_below(right)]

    def operator(self, build: Build) -> Operator:
        return ForeignSubscriptions(self.name, str(self.store), build.env, build.stores, build.of(self.right))


class TellNode(TopologyNode):
    """Downstream of the right table."""

    def __init__(self, name: str, right: TableNode, subscriptions: SubscriptionsNode, *, kafka: bool) -> None:
        super().__init__(name)
        self.right = right
        self.subscriptions = subscriptions
        self.kafka = kafka
        self.reads = [subscriptions]

    def operator(self, build: Build) -> Operator:
        subscriptions = build.of(self.subscriptions)
        assert isinstance(subscriptions, ForeignSubscriptions)
        return TellSubscribers(self.name, build.env, subscriptions, kafka=self.kafka, skips_stale=self.right.versioned)


class ResolveNode(TopologyNode):
    """Downstream of the topic of answers."""

    def __init__(self, name: str, table: TableNode, fn: Callable[[Any, Any], Any], *, left: bool, kafka: bool) -> None:
        super().__init__(name)
        self.table = table
        self.fn = fn
        self.left = left
        self.kafka = kafka
        self.reads = [table, *all_below(table)]

    def operator(self, build: Build) -> Operator:
        hashes = _hashes(build, self.table)
        return Resolve(self.name, build.env, build.of(self.table), self.fn, hashes, left=self.left, kafka=self.kafka)


class ForeignResultNode(TableSourceNode):
    """The table of the results. Strict mode keeps it in any case, and forwards deletions of existing entries only."""

    def __init__(self, name: str, store: str, named: bool, tables: list[TableNode], *, kafka: bool) -> None:
        super().__init__(name, store, named or not kafka)
        self.kafka = kafka
        self.tables = tables

    @property
    def closing(self) -> Any:
        return None

    def operator(self, build: Build) -> Operator:
        if self.kafka:
            return super().operator(build)
        return ExistingDeletions(self.name, self._store, build.env, build.stores, sends_old=self._carries_old)
