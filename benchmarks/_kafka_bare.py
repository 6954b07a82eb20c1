"""The loops a user would write with confluent-kafka alone: what the connector's figures are ratios of.

Same settings, same accessors and lambdas per record, same cadence of commits."""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from streamactors.kafka.settings import CONSUMER_PROPERTIES, PRODUCER_PROPERTIES

COMMIT_S = 1.0
TRANSACTION_S = 0.1


def consumer(servers: str, topic: str, partitions: int, **more: Any) -> Any:
    """Return a consumer at the beginning of every partition."""
    properties = {**CONSUMER_PROPERTIES, "enable.partition.eof": False, "auto.offset.reset": "earliest"}
    found = Consumer({**properties, "bootstrap.servers": servers, "group.id": "bare", **more})
    found.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    return found


def read(servers: str, topic: str, n: int, partitions: int = 1, *, commits: bool = False, **more: Any) -> int:
    """consume(500): a map and a filter over each record, counted; with `commits` a commit each second."""
    client = consumer(servers, topic, partitions, **more)
    length, even = (lambda message: len(message.value())), (lambda size: size % 2 == 0)
    got = count = 0
    due = time.monotonic() + COMMIT_S
    while got < n:
        batch = client.consume(500, 0.05)
        for message in batch:
            if message.error() is None and even(length(message)):
                count += 1
        got += len(batch)
        if commits and batch and time.monotonic() > due:
            client.commit(offsets=[TopicPartition(topic, 0, batch[-1].offset() + 1)], asynchronous=True)
            due += COMMIT_S
    if commits:
        client.commit(offsets=[TopicPartition(topic, 0, n)], asynchronous=False)
    client.close()
    return count


def gated(servers: str, topic: str, partitions: int, n: int, open_at_once: int, step: int, *, pauses: bool) -> float:
    """Take n records while only so many partitions, drawn anew after every `step` records, have demand; return records a second of wall time.

    With `pauses` the others are paused, and librdkafka drops what it has prefetched of them. Without, what comes from them is kept here
    until they have demand: that costs memory for all that the topic has."""
    client = consumer(servers, topic, partitions)
    draw = random.Random(7)
    kept: dict[int, deque[Any]] = {partition: deque() for partition in range(partitions)}
    paused: set[int] = set()
    started, taken = time.perf_counter(), 0
    while taken < n:
        wanted = dict.fromkeys(draw.sample(range(partitions), open_at_once), step // open_at_once)
        if pauses:
            shut = set(range(partitions)) - set(wanted)
            client.resume([TopicPartition(topic, partition) for partition in paused - shut])
            client.pause([TopicPartition(topic, partition) for partition in shut - paused])
            paused = shut
        for partition in list(wanted):
            while kept[partition] and wanted[partition]:
                kept[partition].popleft()
                wanted[partition] -= 1
                taken += 1
        waits = time.perf_counter()
        while any(wanted.values()) and time.perf_counter() - waits < 0.5:  # longer only where a partition has run out
            for message in client.consume(500, 0.02):
                if message.error() is None:
                    partition = message.partition()
                    if wanted.get(partition):
                        wanted[partition] -= 1
                        taken += 1
                    else:
                        kept[partition].append(message)
    rate = taken / (time.perf_counter() - started)
    client.close()
    return rate


def write(servers: str, topic: str, n: int) -> None:
    """produce + poll with a delivery callback."""
    producer = Producer({**PRODUCER_PROPERTIES, "bootstrap.servers": servers})
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


def copy(servers: str, source: str, target: str, n: int, name: str) -> None:
    """Consume, produce and send the offsets in transactions of 100 ms."""
    client = consumer(servers, source, 1, **{"isolation.level": "read_committed", "group.id": name})
    producer = Producer({**PRODUCER_PROPERTIES, "bootstrap.servers": servers, "transactional.id": name})
    producer.init_transactions()
    failed: list[Any] = []

    def delivered(error: Any, _: Any) -> None:
        if error is not None:
            failed.append(error)

    got = 0
    while got < n:
        producer.begin_transaction()
        due = time.monotonic() + TRANSACTION_S
        while got < n and time.monotonic() < due:
            for message in client.consume(500, 0.02):
                if message.error() is None:
                    while True:
                        try:
                            producer.produce(target, message.value(), on_delivery=delivered)
                            break
                        except BufferError:
                            producer.poll(0.1)
                    got += 1
            producer.poll(0)
        group = client.consumer_group_metadata()
        producer.send_offsets_to_transaction(client.position([TopicPartition(source, 0)]), group)
        producer.commit_transaction()
    assert not failed
    client.close()


def latencies(servers: str, topic: str, n: int, send: Callable[[int], None]) -> list[float]:
    """poll() one by one while `send` writes moments; return the ms from each to its arrival."""
    client = consumer(servers, topic, 1, **{"auto.offset.reset": "latest"})
    client.assign([TopicPartition(topic, 0, client.get_watermark_offsets(TopicPartition(topic, 0), timeout=10)[1])])
    client.poll(0.2)
    send(n)
    found: list[float] = []
    while len(found) < n:
        message = client.poll(0.05)
        if message is not None and message.error() is None:
            found.append((time.perf_counter() - float(message.value())) * 1_000)
    client.close()
    return found
