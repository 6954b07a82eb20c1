"""Consumer.arrow_batches: chunks of records as Arrow record batches, with the marks, commits and order of Consumer.source."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer as BareProducer

from streamactors import Keep, Sink
from streamactors.broker import Cluster
from streamactors.errors import BuildError
from streamactors.kafka import Consumer, ConsumerSettings, MetadataClient, Subscriptions
from streamactors.kafka.client.runs import made_message
from streamactors.kafka.reading.record_batches import SCHEMA, WITH_HEADERS, record_batch
from streamactors.kafka.subscriptions import TopicPartition

END_S = 60.0
N = 5_000


def settings_of(cluster: Cluster, group: str) -> ConsumerSettings:
    return ConsumerSettings(cluster.bootstrap_servers, group, "earliest")


def write(cluster: Cluster, topic: str, n: int = N) -> None:
    cluster.create_topic(topic, partitions=3)
    producer = BareProducer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 5})
    for i in range(n):
        headers = [("h", b"%d" % i)] if i % 7 == 0 else None
        value = None if i % 11 == 0 else b"v%d" % i
        producer.produce(topic, value, None if i % 5 == 0 else f"k{i}", i % 3, timestamp=1_000 + i, headers=headers)
    assert producer.flush(30) == 0


@pytest.mark.parametrize("headers", [False, True])
@pytest.mark.parametrize("max_chunk", [None, 1])
def test_the_batches_have_the_records_of_the_plain_source_in_their_order(
    kafka_broker: Cluster, actor_system: Any, headers: bool, max_chunk: int | None
) -> None:
    topic = f"t{headers}{max_chunk}"
    write(kafka_broker, topic)
    of = Subscriptions.topics(topic)
    source = Consumer.arrow_batches(settings_of(kafka_broker, f"a{topic}"), of, until="end", headers=headers)
    if max_chunk is not None:
        source = source.max_chunk(max_chunk)
    control, done = source.map(lambda batch: batch).to_mat(Sink.to_list(), Keep.both).run(actor_system)
    batches = done.result(END_S)
    control.is_shutdown.result(END_S)
    assert all(batch.schema == (WITH_HEADERS if headers else SCHEMA) for batch in batches)
    assert len(batches) < N / 10
    found: dict[int, list[Any]] = {}
    for batch in batches:
        assert len(set(batch["partition"].to_pylist())) == 1
        for row in batch.to_pylist():
            found.setdefault(row["partition"], []).append(row)
    plain = Consumer.plain_source(settings_of(kafka_broker, f"p{topic}"), of, until="end")
    wanted: dict[int, list[Any]] = {}
    for record in plain.run_iter(actor_system):
        wanted.setdefault(record.partition, []).append(record)
    assert found.keys() == wanted.keys()
    for partition, records in wanted.items():
        rows = found[partition]
        assert [(r["offset"], r["key"], r["value"]) for r in rows] == [(r.offset, r.key, r.value) for r in records]
        assert [round(r["timestamp"].timestamp() * 1_000) for r in rows] == [r.timestamp for r in records]
        assert {r["topic"] for r in rows} == {topic}
        if headers:
            shown = [[(h["key"], h["value"]) for h in r["headers"] or ()] for r in rows]
            assert shown == [list(r.headers) for r in records]
    with MetadataClient(settings_of(kafka_broker, f"a{topic}")) as client:
        assert sum(client.committed([(topic, p) for p in range(3)]).values()) == N


def test_an_offset_is_committed_when_its_batch_is_done(kafka_broker: Cluster, actor_system: Any) -> None:
    write(kafka_broker, "failing", 3_000)
    seen: list[int] = []

    def work(batch: Any) -> None:
        if sum(seen) > 1_000:
            raise ValueError("enough")
        seen.append(batch.num_rows)

    settings = settings_of(kafka_broker, "f")
    source = Consumer.arrow_batches(settings, Subscriptions.topics("failing"), until="end")
    control, done = source.to_mat(Sink.foreach(work), Keep.both).run(actor_system)
    with pytest.raises(ValueError, match="enough"):
        done.result(END_S)
    control.is_shutdown.exception(END_S)
    with MetadataClient(settings) as client:
        assert sum(max(0, at) for at in client.committed([("failing", p) for p in range(3)]).values()) <= sum(seen)
    rest = Consumer.arrow_batches(settings, Subscriptions.topics("failing"), until="end")
    left = rest.map(lambda batch: batch.num_rows).run_with(Sink.fold(0, lambda a, b: a + b), actor_system)
    assert left.result(END_S) >= 3_000 - sum(seen)


def test_messages_without_a_timestamp_and_with_both_kinds() -> None:
    place = TopicPartition("t", 0)
    dice = random.Random(1)
    messages = [made_message(place, i, None, b"", None if dice.random() < 0.5 else i + 1) for i in range(20)]
    batch = record_batch(messages, headers=False)
    stamps = [at if kind else None for kind, at in (message.timestamp() for message in messages)]
    assert [None if at is None else round(at.timestamp() * 1_000) for at in batch["timestamp"].to_pylist()] == stamps
    assert batch["timestampType"].to_pylist() == [message.timestamp()[0] - 1 for message in messages]
    assert batch.schema == pa.schema(SCHEMA)


@pytest.mark.parametrize("gaps", [(), (2,), (1, 7), (9,)])
@pytest.mark.parametrize("n", [1, 2, 10, 9_000])
def test_offsets_with_and_without_gaps(n: int, gaps: tuple[int, ...]) -> None:
    """A gap is the end of a transaction, or a record that was compacted away."""
    place = TopicPartition("t", 3)
    offsets = [2**40 + i + sum(i >= gap for gap in gaps) for i in range(n)]
    batch = record_batch([made_message(place, at, None, b"", 5) for at in offsets], headers=False)
    assert batch["offset"].to_pylist() == offsets
    assert batch["timestampType"].to_pylist() == [0] * n
    assert set(batch["topic"].to_pylist()) == {"t"}
    assert set(batch["partition"].to_pylist()) == {3}


def test_a_group_is_needed() -> None:
    with pytest.raises(BuildError, match="group_id"):
        Consumer.arrow_batches(ConsumerSettings("nowhere:1"), Subscriptions.topics("t"))
