"""The nodes of joins of a stream: with a table, with a global table, with a stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamactors.windows.joins.asking import Asking
from streamactors.windows.joins.lookup import LookupJoin
from streamactors.windows.joins.lookup_cache import LookupCache
from streamactors.windows.joins.stream_stream import JoinSpec, KafkaSide, StrictSide
from streamactors.windows.joins.stream_stream_state import JoinClock, SideRows, WaitingRows
from streamactors.windows.joins.stream_table import StreamTableJoin
from streamactors.windows.joins.stream_table_grace import GracefulTableJoin
from streamactors.windows.operators.operator import Operator
from streamactors.windows.topology.model import Build, TopologyNode
from streamactors.windows.topology.nodes.table_nodes import TableNode


class StreamTableNode(TopologyNode):
    """join_table and join_global. `key`: the key in the table of a row; None: the row's own. `grace_ms`: rows wait for this time."""

    def __init__(
        self,
        name: str,
        table: TableNode,
        fn: Callable[[Any, Any], Any],
        *,
        left: bool,
        key: Callable[[Any], Any] | None = None,
        grace_ms: int | None = None,
        kafka: bool = False,
    ) -> None:
        super().__init__(name)
        self.table = table
        self.fn = fn
        self.left = left
        self.key = key
        self.grace_ms = grace_ms
        self.kafka = kafka
        if grace_ms is not None:
            self.store = f"{name}-buffer"
        table.materialize()
        self.reads = [table, *all_below(table)]

    def operator(self, build: Build) -> Operator:
        table, env = build.of(self.table), build.env
        if self.grace_ms is None:
            as_of = self.table.versioned
            return StreamTableJoin(self.name, env, table, self.fn, left=self.left, key=self.key, as_of=as_of)
        return GracefulTableJoin(
            self.name,
            str(self.store),
            env,
            build.stores,
            table,
            self.fn,
            left=self.left,
            grace_ms=self.grace_ms,
            kafka=self.kafka,
        )


class LookupNode(TopologyNode):
    """join_lookup. `key`: the key to look up; None: the row's own."""

    def __init__(
        self,
        name: str,
        fn: Callable[[Any], Any],
        joiner: Callable[[Any, Any], Any],
        *,
        left: bool,
        key: Callable[[Any], Any] | None,
        most_calls: int,
        most_answers: int,
        ttl_ms: int | None,
        missing_ttl_ms: int | None,
    ) -> None:
        super().__init__(name)
        self.fn = fn
        self.joiner = joiner
        self.left = left
        self.key = key
        self.most_calls = most_calls
        self.most_answers = most_answers
        self.ttl_ms = ttl_ms
        self.missing_ttl_ms = missing_ttl_ms

    def operator(self, build: Build) -> Operator:
        asking = Asking(self.fn, self.most_calls, build.start_coroutine)
        cache = LookupCache(self.most_answers, self.ttl_ms, self.missing_ttl_ms)
        return LookupJoin(self.name, build.env, asking, cache, self.joiner, build.now_ms, left=self.left, key=self.key)


def all_below(table: TableNode) -> list[TableNode]:
    """Return the tables that a table is made of."""
    found: list[TableNode] = []
    for parent in table.derives_from():
        found += [parent, *all_below(parent)]
    return found


class StreamJoinNode(TopologyNode):
    """One side of a stream-stream join. Both sides share the stores `<name>-left`, `<name>-right` and `<name>-waiting`."""

    by_row = False

    def __init__(self, name: str, side: str, spec: JoinSpec, *, kafka: bool) -> None:
        super().__init__(f"{name}-{side}")
        self.join = name
        self.is_left = side == "left"
        self.spec = spec
        self.kafka = kafka

    def operator(self, build: Build) -> Operator:
        left, right, waiting, clock = build.shared(self.join, lambda: self._state(build))
        side = KafkaSide if self.kafka else StrictSide
        own, other = (left, right) if self.is_left else (right, left)
        return side(
            self.name, build.env, self.spec, is_left=self.is_left, clock=clock, own=own, other=other, waiting=waiting
        )

    def _state(self, build: Build) -> tuple[SideRows, SideRows, WaitingRows | None, JoinClock]:
        windows, clock = self.spec.windows, JoinClock()
        before, after = windows.before_ms, windows.after_ms
        retention = before + after if self.kafka else max(max(after, 0) + before, max(before, 0) + after)
        retention += self.spec.grace_ms
        make = (self.join, windows.shape, build.env, build.stores)
        left = SideRows(f"{self.join}-left", *make, clock, retention)
        right = SideRows(f"{self.join}-right", *make, clock, retention)
        waiting = WaitingRows(f"{self.join}-waiting", *make) if self.spec.left_nulls else None
        for each in (left, right, waiting):
            if each is not None:
                build.keep(each)
        return left, right, waiting, clock
