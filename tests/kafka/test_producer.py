"""Producer.plain_sink, flexi_flow and flow_with_context on the real broker."""

from __future__ import annotations

import logging
import threading

import confluent_kafka as ck
import pytest

from streamactors import FlowWithContext, Keep, Sink, Source
from streamactors.engine.supervision import resuming
from streamactors.errors import BuildError
from streamactors.kafka import Consumer, Producer, ProducerMessage, ProducerRecord, ProducerSettings, Subscriptions
from streamactors.kafka.client.producer import StreamProducer
from streamactors.kafka.errors import NoBroker, ProducerFailed, RecordError


def test_a_plain_sink_is_done_when_everything_is_acknowledged(cluster, producer_settings, system, read_all):
    cluster.create_topic("sink", partitions=2)
    records = (ProducerRecord("sink", b"%d" % i, partition=i % 2) for i in range(5_000))
    Source.from_iterable(list(records)).run_with(Producer.plain_sink(producer_settings), system).result(30)
    found = [int(m.value()) for m in read_all("sink", 2)]
    assert found == [*range(0, 5_000, 2), *range(1, 5_000, 2)]


def test_key_timestamp_and_headers_arrive(cluster, producer_settings, system, read_all):
    cluster.create_topic("whole", partitions=1)
    record = ProducerRecord("whole", "v", b"k", 0, 1_700_000_000_000, [("h", b"1"), ("h", None)])
    sink = Producer.plain_sink(producer_settings)
    Source.from_iterable([record, ProducerRecord("whole", None, "k")]).run_with(sink, system).result(30)
    first, second = read_all("whole")
    assert (first.key(), first.value(), first.timestamp()[1]) == (b"k", b"v", 1_700_000_000_000)
    assert first.headers() == [("h", b"1"), ("h", None)]
    assert second.value() is None


def test_results_come_in_input_order_whatever_partition_answers_first(cluster, producer_settings, system):
    cluster.create_topic("order", partitions=4)

    def envelope(i):
        record = ProducerRecord("order", b"%d" % i, partition=i % 4)
        if i % 10 == 3:
            return ProducerMessage.multi([record] * 3, i)
        if i % 10 == 7:
            return ProducerMessage.pass_through(i)
        if i % 10 == 9:
            return ProducerMessage.multi([], i)
        return ProducerMessage.message(record, i)

    flow = Producer.flexi_flow(producer_settings)
    results = Source.range(0, 2_000).map(envelope).via(flow).run_with(Sink.to_list(), system).result(30)
    assert [result.pass_through for result in results] == list(range(2_000))
    assert results[0].metadata.offset == 0
    assert results[0].metadata.topic == "order"
    assert results[1].metadata.partition == 1
    parts = results[3].parts
    assert [part.offset - parts[0].offset for part in parts] == [0, 1, 2]
    assert results[9].parts == ()


def test_a_context_comes_out_beside_its_result(cluster, producer_settings, system):
    cluster.create_topic("context", partitions=1)
    pairs = [(ProducerMessage.message(ProducerRecord("context", b"x"), "p"), i) for i in range(10)]
    flow = Producer.flow_with_context(producer_settings)
    assert isinstance(flow, FlowWithContext)
    out = Source.from_iterable(pairs).via(flow.as_flow()).run_with(Sink.to_list(), system).result(30)
    assert [context for _, context in out] == list(range(10))
    assert {result.pass_through for result, _ in out} == {"p"}


def test_a_full_queue_is_back_pressure(cluster, producer_settings, system, read_all):
    cluster.create_topic("full", partitions=1)
    tiny = producer_settings.with_properties({"queue.buffering.max.messages": 50, "linger.ms": 0})
    envelopes = [
        ProducerMessage.multi([ProducerRecord("full", b"%d" % (7 * i + j)) for j in range(7)], i) for i in range(500)
    ]
    flow = Producer.flexi_flow(tiny)
    results = Source.from_iterable(envelopes).via(flow).run_with(Sink.to_list(), system).result(60)
    assert [result.pass_through for result in results] == list(range(500))
    assert [int(m.value()) for m in read_all("full")] == list(range(3_500))


