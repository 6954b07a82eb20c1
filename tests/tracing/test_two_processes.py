"""One trace over processes: a producer here, a pipeline with a worker process in another one, and a reader here; a collector receives it over OTLP."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("opentelemetry.sdk", reason="the extra otel is not installed")

from streamactors import ActorSystem, Keep, Sink, Source, tracing
from streamactors.broker import Cluster
from streamactors.kafka import Consumer, ConsumerSettings, Producer, ProducerRecord, ProducerSettings, Subscriptions
from tests.tracing.collector import Collector, Received

PROGRAM = Path(__file__).with_name("two_processes.py")
RECORDS = 3


@pytest.fixture(scope="module")
def received() -> list[Received]:
    """Run the pipeline once; return what the collector has received."""
    with Collector() as collector, Cluster() as cluster, ActorSystem("tracing") as system:
        for topic in ("numbers", "doubled"):
            cluster.create_topic(topic)
        at = cluster.bootstrap_servers
        with tracing.install(f"otlp:{collector.url}", service_name="test"):
            records = Source.range(0, RECORDS).map(lambda n: ProducerRecord("numbers", str(n), str(n)))
            records.run_with(Producer.plain_sink(ProducerSettings(at)), system).result(timeout=60)
            done = subprocess.run(
                [sys.executable, str(PROGRAM), at, "numbers", "doubled", collector.url],
                capture_output=True, text=True, timeout=100, check=False,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr
            settings = ConsumerSettings(at, group_id="reader", auto_offset_reset="earliest")
            reading = Consumer.source(settings, Subscriptions.topics("doubled"), until="end")
            control, values = reading.map(lambda record: record.value).to_mat(Sink.to_list(), Keep.both).run(system)
            assert values.result(timeout=60) == [str(2 * n).encode() for n in range(RECORDS)]
            control.is_shutdown.result(timeout=60)
        return collector.spans


def named(spans: list[Received], name: str) -> list[Received]:
    return sorted((span for span in spans if span.name == name), key=lambda span: span.start_ns)


def test_no_span_is_an_orphan_and_none_comes_twice(received: list[Received]) -> None:
    ids = [span.span_id for span in received]
    assert len(ids) == len(set(ids))
    traces = {span.span_id: span.trace_id for span in received}
    for span in received:
        assert not span.parent or traces[span.parent] == span.trace_id, span
        assert all(link.span_id in traces for link in span.links), span
        assert not span.failed


def test_a_record_is_in_one_trace_from_the_first_producer_to_the_last_reader(received: list[Received]) -> None:
    for sent in named(received, "send numbers"):
        (processed,) = children(received, sent, "process numbers")
        (written,) = children(received, processed, "send doubled")
        (read,) = children(received, written, "process doubled")
        assert {link.span_id for link in processed.links} == {sent.span_id}
        assert {link.span_id for link in read.links} == {written.span_id}
        assert len(children(received, processed, "commit numbers")) == 1
        assert len(children(received, read, "commit doubled")) == 1
        assert (sent.kind, processed.kind, sent.service, processed.service) == ("PRODUCER", "CONSUMER", "test", "copy")
        assert sent.start_ns <= processed.start_ns <= written.start_ns <= read.start_ns
        assert sent.attributes["messaging.kafka.offset"] == processed.attributes["messaging.kafka.offset"]


def test_a_worker_process_exports_its_stage_and_the_spans_of_the_user(received: list[Received]) -> None:
    processed = named(received, "process numbers")
    assert len(processed) == RECORDS
    for span in processed:
        assert len(children(received, span, "double")) == 1
        assert len(children(received, span, "stage map")) >= 1
        assert any(each.name.startswith("stage rx") for each in received if each.parent == span.span_id)


def test_polls_link_what_they_brought(received: list[Received]) -> None:
    polls = named(received, "poll numbers")
    assert {link.span_id for poll in polls for link in poll.links} == {
        span.span_id for span in named(received, "send numbers")
    }
    assert sum(poll.attributes["messaging.batch.message_count"] for poll in polls) == RECORDS


def children(spans: list[Received], parent: Received, name: str) -> list[Received]:
    return [span for span in spans if span.name == name and span.parent == parent.span_id]
