"""Groups and transactions beside Apache Kafka (where Java and Maven are found), with the same clients.

Each broker has a process of its own. Rounds are taken forwards and backwards in turns after one round to warm up; the ratio is
the median of the rounds' ratios."""

from __future__ import annotations

import contextlib
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks import _apache_kafka
from benchmarks._apache_kafka import ApacheKafka
from benchmarks._broker_clients import (
    cpu_seconds,
    delete_topic,
    fresh_topic,
    in_turns,
    median_and_spread,
    percentile,
    pipelined,
)
from benchmarks._group_clients import (
    OFFSET_COMMIT,
    OFFSET_FETCH,
    Raw,
    await_coordinator,
    commit_frame,
    form_group,
    fresh_name,
    heartbeating,
    idempotent_rate,
    transactional_rate,
)
from streamactors.broker.cluster.cluster import Cluster

Row = dict[str, Any]

ROUNDS = 4
KAFKA = f"Apache Kafka {_apache_kafka.VERSION}"
GROUPS, MEMBERS = 1_000, 3
OFFSETS = 100_000


def run() -> list[Row]:
    """Return the rows of every section."""
    rows: list[Row] = []
    with contextlib.ExitStack() as stack:
        ours = stack.enter_context(Cluster(process=True))
        kafka = stack.enter_context(ApacheKafka()) if _apache_kafka.available() else None
        for section in (_joins, _commits, _transactions, _heartbeats):
            rows += list(section(ours, kafka))
    rows += list(_loading())
    return rows


def _row(name: str, value: float, unit: str, **more: Any) -> Row:
    return {"name": name, "value": round(value) if value >= 100 else round(value, 2), "unit": unit, **more}


def _compared(
    name: str, unit: str, ours: Any, kafka: Any, measure: Callable[[Any], float], target: str, rounds: int = ROUNDS
) -> Row:
    """Measure both in turns, the first round for nothing; without Kafka ours alone."""
    measure(ours)
    if kafka is None:
        return _row(
            name, statistics.median(measure(ours) for _ in range(rounds)), unit, peer=f"no {KAFKA} here", target=target
        )
    measure(kafka)
    value, peer, ratio, spread = median_and_spread(list(in_turns([ours, kafka], measure, rounds)))
    shown = f"{KAFKA} {peer:,.0f}" if peer >= 100 else f"{KAFKA} {peer:.2f}"
    return _row(name, value, unit, peer=shown, ratio=round(ratio, 2), spread=spread, target=target)


def _joins(ours: Cluster, kafka: ApacheKafka | None) -> Iterator[Row]:
    def measure(peer: Any) -> float:
        took = []
        for _ in range(20):
            raws = [Raw(peer.bootstrap_servers) for _ in range(3)]
            group = fresh_name("join")
            await_coordinator(raws[0], group)
            begin = time.perf_counter()
            form_group(group, raws)
            took.append((time.perf_counter() - begin) * 1e3)
            for raw in raws:
                raw.close()
        return statistics.median(took)

    yield _compared("a group of 3 ready, no initial delay", "ms", ours, kafka, measure, "<= Kafka's")


def _commits(ours: Cluster, kafka: ApacheKafka | None) -> Iterator[Row]:
    topics = {id(peer): fresh_topic(peer.bootstrap_servers) for peer in (ours, kafka) if peer is not None}

    def prepared(peer: Any) -> bytes:
        group = fresh_name("commit")
        raw = Raw(peer.bootstrap_servers)
        await_coordinator(raw, group)
        raw.close()
        return commit_frame(group, topics[id(peer)])

    def per_cpu_second(peer: Any) -> float:
        frame = prepared(peer)
        before = cpu_seconds(peer.pid)
        rate, _ = pipelined(peer.bootstrap_servers, frame, 64, 3.0, produces=False)
        return rate * 3.0 / max(cpu_seconds(peer.pid) - before, 0.01)

    def p50(peer: Any) -> float:
        _, latencies = pipelined(peer.bootstrap_servers, prepared(peer), 1, 2.0, produces=False)
        return percentile(latencies, 50)

    yield _compared("commits, 64 in flight", "per broker CPU-second", ours, kafka, per_cpu_second, ">= 20,000")
    yield _compared("commit latency, p50", "ms", ours, kafka, p50, "<= Kafka's")


