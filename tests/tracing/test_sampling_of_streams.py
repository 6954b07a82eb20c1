"""Which records of a stream are traced, and what strangers cannot do."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk", reason="the extra otel is not installed")

from confluent_kafka import Producer as BareProducer

from streamactors import ActorSystem, Keep, Sink, Source, SourceRef, StreamRefs, tracing
from streamactors.broker import Cluster
from streamactors.kafka import Consumer, ConsumerSettings, Producer, ProducerRecord, ProducerSettings, Subscriptions
from tests.tracing.spans import Recorder, id_of, parent_of, trace_of

GOOD = b"00-%032x-%016x-01"
NOT_SAMPLED = b"00-%032x-%016x-00"


@pytest.fixture
def bare(cluster: Cluster) -> Callable[[str, list[list[tuple[str, bytes | None]]]], None]:
    """Write records with these headers, as another program does."""

    def write(topic: str, headers: list[list[tuple[str, bytes | None]]]) -> None:
        cluster.create_topic(topic)
        producer = BareProducer({"bootstrap.servers": cluster.bootstrap_servers})
        for n, each in enumerate(headers):
            producer.produce(topic, str(n), headers=each, partition=0)
        assert producer.flush(30) == 0

    return write


def offsets(recorder: Recorder, topic: str) -> list[Any]:
    return [dict(span.attributes or {})["messaging.kafka.offset"] for span in recorder.named(f"process {topic}")]


def read(settings: ConsumerSettings, topic: str, system: ActorSystem) -> int:
    """Read a topic to its end; return the number of records."""
    source = Consumer.source(settings, Subscriptions.topics(topic), until="end")
    control, count = source.to_mat(Sink.count(), Keep.both).run(system)
    control.is_shutdown.result(timeout=60)
    found: int = count.result(timeout=60)
    return found


def test_a_source_follows_what_the_producer_has_decided(
    bare: Any, settings: ConsumerSettings, system: ActorSystem
) -> None:
    bare("decided", [[("traceparent", GOOD % (7, 8))], [("traceparent", NOT_SAMPLED % (9, 9))], [("id", b"1")], []])
    recorder = Recorder()
    with tracing.install(provider=recorder.provider, ratio=0.0):
        assert read(settings, "decided", system) == 4
    assert offsets(recorder, "decided") == [0]
    span = recorder.one("process decided")
    assert (trace_of(span), parent_of(span)) == (7, 8)


def test_a_source_begins_traces_of_records_without_a_context(
    bare: Any, settings: ConsumerSettings, system: ActorSystem
) -> None:
    bare("begun", [[], [("traceparent", NOT_SAMPLED % (9, 9))], [("id", b"1")]])
    recorder = Recorder()
    with tracing.install(provider=recorder.provider, ratio=1.0):
        read(settings, "begun", system)
    recorder.check()
    assert offsets(recorder, "begun") == [0, 2]  # the producer of the other one has decided
    assert {parent_of(span) for span in recorder.named("process begun")} <= set(
        map(id_of, recorder.named("poll begun"))
    )


def test_one_in_a_thousand_records_is_traced_from_end_to_end(
    cluster: Cluster, settings: ConsumerSettings, producer_settings: ProducerSettings, system: ActorSystem
) -> None:
    n = 20_000
    cluster.create_topic("thousand", partitions=3)
    recorder = Recorder()
    with tracing.install(provider=recorder.provider, ratio=0.001):
        records = Source.range(0, n).map(lambda i: ProducerRecord("thousand", str(i), None, i % 3))
        records.run_with(Producer.plain_sink(producer_settings), system).result(timeout=60)
        sent = recorder.named("send thousand")
    assert 3 <= len(sent) <= 60
    with tracing.install(provider=recorder.provider, ratio=0.0):  # the reader begins none
        assert read(settings, "thousand", system) == n
    recorder.check()
    assert {parent_of(span) for span in recorder.named("process thousand")} == set(map(id_of, sent))
    assert len(recorder.named("commit thousand")) == len(sent)


def test_hostile_headers_are_ignored_and_logged_once(
    bare: Any, settings: ConsumerSettings, system: ActorSystem, caplog: pytest.LogCaptureFixture
) -> None:
    hostile: list[list[tuple[str, bytes | None]]] = [
        [("traceparent", b"x" * 100_000)],
        [("traceparent", b"\xff\x00\n")],
        [("traceparent", None)],
        [("traceparent", GOOD % (1, 2)), ("traceparent", GOOD % (3, 4))],
        [("traceparent", GOOD % (1, 2))] * 1_000,
        [("traceparent", b"00-" + b"0" * 32 + b"-" + b"0" * 16 + b"-01")],
        [("traceparent", GOOD % (5, 6)), ("tracestate", b"a" * 10_000)],
    ]
    bare("hostile", hostile)
    recorder = Recorder()
    with caplog.at_level(logging.WARNING), tracing.install(provider=recorder.provider, ratio=0.0):
        assert read(settings, "hostile", system) == len(hostile)
    assert offsets(recorder, "hostile") == [len(hostile) - 1]
    assert [record.name for record in caplog.records] == ["streamactors.tracing"]


def test_a_stream_without_sampled_records_makes_no_span(
    cluster: Cluster, settings: ConsumerSettings, producer_settings: ProducerSettings, system: ActorSystem
) -> None:
    cluster.create_topic("quiet")
    recorder = Recorder()
    with tracing.install(provider=recorder.provider, ratio=0.0):
        Source.single(ProducerRecord("quiet", "1")).run_with(Producer.plain_sink(producer_settings), system).result(
            timeout=60
        )
        assert read(settings, "quiet", system) == 1
    assert recorder.started == []


def test_the_context_crosses_a_stream_ref(
    cluster: Cluster, bare: Any, settings: ConsumerSettings, producer_settings: ProducerSettings, system: ActorSystem
) -> None:
    bare("into-ref", [[], [("traceparent", GOOD % (7, 8))], []])
    cluster.create_topic("out-of-ref")
    recorder = Recorder()
    with tracing.install(provider=recorder.provider, ratio=0.0), ActorSystem("other") as other:
        source = Consumer.source(settings, Subscriptions.topics("into-ref"), until="end")
        control, place = source.map(lambda record: record.value).to_mat(StreamRefs.source_ref(), Keep.both).run(system)
        received = SourceRef.parse(str(place.result(timeout=30))).source()
        writing = received.map(lambda value: ProducerRecord("out-of-ref", value))
        writing.run_with(Producer.plain_sink(producer_settings), other).result(timeout=60)
        control.is_shutdown.result(timeout=60)
    processed = recorder.one("process into-ref")
    (in_ref,) = (
        span for span in recorder.ended if span.name.startswith("stage ") and parent_of(span) == id_of(processed)
    )
    written = recorder.one("send out-of-ref")
    assert parent_of(written) == id_of(in_ref)
    assert trace_of(written) == 7
    assert dict(written.attributes or {})["messaging.kafka.offset"] == 1


def test_streams_that_are_shut_down_end_their_spans(
    cluster: Cluster, settings: ConsumerSettings, producer_settings: ProducerSettings
) -> None:
    cluster.create_topic("endless")
    recorder = Recorder()
    with tracing.install(provider=recorder.provider), ActorSystem("ends") as system:
        records = Source.range(0, 50).map(lambda i: ProducerRecord("endless", str(i)))
        records.run_with(Producer.plain_sink(producer_settings), system).result(timeout=60)
        source = Consumer.source(settings, Subscriptions.topics("endless"))
        started = (
            source.map_async(1, lambda record: record).grouped(1_000).to_mat(Sink.ignore(), Keep.right).run(system)
        )
        from tests.actors.eventually import eventually

        eventually(lambda: len([span for span in recorder.started if span.name == "process endless"]) == 50)
    assert started.exception(timeout=30) is not None
    recorder.check()


def test_a_library_import_loads_no_opentelemetry() -> None:
    import subprocess
    import sys

    program = "import sys, streamactors.kafka, streamactors.tracing; from streamactors.kafka import Consumer, Producer; print('opentelemetry' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
