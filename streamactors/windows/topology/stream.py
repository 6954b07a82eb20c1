"""The fluent API of a stream in a topology: map, filter, merge, select_key, group_by_key, joins, to_table, to.

Every call adds a node to the topology and returns the stream of its results. A stream whose key may have changed passes through a
repartition topic at the next step that needs equal keys together; several changes cost one topic."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal

from streamactors.durations import Duration, EventSpan
from streamactors.engine.suggestions import Suggestions
from streamactors.errors import BuildError
from streamactors.windows.definitions.join_windows import JoinWindows
from streamactors.windows.definitions.windowing import Semantics
from streamactors.windows.record import Record
from streamactors.windows.topology.arguments import takes_arguments
from streamactors.windows.topology.joining import (
    RUNS,
    callable_or_error,
    choice,
    co_partition,
    grace_within_history,
    join_streams,
    keep_rows_without_key,
    lookup_node,
    pair,
    round_trip,
    same_topology,
)
from streamactors.windows.topology.model import Topology, TopologyNode
from streamactors.windows.topology.nodes.join_nodes import StreamTableNode
from streamactors.windows.topology.nodes.record_nodes import AsRecordsNode, MergeNode, RecordNode, SinkNode
from streamactors.windows.topology.nodes.table_nodes import table_source
from streamactors.windows.topology.processing import ProcessSteps
from streamactors.windows.topology.steps import step

if TYPE_CHECKING:
    from streamactors.windows.topology.grouped import GroupedStream
    from streamactors.windows.topology.table import GlobalTable, TopologyTable


class TopologyStream(ProcessSteps["TopologyStream"], Suggestions):
    """A stream of Records in a topology. Functions see every row, also rows whose key or value is None."""

    _suggestions = dict.fromkeys(
        RUNS,
        'a topology runs as a whole: topics.source(stream).run_with(sink), or stream.to("topic") and topics.graph().run() over Kafka',
    ) | {
        "branch": "a stream may have several steps after it: one filter(predicate) for each branch",
        "split": "a stream may have several steps after it: one filter(predicate) for each branch",
        "foreach": "peek(fn) calls fn for each record",
        "print": "peek(print) prints each record",
        "through": 'repartition() passes the records through a topic of the topology; to("topic") and topics.stream("topic") through one of yours',
        "left_join": 'join(…, how="left") with a stream, join_table(…, how="left") with a table',
        "outer_join": 'join(…, how="outer") joins two streams',
        "transform": "process(Processor, stores=[…]) sees each record and keeps state",
        "transform_values": "process_values(Processor, stores=[…]) sees each record and keeps its key",
        **dict.fromkeys(
            ("count", "reduce", "aggregate", "cogroup", "windowed_by"),
            "group the records first: group_by_key(), or group_by(fn)",
        ),
    }

    def __init__(
        self, topology: Topology, node: TopologyNode, *, key_changed: bool = False, windowed: bool = False
    ) -> None:
        """`key_changed`: a step may have given the rows other keys than they were read with. `windowed`: the rows are WindowedRecords."""
        self.topology = topology
        self.node = node
        self.key_changed = key_changed
        self._windowed = windowed
        self._together: TopologyStream | None = None  # after the repartition topic that unnamed joins share

    # ── without state ─────────────────────────────────────────────────────────────────────────────────────────────

    def map(self, fn: Callable[[Any], Record], *, name: str | None = None) -> TopologyStream:
        """`fn(record)` for each record; the key may change."""
        return self._records("map", fn, name, changes_key=True)

    def flat_map(self, fn: Callable[[Any], Iterable[Record]], *, name: str | None = None) -> TopologyStream:
        """Every Record of `fn(record)`; the key may change."""
        return self._records("flat-map", fn, name, changes_key=True)

    def map_values(self, fn: Callable[[Any], Any], *, name: str | None = None) -> TopologyStream:
        """`fn(value)` in the place of each value, also of None."""
        return self._records("map-values", fn, name)

    def flat_map_values(self, fn: Callable[[Any], Iterable[Any]], *, name: str | None = None) -> TopologyStream:
        """A record with the same key, time and context for each element of `fn(value)`."""
        return self._records("flat-map-values", fn, name)

    def filter(self, predicate: Callable[[Any], Any], *, name: str | None = None) -> TopologyStream:
        """The records for which `predicate(record)` is true."""
        return self._records("filter", predicate, name)

    def filter_not(self, predicate: Callable[[Any], Any], *, name: str | None = None) -> TopologyStream:
        """The records for which `predicate(record)` is false."""
        return self._records("filter-not", predicate, name)

    def select_key(self, fn: Callable[[Any], Any], *, name: str | None = None) -> TopologyStream:
        """Each record with the key `fn(record)`."""
        return self._records("select-key", fn, name, changes_key=True)

    def peek(self, fn: Callable[[Any], object], *, name: str | None = None) -> TopologyStream:
        """The same records, after `fn(record)` has seen each."""
        return self._records("peek", fn, name)

    @step
    def merge(self, *others: TopologyStream, name: str | None = None) -> TopologyStream:
        """The records of this stream and of `others`, in the order in which the task processes them; nothing is dropped."""
        streams = [self, *others]
        for stream in streams:
            same_topology("merge", self.topology, stream)
        nodes = [stream.node for stream in streams]
        if self.topology.semantics == "kafka":
            nodes = list(dict.fromkeys(nodes))  # Kafka Streams takes a stream that is merged with itself once
        node = self.topology.add(MergeNode(self.topology.named(name, "merge")), *nodes)
        changed = any(stream.key_changed for stream in streams)
        return TopologyStream(self.topology, node, key_changed=changed, windowed=any(s._windowed for s in streams))

    @step
    def repartition(self, *, name: str | None = None) -> TopologyStream:
        """The same records by way of a topic, so that rows of equal keys are in one task.

        Records whose key is None are dropped, unless a left or outer join follows, which takes them."""
        return self._with_equal_keys_together(self.topology.named(name, "repartition"))

    # ── with state ────────────────────────────────────────────────────────────────────────────────────────────────

    @step
    def group_by_key(self) -> GroupedStream:
        """Aggregate records by the key they have. Records whose key is None are dropped and counted."""
        from streamactors.windows.topology.grouped import GroupedStream

        return GroupedStream(self._as_records())

    def group_by(self, fn: Callable[[Any], Any], *, name: str | None = None) -> GroupedStream:
        """Aggregate records by the key `fn(record)`; the rows pass through a repartition topic."""
        return self.select_key(fn, name=name).group_by_key()

    def key_by(self, fn: Callable[[Any], Any], *, name: str | None = None) -> GroupedStream:
        """As `group_by`."""
        return self.group_by(fn, name=name)

    @step
    def to_table(self, *, name: str | None = None, history: EventSpan | None = None) -> TopologyTable:
        """The latest value of each key; None deletes. Records whose key is None are dropped and counted.

        `name`: of its store; without a name the table has a store only if a step reads it. `history` as in topics.table."""
        from streamactors.windows.topology.table import TopologyTable

        node = table_source(self.topology, "to-table", name, history)
        stream = self._as_records()._ready_for(node.name, needs_key=True)
        return TopologyTable(self.topology, self.topology.add(node, stream.node))

    @step
    def join_table(
        self,
        table: TopologyTable,
        fn: Callable[[Any, Any], Any],
        *,
        how: Literal["inner", "left"] = "inner",
        grace: EventSpan | None = None,
        late: Any = None,
        semantics: Semantics | None = None,
        name: str | None = None,
    ) -> TopologyStream:
        """`fn(value, table's value)` of each record whose key `table` has; with how="left" fn(value, None) for the others.

        A result has the record's key, time and headers. The table counts as it is when the record is processed; rows of
        several topics are processed in the order of their timestamps. Of a table with history the version valid at the
        record's time counts. Records without value are dropped and counted; records without key too, but a left join gives
        fn(value, None).

        `grace` (tables with history only): records wait until the stream's own time has passed theirs by this time. A record
        that is late already is dropped, counted and sent to the sink `late`; with semantics="kafka" it is joined at once."""
        callable_or_error("join_table", fn)
        takes_arguments("join_table", fn, "value", "table_value")
        left = choice("join_table", how, ("inner", "left")) == "left"
        topology = self.topology
        from streamactors.windows.topology.table import TopologyTable

        if not isinstance(table, TopologyTable):
            raise BuildError(
                f"join_table: a {type(table).__name__} is not a table of this kind; make one with topics.table(…) or .to_table(), join two "
                "streams with join(…, JoinWindows.of(…)), a global table with join_global"
            )
        same_topology("join_table", topology, table)
        if table.node.windowing.windows is not None:
            raise BuildError(
                "join_table: the table has windows, and a record names none of them; re-key the table by its plain key: "
                ".to_stream().map(lambda row: Record(row.key, row.value, row.timestamp)).to_table()"
            )
        grace_ms = grace_within_history(grace, table.node)
        kafka = topology.is_kafka("join_table", semantics)
        topology.late_to(late)
        node_name = topology.named(name, "join-table")
        stream = self._as_records()._ready_for_join(node_name, name, needs_key=not left)
        co_partition(topology, node_name, stream.node, table.node)
        if left:
            keep_rows_without_key(topology, stream.node)
        join = StreamTableNode(node_name, table.node, fn, left=left, grace_ms=grace_ms, kafka=kafka)
        return TopologyStream(topology, topology.add(join, stream.node))

    @step
    def join_asof(
        self,
        other: TopologyStream,
        fn: Callable[[Any, Any], Any],
        *,
        how: Literal["inner", "left"] = "inner",
        history: EventSpan = "7d",
        grace: EventSpan | None = None,
        late: Any = None,
        name: str | None = None,
    ) -> TopologyStream:
        """`fn(value, other's value)` with the newest row of `other` at or before each record's time.

        `history` (ms, a timedelta or a string): rows of `other` are kept for this time. Otherwise as join_table with `grace` (ms, a
        timedelta or a string) and `late`."""
        if not isinstance(other, TopologyStream):
            raise BuildError(
                f"join_asof: takes a stream, whose newest row at or before each record's time counts, got a {type(other).__name__}; for a table "
                "use topics.table(…, history=…) and join_table"
            )
        same_topology("join_asof", self.topology, other)
        table = other.to_table(name=None if name is None else f"{name}-history", history=history)
        return self.join_table(table, fn, how=how, grace=grace, late=late, name=name)

    @step
    def join_global(
        self,
        table: GlobalTable,
        fn: Callable[[Any, Any], Any],
        *,
        key: Callable[[Any], Any] | None = None,
        how: Literal["inner", "left"] = "inner",
        name: str | None = None,
    ) -> TopologyStream:
        """`fn(value, table's value)` with the entry of the global `table`; `key(record)` names the entry, default the record's key.

        No repartition. Otherwise as join_table; the record's own key may be None."""
        callable_or_error("join_global", fn)
        if key is not None:
            callable_or_error("join_global: key", key)
        left = choice("join_global", how, ("inner", "left")) == "left"
        same_topology("join_global", self.topology, table)
        if not getattr(table, "is_global", False):
            raise BuildError(f"join_global: {table!r} is not a global table; use join_table, or topics.global_table(…)")
        name = self.topology.named(name, "join-global")
        stream = self._as_records()
        if left:
            keep_rows_without_key(self.topology, stream.node)
        node = self.topology.add(StreamTableNode(name, table.node, fn, left=left, key=key), stream.node)
        return TopologyStream(self.topology, node, key_changed=self.key_changed)

    @step
    def join_lookup(
        self,
        fn: Callable[[Any], Any],
        joiner: Callable[[Any, Any], Any] = pair,
        *,
        key: Callable[[Any], Any] | None = None,
        how: Literal["inner", "left"] = "inner",
        ttl: Duration | None = None,
        missing_ttl: Duration | None = None,
        max_concurrency: int = 16,
        max_entries: int = 10_000,
        name: str | None = None,
    ) -> TopologyStream:
        """`joiner(value, fn(key))` of each record, by default the pair; `fn` asks a database or a service, and None means that it knows no such key.

        `fn`: a function or a coroutine function. The records of a chunk are asked for together, at most `max_concurrency` calls at a
        time, each key once; they continue in their order when the last answer is there. `key(record)` names what is asked for, default the
        record's key. Each task keeps `max_entries` answers, for `ttl` (seconds, a timedelta or a string) of the wall clock (answers of None: `missing_ttl`); without `ttl` as long
        as there is room. A restart asks again. An error of `fn` fails the records of its key, and is not kept.

        inner: records whose answer is None are left out; left: joiner(value, None). Records without value are dropped and counted; records
        without key too, but a left join gives joiner(value, None). No repartition."""
        topology = self.topology
        left = choice("join_lookup", how, ("inner", "left")) == "left"
        node_name = topology.named(name, "join-lookup")
        node = lookup_node(node_name, fn, joiner, key, left, ttl, missing_ttl, max_concurrency, max_entries)
        stream = self._as_records()
        if left:
            keep_rows_without_key(topology, stream.node)
        return TopologyStream(topology, topology.add(node, stream.node), key_changed=self.key_changed)

    @step
    def join(
        self,
        other: TopologyStream,
        fn: Callable[[Any, Any], Any],
        windows: JoinWindows | None = None,
        *,
        how: Literal["inner", "left", "outer"] = "inner",
        semantics: Semantics | None = None,
        late: Any = None,
        name: str | None = None,
    ) -> TopologyStream:
        """`fn(value, other's value)` of each two records of equal key whose times lie in one window.

        A result has the later of both times, and the headers of the record that came last. left and outer: a record without
        match gives fn(value, None) (right ones fn(None, value)) when its window has closed. Late records are dropped, counted
        and sent to the sink `late`. Records without value or key are dropped and counted; in a left or outer join a record
        without key gives its result at once. semantics="kafka": Kafka Streams' results row for row (docs/joins.md)."""
        callable_or_error("join", fn)
        choice("join", how, ("inner", "left", "outer"))
        topology = self.topology
        if not isinstance(other, TopologyStream):
            raise BuildError(
                f"join: a stream joins a stream within windows, got a {type(other).__name__}; a table: join_table"
            )
        if not isinstance(windows, JoinWindows):
            raise BuildError(
                f"join: windows is {windows!r}; say how far apart two records may be: JoinWindows.of('5m')"
            )
        same_topology("join", topology, other)
        kafka = topology.is_kafka("join", semantics)
        topology.late_to(late)
        base = topology.named(name, "join")
        left = self._as_records()._ready_for_join(f"{base}-left", name, needs_key=how == "inner")
        right = other._as_records()._ready_for_join(f"{base}-right", name, needs_key=how == "inner")
        if how != "inner":
            keep_rows_without_key(topology, left.node)
            keep_rows_without_key(topology, right.node)
        node = join_streams(topology, base, left.node, right.node, fn, windows, how, kafka=kafka)
        return TopologyStream(topology, node)

    # ── the end ───────────────────────────────────────────────────────────────────────────────────────────────────

    @step
    def to(self, topic: str, *, key: Any = None, value: Any = None) -> None:
        """Write the records to a topic. `key`, `value`: a Serde or its name, as for Transactional.sink."""
        if not isinstance(topic, str) or not topic:
            raise BuildError(f"to: the topic is {topic!r}; give a name that is not empty")
        for node in self.topology.nodes:
            if isinstance(node, SinkNode) and node.topic == topic and (node.key, node.value) != (key, value):
                raise BuildError(
                    f"to: another stream is written to {topic!r} with key={node.key!r} and value={node.value!r}, this one with key={key!r} and "
                    f"value={value!r}; a topic has one serde for keys and one for values: convert one of the streams, or merge both"
                )
        name = self.topology.named(None, "sink")
        self.topology.add(SinkNode(name, topic, key, value, key_changed=self.key_changed), self.node)

    # ── inside ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _ready_for(self, base: str, *, needs_key: bool) -> TopologyStream:
        """Return the stream with equal keys in one partition. If its key may have changed, it goes through the topic `<base>-repartition`, but not
        in a chain."""
        moves = self.topology.repartitions(key_changed=self.key_changed)
        return self._with_equal_keys_together(base, needs_key=needs_key) if moves else self

    def _ready_for_join(self, base: str, name: str | None, *, needs_key: bool) -> TopologyStream:
        """As `_ready_for`; joins without a name share one topic, which keeps rows without key if one of them needs those."""
        if not self.key_changed or name is not None:
            return self._ready_for(base, needs_key=needs_key)
        if self._together is None:
            self._together = self._with_equal_keys_together(base, needs_key=needs_key)
        return self._together

    def _with_equal_keys_together(self, base: str, *, needs_key: bool = True) -> TopologyStream:
        """Return the stream after the repartition topic `<base>-repartition`."""
        topology = self.topology
        counted = topology.semantics == "strict"
        node = self._as_records().node
        return TopologyStream(
            topology, round_trip(topology, f"{base}-repartition", node, needs_key=needs_key, counted=counted)
        )

    @step
    def _records(
        self, kind: str, fn: Callable[[Any], Any], name: str | None, *, changes_key: bool = False
    ) -> TopologyStream:
        where = kind.replace("-", "_")
        callable_or_error(where, fn)
        takes_arguments(where, fn, "value" if kind.endswith("values") else "record")
        node = self.topology.add(RecordNode(self.topology.named(name, kind), kind, fn), self.node)
        keeps_windows = self._windowed and not changes_key
        return TopologyStream(self.topology, node, key_changed=self.key_changed or changes_key, windowed=keeps_windows)

    def _results_of(self, node: TopologyNode, *, key_changed: bool) -> TopologyStream:
        return TopologyStream(self.topology, node, key_changed=key_changed)

    def _as_records(self) -> TopologyStream:
        if not self._windowed:
            return self
        node = self.topology.add(AsRecordsNode(self.topology.named(None, "as-records")), self.node)
        return TopologyStream(self.topology, node, key_changed=self.key_changed)
