"""The context of a record in the worker processes of `map_parallel`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk", reason="the extra otel is not installed")

from opentelemetry.trace import StatusCode

from streamactors import ActorSystem, Directive, Keep, Sink, Source, tracing
from streamactors.kafka import Consumer, ConsumerSettings, Producer, ProducerRecord, ProducerSettings, Subscriptions
from tests.actors.eventually import eventually
from tests.tracing.collector import Collector
from tests.tracing.spans import Recorder, id_of

Send = Callable[..., None]


def value_of(record: Any) -> bytes:
    found: bytes = record.value
    return found


def span_of(value: bytes) -> tuple[bytes, int]:
    """In the worker process: return the value, and the id of the current span."""
    from opentelemetry import trace

    return value, trace.get_current_span().get_span_context().span_id


def halved(value: bytes) -> float:
    """In the worker process: a span of the user's, and an error for one value."""
    from opentelemetry import trace

    with trace.get_tracer("user").start_as_current_span("halve"):
        return 1 / (int(value) - 1)


def resume(error: Exception) -> Directive:
    return Directive.RESUME


@pytest.mark.parametrize("ordered", [True, False])
def test_functions_in_worker_processes_see_the_span_of_their_record(
    recorder: Recorder, settings: ConsumerSettings, send: Send, system: ActorSystem, ordered: bool
) -> None:
    topic = f"parallel-{ordered}"
    send(topic, 6)
    reading = Consumer.source(settings, Subscriptions.topics(topic), until="end").map(value_of)
    stream = reading.map_parallel(span_of, processes=2, ordered=ordered)
    control, seen = stream.to_mat(Sink.to_list(), Keep.both).run(system)
    found = dict(seen.result(timeout=60))
    control.is_shutdown.result(timeout=60)
    spans = {
        str(dict(span.attributes or {})["messaging.kafka.offset"]).encode(): id_of(span)
        for span in recorder.named(f"process {topic}")
    }
    assert len(spans) == 6
    assert found == spans


def test_an_error_in_a_worker_process_fails_the_span_of_its_record_alone(
    recorder: Recorder, settings: ConsumerSettings, send: Send, system: ActorSystem
) -> None:
    send("fails-in-parallel", 3)
    reading = Consumer.source(settings, Subscriptions.topics("fails-in-parallel"), until="end").map(value_of)
    control, done = reading.map_parallel(halved, processes=1).to_mat(Sink.ignore(), Keep.both).run(system)
    assert done.exception(timeout=60) is not None
    control.is_shutdown.exception(timeout=60)
    eventually(lambda: len(recorder.ended) == len(recorder.started))
    processed = recorder.named("process fails-in-parallel")
    (failed,) = (span for span in processed if span.events)
    assert dict(failed.attributes or {})["messaging.kafka.offset"] == 1
    assert [event.name for event in failed.events] == ["exception"]
    assert failed.status.status_code is StatusCode.ERROR


@pytest.mark.expects_log("skipped: ZeroDivisionError")
def test_a_worker_process_exports_the_spans_of_the_user_and_tells_why_an_element_was_dropped(
    cluster: Any, settings: ConsumerSettings, system: ActorSystem
) -> None:
    with Collector() as collector:
        cluster.create_topic("halves")
        with tracing.install(f"otlp:{collector.url}", service_name="test"):
            records = Source.range(0, 3).map(lambda n: ProducerRecord("halves", str(n)))
            records.run_with(Producer.plain_sink(ProducerSettings(cluster.bootstrap_servers)), system).result(60)
            reading = Consumer.source(settings, Subscriptions.topics("halves"), until="end").map(value_of)
            stream = reading.map_parallel(halved, processes=1).with_attributes(decider=resume)
            control, done = stream.to_mat(Sink.to_list(), Keep.both).run(system)
            assert done.result(timeout=60) == [-1.0, 1.0]
            control.is_shutdown.result(timeout=60)
        eventually(lambda: sum(span.name == "halve" for span in collector.spans) == 3)
        eventually(lambda: any(span.name.startswith("stage ") for span in collector.spans))
    processed = {span.span_id: span for span in collector.spans if span.name == "process halves"}
    assert {span.parent for span in collector.spans if span.name == "halve"} == set(processed)
    (dropped,) = (span for span in collector.spans if span.name.startswith("stage "))
    assert dropped.failed
    assert dropped.events == ("exception",)
    assert processed[dropped.parent].attributes["messaging.kafka.offset"] == 1
