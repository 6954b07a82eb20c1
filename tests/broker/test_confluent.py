"""librdkafka against the broker: produce and consume by assignment, in every compression, with and without idempotence."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from streamactors.broker import Cluster

_names = (f"topic-{number}" for number in itertools.count())


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


@pytest.fixture
def topic(cluster: Cluster) -> str:
    name = next(_names)
    cluster.create_topic(name, 2)
    return name


def produce(cluster: Cluster, topic: str, values: list[bytes], **config: Any) -> list[int]:
    """Produce to partition 0; return the offsets in the order of the values."""
    offsets: dict[int, int] = {}
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 1, **config})

    def delivered(number: int) -> Any:
        def note(error: Any, message: Any) -> None:
            assert error is None, error
            offsets[number] = message.offset()

        return note

    for number, value in enumerate(values):
        producer.produce(
            topic,
            value,
            key=b"%d" % number,
            partition=0,
            headers={"number": b"%d" % number},
            timestamp=1_000 + number,
            on_delivery=delivered(number),
        )
    assert producer.flush(30) == 0
    producer.close()
    return [offsets[number] for number in range(len(values))]


def consume(cluster: Cluster, topic: str, count: int, offset: int = 0, **config: Any) -> list[Any]:
    """Consume `count` messages of partition 0 from an offset on."""
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "unused", "check.crcs": True, **config}
    )
    consumer.assign([TopicPartition(topic, 0, offset)])
    found: list[Any] = []
    while len(found) < count:
        messages = consumer.consume(count - len(found), 30)
        assert messages, f"only {len(found)} of {count} came"
        for message in messages:
            assert message.error() is None, message.error()
            found.append(message)
    consumer.close()
    return found


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("idempotent", [False, True])
def test_produced_records_are_consumed(cluster: Cluster, topic: str, codec: str, idempotent: bool) -> None:
    values = [b"value %d " % number * 20 for number in range(500)]
    offsets = produce(
        cluster,
        topic,
        values,
        **{"compression.type": codec, "enable.idempotence": idempotent, "batch.num.messages": 50},
    )
    assert offsets == list(range(500))
    found = consume(cluster, topic, 500)
    assert [message.value() for message in found] == values
    assert [message.offset() for message in found] == offsets
    assert [message.key() for message in found] == [b"%d" % number for number in range(500)]
    assert found[7].headers() == [("number", b"7")]
    assert found[7].timestamp()[1] == 1_007
    assert found[7].leader_epoch() == 0


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_acks(cluster: Cluster, topic: str, acks: str) -> None:
    produce(cluster, topic, [b"a", b"b", b"c"], acks=acks)
    assert [message.value() for message in consume(cluster, topic, 3)] == [b"a", b"b", b"c"]


def test_consuming_from_the_middle_of_a_batch(cluster: Cluster, topic: str) -> None:
    produce(cluster, topic, [b"%d" % number for number in range(100)], **{"linger.ms": 200})
    assert [message.offset() for message in consume(cluster, topic, 30, offset=70)] == list(range(70, 100))


def test_large_records(cluster: Cluster, topic: str) -> None:
    values = [bytes([number]) * 900_000 for number in range(20)]
    produce(cluster, topic, values)
    assert [message.value() for message in consume(cluster, topic, 20)] == values


def test_watermarks_times_and_ends(cluster: Cluster, topic: str) -> None:
    produce(cluster, topic, [b"x"] * 10)
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "unused", "enable.partition.eof": True}
    )
    assert consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10) == (0, 10)
    (found,) = consumer.offsets_for_times([TopicPartition(topic, 0, 1_004)], timeout=10)
    assert found.offset == 4
    consumer.assign([TopicPartition(topic, 0, 10)])
    message = consumer.poll(10)
    assert message is not None
    assert message.error().code() == KafkaError._PARTITION_EOF
    consumer.close()


def test_a_message_that_is_too_large_is_refused(cluster: Cluster) -> None:
    name = next(_names)
    cluster.create_topic(name, config={"max.message.bytes": "1000"})
    errors: list[Any] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    producer.produce(name, bytes(5_000), on_delivery=lambda error, message: errors.append(error))
    producer.flush(30)
    assert [error.code() for error in errors] == [KafkaError.MSG_SIZE_TOO_LARGE]
    producer.close()


def test_an_unknown_partition_is_an_error_at_once(cluster: Cluster, topic: str) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    errors: list[Any] = []
    try:
        producer.produce(topic, b"x", partition=9, on_delivery=lambda error, message: errors.append(error))
        producer.flush(30)
    except KafkaException as error:
        errors.append(error.args[0])
    assert [error.code() for error in errors] == [KafkaError._UNKNOWN_PARTITION]
    producer.close()
