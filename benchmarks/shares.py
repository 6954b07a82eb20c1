"""Share groups beside Apache Kafka (where Java and Maven are found): fetch and acknowledge 1 KB records, with the same clients.

Each broker has a process of its own. A request of the raw client acknowledges up to 500 records and fetches the next ones. Rounds are taken
forwards and backwards in turns after two to warm up; the ratio is the median of the rounds' ratios."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks import _apache_kafka
from benchmarks._apache_kafka import ApacheKafka
from benchmarks._broker_clients import cpu_seconds, fresh_topic, median_and_spread, produce
from benchmarks._share_clients import java_share_rate, share_rate
from streamactors.broker.cluster.cluster import Cluster

Row = dict[str, Any]

ROUNDS = 4
KAFKA = f"Apache Kafka {_apache_kafka.VERSION}"
RECORDS, FETCHED, SIZE = 60_000, 30_000, 1_024
MODES = ("whole batches", "record limit")
BATCH_BYTES = 16 << 10
"""The default of Java's producer."""


def run(only: str = "") -> list[Row]:
    """Return the rows of every section, or those with `only` in their names."""
    rows: list[Row] = []
    with contextlib.ExitStack() as stack:
        ours = stack.enter_context(Cluster(process=True))
        kafka = stack.enter_context(ApacheKafka()) if _apache_kafka.available() else None
        peers = [ours] if kafka is None else [ours, kafka]
        topics = {}
        for peer in peers:
            topics[id(peer)] = fresh_topic(peer.bootstrap_servers)
            produce(peer.bootstrap_servers, topics[id(peer)], SIZE, RECORDS, **{"batch.size": BATCH_BYTES})
        for name, measure in _sections(topics):
            if only in name:
                rows += _compared(name, peers, measure)
    return rows


def _sections(topics: dict[int, str]) -> Iterator[tuple[str, Callable[[Any], float]]]:
    for mode in MODES:
        yield (
            f"share fetch + acknowledge of 1 KB, {mode}",
            lambda peer, mode=mode: share_rate(peer.bootstrap_servers, topics[id(peer)], FETCHED, mode),
        )
    yield (
        "share fetch + acknowledge of 1 KB, Java's share consumer",
        lambda peer: java_share_rate(peer.bootstrap_servers, topics[id(peer)], FETCHED),
    )


def _compared(name: str, peers: list[Any], measure: Callable[[Any], float]) -> Iterator[Row]:
    """Measure both in turns; yield the records per second, and per CPU-second of the broker."""
    for _ in range(2):
        for peer in peers:
            measure(peer)
    used: list[list[tuple[float, float]]] = []
    for peers_in_turn in ([*peers], [*reversed(peers)]) * (ROUNDS // 2):
        found = {}
        for peer in peers_in_turn:
            before = cpu_seconds(peer.pid)
            rate = measure(peer)
            found[id(peer)] = rate, FETCHED / max(cpu_seconds(peer.pid) - before, 0.01)
        used.append([found[id(peer)] for peer in peers])
    for at, unit in enumerate(("records/s", "records per broker CPU-second")):
        yield _row(name if not at else f"{name}: CPU", unit, [[each[at] for each in one] for one in used])


def _row(name: str, unit: str, rounds: list[list[float]]) -> Row:
    if len(rounds[0]) == 1:
        value = sorted(each[0] for each in rounds)[len(rounds) // 2]
        return {"name": name, "value": round(value), "unit": unit, "peer": f"no {KAFKA} here", "target": ">= 1.0"}
    value, peer, ratio, spread = median_and_spread(rounds)
    shown = f"{KAFKA} {peer:,.0f}"
    return {
        "name": name,
        "value": round(value),
        "unit": unit,
        "peer": shown,
        "ratio": round(ratio, 2),
        "spread": spread,
        "target": ">= 1.0",
    }