def _transactions(ours: Cluster, kafka: ApacheKafka | None) -> Iterator[Row]:
    def measure(peer: Any) -> float:
        topic = fresh_topic(peer.bootstrap_servers)
        plain = idempotent_rate(peer.bootstrap_servers, topic, 1_000, 2.5)
        transactional = transactional_rate(peer.bootstrap_servers, topic, 1_000, 2.5, 0.1)
        plain = (plain + idempotent_rate(peer.bootstrap_servers, topic, 1_000, 2.5)) / 2
        delete_topic(peer.bootstrap_servers, topic)
        return transactional / plain

    name = "transactional produce of 1 KB, a commit each 100 ms, against non-transactional"
    yield _compared(name, "times", ours, kafka, measure, ">= 0.8")


def _heartbeats(ours: Cluster, kafka: ApacheKafka | None) -> Iterator[Row]:
    def measure(peer: Any) -> float:
        """Percent of one core, the groups quiet but for their heartbeats every 3 s.

        On a busy machine fewer are sent in time; so the CPU time of those that were answered is counted up to all of them."""
        with heartbeating(peer.bootstrap_servers, GROUPS, MEMBERS, 3.0) as keep_alive:
            keep_alive(1.0)
            before = cpu_seconds(peer.pid)
            answered = keep_alive(9.0)
            used = cpu_seconds(peer.pid) - before
        all_of_them = GROUPS * MEMBERS * 3
        if answered < 0.5 * all_of_them:
            raise RuntimeError(f"only {answered} of {all_of_them} heartbeats were answered without an error")
        return used / 9.0 * 100 * max(all_of_them / answered, 1.0)

    name = f"{GROUPS:,} groups of {MEMBERS} heartbeating"
    yield _compared(name, "% of one core", ours, kafka, measure, "< 25", rounds=2)


def _loading() -> Iterator[Row]:
    """Commit 100,000 offsets in a thousand groups, stop, and take the time of three starts."""
    folder = Path(tempfile.mkdtemp(prefix="groups-"))
    partitions, groups = 100, [f"many-{number}" for number in range(OFFSETS // 100)]
    try:
        with Cluster(process=True, data=folder) as cluster:
            topic = fresh_topic(cluster.bootstrap_servers, partitions)
            raw = Raw(cluster.bootstrap_servers)
            await_coordinator(raw, groups[0])
            for group in groups:
                _commit_all(raw, group, topic, partitions)
        starts = [_start(folder, groups, topic, partitions) for _ in range(3)]
        ready, loaded, cpu = map(statistics.median, zip(*starts, strict=True))
        peer = f"ready to connect {ready:.2f} s; {cpu:.2f} CPU-seconds"
        yield _row(f"start with {OFFSETS:,} committed offsets, all served", loaded, "s", peer=peer, target="<= 2")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _start(folder: Path, groups: list[str], topic: str, partitions: int) -> tuple[float, float, float]:
    """Return the seconds until a broker can be connected to, until it serves all groups, and its CPU-seconds by then."""
    begin = time.perf_counter()
    with Cluster(process=True, data=folder) as cluster:
        ready = time.perf_counter() - begin
        raw = Raw(cluster.bootstrap_servers)
        for group in groups[:50]:  # they lie in all partitions of the offsets topic
            asked = {"group_id": group, "topics": [{"name": topic, "partition_indexes": [partitions - 1]}]}
            while (answer := raw.call(OFFSET_FETCH, 5, asked)).error_code:
                time.sleep(0.005)
            if answer.topics[0].partitions[0].committed_offset != 7:
                raise RuntimeError("an offset was lost")
        raw.close()
        return ready, time.perf_counter() - begin, cpu_seconds(cluster.pid)


def _commit_all(raw: Raw, group: str, topic: str, partitions: int) -> None:
    offsets = [{"partition_index": p, "committed_offset": 7, "committed_metadata": ""} for p in range(partitions)]
    body = {
        "group_id": group,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "topics": [{"name": topic, "partitions": offsets}],
    }
    answer = raw.call(OFFSET_COMMIT, 7, body)
    if any(p.error_code for t in answer.topics for p in t.partitions):
        raise RuntimeError("a commit was refused")
