"""Bad input: each in one clear error or a dead letter, nothing hung, nothing skipped in silence."""

from __future__ import annotations

import struct
from dataclasses import replace
from types import SimpleNamespace

import confluent_kafka
import pytest
from crc32c import crc32c

from streamactors import Flow, Keep, Sink, Source
from streamactors.broker.records.compression import Compression
from streamactors.engine.supervision import resuming
from streamactors.errors import BuildError
from streamactors.kafka import (
    CommitterSettings,
    Consumer,
    ConsumerSettings,
    DrainingControl,
    Err,
    Producer,
    ProducerRecord,
    ProducerSettings,
    SendProducer,
    Subscriptions,
)
from streamactors.kafka.client.admin import Admin
from streamactors.kafka.client.consumer import StreamConsumer
from streamactors.kafka.errors import CommitFailed, ConsumerFailed, KafkaError, RecordError
from streamactors.kafka.settings import ClientSettings
from tests.broker.live_broker import batch, produce_body
from tests.broker.wire import WireClient
from tests.faults.broker_process import BrokerProcess


def one_line(error):
    assert "\n" not in str(error)
    return str(error)


@pytest.mark.parametrize(
    ("name", "value"), [("no.such.property", 1), ("session.timeout.ms", "soon"), ("fetch.min.bytes", -5)]
)
def test_unknown_properties_and_wrong_values_are_named(settings, producer_settings, system, topic_with, name, value):
    topic = topic_with(f"property-{name}", [b"x"])
    source = Consumer.source(settings.with_property(name, value), Subscriptions.topics(topic))
    error = source.run_with(Sink.ignore(), system).exception(60)
    assert isinstance(error, KafkaError)
    assert name in one_line(error)
    sink = Producer.plain_sink(producer_settings.with_property("linger.ms" if name[0] == "s" else name, value))
    error = Source.single(ProducerRecord(topic, b"x")).run_with(sink, system).exception(60)
    assert isinstance(error, KafkaError)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: ConsumerSettings(9092), "bootstrap_servers must be"),
        (lambda: ConsumerSettings("localhost:1", auto_offset_reset="first"), "auto_offset_reset must be one of"),
        (lambda: ConsumerSettings("localhost:1", commit_interval_ms="soon"), "commit_interval_ms must be"),
        (lambda: ConsumerSettings("localhost:1", low_bytes=9, high_bytes=3), "must not exceed high_bytes"),
        (lambda: ConsumerSettings("localhost:1", max_in_flight=0), "max_in_flight must be at least 1"),
        (lambda: ConsumerSettings("localhost:1", group_id=5), "group_id must be a string or None, got int 5"),
        (
            lambda: ConsumerSettings("localhost:1").with_group_id(b"g"),
            "group_id must be a string or None, got bytes b'g'",
        ),
        (lambda: ConsumerSettings("localhost:1", max_poll_records="9"), "max_poll_records must be an integer, got str"),
        (lambda: ConsumerSettings("localhost:1", high_bytes=1.5), "high_bytes must be an integer, got float 1.5"),
        (lambda: ConsumerSettings("localhost:1", poll_timeout_ms=True), "poll_timeout_ms must be a number"),
        (lambda: ConsumerSettings("localhost:1", close_timeout_ms=float("nan")), "close_timeout_ms must be a number"),
        (lambda: ConsumerSettings("localhost:1", properties="a=b"), "properties must be a mapping"),
        (lambda: ConsumerSettings("localhost:1", properties={5: "x"}), "a property's name is a string, got 5"),
        (lambda: ProducerSettings("localhost:1", parallelism=2.5), "parallelism must be an integer, got float 2.5"),
        (
            lambda: ProducerSettings("localhost:1", transactional_id=7),
            "transactional_id must be a string or None, got int",
        ),
        (lambda: ProducerSettings("localhost:1", transactional_id=""), "transactional_id must not be empty"),
        (lambda: CommitterSettings(max_batch="100"), "max_batch must be an integer, got str"),
        (lambda: SendProducer("localhost:1"), "SendProducer expects ProducerSettings, got str"),
        (lambda: Subscriptions.topics(5), "a topic's name is a string"),
        (lambda: Subscriptions.assignment(("t", -1)), "a partition is"),
        (lambda: Subscriptions.assignment(("t", True)), "a partition is"),
        (lambda: Subscriptions.assignment(), "at least one partition"),
        (lambda: Subscriptions.assignment_with_offset({}), "at least one partition"),
        (lambda: Subscriptions.assignment_with_offset(5), "expects a mapping"),
        (lambda: Subscriptions.assignment_with_offset({("t", 0): -1}), "offset to start at must be an integer of at"),
        (lambda: Subscriptions.assignment_offsets_for_times({("t", 0): "now"}), "time to start at.*got 'now'"),
        (lambda: Subscriptions.assignment_offsets_for_times({("t", 0): -2}), "time to start at.*at least 0, got -2"),
        (lambda: Subscriptions.topic_pattern("("), "not a regular expression"),
        (lambda: Subscriptions.topic_pattern(None), "expects a regular expression, got None"),
        (lambda: Consumer.source("localhost:1", Subscriptions.topics("t")), "expects ConsumerSettings"),
        (lambda: Consumer.source(ConsumerSettings("localhost:1", "g"), "t"), "expects a subscription"),
        (lambda: Producer.plain_sink("localhost:1"), "expects ProducerSettings"),
    ],
)
def test_wrong_types_are_told_where_they_are_written(make, sentence):
    with pytest.raises(BuildError, match=sentence):
        make()