def test_a_record_that_is_too_big_fails_the_stream_behind_the_results_before_it(cluster, producer_settings, system):
    cluster.create_topic("big", partitions=1)
    values = [b"a", b"b", bytes(2_000_000), b"c"]
    seen = []
    envelopes = Source.from_iterable(
        [ProducerMessage.message(ProducerRecord("big", v), i) for i, v in enumerate(values)]
    )
    flow = Producer.flexi_flow(producer_settings)
    error = envelopes.via(flow).run_with(Sink.foreach(lambda r: seen.append(r.pass_through)), system).exception(30)
    assert isinstance(error, RecordError)
    assert "2000000 bytes" in str(error)
    assert seen == [0, 1]


@pytest.mark.expects_log("cannot be sent: Unable to produce message", "skipped: ")
def test_a_decider_that_resumes_drops_what_cannot_be_delivered(cluster, producer_settings, system, read_all):
    cluster.create_topic("resume", partitions=1)
    records = [
        ProducerRecord("resume", b"a"),
        ProducerRecord("resume", b"b", partition=7),
        "no record",
        ProducerRecord("resume", b"c"),
    ]
    sink = Producer.plain_sink(producer_settings).with_attributes(decider=resuming)
    Source.from_iterable(records).run_with(sink, system).result(60)
    assert [m.value() for m in read_all("resume")] == [b"a", b"c"]


def test_what_is_no_record_is_named(producer_settings, system):
    error = Source.from_iterable([b"x"]).run_with(Producer.plain_sink(producer_settings), system).exception(30)
    assert "ProducerRecord" in str(error)
    assert "bytes" in str(error)
    error = Source.from_iterable([b"x"]).via(Producer.flexi_flow(producer_settings)).run(system).exception(30)
    assert "ProducerMessage.message" in str(error)


def test_an_unreachable_broker_is_told_in_one_sentence(system):
    sink = Producer.plain_sink(ProducerSettings("localhost:1", preflight_timeout_ms=500))
    error = Source.from_iterable([ProducerRecord("x")]).run_with(sink, system).exception(30)
    assert isinstance(error, NoBroker)
    with pytest.raises(BuildError, match="expects ProducerSettings"):
        Producer.plain_sink("localhost:1")
    typo = ProducerSettings("localhost:1", properties={"linger.mss": 1})
    error = Source.from_iterable([ProducerRecord("x")]).run_with(Producer.plain_sink(typo), system).exception(30)
    assert "linger.mss" in str(error)


def test_a_shared_producer_survives_a_stream_that_fails(cluster, producer_settings, system, read_all):
    cluster.create_topic("shared", partitions=1)
    with Producer.shared(producer_settings) as shared:
        sink = Producer.plain_sink(producer_settings, producer=shared)
        bad = Source.from_iterable([ProducerRecord("shared", b"a"), "bad"]).run_with(sink, system)
        assert bad.exception(30)
        Source.from_iterable([ProducerRecord("shared", b"b")]).run_with(sink, system).result(30)
    assert [m.value() for m in read_all("shared")] == [b"a", b"b"]


def test_K_10_a_mark_is_done_when_the_broker_acknowledged_everything_before_it(
    cluster, settings, producer_settings, system, topic_with, committed, read_all
):
    topic = topic_with("in-marks", [b"%d" % i for i in range(300)], 2)
    cluster.create_topic("out-marks", partitions=1)
    source = Consumer.source(settings, Subscriptions.topics(topic), until="end")
    copied = source.map(lambda record: ProducerRecord("out-marks", record.value))
    copied.run_with(Producer.plain_sink(producer_settings), system).result(30)
    assert len(read_all("out-marks")) == 300
    wait_committed(committed, topic, {0: 150, 1: 150})


@pytest.mark.expects_log("did not exist at")
def test_K_10_nothing_is_committed_that_was_not_acknowledged(settings, system, topic_with, committed, cluster):
    topic = topic_with("in-lost", [b"x"] * 10)
    never = ProducerSettings(
        cluster.bootstrap_servers,
        properties={"linger.ms": 0, "delivery.timeout.ms": 1_500, "request.timeout.ms": 1_000},
    )
    sink = Producer.plain_sink(never)
    source = Consumer.source(settings, Subscriptions.topics(topic), until="end")
    copied = source.map(lambda record: ProducerRecord("a-topic-nobody-made", record.value, partition=3))
    assert isinstance(copied.run_with(sink, system).exception(60), RecordError)
    assert committed(topic) == {0: -1001}


def wait_committed(committed, topic, expected):
    import time

    deadline = time.monotonic() + 30
    while committed(topic, len(expected)) != expected:
        assert time.monotonic() < deadline


