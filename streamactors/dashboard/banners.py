"""The sentences on top of the page: what a reader should see first, the most likely cause first.

Pure: parts of a State in, banners out. A cause inside the cluster comes before the graphs that suffer from it, a partition that is late before the stage that
works on it, and what is only good to know comes last."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from streamactors.dashboard.model import BannerState, CauseState, ConsumerState, GraphState, PartitionState
from streamactors.dashboard.model_cluster import BrokerState, NodeState, SparkState

SLOW_WRITE_MS: Final = 20.0
"""A write to a log goes to the memory of the operating system: it takes microseconds while the disk keeps up."""
BUSY_DISK: Final = 0.3
LITTLE_ROOM: Final = 0.05
LATE: Final = 100
"""A partition with fewer records to do is not called late."""
LATER: Final = 5.0
"""A partition is called late if it has so many times more to do than half of the partitions of its consumer."""
LONG_BATCH_S: Final = 3.0
FIRST: Final = ("blocked", "cycle", "paused")


def banners(
    graphs: Sequence[GraphState],
    consumers: Sequence[ConsumerState] = (),
    broker: BrokerState | None = None,
    spark: Sequence[SparkState] = (),
    stalls: Iterable[str] = (),
    problems: Iterable[str] = (),
    failed: Iterable[str] = (),
) -> tuple[BannerState, ...]:
    """Return the banners. `stalls`: sentences of watchdogs; `problems`: what the page itself cannot read; `failed`: graphs
    that have ended with an error."""
    found = [*_of_broker(broker), *_of_spark(graphs, spark), *_of_partitions(graphs, consumers)]
    of_graphs = [each for graph in graphs for each in _of_graph(graph, consumers, alone=len(graphs) == 1)]
    shares = {(graph.id, cause.stage): cause.share for graph in graphs for cause in graph.causes}
    pool = [each for each in of_graphs if each.kind == "pool"]
    if pool:  # one pool serves all graphs of a system
        found.append(pool[0] if len(graphs) == 1 else BannerState("pool", True, _of_pool(graphs, len(pool))))
    found += sorted(
        (each for each in of_graphs if each.holds and each.kind != "pool"),
        key=lambda each: (each.kind not in FIRST, -shares.get((each.graph or "", each.stage or 0), 0.0)),
    )
    found += [BannerState("failed", True, text) for text in failed]
    found += [BannerState("stall", True, text) for text in stalls]
    found += [BannerState("page", True, text) for text in problems]
    return tuple(found + [each for each in of_graphs if not each.holds])


# ── graphs ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _of_graph(graph: GraphState, consumers: Sequence[ConsumerState], *, alone: bool) -> Iterator[BannerState]:
    marked = {stage.id for stage in graph.stages if stage.culprit}
    before = "" if alone else f"{graph.name}: "
    waiting = []
    held = False
    for cause in graph.causes:
        if cause.cause == "source":
            waiting.append(cause)
            continue
        holds = cause.stage in marked or cause.cause == "pool"
        held = held or holds
        yield BannerState(cause.cause, holds, before + cause.sentence, graph.id, cause.stage)
    if waiting and not held:  # else the sources wait for what is named already
        yield _of_sources(graph, waiting, consumers, before)


def _of_pool(graphs: Sequence[GraphState], waiting: int) -> str:
    share = max(cause.share for graph in graphs for cause in graph.causes if cause.cause == "pool")
    text = f"every thread of the pool is inside a turn {share:.0%} of the time, and {waiting} graphs share it"
    return f"{text}; raise max_threads of the ActorSystem, or look for functions that block"


def _of_sources(
    graph: GraphState, waiting: Sequence[CauseState], consumers: Sequence[ConsumerState], before: str
) -> BannerState:
    """Sources without elements hold nothing back if everything has been read; else it is said what they wait for."""
    first = waiting[0]
    unread = [
        each.end - each.position
        for consumer in consumers
        if consumer.graph == graph.name
        for each in consumer.partitions
        if each.end is not None and each.position is not None
    ]
    if unread and sum(unread) <= LATE:
        text = f"{before}everything in its topics has been read; it waits for new records"
        return BannerState("source", False, text, graph.id, first.stage)
    if unread:
        text = (
            f"{before}{first.sentence}; {sum(unread):,} records are still unread, so the broker or the network is slow"
        )
        return BannerState("source", True, text, graph.id, first.stage)
    others = f", and so are {len(waiting) - 1} other sources" if len(waiting) > 1 else ""
    return BannerState("source", False, f"{before}{first.sentence}{others}", graph.id, first.stage)


# ── partitions ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _of_partitions(graphs: Sequence[GraphState], consumers: Sequence[ConsumerState]) -> Iterator[BannerState]:
    """Yield a banner for a consumer of which one partition is far later than the others."""
    for consumer in consumers:
        known = [(todo, each) for each in consumer.partitions if (todo := _todo(each)) is not None]
        if len(known) < 2:
            continue
        known.sort(key=lambda pair: -pair[0])
        (most, worst), middle = known[0], known[len(known) // 2][0]
        if most < LATE or most < LATER * max(middle, 1) or known[1][0] * 2 > most:
            continue
        name = f"{worst.topic}-{worst.partition}"
        text = f"{consumer.graph}: partition {name} is late: {most:,} of its records are not done{_age(worst)}"
        others = f"at most {known[1][0]:,}" if known[1][0] else "none"
        text += f"; each of the other {len(known) - 1} has {others}{_reason(worst)}"
        graph = next((each.id for each in graphs if each.name == consumer.graph), None)
        yield BannerState("partition", True, text, graph)


def _todo(partition: PartitionState) -> int | None:
    done = partition.done if partition.done is not None else partition.committed
    end = partition.end if partition.end is not None else partition.position
    return None if end is None or done is None else max(0, end - done)


def _age(partition: PartitionState) -> str:
    return "" if not partition.lag_seconds else f", the oldest for {partition.lag_seconds:.0f} s"


def _reason(partition: PartitionState) -> str:
    if partition.paused_by == "user":
        return "; the user has paused it"
    if partition.oldest_mark is not None:
        mark = partition.oldest_mark
        return f"; the sink {mark.sink} waits for its record {mark.position:,}"
    return ""


# ── Spark ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _of_spark(graphs: Sequence[GraphState], queries: Sequence[SparkState]) -> Iterator[BannerState]:
    """Yield a banner for a query that does not keep up: its batch, or the one before, takes long, and rows come as fast as Spark writes them."""
    for query in queries:
        rows, gathered, seconds = query.writing_rows or 0, query.gathered_rows or 0, (query.writing_ms or 0) / 1000
        last_rows, last_s = query.rows or 0, (query.duration_ms or 0) / 1000
        if rows and seconds >= LONG_BATCH_S and gathered >= rows:
            what = f"it has been writing a batch of {rows:,} rows for {seconds:.0f} s, and {gathered:,} rows wait for the next one"
        elif last_s >= LONG_BATCH_S and seconds >= 1 and gathered / seconds >= 0.9 * last_rows / last_s > 0:
            what = f"its last batch of {last_rows:,} rows took {last_s:.0f} s, and {gathered:,} rows have come in {seconds:.0f} s"
        else:
            continue
        text = f"{query.graph or query.query}: Spark is slow: {what}"
        yield BannerState("spark", True, text, next((each.id for each in graphs if each.name == query.graph), None))


# ── the cluster ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _of_broker(broker: BrokerState | None) -> Iterator[BannerState]:
    if broker is None:
        return
    for node in broker.nodes:
        yield from _of_node(node)
    thin = sum(topic.under_replicated for topic in broker.topics)
    if thin:
        text = f"{thin} partition{'s have' if thin > 1 else ' has'} fewer replicas in sync than they should: a broker is gone or slow"
        yield BannerState("broker", True, text)
    leaderless = sum(each.leader is None for each in broker.partitions)
    if leaderless:
        text = f"{leaderless} partition{'s have' if leaderless > 1 else ' has'} no leader: nothing can be read or written there"
        yield BannerState("broker", True, text)


def _of_node(node: NodeState) -> Iterator[BannerState]:
    for disk in node.disks:
        if disk.error:
            yield BannerState("broker", True, f"broker {node.id}: its disk has failed at {disk.folder}: {disk.error}")
        elif disk.total_bytes and disk.free_bytes is not None and disk.free_bytes < LITTLE_ROOM * disk.total_bytes:
            share = disk.free_bytes / disk.total_bytes
            yield BannerState(
                "broker", True, f"broker {node.id}: its disk is nearly full: {share:.0%} of {disk.folder} is free"
            )
    slow_ms = node.disk_write_ms_p99
    if slow_ms is not None and slow_ms >= SLOW_WRITE_MS and (node.disk_busy or 0.0) >= BUSY_DISK:
        text = f"broker {node.id}: its disk is slow: it spends {node.disk_busy:.0%} of its time in writes, which take up to {slow_ms:,.0f} ms (p99)"
        text += "; producers and consumers wait for it"
        yield BannerState("broker", True, text)