@pytest.mark.parametrize("how", ["committing", "plain", "assigned"])
def test_a_topic_deleted_while_it_is_read_fails_the_stream_and_is_named(
    cluster, settings, system, topic_with, wait_for, how
):
    topic = topic_with(f"deleted-{how}", [b"x"] * 10)
    seen = []
    quick = settings.with_properties(
        {
            "topic.metadata.refresh.interval.ms": 200,
            "topic.metadata.propagation.max.ms": 500,
            "statistics.interval.ms": 200,
        }
    )
    source = {
        "committing": lambda: Consumer.source(quick, Subscriptions.topics(topic)),
        "plain": lambda: Consumer.plain_source(quick, Subscriptions.topics(topic)),
        "assigned": lambda: Consumer.plain_source(quick, Subscriptions.assignment_with_offset({(topic, 0): 0})),
    }[how]()
    control, done = source.to_mat(Sink.foreach(seen.append), Keep.both).run(system)
    wait_for(lambda: len(seen) == 10, 60)
    cluster.delete_topic(topic)
    error = done.exception(60)
    assert isinstance(error, (ConsumerFailed, CommitFailed))
    assert topic in one_line(error)
    control.is_shutdown.exception(60)


def test_an_offset_that_is_not_there_is_told_when_reading_goes_on_elsewhere(settings, system, topic_with, caplog):
    topic = topic_with("gone-offset", [b"x"] * 5)
    source = Consumer.plain_source(settings, Subscriptions.assignment_with_offset({(topic, 0): 99}), until="end")
    assert len(source.run_with(Sink.to_list(), system).result(60)) == 5
    assert any(f"{topic}-0: the offset 99 does not exist" in record.getMessage() for record in caplog.records)


