"""StreamConsumer: what librdkafka's statistics say about records that were fetched in vain, and what is left of a closed consumer."""

import gc
import json
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException

from streamactors.kafka.client.consumer import StreamConsumer
from streamactors.kafka.errors import ConsumerFailed
from streamactors.kafka.settings import ConsumerSettings
from streamactors.kafka.subscriptions import TopicPartition


def test_what_waits_in_the_queue_of_all_partitions_is_counted_once():
    """Every partition tells the length of the consumer's one queue. Added up, what waits hides what was thrown away."""
    partition = {"rxbytes": 5_000, "fetchq_cnt": 20, "unknown": False, "desired": True}
    told = {str(i): {**partition, "partition": i, "rxmsgs": 50} for i in range(4)}
    client = StreamConsumer(ConsumerSettings("localhost:1", "nobody"))
    try:
        assert client.received().thrown_away_bytes == 0
        client._on_statistics(json.dumps({"topics": {"t": {"partitions": told}}}))
        received = client.received()
        assert (received.records, received.waiting) == (200, 20)
        assert received.thrown_away_bytes == 180 * 100
    finally:
        client.close()


@pytest.mark.slow
def test_closed_consumers_are_freed_without_the_collector():
    # Each restore of windows closes a consumer. A process has 1,024 keys of thread-local storage, and each client has one until it is freed:
    # "RuntimeError: Failed to initialize thread local storage" ended a stream.
    settings = ConsumerSettings("localhost:1", "nobody")
    gc.collect()
    gc.disable()
    try:
        for _ in range(1_100):
            StreamConsumer(settings).close()
    finally:
        gc.enable()


def test_a_closed_consumer_says_so():
    client = StreamConsumer(ConsumerSettings("localhost:1", "nobody"))
    client.close()
    client.close()
    with pytest.raises(ConsumerFailed, match=r"^the consumer of localhost:1 is closed\n"):
        client.positions([])


@pytest.mark.parametrize(
    ("code", "again"),
    [
        (KafkaError._STATE, True),
        (KafkaError._UNKNOWN_PARTITION, True),
        (KafkaError._PREV_IN_PROGRESS, True),
        (KafkaError._OUTDATED, True),
        (KafkaError._FATAL, False),
    ],
)
def test_a_seek_that_librdkafka_refuses_for_the_moment_is_tried_again(code, again):
    """`Local: Outdated` ended a stream: librdkafka began to fetch the partition while the request to seek waited."""

    def refuse(_):
        raise KafkaException(KafkaError(code))

    client = StreamConsumer(ConsumerSettings("localhost:1", "nobody"))
    genuine, client._client = client._client, SimpleNamespace(seek=refuse)
    try:
        if again:
            assert not client.seek(TopicPartition("t", 0), 5)
        else:
            with pytest.raises(ConsumerFailed, match="t-0: cannot be read from 5: "):
                client.seek(TopicPartition("t", 0), 5)
    finally:
        client._client = genuine
        client.close()
