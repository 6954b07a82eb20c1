"""Three brokers with replication beside three nodes of Apache Kafka on the same machine, with the same clients.

Each node is a process of its own. Throughput and latency are taken in rounds, forwards and backwards in turns after one round to warm up; the ratio is
the median of the rounds' ratios. Clusters that lose a broker are fresh ones."""

from __future__ import annotations

import contextlib
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks import _apache_kafka
from benchmarks._apache_cluster import ApacheCluster
from benchmarks._broker_clients import (
    cpu_seconds,
    in_turns,
    median_and_spread,
    percentile,
    pipelined,
    produce,
    produce_frame,
    resident_mb,
    write_once,
)
from benchmarks._group_clients import fresh_name
from streamactors.broker.cluster.cluster import Cluster
from streamactors.broker.cluster.view import View
from streamactors.broker.metadata.image import NO_LEADER

Row = dict[str, Any]
Three = Cluster | ApacheCluster

ROUNDS = 5
VOLUMES = {1_000: 100_000, 65_536: 2_000}  # size of a value: how many a round
MANY = 1_000  # partitions
IDLE_S = 15.0
FAILOVERS = 3
KAFKA = f"three of Apache Kafka {_apache_kafka.VERSION}"
QUICK_INTERVALS = {
    "broker.heartbeat.interval.ms": "200",
    "broker.session.timeout.ms": "2000",
    "replica.lag.time.max.ms": "2000",
}
"""The intervals of `Cluster(brokers=3)`, for Apache Kafka."""


def run() -> list[Row]:
    """Return the rows of every section."""
    rows: list[Row] = []
    with contextlib.ExitStack() as stack:
        begin = time.monotonic()
        ours = stack.enter_context(Cluster(brokers=3))
        up_s = time.monotonic() - begin
        kafka = stack.enter_context(ApacheCluster()) if _apache_kafka.available() else None
        rows.append(_once("up: three nodes serve clients", "s", up_s, kafka and kafka.up_s, "<= 2"))
        time.sleep(3)  # what starts late has started
        rows.append(_once("memory of all three, idle", "MB", _memory(ours), kafka and _memory(kafka), "<= 120"))
        rows += _throughput(ours, kafka)
        rows += _followers(ours, kafka)
    rows += _failovers()
    return rows


def _memory(cluster: Three) -> float:
    return sum(resident_mb(pid) for pid in cluster.pids.values())


def _topic(cluster: Three, partitions: int, leader: int) -> str:
    """Create a topic with three replicas whose partitions are all led by one broker; return when every replica is in sync."""
    name = fresh_name("cluster")
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    replicas = [leader, *(each for each in (1, 2, 3) if each != leader)]
    topic = NewTopic(name, partitions, replica_assignment=[replicas] * partitions)
    admin.create_topics([topic], operation_timeout=60)[name].result(90)
    _await(admin, name, lambda found: len(found) == partitions and all(len(each.isrs) == 3 for each in found))
    return name


def _await(admin: AdminClient, topic: str, there: Callable[[list[Any]], bool]) -> None:
    give_up = time.monotonic() + 120
    while not there(list(admin.list_topics(topic, timeout=60).topics[topic].partitions.values())):
        if time.monotonic() > give_up:
            raise RuntimeError(f"{topic}: its partitions do not become what this benchmark needs")
        time.sleep(0.02)


def _throughput(ours: Cluster, kafka: ApacheCluster | None) -> Iterator[Row]:
    topics = {id(each): _topic(each, 1, leader=2) for each in (ours, kafka) if each is not None}

    def rate(size: int, count: int) -> Callable[[Three], float]:
        return lambda each: produce(each.bootstrap_servers, topics[id(each)], size, count, acks="all")

    def p99(size: int) -> Callable[[Three], float]:
        def measure(each: Three) -> float:
            frame = produce_frame(topics[id(each)], size, acks=-1)
            return percentile(pipelined(_address(each, 2), frame, 1, 3.0)[1], 99)

        return measure

    for size, count in VOLUMES.items():
        shown = f"{size // 1_000} KB"
        yield _compared(f"produce {shown}, acks=all, 3 replicas", "records/s", ours, kafka, rate(size, count), ">= 1.3")
        yield _compared(f"produce {shown}, acks=all, one by one, p99", "ms", ours, kafka, p99(size), "<= Kafka's")


def _address(cluster: Three, node_id: int) -> str:
    return cluster.bootstrap_servers.split(",")[node_id - 1]


def _followers(ours: Cluster, kafka: ApacheCluster | None) -> Iterator[Row]:
    """The CPU time of a broker that follows 1,000 idle partitions of one leader."""

    def idle(each: Three) -> float:
        _topic(each, MANY, leader=2)
        time.sleep(5)
        before = cpu_seconds(each.pids[3])
        time.sleep(IDLE_S)
        return 100 * (cpu_seconds(each.pids[3]) - before) / IDLE_S

    name = f"a follower of {MANY:,} idle partitions"
    yield _once(name, "% of one core", idle(ours), kafka and idle(kafka), "<= Kafka's")


