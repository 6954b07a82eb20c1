"""Kafka connector: sources and sinks beside a bare confluent-kafka loop with the same settings, lambdas and commit cadence.

The broker has its own process; CPU seconds are those of this process, each repetition right beside its peer."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer as BareConsumer
from confluent_kafka import Message, TopicPartition
from confluent_kafka import Producer as BareProducer

from streamactors import ActorSystem, Keep, Sink, Source
from streamactors.broker import Cluster
from streamactors.kafka import (
    Committer,
    CommitterSettings,
    Consumer,
    ConsumerSettings,
    Producer,
    ProducerMessage,
    ProducerRecord,
    ProducerSettings,
    Subscriptions,
)
from streamactors.kafka.settings import CONSUMER_PROPERTIES, PRODUCER_PROPERTIES

Row = dict[str, Any]
REPEAT = 5
COMMIT_S = 1.0


def fill(cluster: Cluster, topic: str, n: int, size: int) -> None:
    """Write n records of `size` bytes to a one-partition topic."""
    cluster.create_topic(topic, partitions=1)
    producer = BareProducer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 20, "batch.size": 1_000_000})
    value = b"0" * size
    for _ in range(n):
        while True:
            try:
                producer.produce(topic, value)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    producer.flush()


def bare_read(cluster: Cluster, topic: str, n: int, group: str, *, commits: bool) -> int:
    """consume(500): the value of each record through a map and a filter, counted; a commit each second."""
    consumer = BareConsumer(
        {
            **CONSUMER_PROPERTIES,
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": False,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    length, even = (lambda value: len(value)), (lambda size: size % 2 == 0)
    value_of = Message.value
    read = count = 0
    due = time.monotonic() + COMMIT_S
    while read < n:
        batch = consumer.consume(500, 0.05)
        for message in batch:
            if message.error() is None and even(length(value_of(message))):
                count += 1
        read += len(batch)
        if commits and batch and time.monotonic() > due:
            consumer.commit(offsets=[TopicPartition(topic, 0, batch[-1].offset() + 1)], asynchronous=True)
            due += COMMIT_S
    if commits:
        consumer.commit(offsets=[TopicPartition(topic, 0, n)], asynchronous=False)
    consumer.close()
    return count


def stream_read(system: ActorSystem, cluster: Cluster, topic: str, group: str, kind: str) -> int:
    """The same through a stream."""
    settings = ConsumerSettings(cluster.bootstrap_servers, group, "earliest", commit_interval_ms=int(COMMIT_S * 1000))
    subscription = Subscriptions.assignment_with_offset({(topic, 0): 0})
    if kind == "committable":
        source = Consumer.committable_source(settings, subscription, until="end")
        sink = Committer.sink(CommitterSettings(), offset=lambda m: m.offset)
        counted = source.filter(lambda m: len(m.record.value) % 2 == 0).to_mat(sink, Keep.both)
        control, done = counted.run(system)
        done.result(300)
        control.is_shutdown.result(30)
        return -1
    make = Consumer.plain_source if kind == "plain" else Consumer.source
    source = make(settings, subscription, until="end").map(lambda r: len(r.value)).filter(lambda size: size % 2 == 0)
    control, done = source.to_mat(Sink.fold(0, lambda n, _: n + 1), Keep.both).run(system)
    count = done.result(300)
    control.is_shutdown.result(30)
    return int(count)


def bare_write(cluster: Cluster, topic: str, n: int) -> None:
    """produce + poll with a delivery callback."""
    producer = BareProducer({**PRODUCER_PROPERTIES, "bootstrap.servers": cluster.bootstrap_servers})
    value = b"0" * 100
    acknowledged = [0]

    def delivered(error: Any, _: Any) -> None:
        if error is None:
            acknowledged[0] += 1

    for _ in range(n):
        while True:
            try:
                producer.produce(topic, value, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    producer.flush()
    assert acknowledged[0] == n


def stream_write(system: ActorSystem, cluster: Cluster, topic: str, n: int) -> None:
    """Producer.flexi_flow with ready envelopes."""
    envelope = ProducerMessage.message(ProducerRecord(topic, b"0" * 100))
    flow = Producer.flexi_flow(ProducerSettings(cluster.bootstrap_servers))
    assert Source.repeat(envelope).take(n).via(flow).run_with(Sink.count(), system).result(300) == n


def compared(name: str, n: int, peer: Callable[[], Any], ours: Callable[[], Any], target: str) -> Row:
    """Run both, alternating; the ratio is bare seconds of CPU over ours."""
    cpu, wall, best = [], [], 0.0
    for _ in range(REPEAT):
        figures = []
        for side in (peer, ours):
            started, used = time.perf_counter(), time.process_time()
            side()
            figures.append((time.process_time() - used, time.perf_counter() - started))
        (bare_cpu, bare_wall), (our_cpu, our_wall) = figures
        cpu.append(bare_cpu / our_cpu)
        wall.append(bare_wall / our_wall)
        best = max(best, n / our_wall)
    ratio = statistics.median(cpu)
    return {
        "name": name,
        "value": round(best),
        "unit": "records/s (wall)",
        "peer": "bare confluent-kafka",
        "ratio": f"{ratio:.2f} CPU, {statistics.median(wall):.2f} wall",
        "spread": f"{min(cpu):.2f}-{max(cpu):.2f}",
        "target": target,
    }


def run(n: int = 1_000_000) -> list[Row]:
    """Return the rows; each with the median of the ratios of CPU and wall time."""
    rows = []
    with Cluster(process=True) as cluster, ActorSystem("benchmark") as system:
        for size, targets in ((100, "0.75 CPU, 0.65 wall"), (1_000, "0.8 CPU, 0.7 wall")):
            topic = f"read-{size}"
            fill(cluster, topic, n, size)
            kinds = [("plain", "plain source", targets), ("marks", "Consumer.source, commits by marks", "0.7 CPU")]
            kinds.append(("committable", "committable source, Committer.sink", "0.6 CPU"))
            for kind, name, target in kinds:
                rows.append(
                    compared(
                        f"{name}, {size} B",
                        n,
                        lambda kind=kind, topic=topic: bare_read(cluster, topic, n, "bare", commits=kind != "plain"),
                        lambda kind=kind, topic=topic: stream_read(system, cluster, topic, "ours", kind),
                        target,
                    )
                )
        cluster.create_topic("write", partitions=1)
        rows.append(
            compared(
                "producer flexi flow, 100 B",
                n // 2,
                lambda: bare_write(cluster, "write", n // 2),
                lambda: stream_write(system, cluster, "write", n // 2),
                "0.7 CPU",
            )
        )
    return rows
