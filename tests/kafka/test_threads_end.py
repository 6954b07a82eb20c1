"""Every client of the connector ends its threads when it is closed."""

from __future__ import annotations

import asyncio
import threading

import pytest
from confluent_kafka import Consumer as BareConsumer

from streamactors import Keep, Sink, Source
from streamactors.kafka import (
    Admin,
    AsyncMetadataClient,
    Consumer,
    ConsumerSettings,
    MetadataClient,
    Producer,
    ProducerRecord,
    ProducerSettings,
    SendProducer,
    Subscriptions,
    TopicPartition,
)
from streamactors.kafka.client.producer import StreamProducer
from streamactors.kafka.errors import KafkaError, NoBroker
from tests.conftest import running_clients


def used_shared(settings, producer_settings, system, wait_for):
    with Consumer.shared(settings) as shared:
        source = shared.source(Subscriptions.assignment(TopicPartition("threads", 0)))
        control, done = source.to_mat(Sink.ignore(), Keep.both).run(system)
        wait_for(lambda: control.snapshot()["partitions"])
    done.result(30)
    shared.is_shutdown.result(30)


def used_source(settings, producer_settings, system, wait_for):
    control, done = (
        Consumer.source(settings, Subscriptions.topics("threads")).to_mat(Sink.ignore(), Keep.both).run(system)
    )
    wait_for(lambda: control.snapshot()["partitions"])
    control.drain_and_shutdown(done, timeout=30)


def used_sink(settings, producer_settings, system, wait_for):
    record = ProducerRecord("threads", b"v")
    Source.single(record).run_with(Producer.plain_sink(producer_settings), system).result(30)


def used_send_producer(settings, producer_settings, system, wait_for):
    with SendProducer(producer_settings) as producer:
        producer.send(ProducerRecord("threads", b"v")).result(30)


def used_metadata_client(settings, producer_settings, system, wait_for):
    with MetadataClient(settings) as metadata:
        metadata.end_offsets([("threads", 0)])
        metadata.committed([("threads", 0)])


def used_async_metadata_client(settings, producer_settings, system, wait_for):
    async def use():
        async with AsyncMetadataClient(settings) as metadata:
            await metadata.end_offsets([("threads", 0)])

    asyncio.run(use())


def used_admin(settings, producer_settings, system, wait_for):
    with Admin(settings) as admin:
        admin.topics()


@pytest.fixture
def threads(system):
    """Return the names of threads that have come since, but for those of the actor system's pool."""
    before = set(threading.enumerate())
    return lambda: [t.name for t in threading.enumerate() if t not in before and not t.name.startswith(system.name)]


@pytest.mark.parametrize(
    "use",
    [
        used_shared,
        used_source,
        used_sink,
        used_send_producer,
        used_metadata_client,
        used_async_metadata_client,
        used_admin,
    ],
)
def test_no_thread_is_left(cluster, settings, producer_settings, system, wait_for, threads, use):
    # Consumer.shared left its thread each time
    if "threads" not in _topics(settings):
        cluster.create_topic("threads")
    use(settings, producer_settings, system, wait_for)
    wait_for(lambda: not threads())


def fenced(cluster):
    settings = ProducerSettings(cluster.bootstrap_servers, transactional_id="ends-fenced")
    first, second = StreamProducer(settings), StreamProducer(settings)
    first.start().result(30)
    first.call(first.begin).result(30)
    second.start().result(30)
    group = BareConsumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g"})
    error = first.call(first.send_offsets, {("threads", 0): 1}, group.consumer_group_metadata(), 30).exception(60)
    group.close()
    for producer in (first, second):
        producer.close(drop=True).result(30)
    return error


def without_broker(cluster):
    producer = StreamProducer(ProducerSettings("localhost:1", preflight_timeout_ms=100))
    error = producer.start().exception(30)
    producer.close(drop=True).result(30)
    return error


def metadata_without_broker(cluster):
    with pytest.raises(NoBroker) as raised:
        MetadataClient(ConsumerSettings("localhost:1", preflight_timeout_ms=100))
    return raised.value


@pytest.mark.parametrize("fail", [fenced, without_broker, metadata_without_broker])
def test_an_error_that_is_kept_does_not_keep_the_client(cluster, wait_for, fail):
    # the traceback of librdkafka's own error had the client in a frame: it ran, and called its broker, as long as the error was in a future
    before = running_clients()
    error = fail(cluster)
    wait_for(lambda: running_clients() == before)
    assert isinstance(error, KafkaError)


def _topics(settings):
    with Admin(settings) as admin:
        return {topic.name for topic in admin.topics()}