def test_compressed_garbage_fails_the_stream_and_commits_nothing_behind_it(
    cluster, settings, system, topic_with, committed
):
    topic = topic_with("garbage", [b"%d" % i for i in range(5)])
    good = batch(b"a" * 500, b"b" * 500, compression=Compression.GZIP)
    broken = good[:61] + bytes(byte ^ 0x5A for byte in good[61:])
    broken = broken[:17] + struct.pack(">I", crc32c(broken[21:])) + broken[21:]
    host, port = cluster.bootstrap_servers.split(":")
    with WireClient(host, int(port)) as client:
        answer = client.call(0, 9, produce_body(broken, topic)).responses[0].partition_responses[0]
    assert answer.error_code == 0, "the broker does not look into it"
    source = Consumer.source(settings, Subscriptions.topics(topic), until="end")
    control, done = source.to_mat(Sink.to_list(), Keep.both).run(system)
    error = done.exception(60)
    assert isinstance(error, ConsumerFailed)
    assert f"{topic}-0" in one_line(error)
    control.is_shutdown.exception(60)
    assert committed(topic)[0] <= 5


def test_a_topic_that_must_not_be_read_is_no_missing_topic(settings, system, topic_with, monkeypatch):
    """The broker has no access control yet, so its two answers are given in its place."""
    topic = topic_with("secret", [b"x"])
    denied = confluent_kafka.KafkaError(confluent_kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED)

    class Denying:
        def __init__(self, client):
            self._client = client

        def __getattr__(self, name):
            return getattr(self._client, name)

        def list_topics(self, topic=None, timeout=-1):
            return SimpleNamespace(topics={} if topic is None else {topic: SimpleNamespace(error=denied)})

    genuine = StreamConsumer.preflight

    def preflight(self, topics):
        self._client = Denying(self._client)
        genuine(self, topics)

    monkeypatch.setattr(StreamConsumer, "preflight", preflight)
    error = Consumer.source(settings, Subscriptions.topics(topic)).run_with(Sink.ignore(), system).exception(60)
    assert isinstance(error, ConsumerFailed)
    assert f"may not READ topic {topic}" in one_line(error)


def test_a_partition_that_must_not_be_read_fails_the_stream(settings, system):
    client = StreamConsumer(settings)
    denied = confluent_kafka.KafkaError(confluent_kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED)
    try:
        with pytest.raises(ConsumerFailed, match=r"secret-3.*may not READ topic secret"):
            client._without_events([confluent_kafka.Message(topic="secret", partition=3, error=denied)], [])
    finally:
        client.close()


@pytest.mark.expects_log("cannot be sent: Unable to produce message")
def test_a_record_over_the_limit_fails_its_stream_or_is_left_out_by_the_decider(
    cluster, producer_settings, system, read_all
):
    cluster.create_topic("limit", partitions=1)
    records = [ProducerRecord("limit", value) for value in (b"first", bytes(10 << 20), b"last")]
    error = Source.from_iterable(records).run_with(Producer.plain_sink(producer_settings), system).exception(60)
    assert isinstance(error, RecordError)
    assert "limit" in one_line(error)
    sink = Producer.plain_sink(producer_settings).with_attributes(decider=resuming)
    assert Source.from_iterable(records).run_with(sink, system).exception(60) is None
    assert [message.value() for message in read_all("limit")][-2:] == [b"first", b"last"]


def test_a_record_that_the_broker_finds_too_large_fails_too(cluster, producer_settings, system):
    cluster.create_topic("small", partitions=1, config={"max.message.bytes": "1000"})
    record = ProducerRecord("small", bytes(100_000))
    error = Source.single(record).run_with(Producer.plain_sink(producer_settings), system).exception(60)
    assert isinstance(error, RecordError)
    assert "small" in one_line(error)


def test_a_record_larger_than_any_fetch_is_read(cluster, settings, system):
    cluster.create_topic("large", partitions=1, config={"max.message.bytes": str(20 << 20)})
    writing = ProducerSettings(settings.bootstrap_servers, properties={"message.max.bytes": 20 << 20})
    values = [b"before", bytes(10 << 20), b"behind"]
    sink = Producer.plain_sink(writing)
    Source.from_iterable(values).map(lambda v: ProducerRecord("large", v)).run_with(sink, system).result(60)
    source = Consumer.source(settings, Subscriptions.topics("large"), until="end")
    sizes = source.map(lambda record: len(record.value)).run_with(Sink.to_list(), system).result(60)
    assert sizes == [6, 10 << 20, 6]