def test_an_offset_as_context_is_committed_when_its_envelope_is_written(
    cluster, settings, producer_settings, system, topic_with, committed, read_all
):
    topic = topic_with("offset-context", [b"%d" % i for i in range(50)])
    cluster.create_topic("offset-context-out", partitions=1)
    source = Consumer.source_with_offset_context(settings, Subscriptions.topics(topic), until="end")
    envelopes = source.map(lambda r: ProducerMessage.message(ProducerRecord("offset-context-out", r.value), "lost"))
    sink = Producer.committable_sink_with_offset_context(producer_settings)
    envelopes.run_with(sink, system).result(60)
    assert len(read_all("offset-context-out")) == 50
    assert committed(topic) == {0: 50}


def test_a_result_is_its_message_with_where_it_is_stored(cluster, system, producer_settings):
    cluster.create_topic("result", partitions=1)
    message = ProducerMessage.message(ProducerRecord("result", b"v", key=b"k"), "passed")
    (result,) = (
        Source.single(message).via(Producer.flexi_flow(producer_settings)).run_with(Sink.to_list(), system).result(30)
    )
    assert result.message is message
    assert result.pass_through == "passed"
    assert (result.metadata.topic, result.metadata.partition, result.metadata.offset) == ("result", 0, 0)
    assert "result-0@0" in repr(result)


def test_a_record_too_large_is_an_error_of_this_package_in_its_turn(cluster, system, producer_settings):
    cluster.create_topic("large", partitions=1)
    records = [ProducerRecord("large", b"x"), ProducerRecord("large", b"x" * 2_000_000), ProducerRecord("large", b"y")]
    done = Source.from_iterable(records).run_with(Producer.plain_sink(producer_settings), system)
    with pytest.raises(RecordError, match="a record of 2000000 bytes cannot be sent"):
        done.result(30)


@pytest.mark.parametrize(
    ("record", "said"),
    [
        (ProducerRecord("typed", 5), "a value of int and a key of NoneType cannot be sent"),
        (ProducerRecord("typed", b"v", key=1.5), "a key of float cannot be sent"),
        (ProducerRecord("typed", b"v", timestamp=-5), "the timestamp -5 cannot be sent; it is ms since 1970"),
        (ProducerRecord("typed", b"v", timestamp="now"), "cannot be sent"),
        (ProducerRecord("typed", b"v", headers={"h": b"x"}), r"headers are a dict, .*; use list\(headers.items\(\)\)"),
        (
            ProducerRecord("typed", b"v", headers="ab"),
            "headers are a str, 'ab', .* a list of pairs of a name and bytes, a str or None",
        ),
        (ProducerRecord("typed", b"v", headers=["h"]), "headers pairs of a name and a value"),
    ],
)
def test_what_librdkafka_cannot_take_is_told_with_its_topic_and_type(cluster, system, producer_settings, record, said):
    cluster.create_topic(f"typed-{len(said)}", partitions=1)
    record = record._replace(topic=f"typed-{len(said)}")
    for graph in (
        Source.single(record).to_mat(Producer.plain_sink(producer_settings), Keep.right),
        Source.single(ProducerMessage.message(record))
        .via(Producer.flexi_flow(producer_settings))
        .to_mat(Sink.ignore(), Keep.right),
    ):
        with pytest.raises(RecordError, match=f"topic {record.topic}: .*{said}"):
            graph.run(system).result(60)


# ── fatal errors: librdkafka raises them in whatever call serves callbacks at that moment ──────────────────────────────


@pytest.mark.parametrize("serves", ["the stage", "a flush"])
def test_a_fenced_producer_fails_in_the_terms_of_this_package_whoever_serves_its_reports(cluster, wait_for, serves):
    """A second producer takes over -> the first one's next record is refused -> the stage, not the commit, serves the callback."""
    topic = f"fenced-{serves.split()[-1]}"
    cluster.create_topic(topic, partitions=1)
    settings = ProducerSettings(cluster.bootstrap_servers, transactional_id=topic)
    first, second = StreamProducer(settings), StreamProducer(settings)
    try:
        first.start().result(30)
        first.call(first.begin).result(30)
        second.start().result(30)
        first.send(ProducerRecord(topic, b"v"), {}.setdefault)
        with pytest.raises(ProducerFailed, match="fenced by a newer instance"):
            if serves == "a flush":
                first.call(first.flush).result(30)
            else:
                wait_for(lambda: first.serve(first.wake) and False, 30)
    finally:
        first.close(drop=True).result(30)
        second.close(drop=True).result(30)