def _failovers() -> Iterator[Row]:
    """A leader dies: the time until a write is acknowledged again, and until 1,000 partitions have another leader."""
    for title, quick, controls, target in (
        ("the intervals of Cluster(brokers=3)", True, False, "<= 1.0"),
        ("the same intervals, and the leader is the active controller too", True, True, ""),
        ("Apache Kafka's intervals", False, False, "<= Kafka's"),
    ):
        ours = [_kill_a_leader(_ours(quick), controls) for _ in range(FAILOVERS)]
        times = FAILOVERS if _apache_kafka.available() else 0
        kafka = [_kill_a_leader(_apache(quick), controls) for _ in range(times)]
        named, acked = map(statistics.median, zip(*ours, strict=True))
        named_peer, acked_peer = map(statistics.median, zip(*kafka, strict=True)) if kafka else (None, None)
        yield _once(f"kill -9 of a leader until a broker names the next one, {title}", "s", named, named_peer, "")
        yield _once(f"the same until librdkafka's next write is acknowledged, {title}", "s", acked, acked_peer, target)
    moved = _kill_many(_ours(True))
    peer = _kill_many(_apache(True)) if _apache_kafka.available() else None
    yield _once(f"kill -9 of the leader of {MANY:,} partitions until all take writes", "s", moved, peer, "<= 3")


def _ours(quick: bool) -> Cluster:
    slow = {
        "broker.heartbeat.interval.ms": 2_000,
        "broker.session.timeout.ms": 9_000,
        "replica.lag.time.max.ms": 30_000,
        "controller.fence.closed.connections": False,
    }
    return Cluster(brokers=3, config={} if quick else slow)


def _apache(quick: bool) -> ApacheCluster:
    return ApacheCluster(QUICK_INTERVALS if quick else {})


def _leader(cluster: Three, controls: bool) -> tuple[int, int]:
    """Return a node that is the active controller, or one that is not, and the node that follows it first."""
    controller = View(lambda: cluster.bootstrap_servers.split(",")).controller()
    leader = next(each for each in (1, 2, 3) if (each == controller) == controls)
    return leader, next(each for each in (1, 2, 3) if each != leader)


def _kill_a_leader(cluster: Three, controls: bool) -> tuple[float, float]:
    """Write every 5 ms to a leader that is the active controller, or is not. Return the seconds from the death of the leader until a live broker names another one, and until a
    write is acknowledged. librdkafka asks for the new leader once a second."""
    with cluster:
        leader, other = _leader(cluster, controls)
        topic = _topic(cluster, 1, leader=leader)
        producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "acks": "all",
                "linger.ms": 0,
                "retry.backoff.max.ms": 100,
                "log_level": 0,
            }
        )
        acked: list[float] = []
        ended = threading.Event()

        def acknowledged(error: Any, _: Any) -> None:
            if error is None:
                acked.append(time.monotonic())

        def write() -> None:
            while not ended.is_set():
                producer.produce(topic, b"x", partition=0, on_delivery=acknowledged)
                producer.poll(0.005)
            producer.flush(60)

        writer = threading.Thread(target=write)
        writer.start()
        time.sleep(2)
        killed = time.monotonic()
        cluster.kill(leader)
        live = View(lambda: [_address(cluster, other)])
        while live.partition(topic, 0).leader in (leader, NO_LEADER):
            time.sleep(0.002)
        named = time.monotonic() - killed
        give_up = killed + 60
        while time.monotonic() < give_up and not (acked and acked[-1] > killed + 0.05):
            time.sleep(0.005)
        ended.set()
        writer.join()
        after = [each for each in acked if each > killed + 0.05]
        return named, min(after) - killed


def _kill_many(cluster: Three) -> float:
    """Return the seconds until every partition of a dead leader takes a write again."""
    with cluster:
        leader, other = _leader(cluster, controls=False)
        topic = _topic(cluster, MANY, leader=leader)
        admin = AdminClient({"bootstrap.servers": _address(cluster, other), "log_level": 0})
        admin.list_topics(timeout=30)
        begin = time.monotonic()
        cluster.kill(leader)
        _await(admin, topic, lambda found: all(each.leader == other for each in found))
        write_once(_address(cluster, other), topic, MANY)
        return time.monotonic() - begin


def _compared(
    name: str, unit: str, ours: Cluster, kafka: ApacheCluster | None, measure: Callable[[Any], float], target: str
) -> Row:
    """Measure both in turns, the first round for nothing; without Kafka ours alone."""
    measure(ours)
    if kafka is None:
        value = statistics.median(measure(ours) for _ in range(ROUNDS))
        return {"name": name, "value": round(value, 2), "unit": unit, "peer": f"no {KAFKA} here", "target": target}
    measure(kafka)
    value, peer, ratio, spread = median_and_spread(list(in_turns([ours, kafka], measure, ROUNDS)))
    return {
        "name": name,
        "value": round(value) if value >= 100 else round(value, 2),
        "unit": unit,
        "peer": f"{KAFKA} {peer:,.0f}" if peer >= 100 else f"{KAFKA} {peer:.2f}",
        "ratio": round(ratio, 2),
        "spread": spread,
        "target": target,
    }


def _once(name: str, unit: str, value: float, peer: float | None, target: str) -> Row:
    return {
        "name": name,
        "value": round(value, 2),
        "unit": unit,
        "peer": f"{KAFKA} {peer:.2f}" if peer else f"no {KAFKA} here",
        "ratio": round(value / peer, 2) if peer else None,
        "spread": "",
        "target": target,
    }
