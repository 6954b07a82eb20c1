"""Simulated runs of a pipeline: seeds a minute, and the cost of virtual time without records, on one core.

No peer runs a pipeline of Kafka under virtual time, so the rows have none."""

from __future__ import annotations

import logging
import resource
import statistics

import confluent_kafka as ck

from benchmarks._rows import Row, row
from streamactors import ActorSystem
from streamactors.kafka import (
    Consumer,
    ConsumerSettings,
    ProducerRecord,
    ProducerSettings,
    Subscriptions,
    Transactional,
)
from streamactors.simulation.client.factories import simulated_clients
from streamactors.simulation.cluster.cluster import SimulatedCluster
from streamactors.simulation.world.simulated import SimulatedWorld
from streamactors.windows import BufferConfig, Suppressed, TimeWindows

SERVERS = "simulated:9092"
RECORDS = 1_000
OVER_S = (2, 10)
"""Virtual seconds in which the records come."""
AT_ONCE = 10
SEEDS = 20
REPETITIONS = 5
HOUR_MS = 3_600_000.0
BEGIN_MS = 1_600_000_000_000


def cpu_s() -> float:
    """Return the CPU seconds of this process; `time` is virtual in a world."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_utime


def windows(instance: str) -> None:
    """Count words in windows of ten seconds, in transactions."""
    reader = ConsumerSettings(SERVERS, "counts", "earliest", properties={"session.timeout.ms": 10_000})
    writer = ProducerSettings(SERVERS, transactional_id=f"counts-{instance}")
    with ActorSystem() as system:
        (
            Consumer.records(reader, Subscriptions.topics("in"), key="string")
            .group_by_key()
            .windowed_by(TimeWindows.of_size("10s").with_grace("5s"))
            .count(name="counts")
            .suppress(Suppressed.until_window_closes(BufferConfig.unbounded()))
            .to_stream()
            .map(lambda row: ProducerRecord("out", b"%d" % row.value, f"{row.key}@{row.start}"))
            .run_with(Transactional.sink(writer), system)
            .result()
        )


def send(world: SimulatedWorld, over_s: int) -> None:
    """Write the records, some at a time, evenly over their time."""
    producer = ck.Producer({"bootstrap.servers": SERVERS})
    for first in range(0, RECORDS, AT_ONCE):
        for each in range(first, first + AT_ONCE):
            producer.produce("in", b"", b"k%d" % (each % 20), timestamp=BEGIN_MS + each * 60)
        producer.poll(0)
        world.sleep(over_s * 1_000 * AT_ONCE / RECORDS)
    producer.flush()


def simulate(seed: int, over_s: int) -> int:
    """Run two instances, crash one, and wait until the counts of all closed windows are there; return how many steps it took."""
    world = SimulatedWorld(seed)

    def main() -> None:
        cluster = SimulatedCluster(world, brokers=3)
        for topic in ("in", "out"):
            cluster.create_topic(topic, 3, 3)
        with simulated_clients(world, cluster):
            for instance in ("1", "2"):
                world.start(instance, lambda each=instance: windows(each))  # type: ignore[misc]
            world.start("writer", lambda: send(world, over_s))
            world.sleep(world.dice.uniform(500, over_s * 1_000))
            world.crash("1")
            world.sleep(500)
            world.start("1", lambda: windows("1"))
            world.wait(lambda: sum(each.high_watermark for each in cluster.topics.of("out")) >= 80, 120_000)
            assert sum(each.high_watermark for each in cluster.topics.of("out")) >= 80
            for instance in ("1", "2"):
                world.crash(instance)

    world.run(main)
    return len(world.trace.entries)


def an_hour(seed: int) -> float:
    """Return the CPU seconds of an hour in which a cluster has nothing to do."""
    world = SimulatedWorld(seed)

    def main() -> float:
        cluster = SimulatedCluster(world, brokers=3)
        cluster.create_topic("in", 3, 3)
        began_s = cpu_s()
        world.sleep(HOUR_MS)
        return cpu_s() - began_s

    return world.run(main)


def rate(over_s: int) -> Row:
    """Return the row of runs whose records come within a time."""
    simulate(-1, over_s)
    rates = []
    for each in range(REPETITIONS):
        began_s = cpu_s()
        for seed in range(SEEDS):
            simulate(each * SEEDS + seed, over_s)
        rates.append(60 * SEEDS / (cpu_s() - began_s))
    name = (
        f"2 instances, 3 partitions, {RECORDS:,} records in {over_s} virtual seconds, windows, a transaction, a crash"
    )
    measured = row(
        name, round(statistics.median(rates)), "seeds a minute", "", None, "300 or more" if over_s == OVER_S[0] else ""
    )
    return {**measured, "spread": f"{min(rates):.0f}-{max(rates):.0f}"}


def run() -> list[Row]:
    """Return the rows."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        rates = [rate(over_s) for over_s in OVER_S]
        hours = [an_hour(each) * 1e3 for each in range(REPETITIONS)]
    finally:
        logging.disable(before)
    hour = row("a virtual hour of a cluster without records", statistics.median(hours), "ms", "", None, "50 ms or less")
    return [*rates, {**hour, "spread": f"{min(hours):.1f}-{max(hours):.1f}"}]