@pytest.mark.parametrize("code", [ck.KafkaError.INVALID_PRODUCER_EPOCH, ck.KafkaError._FENCED])
def test_the_report_of_a_record_tells_that_the_producer_is_fenced_before_the_fatal_error_is_known(cluster, code):
    """Broker's answer -> report of the record -> a stage served the report -> the fatal error came behind it, and the run failed with RecordError."""
    record, error = ProducerRecord("t", b"v"), ck.KafkaError(code)
    for transactional_id, kind in (("fenced", ProducerFailed), (None, RecordError)):
        producer = StreamProducer(ProducerSettings(cluster.bootstrap_servers, transactional_id=transactional_id))
        assert isinstance(producer.not_delivered(record, error), kind)
        producer.close(drop=True).result(30)


class Fenced:
    """A client whose first poll raises a fatal error, and whose second one delivers its record."""

    def __init__(self):
        self.polls = 0
        self.delivered = threading.Event()

    def __len__(self):
        return 0 if self.delivered.is_set() else 1

    def poll(self, _):
        self.polls += 1
        if self.polls == 1:
            raise ck.KafkaException(ck.KafkaError(ck.KafkaError._FENCED, "fenced", fatal=True))
        self.delivered.set()
        return 1

    def purge(self, **_):
        pass


def test_the_thread_of_a_producer_serves_reports_on_after_a_fatal_error(producer_settings):
    producer = StreamProducer(producer_settings)
    real, producer._client = producer._client, Fenced()
    fenced = producer._client
    producer.wake()
    assert fenced.delivered.wait(30)
    producer.close(drop=True).result(30)
    assert real.flush(10) == 0  # also the lines that librdkafka has logged


class Denied:
    """A client whose one poll serves the last report, and then raises a fatal error."""

    waiting = 1

    def __len__(self):
        return self.waiting

    def poll(self, _):
        if self.waiting:
            self.waiting = 0
            raise ck.KafkaException(ck.KafkaError(ck.KafkaError.CLUSTER_AUTHORIZATION_FAILED, "no id", fatal=True))
        return 0

    def purge(self, **_):
        pass


def test_reports_that_came_with_a_fatal_error_are_told(producer_settings):
    producer = StreamProducer(producer_settings)
    told = threading.Event()
    producer.listen(told.set)
    producer._client = Denied()
    producer.wake()
    assert told.wait(30)
    producer.close(drop=True).result(30)


class NamesTheTopicLate:
    """A client whose commit fails of a topic that it must not write; the line of the log that names the topic waits for the next poll."""

    def __init__(self, logger):
        self._logger = logger

    def __len__(self):
        return 0

    def commit_transaction(self, _):
        raise ck.KafkaException(ck.KafkaError(ck.KafkaError.TOPIC_AUTHORIZATION_FAILED, "refused"))

    def poll(self, _):
        self._logger.log(logging.ERROR, 'Failed to add partition "orders" [0]: Broker: Topic authorization failed')
        return 0

    def purge(self, **_):
        pass


def test_a_failed_commit_names_the_topic_that_librdkafka_names_later(producer_settings):
    producer = StreamProducer(producer_settings)
    producer._client = NamesTheTopicLate(producer._connection)
    with pytest.raises(ProducerFailed, match="may not WRITE topic orders at"):
        producer.call(producer.commit, 1.0).result(30)
    producer.close(drop=True).result(30)


class KeepsTheRecord:
    """A client with a fatal error and a record that was sent while the client failed: it keeps the record until the queue is purged."""

    waiting = 1

    def __len__(self):
        return self.waiting

    def poll(self, _):
        return 0

    def flush(self, _):
        return self.waiting

    def purge(self, *, in_flight=True, blocking=True):
        self.waiting = 0


def test_a_record_that_was_sent_while_the_client_failed_is_purged(producer_settings):
    producer = StreamProducer(producer_settings)
    producer._connection.fatal = ck.KafkaError(ck.KafkaError.CLUSTER_AUTHORIZATION_FAILED, "no id", fatal=True)
    producer._client = KeepsTheRecord()
    producer.wake()
    producer.call(producer.flush).result(30)
    producer.close(drop=True).result(30)
