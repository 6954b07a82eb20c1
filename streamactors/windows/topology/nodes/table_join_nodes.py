"""The nodes of joins of tables: by equal keys, and of a table with itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamactors.windows.definitions.windowing import Windowing
from streamactors.windows.joins.table_table import SelfTableJoin, TableJoin, TableJoinResult, TableJoinSide
from streamactors.windows.operators.operator import Operator
from streamactors.windows.tables.stored import StoredTable
from streamactors.windows.topology.model import Build, TopologyNode
from streamactors.windows.topology.nodes.join_nodes import all_below
from streamactors.windows.topology.nodes.table_nodes import TableNode, ViewNode


class TableJoinSideNode(TopologyNode):
    """One side: updates of `table` meet entries of `other`."""

    def __init__(
        self, name: str, join: TableJoin, table: TableNode, other: TableNode, *, is_left: bool, kafka: bool
    ) -> None:
        super().__init__(name)
        self.join = join
        self.table = table
        self.other = other
        self.is_left = is_left
        self.kafka = kafka
        self.sends_old = False
        self.diamond = not kafka and meet(table, other)
        self.reads = [other, *all_below(other)]

    def operator(self, build: Build) -> Operator:
        return TableJoinSide(
            self.name,
            build.env,
            self.join,
            build.of(self.other),
            is_left=self.is_left,
            kafka=self.kafka,
            sends_old=self.sends_old,
            skips_stale=self.table.versioned,
            diamond=self.diamond,
        )


class TableJoinNode(TableNode):
    """The joined table, after both sides."""

    def __init__(
        self,
        name: str,
        store: str | None,
        join: TableJoin,
        left: TableNode,
        right: TableNode,
        sides: tuple[TableJoinSideNode, ...],
    ) -> None:
        super().__init__(name)
        self.diamond = any(side.diamond for side in sides)
        self.store = name if store is None and self.diamond else store
        self.join = join
        self.left = left
        self.right = right
        self.sides = sides
        self.windowing: Windowing = left.windowing

    def derives_from(self) -> list[TableNode]:
        return [self.left, self.right]

    def materialize(self) -> None:
        """Both tables are materialized already."""

    def _enable_old(self, force: bool) -> bool:
        for table in (self.left, self.right):
            table.enable_old(True)
        for side in self.sides:
            side.sends_old = True
        return True

    def operator(self, build: Build) -> Operator:
        stored = None
        if self.store is not None:
            stored = StoredTable(self.store, self.name, build.env, build.stores)
            build.keep(stored)
        left, right = build.of(self.left), build.of(self.right)
        return TableJoinResult(self.name, build.env, self.join, left, right, stored, diamond=self.diamond)


class SelfTableJoinNode(TopologyNode):
    """Downstream of the table of which both sides of a join are views."""

    def __init__(self, name: str, join: TableJoin, left: list[ViewNode], right: list[ViewNode]) -> None:
        super().__init__(name)
        self.join = join
        self.left = left
        self.right = right

    def operator(self, build: Build) -> Operator:
        return SelfTableJoin(self.name, build.env, self.join, _through(self.left), _through(self.right))


def meet(left: TableNode, right: TableNode) -> bool:
    """Return whether two tables derive from one table, so that one row may change both."""
    return not {left, *all_below(left)}.isdisjoint([right, *all_below(right)])


def base_of(table: TableNode) -> tuple[TableNode, list[ViewNode]]:
    """Return the table of which a table is a view, and the views from there to it."""
    views: list[ViewNode] = []
    while isinstance(table, ViewNode):
        views.insert(0, table)
        table = table.parent
    return table, views


def _through(views: list[ViewNode]) -> Callable[[Any], Any]:
    def value_of(value: Any) -> Any:
        for view in views:
            if value is None:
                return None
            mapped = view.fn(value)
            if view.kind == "map-values":
                value = mapped
            elif bool(mapped) == (view.kind == "filter-not"):
                return None
        return value

    return value_of
