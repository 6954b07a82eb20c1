"""How joins are put together from nodes, for the fluent classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

from streamactors.durations import Duration, EventSpan, event_ms, whole_ms
from streamactors.errors import BuildError
from streamactors.stages.checks import WITHOUT_A_CALL, at_least, no_coroutine_function, positive
from streamactors.windows.definitions.join_windows import JoinWindows
from streamactors.windows.definitions.names import checked_topic
from streamactors.windows.joins.stream_stream import JoinSpec
from streamactors.windows.joins.table_table import How, TableJoin
from streamactors.windows.topology.model import SourceNode, Topology, TopologyNode, above
from streamactors.windows.topology.nodes.foreign_nodes import (
    ForeignResultNode,
    ResolveNode,
    SubscribeNode,
    SubscriptionsNode,
    TellNode,
)
from streamactors.windows.topology.nodes.join_nodes import LookupNode, StreamJoinNode
from streamactors.windows.topology.nodes.record_nodes import MergeNode, RepartitionNode
from streamactors.windows.topology.nodes.table_join_nodes import (
    SelfTableJoinNode,
    TableJoinNode,
    TableJoinSideNode,
    base_of,
)
from streamactors.windows.topology.nodes.table_nodes import TableNode, TableSourceNode

RUNS: Final = ("run_with", "run", "run_iter", "run_async_iter", "via", "to_mat")
"""Methods of Source that users try on a part of a topology, with the right call."""

Fn = Callable[[Any, Any], Any]


def callable_or_error(where: str, fn: object, *, awaited: bool = False) -> None:
    """Raise BuildError if `fn` cannot be called, or is a coroutine function and nothing awaits it."""
    if not callable(fn):
        raise BuildError(f"{where}: {fn!r} is not callable; {WITHOUT_A_CALL if fn is None else 'give a function'}")
    if not awaited:
        no_coroutine_function(where, fn)


def choice(where: str, how: object, choices: tuple[str, ...]) -> str:
    """Check the parameter `how`."""
    if how not in choices:
        raise BuildError(f"{where}: how is {how!r}; choose one of {', '.join(map(repr, choices))}")
    return str(how)


def same_topology(where: str, topology: Topology, other: object) -> None:
    """Raise BuildError if a stream or table belongs to another topology."""
    if getattr(other, "topology", None) is not topology:
        raise BuildError(f"{where}: {other!r} is not part of the same topology; make both from one Topics")


def co_partition(topology: Topology, name: str, *nodes: TopologyNode) -> None:
    """Note that the topics above these nodes must have equal numbers of partitions."""
    topics = frozenset(
        each.topic for node in nodes for each in above(node) if isinstance(each, SourceNode) and each.partitioned
    )
    topology.co_partitioned.append((name, topics))


def round_trip(topology: Topology, topic: str, node: TopologyNode, *, needs_key: bool, counted: bool) -> SourceNode:
    """Send the rows of a node through an internal topic, and return the source of what comes back."""
    if topology.prefix:
        checked_topic(f"the repartition topic {topic!r}", topology.prefix.removesuffix("-"), topic)
    topic = topology.prefix + topic
    entry = RepartitionNode(topology.named(f"{topic}-sink", "sink"), topic, needs_key=needs_key, counted=counted)
    topology.add(entry, node)
    source = SourceNode(topology.named(f"{topic}-source", "source"), topic, internal=True)
    topology.sources[topic] = topology.add(source)
    return source


def keep_rows_without_key(topology: Topology, node: TopologyNode) -> None:
    """Let the repartition topics above a node keep rows whose key is None, as Kafka Streams does above a left or outer join."""
    entries = {each.topic: each for each in topology.nodes if isinstance(each, RepartitionNode)}
    seen: set[TopologyNode] = set()
    waiting = [node]
    while waiting:
        for each in above(waiting.pop()):
            entry = entries.get(each.topic) if isinstance(each, SourceNode) else None
            if entry is not None and entry not in seen:
                seen.add(entry)
                entry.needs_key = False
                waiting.append(entry)


def pair(value: Any, found: Any) -> tuple[Any, Any]:
    """Return both."""
    return value, found


def grace_within_history(grace: EventSpan | None, table: TableNode) -> int | None:
    """Return the grace of a stream-table join in ms. Raises BuildError if the table does not keep versions for that long."""
    if grace is None:
        return None
    grace_ms = event_ms(grace, "join_table: grace")
    if not table.versioned:
        raise BuildError("join_table: grace needs a table with history; make it with topics.table(…, history=…)")
    if table.history_ms is not None and table.history_ms < grace_ms:
        raise BuildError(
            f"join_table: grace is {grace_ms} ms, but the table's history is {table.history_ms} ms: the version of a row that "
            "waits would be gone; make the history at least as long"
        )
    return grace_ms


def lookup_node(
    name: str,
    fn: object,
    joiner: object,
    key: object,
    left: bool,
    ttl: Duration | None,
    missing_ttl: Duration | None,
    max_concurrency: int,
    max_entries: int,
) -> LookupNode:
    """Return the node of a lookup, with its parameters checked."""
    callable_or_error("join_lookup", fn, awaited=True)
    callable_or_error("join_lookup: joiner", joiner)
    if key is not None:
        callable_or_error("join_lookup: key", key)
    ttl_ms = None if ttl is None else whole_ms(ttl, "join_lookup: ttl")
    return LookupNode(
        name,
        cast("Callable[[Any], Any]", fn),
        cast("Fn", joiner),
        left=left,
        key=cast("Callable[[Any], Any] | None", key),
        most_calls=positive("join_lookup", "max_concurrency", max_concurrency),
        most_answers=at_least("join_lookup", "max_entries", max_entries, 0),
        ttl_ms=ttl_ms,
        missing_ttl_ms=ttl_ms if missing_ttl is None else whole_ms(missing_ttl, "join_lookup: missing_ttl"),
    )


def join_streams(
    topology: Topology,
    name: str,
    left: TopologyNode,
    right: TopologyNode,
    fn: Fn,
    windows: JoinWindows,
    how: str,
    *,
    kafka: bool,
) -> TopologyNode:
    """Add a stream-stream join."""
    if windows.grace_ms is None:
        raise BuildError(
            'join: the windows have no grace period: say how late a row may come with .with_grace("30s"), or '
            ".with_no_grace()"
        )
    spec = JoinSpec(windows, fn, left_nulls=how != "inner", right_nulls=how == "outer")
    co_partition(topology, name, left, right)
    one = topology.add(StreamJoinNode(name, "left", spec, kafka=kafka), left)
    two = topology.add(StreamJoinNode(name, "right", spec, kafka=kafka), right)
    for store in ("left", "right", *(["waiting"] if spec.left_nulls else [])):
        topology.keep(f"{name}-{store}", one)
    return topology.add(MergeNode(f"{name}-merge"), one, two)


def join_tables(
    topology: Topology,
    name: str,
    store: str | None,
    left: TableNode,
    right: TableNode,
    fn: Fn,
    how: str,
    *,
    kafka: bool,
) -> TableNode:
    """Add a table-table join."""
    join = TableJoin(fn, cast("How", how))
    co_partition(topology, name, left, right)
    if how != "inner" or not kafka:
        left.enable_old(True)
    if how == "outer" or not kafka:
        right.enable_old(True)
    left.materialize()
    right.materialize()
    (base, left_views), (other_base, right_views) = base_of(left), base_of(right)
    if base is other_base and not kafka:
        base.enable_old(True)
        alone = topology.add(SelfTableJoinNode(f"{name}-self", join, left_views, right_views), base)
        return topology.add(TableJoinNode(name, store, join, left, right, ()), alone)
    one = TableJoinSideNode(f"{name}-join-this", join, left, right, is_left=True, kafka=kafka)
    two = TableJoinSideNode(f"{name}-join-other", join, right, left, is_left=False, kafka=kafka)
    topology.add(one, left)
    topology.add(two, right)
    return topology.add(TableJoinNode(name, store, join, left, right, (one, two)), one, two)


def join_by_foreign_key(
    topology: Topology,
    name: str,
    store: str | None,
    left: TableNode,
    right: TableNode,
    foreign_key: Fn,
    fn: Fn,
    how: str,
    *,
    kafka: bool,
) -> TableSourceNode:
    """Add a join by foreign key. Answers go back to the partition of the left row."""
    is_left = how == "left"
    right.enable_old(True)
    left.enable_old(True)
    subscribe = topology.add(SubscribeNode(f"{name}-subscribe", left, foreign_key, left=is_left), left)
    asked = round_trip(topology, f"{name}-subscription-registration-topic", subscribe, needs_key=False, counted=False)
    right.materialize()
    subscriptions = topology.add(SubscriptionsNode(f"{name}-subscriptions", f"{name}-subscription-store", right), asked)
    tell = topology.add(TellNode(f"{name}-tell", right, subscriptions, kafka=kafka), right)
    co_partition(topology, name, asked, right)
    answers = topology.add(MergeNode(f"{name}-answers"), subscriptions, tell)
    answered = round_trip(topology, f"{name}-subscription-response-topic", answers, needs_key=False, counted=False)
    co_partition(topology, name, answered, left)
    left.materialize()
    resolve = topology.add(ResolveNode(f"{name}-resolve", left, fn, left=is_left, kafka=kafka), answered)
    result = ForeignResultNode(name, name if store is None else store, store is not None, [left, right], kafka=kafka)
    return topology.add(result, resolve)
