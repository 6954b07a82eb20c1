"""Consumer groups whose assignments the broker makes, and transactions of version 2, beside Apache Kafka, with the same raw client.

Each broker has a process of its own. Heartbeats go to both at the same time, and the CPU-seconds of the same span are compared; the other rows are
taken in turns after one round to warm up, and the ratio is the median of the rounds' ratios."""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks import _apache_kafka
from benchmarks._apache_kafka import ApacheKafka
from benchmarks._broker_clients import cpu_seconds, fresh_topic
from benchmarks._coordinator_clients import (
    Member,
    await_key,
    beat_for,
    form_groups,
    leave,
    settle,
    transactions,
)
from benchmarks._group_clients import Raw, fresh_name
from benchmarks.groups import KAFKA, _compared
from streamactors.broker.cluster.cluster import Cluster

Row = dict[str, Any]

GROUPS, MEMBERS, INTERVAL_S = 1_000, 3, 5.0
MANY, PARTITIONS, LEAVING = 100, 200, 20
SETTINGS = dict.fromkeys(("group.consumer.max.session.timeout.ms", "group.consumer.session.timeout.ms"), "3600000")
"""Of both brokers: beside load it takes longer than a session to form the groups."""


def run(only: str = "") -> list[Row]:
    """Return the rows of every section, or of those whose names contain `only`."""
    sections: dict[str, Callable[[Cluster, ApacheKafka | None], Iterator[Row]]] = {
        f"{GROUPS:,} consumer groups of {MEMBERS} heartbeating": _heartbeats,
        f"{MANY} members join, {LEAVING} leave": _joins,
        "transactions of one record": _transactions,
    }
    rows: list[Row] = []
    with contextlib.ExitStack() as stack:
        ours = stack.enter_context(Cluster(process=True, config=SETTINGS))
        kafka = stack.enter_context(ApacheKafka(SETTINGS)) if _apache_kafka.available() else None
        for name, section in sections.items():
            if only in name:
                rows += list(section(ours, kafka))
    return rows


def _heartbeats(ours: Cluster, kafka: ApacheKafka | None) -> Iterator[Row]:
    brokers: list[Any] = [ours] if kafka is None else [ours, kafka]
    fleets: list[list[Member]] = []
    for broker in brokers:
        topic = fresh_topic(broker.bootstrap_servers, MEMBERS)
        formed = form_groups(broker.bootstrap_servers, topic, MEMBERS, GROUPS, MEMBERS)
        fleets.append([member for group in formed for member in group])
    pids = [broker.pid for broker in brokers]
    beat_for(fleets, INTERVAL_S, 10.0, pids)
    shares: list[list[float]] = []
    for _ in range(4):
        answers = beat_for(fleets, INTERVAL_S, 10.0, pids)
        wanted = GROUPS * MEMBERS * 10.0 / INTERVAL_S
        if min(count for count, _ in answers) < 0.5 * wanted:
            raise RuntimeError(f"of {wanted:.0f} heartbeats were answered without an error: {answers}")
        shares.append([cpu / count * wanted / 10.0 * 100 for count, cpu in answers])
    for member in (each for fleet in fleets for each in fleet):
        member.raw.close()
    row: Row = {
        "name": f"{GROUPS:,} consumer groups of {MEMBERS} heartbeating every {INTERVAL_S:.0f} s: CPU of the broker",
        "value": round(statistics.median(each[0] for each in shares), 2),
        "unit": "% of one core",
        "target": "<= Kafka's",
    }
    if kafka is not None:
        ratios = [mine / theirs for mine, theirs in shares]
        row["peer"] = f"{KAFKA} {statistics.median(each[1] for each in shares):.2f}"
        row |= {"ratio": round(statistics.median(ratios), 2), "spread": f"{min(ratios):.2f}-{max(ratios):.2f}"}
    yield row


def _joins(ours: Cluster, kafka: ApacheKafka | None) -> Iterator[Row]:
    topics = {id(peer): fresh_topic(peer.bootstrap_servers, PARTITIONS) for peer in (ours, kafka) if peer is not None}
    left: dict[int, list[float]] = {key: [] for key in topics}
    cost: dict[int, list[float]] = {key: [] for key in topics}

    def measure(peer: Any) -> float:
        group = fresh_name("many")
        members = [Member(Raw(peer.bootstrap_servers), group, topics[id(peer)], PARTITIONS) for _ in range(MANY)]
        await_key(members[0].raw, 0, group)
        before = cpu_seconds(peer.pid)
        joined = settle(members)
        cost[id(peer)].append(cpu_seconds(peer.pid) - before)
        leave(members[:LEAVING])
        left[id(peer)].append(settle(members[LEAVING:]))
        leave(members[LEAVING:])
        return joined

    name = f"{MANY} members join a consumer group of {PARTITIONS} partitions, all settled"
    yield _compared(name, "s", ours, kafka, measure, "<= Kafka's")
    yield _beside(f"{name}: CPU of the broker", "s", cost, ours, kafka)
    yield _beside(f"{LEAVING} of {MANY} members leave, the others settled", "s", left, ours, kafka)


def _beside(name: str, unit: str, measured: dict[int, list[float]], ours: Cluster, kafka: ApacheKafka | None) -> Row:
    """Return the row of a figure that was taken beside another one; less is better, and the first of each is to warm up."""
    mine = measured[id(ours)][1:]
    row: Row = {"name": name, "value": round(statistics.median(mine), 2), "unit": unit, "target": "<= Kafka's"}
    if kafka is not None:
        theirs = measured[id(kafka)][1:]
        ratios = [a / b for a, b in zip(mine, theirs, strict=True)]
        row["peer"] = f"{KAFKA} {statistics.median(theirs):.2f}"
        row |= {"ratio": round(statistics.median(ratios), 2), "spread": f"{min(ratios):.2f}-{max(ratios):.2f}"}
    return row


def _transactions(ours: Cluster, kafka: ApacheKafka | None) -> Iterator[Row]:
    topics = {id(peer): fresh_topic(peer.bootstrap_servers) for peer in (ours, kafka) if peer is not None}
    for producers, offsets, name in (
        (1, False, "transactions of one record, one producer"),
        (10, True, "transactions of one record and one offset, ten producers at once"),
    ):
        cost: dict[int, list[float]] = {key: [] for key in topics}

        def measure(
            peer: Any, producers: int = producers, offsets: bool = offsets, cost: dict[int, list[float]] = cost
        ) -> float:
            before = cpu_seconds(peer.pid)
            rate, ended = transactions(peer.bootstrap_servers, topics[id(peer)], producers, 3.0, offsets=offsets)
            cost[id(peer)].append((cpu_seconds(peer.pid) - before) / ended * 1e3)
            return rate

        yield _compared(name, "a second", ours, kafka, measure, ">= 1.0")
        yield _beside(f"{name}: CPU of the broker", "ms each", cost, ours, kafka)
