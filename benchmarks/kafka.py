"""Kafka connector: sources and sinks beside a bare confluent-kafka loop with the same settings, lambdas and commit cadence.

The broker has its own process; CPU seconds are those of this process, each repetition right beside its peer. Every ratio is bare over ours:
1 is the speed of the loop a user would write by hand."""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable
from threading import Thread
from typing import Any

from confluent_kafka import Producer

from benchmarks import _kafka_bare as bare
from benchmarks import _kafka_streams as ours
from benchmarks._kafka_peers import installed
from streamactors import ActorSystem
from streamactors.broker import Cluster

Row = dict[str, Any]
REPEAT = 5


def fill(cluster: Cluster, topic: str, n: int, size: int, partitions: int = 1) -> str:
    """Write n records of `size` bytes, round robin."""
    cluster.create_topic(topic, partitions=partitions)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 20, "batch.size": 1_000_000})
    value = b"0" * size
    for i in range(n):
        while True:
            try:
                producer.produce(topic, value, partition=i % partitions)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    producer.flush()
    return topic


def compared(name: str, n: int, peer: Callable[[], Any], own: Callable[[], Any], target: str) -> Row:
    """Run both, alternating; the ratio is bare seconds of CPU over ours. A side in another process returns (CPU, wall) in seconds."""
    cpu, wall, best = [], [], 0.0
    for _ in range(REPEAT):
        figures = []
        for side in (peer, own):
            started, used = time.perf_counter(), time.process_time()
            told = side()
            here = (time.process_time() - used, time.perf_counter() - started)
            figures.append(told if isinstance(told, tuple) else here)
        (bare_cpu, bare_wall), (our_cpu, our_wall) = figures
        cpu.append(bare_cpu / our_cpu)
        wall.append(bare_wall / our_wall)
        best = max(best, n / our_wall)
    ratio = statistics.median(cpu)
    row = {
        "name": name,
        "value": round(best),
        "unit": "records/s (wall)",
        "peer": "bare confluent-kafka",
        "ratio": f"{ratio:.2f} CPU, {statistics.median(wall):.2f} wall",
        "spread": f"{min(cpu):.2f}-{max(cpu):.2f} CPU, {min(wall):.2f}-{max(wall):.2f} wall",
        "target": target,
    }
    print("  " + " | ".join(map(str, row.values())), file=sys.stderr, flush=True)
    return row


def reads(cluster: Cluster, system: ActorSystem, n: int) -> list[Row]:
    """Sources of one partition, of eight, and the peers'."""
    servers = cluster.bootstrap_servers
    rows = []
    for size, target in ((100, "0.75 CPU, 0.65 wall"), (1_000, "0.8 CPU, 0.7 wall")):
        topic = fill(cluster, f"read-{size}", n, size)
        for kind, name, wanted in (
            ("plain", "plain source", target),
            ("marks", "Consumer.source, commits by marks", "0.7 CPU"),
            ("committable", "committable source, Committer.sink", "0.6 CPU"),
        ):
            rows.append(
                compared(
                    f"{name}, {size} B",
                    n,
                    lambda kind=kind: bare.read(servers, topic, n, commits=kind != "plain"),
                    lambda kind=kind: ours.read(system, servers, topic, kind),
                    wanted,
                )
            )
        if size == 100:
            rows += [
                compared(
                    f"{peer}: read, map, filter, 100 B (the peer in our place)",
                    n,
                    lambda: bare.read(servers, topic, n),
                    lambda run=run: run(servers, topic, n),
                    "less than ours",
                )
                for peer, run in installed()
            ]
    topic = fill(cluster, "read-8", n, 100, 8)
    rows.append(
        compared(
            "partitioned source, 8 partitions, flat_map_merge, 100 B",
            n,
            lambda: bare.read(servers, topic, n, 8),
            lambda: ours.read(system, servers, topic, "partitioned", 8),
            "0.6 CPU",
        )
    )
    return rows


def writes(cluster: Cluster, system: ActorSystem, n: int) -> list[Row]:
    """The producer's flow and the transactional copy."""
    servers = cluster.bootstrap_servers
    cluster.create_topic("write", partitions=1)
    cluster.create_topic("copied", partitions=1)
    source = fill(cluster, "copy", n, 100)
    round_ = iter(range(1_000))
    return [
        compared(
            "producer flexi flow, 100 B",
            n,
            lambda: bare.write(servers, "write", n),
            lambda: ours.write(system, servers, "write", n),
            "0.7 CPU",
        ),
        compared(
            "transactional copy, 100 ms commits, 100 B",
            n,
            lambda: bare.copy(servers, source, "copied", n, f"bare-{next(round_)}"),
            lambda: ours.copy(system, servers, source, "copied", f"ours-{next(round_)}"),
            "0.7 CPU",
        ),
    ]


