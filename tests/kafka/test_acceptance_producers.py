"""Acceptance cases 51 to 53: producers, and errors that reach the stream as what they are.

Where they come from: the specifications of Alpakka Kafka and Pekko Connectors Kafka, behaviour only."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streamactors import Keep, Sink, Source
from streamactors.errors import BuildError
from streamactors.kafka import (
    CommitterSettings,
    Consumer,
    Producer,
    ProducerMessage,
    ProducerRecord,
    Subscriptions,
)
from streamactors.kafka.errors import NoBroker, RecordError


def numbers(n):
    return [b"%d" % i for i in range(n)]


def test_51_results_come_in_input_order_though_the_second_partition_answers_first(producer_settings, system, cluster):
    cluster.create_topic("reversed", partitions=2)
    # a batch of partition 0 is full and waits for the one before it; partition 1 has one record and is answered at once
    tight = producer_settings.with_properties({"max.in.flight.requests.per.connection": 1, "batch.size": 20_000})
    envelopes = [
        ProducerMessage.message(ProducerRecord("reversed", bytes(9_000), partition=0 if i < 50 else 1), i)
        for i in range(51)
    ]
    flow = Producer.flexi_flow(tight)
    results = Source.from_iterable(envelopes).via(flow).run_with(Sink.to_list(), system).result(30)
    assert [result.pass_through for result in results] == list(range(51))


def test_52_nothing_is_committed_behind_a_record_that_could_not_be_written(
    cluster, settings, producer_settings, system, topic_with, committed
):
    topic = topic_with("five", numbers(5))
    cluster.create_topic("five-out", partitions=1)

    def envelope(m):
        value = bytes(2_000_000) if m.record.offset == 3 else m.record.value
        return ProducerMessage.message(ProducerRecord("five-out", value), m.offset)

    sink = Producer.committable_sink(producer_settings, CommitterSettings(max_batch=20, max_interval_ms=10))
    source = Consumer.committable_source(settings, Subscriptions.topics(topic), until="end").map(envelope)
    control, done = source.to_mat(sink, Keep.both).run(system)
    assert isinstance(done.exception(30), RecordError)
    control.is_shutdown.exception(30)
    assert committed(topic)[0] in (-1001, 1, 2, 3)


def test_53_what_the_broker_refuses_reaches_the_stream_and_the_control(settings, system, topic_with):
    nobody = settings.with_bootstrap_servers("localhost:1")
    nobody = replace(nobody, preflight_timeout_ms=300)
    source = Consumer.source(nobody, Subscriptions.topics("x"))
    control, done = source.to_mat(Sink.ignore(), Keep.both).run(system)
    assert isinstance(done.exception(30), NoBroker)
    assert isinstance(control.is_shutdown.exception(30), NoBroker)
    with pytest.raises(BuildError, match="needs a group_id"):
        Consumer.committable_source(settings.with_group_id(None), Subscriptions.topics("x"))
    topic = topic_with("unreadable", [b"{"])
    records = Consumer.records(settings, Subscriptions.topics(topic), value="json", until="end")
    control, done = records.to_mat(Sink.ignore(), Keep.both).run(system)
    assert type(done.exception(30)).__name__ == "JSONDecodeError", "its own error, not that the consumer has ended"
    control.is_shutdown.result(30)
