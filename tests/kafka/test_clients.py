"""SendProducer and MetadataClient."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streamactors.kafka import MetadataClient, ProducerRecord, SendProducer
from streamactors.kafka.errors import NoBroker, ProducerFailed, RecordError, TopicNotFound


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