def partial_demand(
    cluster: Cluster, system: ActorSystem, n: int, partitions: int, size: int, at_once: int, step: int, targets: str
) -> Row:
    """Demand for some of the partitions only, changing at random, beside demand for all of them; and a bare client that pauses the others."""
    servers = cluster.bootstrap_servers
    topic = fill(cluster, f"demand-{partitions}-{size}", n, size, partitions)
    share = n * 2 // 3  # or one partition would run out while it alone has demand
    rates, bare_rates, cpus, bytes_each, pauses, requests, held = [], [], [], [], [], [], []
    for _ in range(3):
        bare_whole = bare.gated(servers, topic, partitions, share, partitions, step, pauses=False)
        bare_some = bare.gated(servers, topic, partitions, share, at_once, step, pauses=True)
        bare_rates.append(bare_some / bare_whole)
        whole = ours.gated(system, servers, topic, partitions, share, size, partitions, step)
        some = ours.gated(system, servers, topic, partitions, share, size, at_once, step)
        rates.append(some["rate"] / whole["rate"])
        cpus.append(whole["cpu_each"] / some["cpu_each"])
        bytes_each.append(some["fetched"] / (some["taken"] * size))
        pauses.append(some["pauses"])
        requests.append(some["requests"])
        held.append(some["held"])
    return {
        "name": f"{partitions - at_once} of {partitions} partitions without demand, drawn anew every {step:,} records, {size} B",
        "value": f"{statistics.median(bytes_each):.2f} bytes fetched per byte delivered, {max(held) / 2**20:.0f} MiB held, "
        f"{statistics.median(pauses):.0f} pauses, {statistics.median(requests):.0f} fetches",
        "unit": "",
        "peer": f"the same with demand for all; a bare client in the same pattern: {statistics.median(bare_rates):.2f} wall",
        "ratio": f"{statistics.median(rates):.2f} wall, {statistics.median(cpus):.2f} CPU",
        "spread": f"{min(rates):.2f}-{max(rates):.2f}",
        "target": targets,
    }


def latency(cluster: Cluster, system: ActorSystem, per_second: int, n: int) -> Row:
    """From produce to the sink at a steady rate."""
    servers, topic = cluster.bootstrap_servers, f"latency-{per_second}"
    cluster.create_topic(topic, partitions=1)
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 0})

    def send(count: int) -> None:
        def steadily() -> None:
            due = time.perf_counter()
            for _ in range(count):
                due += 1 / per_second
                time.sleep(max(0.0, due - time.perf_counter()))
                producer.produce(topic, repr(time.perf_counter()).encode())
                producer.poll(0)
            producer.flush()

        Thread(target=steadily, daemon=True).start()

    theirs, our = [], []
    for _ in range(3):
        theirs.append(statistics.median(bare.latencies(servers, topic, n, send)))
        our.append(statistics.median(ours.latencies(system, servers, topic, n, send)))
    ratios = [mine / their for mine, their in zip(our, theirs, strict=True)]
    return {
        "name": f"latency from produce to sink at {per_second}/s, p50",
        "value": round(statistics.median(our), 2),
        "unit": "ms",
        "peer": f"bare poll: {statistics.median(theirs):.2f} ms",
        "ratio": f"{statistics.median(ratios):.2f} times",
        "spread": f"{min(ratios):.2f}-{max(ratios):.2f}",
        "target": "at most 1.5 times",
    }


def run() -> list[Row]:
    """Return the rows; each with the median of the ratios of CPU and wall time. KAFKA_BENCH_RECORDS makes it shorter."""
    n = int(os.environ.get("KAFKA_BENCH_RECORDS", "1000000"))
    with Cluster(process=True) as cluster, ActorSystem("benchmark") as system:
        rows = reads(cluster, system, n) + writes(cluster, system, n // 4)
        rows.append(
            partial_demand(
                cluster, system, n * 6 // 10, 10, 1_000, 1, 2_000, "0.5 wall, 1.1 bytes per byte, 64 MiB, pauses"
            )
        )
        servers, large = cluster.bootstrap_servers, fill(cluster, "read-5000", n // 10, 5_000, 100)
        rows.append(
            compared(
                f"plain source, {n // 10:,} x 5,000 B in 100 partitions",
                n // 10,
                lambda: bare.read(servers, large, n // 10, 100),
                lambda: ours.read(system, servers, large, "plain", 100),
                "0.8",
            )
        )
        rows.append(partial_demand(cluster, system, n // 10, 100, 5_000, 50, 10_000, "0.6 wall"))
        rows += [latency(cluster, system, 1_000, 2_000), latency(cluster, system, 10, 50)]
    return rows