def test_a_deserialiser_that_raises_makes_err_elements_that_are_committed_in_their_turn(
    settings, system, topic_with, committed, wait_for
):
    topic = topic_with("err", [b"1", b"{", b"3"])
    source = Consumer.records(settings, Subscriptions.topics(topic), value="json", errors="emit", until="end")
    control, done = source.to_mat(Sink.to_list(), Keep.both).run(system)
    one, bad, three = done.result(60)
    assert (one.value, three.value) == (1, 3)
    assert isinstance(bad, Err)
    assert (bad.record.value, bad.context.offset, type(bad.error).__name__) == (b"{", 1, "JSONDecodeError")
    control.is_shutdown.result(60)
    assert committed(topic) == {0: 3}
    with pytest.raises(BuildError, match="errors must be"):
        Consumer.records(settings, Subscriptions.topics(topic), errors="ignore")
    with pytest.raises(BuildError, match="one or the other"):
        Consumer.records(settings, Subscriptions.topics(topic), errors="emit", dead_letters="x")


def test_a_user_function_that_raises_and_is_resumed_is_committed_past_but_named(
    settings, system, topic_with, committed, caplog
):
    topic = topic_with("resumed", [b"%d" % i for i in range(10)])

    def fail(record):
        if record.offset == 4:
            raise KeyError("no. 4")
        return record

    source = Consumer.source(settings, Subscriptions.topics(topic), until="end").via(
        Flow.map(fail).with_attributes(decider=resuming)
    )
    control, done = source.to_mat(Sink.ignore(), Keep.both).run(system)
    done.result(60)
    control.is_shutdown.result(60)
    assert committed(topic) == {0: 10}
    assert any("no. 4" in record.getMessage() or "no. 4" in str(record.exc_info) for record in caplog.records)


@pytest.mark.slow
def test_a_broker_that_is_gone_for_a_while_is_waited_for(tmp_path, wait_for, system):
    with BrokerProcess(tmp_path / "data", {}) as broker:
        quick = {"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 200, "topic.metadata.refresh.interval.ms": 500}
        settings = ConsumerSettings(
            broker.bootstrap_servers,
            "g",
            "earliest",
            preflight_timeout_ms=60_000,
            commit_interval_ms=50,
            commit_timeout_ms=60_000,
            properties=quick,
        )
        _create(broker.bootstrap_servers, "t")
        writing = ProducerSettings(broker.bootstrap_servers, preflight_timeout_ms=60_000, properties=quick)
        seen = []
        control = (
            Consumer.source(settings, Subscriptions.topics("t"))
            .to_mat(Sink.foreach(lambda record: seen.append(record.value)), DrainingControl.create)
            .run(system)
        )
        queue, written = Source.queue(100).to_mat(Producer.plain_sink(writing), Keep.both).run(system)
        queue.offer(ProducerRecord("t", b"before"))
        wait_for(lambda: seen == [b"before"], 60)
        broker.kill()
        queue.offer(ProducerRecord("t", b"while it was gone"))
        assert not written.done()
        broker.start()
        wait_for(lambda: b"while it was gone" in seen, 60)
        queue.complete()
        written.result(60)
        control.drain_and_shutdown(timeout=60)


def _create(bootstrap, topic):
    Admin(ClientSettings(bootstrap)).create(topic, 1, 1, {})


def test_preflight_takes_no_longer_than_it_is_told(settings, system):
    nobody = replace(settings.with_bootstrap_servers("localhost:1"), preflight_timeout_ms=300)
    error = Consumer.source(nobody, Subscriptions.topics("x")).run_with(Sink.ignore(), system).exception(60)
    assert "no broker at localhost:1" in one_line(error)
