"""The fluent API of a table in a topology: filter, map_values, suppress, to_stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from streamactors.durations import Duration, EventSpan, event_ms
from streamactors.engine.suggestions import Suggestions
from streamactors.errors import BuildError
from streamactors.windows.definitions.suppressed import Suppressed
from streamactors.windows.definitions.windowing import Semantics
from streamactors.windows.definitions.windows import UnlimitedWindows
from streamactors.windows.state.running_tables import shown_table
from streamactors.windows.tables.views import ON_CHANGE
from streamactors.windows.topology.arguments import takes_arguments
from streamactors.windows.topology.joining import (
    RUNS,
    callable_or_error,
    choice,
    join_by_foreign_key,
    join_tables,
    same_topology,
)
from streamactors.windows.topology.model import Topology
from streamactors.windows.topology.nodes.aggregate_nodes import AggregateNode
from streamactors.windows.topology.nodes.group_nodes import RegroupNode
from streamactors.windows.topology.nodes.table_nodes import SuppressNode, TableNode, ToStreamNode, ViewNode
from streamactors.windows.topology.steps import Part, step
from streamactors.windows.topology.stream import TopologyStream

if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault

    from streamactors.mime_bundles import Bundle
    from streamactors.windows.topology.grouped import GroupedTable

    R = TypeVarWithDefault("R", default=TopologyStream)
else:
    R = TypeVar("R")


class GlobalTable:
    """A table of which every task has all partitions; streams join it by any key."""

    is_global = True

    def __init__(self, topology: Topology, node: TableNode) -> None:
        self.topology = topology
        self.node = node


class TopologyTable(Part, Suggestions, Generic[R]):
    """A table in a topology: its entries, and the updates that change them. R: the stream of its updates."""

    _suggestions = dict.fromkeys(
        RUNS,
        "a table is not a stream; .to_stream() gives its updates: table.to_stream().run_with(sink). A topology runs as a whole: "
        'topics.source(table).run_with(sink), or table.to("topic") and topics.graph().run() over Kafka',
    ) | {
        "left_join": 'join(table, fn, how="left")',
        "outer_join": 'join(table, fn, how="outer")',
        "transform_values": "map_values(fn) has no state; to_stream().process_values(Processor, stores=[…]) keeps some",
        **dict.fromkeys(
            ("map", "flat_map", "select_key", "peek", "merge", "process", "repartition"),
            "that is a step of a stream: to_stream() emits the updates of a table",
        ),
        **dict.fromkeys(
            ("count", "reduce", "aggregate", "group_by_key"),
            "group_by(fn) groups the entries of a table by another key",
        ),
    }

    def __init__(self, topology: Topology, node: TableNode) -> None:
        self.topology = topology
        self.node = node

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> Bundle:
        """Show some rows of the table in a notebook, as they are now in the topology's run."""
        return shown_table(self.node.name)

    def filter(self, predicate: Callable[[Any], Any], *, name: str | None = None) -> TopologyTable[R]:
        """Keep the entries for which `predicate(value)` is true; an entry that does not match is deleted downstream by a tombstone.

        `predicate` never sees None. `name`: keep the result in a store of that name; in a chain it names the step."""
        return self._view("filter", predicate, name)

    def filter_not(self, predicate: Callable[[Any], Any], *, name: str | None = None) -> TopologyTable[R]:
        """Keep the entries for which `predicate(value)` is false; otherwise as filter."""
        return self._view("filter-not", predicate, name)

    def map_values(self, fn: Callable[[Any], Any], *, name: str | None = None) -> TopologyTable[R]:
        """`fn(value)` of each entry; keys, windows and timestamps stay. None deletes the entry. `name` as in filter."""
        return self._view("map-values", fn, name)

    @step
    def suppress(self, suppressed: Suppressed, *, idle_after: Duration | None = None) -> TopologyTable[R]:
        """Hold back updates until the windows of all tables above close, or for a limit of stream time. `idle_after` (seconds, a timedelta or a string)
        as in windowed_by.

        Stream time is that of the updates. Raises BuildError for until_window_closes where a way up has no windows, and for
        a versioned table."""
        if not isinstance(suppressed, Suppressed):
            raise BuildError(
                f"suppress: {suppressed!r} does not say when; give Suppressed.until_window_closes(…) or "
                "Suppressed.until_time_limit(…)"
            )
        if self.node.versioned:
            raise BuildError("suppress: a versioned table cannot be suppressed; read the topic without history=")
        closing = self.node.closing
        if suppressed.final and (closing is None or self.node.windowing.windows is None):
            raise BuildError(
                "suppress: until_window_closes needs windows in every branch above, and one has none; "
                "put windowed_by(…) in front of each aggregation, or use until_time_limit(…)"
            )
        self.topology.idle_after(idle_after)
        name, store = self.topology.stored(suppressed.name, "suppress")
        node = SuppressNode(name, store, suppressed, self.node, closing or [])
        return TopologyTable(self.topology, self.topology.add(node, self.node))

    @step
    def emit_on_window_close(
        self, *, idle_after: Duration | None = None, fill_empty: EventSpan | None = None
    ) -> TopologyTable[R]:
        """Emit final results only, from the store of the aggregation, without a buffer. Must stand directly after the aggregation. `idle_after`
        (seconds, a timedelta or a string) as in windowed_by.

        `fill_empty` (ms, a timedelta or a string): a key also gets a result for each window without rows: 0 of a count, `init()` of an aggregate, with the
        last ms of the window as its time. It does so for windows that begin within this span of its last window with a row. Tumbling windows only."""
        node = self.node
        if (
            not isinstance(node, AggregateNode)
            or node.windowing.windows is None
            or node.children
            or node.emits_on_close
        ):
            raise BuildError(
                "emit_on_window_close reads the store of a windowed aggregation: put it directly after count, reduce or "
                "aggregate, before any other step"
            )
        if isinstance(node.windowing.windows, UnlimitedWindows):
            raise BuildError(
                "emit_on_window_close: an unlimited window never closes; use time, session or sliding windows"
            )
        if fill_empty is not None:
            node.fill_empty(event_ms(fill_empty, "emit_on_window_close: fill_empty", minimum=1))
        self.topology.idle_after(idle_after)
        node.emits_on_close = True
        return self

    @step
    def emit_on_change(self, *, name: str | None = None) -> TopologyTable[R]:
        """Forward only the updates that change a value: without it each row gives an update, also one with the same value as before.

        Values are compared with `==`, and their types must be equal; a deletion of an entry that is not there is left out. The time of an entry does
        not count as a change. Final results pass: there is one for each window. `name`: names the step. Raises BuildError for a versioned table."""
        if self.node.versioned:
            raise BuildError(
                "emit_on_change: a versioned table forwards every version; read the topic without history="
            )
        node = ViewNode(
            self.topology.named(name, f"table-{ON_CHANGE}"), ON_CHANGE, lambda value: value, self.node, None
        )
        return TopologyTable(self.topology, self.topology.add(node, self.node))

    @step
    def join(
        self,
        other: TopologyTable[R],
        fn: Callable[[Any, Any], Any],
        *,
        how: Literal["inner", "left", "outer"] = "inner",
        semantics: Semantics | None = None,
        name: str | None = None,
    ) -> TopologyTable[R]:
        """The table of `fn(value, other's value)` by key; left and outer: with None where the other (a) side has no entry.

        The time of a result is the later one of both entries. `name`: keep the result in a store of that name.
        semantics="kafka" also forwards deletions of results that never were (docs/joins.md)."""
        callable_or_error("join", fn)
        choice("join", how, ("inner", "left", "outer"))
        topology = self.topology
        _a_table("join", other)
        same_topology("join", topology, other)
        if (self.node.windowing.windows is None) != (other.node.windowing.windows is None):
            raise BuildError(
                "join: one table has windows and the other has none, so no keys are equal; re-key the windowed one by its plain key: "
                ".to_stream().map(lambda row: Record(row.key, row.value, row.timestamp)).to_table()"
            )
        kafka = topology.is_kafka("join", semantics)
        node_name = topology.named(name, "join-tables")
        return TopologyTable(
            topology, join_tables(topology, node_name, name, self.node, other.node, fn, how, kafka=kafka)
        )

    @step
    def join_foreign_key(
        self,
        other: TopologyTable[R],
        foreign_key: Callable[[Any, Any], Any],
        fn: Callable[[Any, Any], Any],
        *,
        how: Literal["inner", "left"] = "inner",
        semantics: Semantics | None = None,
        name: str | None = None,
    ) -> TopologyTable[R]:
        """The table of `fn(value, other's value)`, where `foreign_key(key, value)` names the entry of the other table.

        The key stays that of this table. A changed entry of the other table changes the results of all entries that name it.
        A foreign key of None gives no result, in a left join fn(value, None). The rows pass through two internal topics."""
        callable_or_error("join_foreign_key", foreign_key)
        callable_or_error("join_foreign_key", fn)
        choice("join_foreign_key", how, ("inner", "left"))
        topology = self.topology
        _a_table("join_foreign_key", other)
        same_topology("join_foreign_key", topology, other)
        kafka = topology.is_kafka("join_foreign_key", semantics)
        base = topology.named(name, "join-foreign-key")
        node = join_by_foreign_key(topology, base, name, self.node, other.node, foreign_key, fn, how, kafka=kafka)
        return TopologyTable(topology, node)

    @step
    def group_by(self, fn: Callable[[Any, Any], tuple[Any, Any]], *, name: str | None = None) -> GroupedTable[R]:
        """Aggregate the entries by another key: `fn(key, value)` returns (new key, new value). A None of the two leaves it out."""
        from streamactors.windows.topology.grouped import GroupedTable

        callable_or_error("group_by", fn)
        takes_arguments("group_by of a table", fn, "key", "value")
        node = RegroupNode(self.topology.named(name, "group-table"), fn, self.node)
        return GroupedTable(self.topology, self.topology.add(node, self.node))

    @step
    def to_stream(self, *, name: str | None = None) -> R:
        """Every update as a record; the value None is a deletion. The results of windows are WindowedRecords."""
        results: R = self.topology.ended(self._updates(name))
        return results

    def _updates(self, name: str | None = None) -> TopologyStream:
        node = ToStreamNode(self.topology.named(name, "to-stream"), self.node)
        windowed = self.node.windowing.windows is not None
        return TopologyStream(self.topology, self.topology.add(node, self.node), windowed=windowed)

    def to(self, topic: str, *, key: Any = None, value: Any = None) -> None:
        """Write every update to a topic; as `to_stream().to(…)`."""
        self._updates().to(topic, key=key, value=value)

    @step
    def _view(self, kind: str, fn: Callable[[Any], Any], name: str | None) -> TopologyTable[R]:
        where = kind.replace("-", "_")
        callable_or_error(where, fn)
        takes_arguments(where, fn, "value")
        topology = self.topology
        store = name if topology.reads_tables else None
        node = ViewNode(topology.named(name, f"table-{kind}"), kind, fn, self.node, store)
        return TopologyTable(self.topology, self.topology.add(node, self.node))


def _a_table(where: str, other: Any) -> None:
    """Raise BuildError unless `other` is a table."""
    if not isinstance(other, TopologyTable):
        raise BuildError(
            f"{where}: a table joins a table, got a {type(other).__name__}; make a table of a stream with to_table(), or join from the "
            "stream's side with join_table"
        )
