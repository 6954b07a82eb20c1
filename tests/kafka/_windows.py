"""What the tests of windows over Kafka share: rows, what must come of them by a plain loop, and the graph."""

from __future__ import annotations

import random
import re
from collections import Counter
from contextlib import suppress

import pytest
from confluent_kafka import Producer as BareProducer

from streamactors import Flow, Keep
from streamactors.broker.errors import Refusal
from streamactors.kafka import (
    Consumer,
    ConsumerSettings,
    ProducerRecord,
    ProducerSettings,
    Subscriptions,
    Transactional,
)
from streamactors.windows import BufferConfig, Suppressed, TimeWindows
from tests.bare_clients import IN_ORDER
from tests.kafka._members import of_protocol

SECOND = TimeWindows.of_size(1_000).with_grace(500)
CLOSED = Suppressed.until_window_closes(BufferConfig.unbounded())


@pytest.fixture(name="settings")
def windows_settings(cluster, request, group_protocol):
    """The group's name begins those of topics."""
    classic = ConsumerSettings(
        cluster.bootstrap_servers,
        group_id=re.sub(r"[^\w-]", "-", request.node.name),
        auto_offset_reset="earliest",
        commit_interval_ms=50,
        properties={"session.timeout.ms": 6_000, "heartbeat.interval.ms": 300},
    )
    return of_protocol(classic, group_protocol)


@pytest.fixture(name="transactional")
def windows_producer(cluster, request):
    return ProducerSettings(
        cluster.bootstrap_servers,
        transactional_id=request.node.name,
        commit_interval_ms=20,
        transaction_timeout_ms=20_000,
    )


def changelog_of(settings, store="seconds-store"):
    return f"{settings.group_id}-{store}-changelog"


def rows(seed, count, partitions, keys=5):
    """(partition, key, timestamp): rising, a little out of order, some late."""
    dice = random.Random(seed)
    for i in range(count):
        late = 3_000 if dice.random() < 0.05 else dice.randrange(400)
        yield i % partitions, f"k{dice.randrange(keys)}", max(0, 1_000_000 + i * 10 - late)


def finals(given, partitions):
    """The counts of all windows, and the late rows, by a plain loop: ([(partition, key@start, count)], late)."""
    windows, time, late = [Counter() for _ in range(partitions)], [0] * partitions, []
    for partition, key, timestamp in given:
        time[partition] = max(time[partition], timestamp)
        start = timestamp // 1_000 * 1_000
        if start + 1_500 > time[partition]:
            windows[partition][key, start] += 1
        else:
            late.append((partition, f"{key}@{start}", timestamp))
    counts = [
        (partition, f"{key}@{start}", count)
        for partition, counts in enumerate(windows)
        for (key, start), count in counts.items()
    ]
    return sorted(counts), sorted(late)


def produce(cluster, topic, given, partitions):
    """Write rows, creating the topic if it is not there."""
    with suppress(Refusal):
        cluster.create_topic(topic, partitions=partitions)
    producer = BareProducer({"bootstrap.servers": cluster.bootstrap_servers, **IN_ORDER})
    for partition, key, timestamp in given:
        producer.produce(topic, b"x", key, partition=partition, timestamp=timestamp)
    assert producer.flush(30) == 0


def read(messages):
    """What stands in the output topic: [(partition, key@start, count)]."""
    return sorted((m.partition(), m.key().decode(), int(m.value())) for m in messages)


def counted(settings, topic, *, until="end", windows=SECOND, late=None, idle_after=None, name="seconds", **options):
    """A source of the final counts of a topic."""
    return (
        Consumer.records(settings, Subscriptions.topics(topic), key="string", until=until)
        .group_by_key(**options)
        .windowed_by(windows, late=late, idle_after=idle_after)
        .count(name=name)
        .suppress(CLOSED)
        .to_stream()
    )


def to_records(target):
    return lambda row: ProducerRecord(target, b"%d" % row.value, f"{row.key}@{row.start}", row.context.partition)


def written(source, target, producer_settings):
    """A graph that writes final counts transactionally; materializes (control, done)."""
    return source.map(to_records(target)).to_mat(Transactional.sink(producer_settings), Keep.both)


def late_to(target, producer_settings):
    """A sink of late rows into a topic, transactionally."""
    return Flow.map(
        lambda late: ProducerRecord(
            target, b"%d" % late.record.timestamp, f"{late.record.key}@{late.start}", late.context.partition
        )
    ).to(Transactional.sink(producer_settings))
