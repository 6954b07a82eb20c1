"""The fluent API of grouped streams: windowed_by, count, reduce, aggregate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from streamactors.durations import Duration, EventSpan
from streamactors.engine.suggestions import Suggestions
from streamactors.errors import BuildError
from streamactors.windows.definitions.aggregator import Aggregator, aggregating, counting, reducing
from streamactors.windows.definitions.count_windows import CountWindows
from streamactors.windows.definitions.windowing import Semantics, Windowing, windowing
from streamactors.windows.definitions.windows import SessionWindows, SlidingWindows, Windows
from streamactors.windows.tables.cogroup import tagged
from streamactors.windows.tables.grouping import TableAggregator
from streamactors.windows.topology.joining import RUNS, callable_or_error, co_partition, round_trip, same_topology
from streamactors.windows.topology.model import Topology, TopologyNode
from streamactors.windows.topology.nodes.aggregate_nodes import AggregateNode
from streamactors.windows.topology.nodes.group_nodes import CogroupNode, CogroupPartNode, GroupedTableNode, TagNode
from streamactors.windows.topology.nodes.table_nodes import NO_WINDOWS
from streamactors.windows.topology.ready import CountedStream, ReadyAggregations
from streamactors.windows.topology.steps import Part, step
from streamactors.windows.topology.stream import TopologyStream
from streamactors.windows.topology.table import TopologyTable

if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault

    R = TypeVarWithDefault("R", default=TopologyStream)
    W = TypeVarWithDefault("W", default=TopologyStream)
else:
    R, W = TypeVar("R"), TypeVar("W")


class GroupedStream(ReadyAggregations[R], Part, Suggestions, Generic[R, W]):
    """Records of a stream, grouped by key, and by windows after `windowed_by`. R: the stream of results; W: that of results of windows."""

    _suggestions = dict.fromkeys(
        RUNS,
        "groups are not a stream; aggregate them: .count(), .reduce(fn) or .aggregate(init, add), then .to_stream() gives the results "
        "(a Source, or a stream of the topology: topics.source(table).run_with(sink))",
    )

    def __init__(self, stream: TopologyStream, windowing: Windowing = NO_WINDOWS) -> None:
        self.topology = stream.topology
        self._stream = stream
        self._windowing = windowing

    def group_by_key(self) -> GroupedStream[R, W]:
        """Return itself: the records are grouped already."""
        return self

    @overload
    def windowed_by(self, windows: CountWindows, semantics: Semantics | None = None) -> CountedStream[R]: ...

    @overload
    def windowed_by(
        self,
        windows: Windows,
        semantics: Semantics | None = None,
        *,
        retention: EventSpan | None = None,
        idle_after: Duration | None = None,
        late: Any = None,
    ) -> GroupedStream[W, W]: ...

    def windowed_by(
        self,
        windows: Any,
        semantics: Semantics | None = None,
        *,
        retention: EventSpan | None = None,
        idle_after: Duration | None = None,
        late: Any = None,
    ) -> Any:
        """Aggregate per window.

        `semantics`: "kafka" gives Kafka Streams' results row for row; "strict" never emits two final results for a window and loses none
        when time jumps; default that of the topology. `retention`: how long a window stays readable; at least the time that closes it.
        `idle_after`: once the input has been silent for this time, stream time advances with the wall clock, so the last windows close. `late`: the
        sink of the rows that closed windows refuse. Times are timedeltas, strings such as "5m", or numbers: `idle_after` in seconds, others in ms.

        CountWindows give a stream of one result for each full window; the other windows give a table. Raises BuildError (a ValueError) if
        something does not fit."""
        return self._windowed(windows, semantics, retention, idle_after, late)

    @step
    def _windowed(
        self,
        windows: Any,
        semantics: Semantics | None,
        retention: EventSpan | None,
        idle_after: Duration | None,
        late: Any,
    ) -> Any:
        if isinstance(windows, CountWindows):
            return CountedStream(self._stream, windows.size)
        self.topology.idle_after(idle_after)
        self.topology.late_to(late)
        chosen = self.topology.semantics if semantics is None else semantics
        return GroupedStream(self._stream, windowing(windows, chosen, retention))

    def count(self, *, name: str | None = None) -> TopologyTable[R]:
        """Count rows per key (and window).

        Rows whose value is None count in time windows and sessions. Without windows and in sliding windows they are
        dropped and counted as dropped."""
        return self._table(counting(), name)

    def reduce(self, fn: Callable[[Any, Any], Any], *, name: str | None = None) -> TopologyTable[R]:
        """`fn(old, new)` over the values of a key (in a window); the first value is the first aggregate."""
        return self._table(reducing(fn), name)

    def aggregate(
        self,
        init: Callable[[], Any],
        add: Callable[[Any, Any], Any],
        merge: Callable[[Any, Any], Any] | None = None,
        *,
        name: str | None = None,
    ) -> TopologyTable[R]:
        """`add(aggregate, value)` onto `init()`; `merge(a, b)` joins the aggregates of two sessions.

        The result None deletes the aggregate; the next row starts from `init()`."""
        return self._table(aggregating(init, add, merge), name)

    def cogroup(self, add: Callable[[Any, Any], Any]) -> CogroupedStream:
        """Aggregate several grouped streams into one table; `add(aggregate, value)` for the rows of this one."""
        callable_or_error("cogroup", add)
        return CogroupedStream(((self._stream, add),))

    @step
    def _table(self, aggregator: Aggregator, name: str | None) -> TopologyTable[R]:
        if aggregator.merge is None and isinstance(self._windowing.windows, SessionWindows):
            raise BuildError(
                "aggregate: a row that bridges two sessions merges them, so their aggregates must be merged, too; "
                "give merge(a, b)"
            )
        topology = self.topology
        node_name, store = topology.stored(name, aggregator.kind)
        stream = self._stream._ready_for(node_name, needs_key=True)
        kafka = (self._windowing.semantics if self._windowing.windows is not None else topology.semantics) == "kafka"
        node = AggregateNode(
            node_name, store, aggregator, self._windowing, old_from_init=topology.old_is_initial(kafka=kafka)
        )
        return TopologyTable(topology, topology.add(node, stream.node))


@dataclass(frozen=True, slots=True)
class CogroupedStream:
    """Several grouped streams, each with its own adder."""

    _parts: tuple[tuple[TopologyStream, Callable[[Any, Any], Any]], ...]
    _windowing: Windowing = NO_WINDOWS

    def cogroup(self, grouped: GroupedStream, add: Callable[[Any, Any], Any]) -> CogroupedStream:
        """Add another stream; `add(aggregate, value)` for its rows."""
        callable_or_error("cogroup", add)
        if not isinstance(grouped, GroupedStream):
            raise BuildError(f"cogroup: {grouped!r} is not grouped; give stream.group_by_key() or stream.group_by(…)")
        same_topology("cogroup", self._parts[0][0].topology, grouped._stream)
        return replace(self, _parts=(*self._parts, (grouped._stream, add)))

    def windowed_by(
        self,
        windows: Windows,
        semantics: Semantics | None = None,
        *,
        retention: EventSpan | None = None,
        idle_after: Duration | None = None,
        late: Any = None,
    ) -> CogroupedStream:
        """Aggregate per window. In strict mode all streams share one time; in Kafka mode each has its own, and a row of a slower
        stream may start a window anew that the store hides (docs/tables.md)."""
        topology = self._parts[0][0].topology
        topology.idle_after(idle_after)
        topology.late_to(late)
        chosen = topology.semantics if semantics is None else semantics
        return replace(self, _windowing=windowing(windows, chosen, retention))

    def aggregate(
        self, init: Callable[[], Any], merge: Callable[[Any, Any], Any] | None = None, *, name: str | None = None
    ) -> TopologyTable:
        """The table of the aggregates, which begin with `init()`. Sessions need `merge(a, b)`."""
        windows = self._windowing.windows
        if merge is None and isinstance(windows, SessionWindows):
            raise BuildError("cogroup: sessions merge, so their aggregates must be merged, too; give merge(a, b)")
        topology = self._parts[0][0].topology
        base = topology.named(name, "cogroup")
        streams = [
            stream._ready_for(f"{base}-{number}" if number else base, needs_key=True)
            for number, (stream, _) in enumerate(self._parts)
        ]
        co_partition(topology, base, *[stream.node for stream in streams])
        adds = [add for _, add in self._parts]
        kafka = (self._windowing.semantics if windows is not None else topology.semantics) == "kafka"
        if kafka and windows is not None:
            return self._in_kafka_mode(base, streams, init, adds, merge)
        needs_value = windows is None or isinstance(windows, SlidingWindows)
        tags = [
            topology.add(TagNode(f"{base}-input-{number}", number, needs_value=needs_value), stream.node)
            for number, stream in enumerate(streams)
        ]
        node = AggregateNode(base, base, tagged(init, adds, merge), self._windowing, old_from_init=kafka)
        return TopologyTable(topology, topology.add(node, *tags))

    def _in_kafka_mode(
        self, base: str, streams: list[TopologyStream], init: Any, adds: list[Any], merge: Any
    ) -> TopologyTable:
        topology = streams[0].topology
        parts: list[CogroupPartNode] = []
        for number, (stream, add) in enumerate(zip(streams, adds, strict=True)):
            aggregator = Aggregator("cogroup", init, add, merge)
            part = CogroupPartNode(f"{base}-agg-{number}", base, number, aggregator, self._windowing)
            parts.append(topology.add(part, stream.node))
            part.first = parts[0]
        return TopologyTable(topology, topology.add(CogroupNode(base, parts), *parts))


class GroupedTable(Part, Generic[R]):
    """The entries of a table, grouped by another key."""

    def __init__(self, topology: Topology, node: TopologyNode) -> None:
        self.topology = topology
        self._node = node

    def count(self, *, name: str | None = None) -> TopologyTable[R]:
        """The number of entries of each group."""
        return self._table(TableAggregator("count", _zero, lambda n, _: n + 1, lambda n, _: n - 1), name)

    def reduce(
        self, add: Callable[[Any, Any], Any], subtract: Callable[[Any, Any], Any], *, name: str | None = None
    ) -> TopologyTable[R]:
        """`add(old, value)` for an entry that joins its group, `subtract(old, value)` for one that leaves; the first is the result."""
        callable_or_error("reduce", add)
        callable_or_error("reduce: subtract", subtract)
        return self._table(TableAggregator("reduce", None, add, subtract), name)

    def aggregate(
        self,
        init: Callable[[], Any],
        add: Callable[[Any, Any], Any],
        subtract: Callable[[Any, Any], Any],
        *,
        name: str | None = None,
    ) -> TopologyTable[R]:
        """Aggregate: `init()`, `subtract(aggregate, old)` for the entry before an update, and `add(aggregate, new)` for the entry after it. None deletes."""
        for what, fn in (("init", init), ("add", add), ("subtract", subtract)):
            callable_or_error(f"aggregate: {what}", fn)
        return self._table(TableAggregator("aggregate", init, add, subtract), name)

    @step
    def _table(self, aggregator: TableAggregator, name: str | None) -> TopologyTable[R]:
        topology = self.topology
        node_name = topology.named(name, f"group-{aggregator.kind}")
        source = round_trip(topology, f"{node_name}-repartition", self._node, needs_key=False, counted=False)
        return TopologyTable(topology, topology.add(GroupedTableNode(node_name, aggregator), source))


def _zero() -> int:
    return 0
