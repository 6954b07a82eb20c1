"""SendProducer, MetadataClient and the admin client."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

import pytest

from streamactors.broker import Cluster
from streamactors.errors import BuildError
from streamactors.kafka import AsyncMetadataClient, MetadataClient, ProducerRecord, SendProducer, TopicPartition
from streamactors.kafka.client.admin import EARLIEST, LATEST, Admin
from streamactors.kafka.errors import KafkaError, NoBroker, ProducerFailed, RecordError, TopicError, TopicNotFound


def test_each_record_has_a_future_of_its_place(cluster, producer_settings):
    cluster.create_topic("sent", partitions=1)
    tiny = producer_settings.with_property("queue.buffering.max.messages", 20)
    with SendProducer(tiny) as producer:
        futures = [producer.send(ProducerRecord("sent", b"%d" % i)) for i in range(300)]
        assert [future.result(30).offset for future in futures] == list(range(300))
        error = producer.send(ProducerRecord("sent", bytes(2_000_000))).exception(30)
        assert isinstance(error, RecordError)
    assert isinstance(producer.send(ProducerRecord("sent")).exception(1), ProducerFailed)


def test_closing_sends_what_is_left(cluster, producer_settings, read_all):
    cluster.create_topic("closing", partitions=1)
    producer = SendProducer(producer_settings)
    future = producer.send(ProducerRecord("closing", b"x"))
    producer.close()
    producer.close()
    assert future.result(0).offset == 0
    assert len(read_all("closing")) == 1


def test_coroutines_ask_for_metadata_without_blocking_their_loop(settings, topic_with):
    topic = topic_with("meta-async", [b"x"] * 10, 2)
    keys = [(topic, 0), (topic, 1)]

    async def ask():
        async with AsyncMetadataClient(settings) as client:
            found = await asyncio.gather(
                client.topics(),
                client.partitions_for(topic),
                client.beginning_offsets(keys),
                client.end_offsets(keys),
                client.offsets_for_times(dict.fromkeys(keys, 1)),
                client.committed(keys),
                client.committed_metadata(keys),
            )
            with pytest.raises(TopicNotFound, match="no topic nowhere"):
                await client.partitions_for("nowhere")
        with pytest.raises(BuildError, match="async with AsyncMetadataClient"):
            await client.topics()
        return found

    topics, *others = asyncio.run(ask())
    assert topics[topic] == 2
    assert others == [keys, dict.fromkeys(keys, 0), dict.fromkeys(keys, 5), dict.fromkeys(keys, 0), {}, {}]

    async def fail():
        async with AsyncMetadataClient(
            replace(settings.with_bootstrap_servers("localhost:1"), preflight_timeout_ms=100)
        ):
            pass

    with pytest.raises(NoBroker):
        asyncio.run(fail())


def test_metadata_tells_topics_and_offsets(settings, topic_with):
    topic = topic_with("meta", [b"x"] * 10, 2)
    with MetadataClient(settings) as client:
        assert client.topics()[topic] == 2
        assert client.partitions_for(topic) == [(topic, 0), (topic, 1)]
        assert client.beginning_offsets([(topic, 0)]) == {(topic, 0): 0}
        assert client.end_offsets([(topic, 0), (topic, 1)]) == {(topic, 0): 5, (topic, 1): 5}
        assert client.offsets_for_times({(topic, 0): 1}) == {(topic, 0): 0}
        assert client.committed([(topic, 0)]) == {}
        with pytest.raises(TopicNotFound, match="no topic nowhere"):
            client.partitions_for("nowhere")
    with pytest.raises(NoBroker):
        MetadataClient(replace(settings.with_bootstrap_servers("localhost:1"), preflight_timeout_ms=300))


def test_offsets_of_a_partition_that_does_not_exist_are_an_error_or_left_out(cluster, settings):
    cluster.create_topic("one", partitions=1)
    admin = Admin(settings)
    asked = {TopicPartition("one", 0): LATEST, TopicPartition("one", 7): LATEST}
    with pytest.raises(KafkaError, match="the offsets of one-7"):
        admin.offsets(asked)
    assert admin.offsets(asked, unknown_ok=True) == {("one", 0): 0}


def test_topics_are_created_once_or_again_when_that_is_asked_for(settings):
    admin = Admin(settings)
    admin.create(["first", "second"], 2)
    with pytest.raises(TopicError, match=r"topic first: .*already exists"):
        admin.create("first", 2)
    admin.create(["first", "third"], 2, exist_ok=True)
    assert {"first", "second", "third"} <= {topic.name for topic in admin.topics()}


def test_deleted_records_move_the_first_offset(settings, topic_with):
    topic = topic_with("shorter", [b"x"] * 4, 1)
    key = TopicPartition(topic, 0)
    admin = Admin(settings)
    admin.delete_records({key: 3})
    assert admin.offsets({key: EARLIEST}) == {key: 3}
    assert admin.offsets({key: LATEST}) == {key: 4}


def test_an_admin_client_logs_in_with_the_callback_of_the_settings(settings):
    asked = []

    def token(_):
        asked.append(True)
        return "token", time.time() + 60

    secured = settings.with_properties(
        {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanisms": "OAUTHBEARER", "oauth_cb": token}
    )
    with pytest.raises(NoBroker):  # this broker does not know OAUTHBEARER
        Admin(replace(secured, preflight_timeout_ms=300)).topics()
    assert asked


def test_a_record_that_the_broker_refuses_fails_its_future_and_no_other(cluster, settings, producer_settings):
    Admin(settings).create("small", 1, 1, {"max.message.bytes": "1000"})
    with SendProducer(producer_settings.with_property("batch.num.messages", 1)) as producer:
        before = producer.send(ProducerRecord("small", b"x"))
        refused = producer.send(ProducerRecord("small", bytes(5_000)))
        after = producer.send(ProducerRecord("small", b"x"))
        error = refused.exception(30)
        assert isinstance(error, RecordError)
        assert "topic small: a record of 5000 bytes was not delivered" in str(error)
        assert [each.result(30).offset for each in (before, after)] == [0, 1]


@pytest.mark.expects_log("that nobody acknowledged in")
def test_futures_of_what_was_not_sent_fail_when_the_producer_is_closed(producer_settings):
    with Cluster() as gone:
        gone.create_topic("t")
        settings = replace(producer_settings, bootstrap_servers=gone.bootstrap_servers, close_timeout_ms=100)
        producer = SendProducer(settings.with_property("queue.buffering.max.messages", 1))
        producer.send(ProducerRecord("t", b"x")).result(30)
    futures = [producer.send(ProducerRecord("t", b"x")) for _ in range(3)]
    producer.close()
    for future in futures:
        assert isinstance(future.exception(1), ProducerFailed)
        assert "closed" in str(future.exception(1))


def test_without_a_broker_each_record_fails_in_the_time_of_the_preflight_and_the_next_one_asks_again(producer_settings):
    """librdkafka waits five minutes for the first connection, and its error names no address."""
    nobody = replace(producer_settings, bootstrap_servers="localhost:1", preflight_timeout_ms=300)
    with SendProducer(nobody) as producer:
        for _ in range(2):
            futures = [producer.send(ProducerRecord("t", b"x")) for _ in range(3)]
            for future in futures:
                assert isinstance(future.exception(30), NoBroker)
                assert "no broker at localhost:1 (" in str(future.exception(0))


def test_a_record_that_nobody_acknowledges_in_time_names_the_broker(producer_settings):
    with Cluster() as gone:
        gone.create_topic("t")
        servers = gone.bootstrap_servers
        settings = replace(producer_settings, bootstrap_servers=servers)
        producer = SendProducer(settings.with_property("message.timeout.ms", 4_000))
        producer.send(ProducerRecord("t", b"x")).result(30)
    error = producer.send(ProducerRecord("t", b"x")).exception(30)
    producer.close()
    assert f"; {servers} has not acknowledged it within message.timeout.ms (" in str(error)


def test_a_coroutine_sends_and_closes_without_blocking_its_loop(cluster, producer_settings):
    cluster.create_topic("sent-async", partitions=1)

    async def send():
        async with SendProducer(producer_settings) as producer:
            stored = [producer.send(ProducerRecord("sent-async", b"%d" % n)) for n in range(10)]
        assert [future.result(0).offset for future in stored] == list(range(10))
        await producer.aclose()
        with pytest.raises(ProducerFailed, match="closed"):
            await producer.send(ProducerRecord("sent-async", b"x"))

    asyncio.run(send())


def test_the_offsets_of_a_name_alone_are_refused_with_the_form_that_is_expected(settings):
    with Admin(settings) as admin, pytest.raises(BuildError, match=r"Admin.offsets takes partitions .* got str 'bp'"):
        admin.offsets("bp")
