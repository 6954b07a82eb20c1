"""Joins from topic to topic with JSON values and changelogs, exactly once, beside a Kafka Streams application: CPU time of whole processes.

The broker has its own process. Ours sets the collector's thresholds, as docs/production.md advises a script of one's own; `streamactors run` does the
same. 1,000 keys, 90-byte values, rows 1 ms apart; stream-stream: 1 s before and after, grace 1 s. Ours decodes the
JSON values (by msgspec, which the bench environment has) and encodes them; Kafka Streams reads and writes them as text, with RocksDB."""

from __future__ import annotations

import json
import logging
import random
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks._kafka_peers import python_of
from benchmarks.windows_kafka import cpu_of, produce, streams_app
from streamactors.broker import Cluster

Row = dict[str, Any]
KEYS, REPEATS = 1_000, 3
ROWS = {"table": 150_000, "stream": 60_000, "quixstreams": 50_000}
"""Rows of the left topic, by the kind of join or the peer; the right topic has as many in a join of streams, and one for each key in a join with a table."""

OURS = """
import gc
import sys
gc.set_threshold(50_000, 20, 50)
from streamactors import ActorSystem
from streamactors.kafka import Consumer, ConsumerSettings, ProducerSettings
from streamactors.windows import JoinWindows
servers, kind, left, right, out = sys.argv[1:]
producer = ProducerSettings(servers, transactional_id=out)
topics = Consumer.topics(ConsumerSettings(servers, out, "earliest"), producer=producer, until="end")
rows, first = topics.stream(left, value="json"), lambda mine, other: mine
if kind == "table":
    joined = rows.join_table(topics.table(right, value="json", name="table"), first)
else:
    joined = rows.join(topics.stream(right, value="json"), first, JoinWindows.of("1s").with_grace("1s"), name="pairs")
joined.to(out, value="json")
with ActorSystem("joins") as system:
    topics.graph().run(system).is_shutdown.result(timeout=600)
"""


def rows_of(count: int, seed: int, step_ms: int) -> Iterator[tuple[str, bytes, int]]:
    """Rows of random keys; not from 0 on: librdkafka takes that for now."""
    dice = random.Random(seed)
    for at in range(count):
        value = json.dumps({"n": at, "text": "v" * 66}).encode()
        yield f"key-{dice.randrange(KEYS):04d}", value, 1_000_000 + at * step_ms


def beside_kafka_streams(kind: str, repeats: int = REPEATS) -> Row | None:
    """One row of the page; None where Java or Maven are missing."""
    rows, spent = ROWS[kind], []
    with Cluster(process=True) as cluster, streams_app("JoinApp") as app:
        if app is None:
            return None
        servers = cluster.bootstrap_servers
        if kind == "table":
            produce(cluster, "right", ((f"key-{n:04d}", b'{"name": "Bern"}', 1_000) for n in range(KEYS)))
        else:
            produce(cluster, "right", rows_of(rows, 2, 2))
        produce(cluster, "left", rows_of(rows, 1, 2 if kind == "stream" else 1))
        for number in range(repeats):
            out, peer = f"ours-{number}", f"theirs-{number}"
            cluster.create_topic(out, partitions=1)
            cluster.create_topic(peer, partitions=1)
            own = cpu_of([sys.executable, "-c", OURS, servers, kind, "left", "right", out])
            other = cpu_of([*app, servers, kind, "left", "right", peer, str(rows)])
            spent.append((own, other))
    total = rows * 2 if kind == "stream" else rows
    ratios = [other / own for own, other in spent]
    return {
        "name": f"stream-{kind} join, topic to topic, JSON and changelog, whole processes, {total:,} rows",
        "value": round(total / statistics.median(own for own, _ in spent)),
        "unit": "rows/CPU-s",
        "peer": f"Kafka Streams with RocksDB {round(total / statistics.median(other for _, other in spent)):,} rows/CPU-s",
        "ratio": round(statistics.median(ratios), 2),
        "spread": f"{min(ratios):.2f}–{max(ratios):.2f}",
        "target": "ratio >= 2",
    }


def beside_quix(repeats: int = REPEATS) -> Row | None:
    """One row of the page; None where the peer cannot be installed."""
    try:
        program = [str(python_of("quixstreams")), str(Path(__file__).with_name("_join_peer.py")), "quixstreams"]
    except (subprocess.SubprocessError, OSError) as error:
        print(f"  quixstreams is left out: it cannot be installed ({error})", file=sys.stderr, flush=True)
        return None
    rows, spent = ROWS["quixstreams"], []
    with Cluster(process=True) as cluster:
        servers = cluster.bootstrap_servers
        produce(cluster, "right", ((f"key-{n:04d}", b'{"name": "Bern"}', 1_000) for n in range(KEYS)))
        produce(cluster, "left", rows_of(rows, 1, 1))
        for number in range(repeats):
            out, peer = f"ours-{number}", f"theirs-{number}"
            cluster.create_topic(out, partitions=1)
            cluster.create_topic(peer, partitions=1)
            own = cpu_of([sys.executable, "-c", OURS, servers, "table", "left", "right", out])
            other = cpu_of([*program, servers, "left", "right", peer, str(rows)])
            spent.append((own, other))
    ratios = [other / own for own, other in spent]
    return {
        "name": f"stream-table join beside Quix Streams' join_asof, {rows:,} rows",
        "value": round(rows / statistics.median(own for own, _ in spent)),
        "unit": "rows/CPU-s",
        "peer": f"quixstreams {round(rows / statistics.median(other for _, other in spent)):,} rows/CPU-s",
        "ratio": round(statistics.median(ratios), 2),
        "spread": f"{min(ratios):.2f}–{max(ratios):.2f}",
    }


def run() -> list[Row]:
    """Every row of the page."""
    logging.getLogger("streamactors").setLevel(logging.ERROR)
    rows = [beside_kafka_streams("table"), beside_kafka_streams("stream"), beside_quix()]
    return [row for row in rows if row is not None]
