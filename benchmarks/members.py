"""`streamactors run --processes 2`: the CPU of a graph that decodes JSON from a topic of 4 partitions, beside the same command with one process.

CPU seconds are those of the command and its members, less those of a run over a topic with hardly a record (the start of the processes)."""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import streamactors
from benchmarks._rows import Row, row
from streamactors import Source
from streamactors.broker import Cluster
from streamactors.kafka import Producer, ProducerRecord, ProducerSettings

REPEAT = 5
PARTITIONS = 4
RECORDS = 1_500_000
FEW = 8

GRAPH = """
import atexit, json, os
from streamactors import Keep, Sink
from streamactors.kafka import Consumer, ConsumerSettings, Subscriptions

settings = ConsumerSettings(
    os.environ["SERVERS"], os.environ["GROUP"], "earliest",
    properties={"session.timeout.ms": 6000, "heartbeat.interval.ms": 50},
)
taken = [0]

def decoded(record):
    taken[0] += 1
    return json.loads(record.value)

records = Consumer.source(settings, Subscriptions.topics(os.environ["TOPIC"]), until="end")
graph = records.map(decoded).filter(lambda row: row["amount"] >= 0).to_mat(Sink.ignore(), Keep.right)
atexit.register(lambda: os.write(1, f"{taken[0]} records\\n".encode()))
"""


def fill(cluster: Cluster, topic: str, n: int) -> None:
    cluster.create_topic(topic, partitions=PARTITIONS)
    rows: Iterator[dict[str, Any]] = ({"id": i, "name": f"customer {i % 997}", "amount": i * 0.25} for i in range(n))
    written = Source.from_iterable(rows).map(
        lambda found: ProducerRecord(topic, json.dumps(found).encode(), partition=found["id"] % PARTITIONS)
    )
    written.run_with(Producer.plain_sink(ProducerSettings(cluster.bootstrap_servers))).result(300)


def ran(servers: str, graph: Path, topic: str, group: str, processes: int) -> tuple[float, float, list[int]]:
    """Run the command to its end; return (CPU, wall) in seconds, and how many records each process took."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    root = str(Path(streamactors.__file__).parents[1])
    found = subprocess.run(
        [sys.executable, "-m", "streamactors.cli.main", "run", f"{graph}:graph"]
        + (["--processes", str(processes)] if processes > 1 else []),
        env={**os.environ, "PYTHONPATH": root, "SERVERS": servers, "GROUP": group, "TOPIC": topic},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=300,
    )
    wall = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime
    return cpu, wall, [int(line.split()[0]) for line in found.stdout.splitlines() if line.endswith(" records")]


def run() -> list[Row]:
    """Return the row of the CPU, and that of the wall time."""
    cpu: dict[int, list[float]] = {1: [], 2: []}
    wall: dict[int, list[float]] = {1: [], 2: []}
    shares = []
    with Cluster(process=True) as cluster, tempfile.TemporaryDirectory() as folder:
        graph = Path(folder) / "pipeline.py"
        graph.write_text(GRAPH)
        fill(cluster, "many", RECORDS)
        fill(cluster, "few", FEW)
        for i in range(REPEAT):
            for processes in (1, 2):
                servers = cluster.bootstrap_servers
                few = ran(servers, graph, "few", f"few-{processes}-{i}", processes)
                many = ran(servers, graph, "many", f"many-{processes}-{i}", processes)
                cpu[processes].append(many[0] - few[0])
                wall[processes].append(many[1] - few[1])
                if processes == 2:
                    shares.append(max(many[2]) / sum(many[2]))
    name = f"JSON from {PARTITIONS} partitions, 2 processes"
    each = {processes: statistics.median(found) / RECORDS * 1e6 for processes, found in cpu.items()}
    return [
        row(
            f"{name}: CPU of a record",
            f"{each[2]:.2f}",
            f"µs; the busier process took {statistics.median(shares):.0%} of the records",
            f"one process: {each[1]:.2f} µs",
            [two / one for two, one in zip(cpu[2], cpu[1], strict=True)],
            "<= 1.1",
        ),
        row(
            f"{name}: wall time",
            RECORDS / statistics.median(wall[2]) / 1e3,
            "k records/s",
            f"one process: {RECORDS / statistics.median(wall[1]) / 1e3:.0f} k",
            [one / two for two, one in zip(wall[2], wall[1], strict=True)],
            "ratio >= 1.8 where there are four cores",
        ),
    ]
