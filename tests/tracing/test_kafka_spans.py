"""The spans of records on their way from one topic to another, in one process. Over 400 lines: one pipeline, and each way in which its records may end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk", reason="the extra otel is not installed")

from opentelemetry import trace
from opentelemetry.trace import SpanKind, StatusCode

from streamactors import ActorSystem, Directive, Keep, RestartSettings, RestartSource, Sink, tracing
from streamactors.broker import Cluster
from streamactors.errors import BuildError
from streamactors.kafka import (
    Committer,
    CommitterSettings,
    Consumer,
    ConsumerSettings,
    MetadataClient,
    Producer,
    ProducerRecord,
    ProducerSettings,
    SendProducer,
    Subscriptions,
    Transactional,
)
from tests.actors.eventually import eventually
from tests.tracing.spans import Recorder, id_of, linked, parent_of, trace_of

Send = Callable[..., None]


def current() -> int:
    """Return the id of the current span."""
    return trace.get_current_span().get_span_context().span_id


def source(settings: ConsumerSettings, topic: str) -> Any:
    return Consumer.source(settings, Subscriptions.topics(topic), until="end")


def run(graph: Any, system: ActorSystem) -> Any:
    """Run a graph of a consumer and a sink to its end; return the sink's result."""
    control, done = graph.run(system)
    result = done.result(timeout=60)
    control.is_shutdown.result(timeout=60)
    return result


def test_a_record_has_one_trace_from_its_producer_to_its_commit(
    recorder: Recorder, settings: ConsumerSettings, producer_settings: ProducerSettings, cluster: Cluster, send: Send, system: ActorSystem
) -> None:  # fmt: skip
    send("one-trace", 3)
    cluster.create_topic("one-trace-out")
    copies = source(settings, "one-trace").map(lambda record: ProducerRecord("one-trace-out", record.value))
    run(copies.to_mat(Producer.plain_sink(producer_settings), Keep.both), system)
    sent, processed = recorder.named("send one-trace"), recorder.named("process one-trace")
    again, commits = recorder.named("send one-trace-out"), recorder.named("commit one-trace")
    assert [parent_of(span) for span in sent] == [None] * 3
    assert [parent_of(span) for span in processed] == [id_of(span) for span in sent]
    assert [linked(span) for span in processed] == [{id_of(span)} for span in sent]
    assert [parent_of(span) for span in again] == [id_of(span) for span in processed]
    assert sorted(map(parent_of, commits)) == sorted(map(id_of, processed))
    polls = recorder.named("poll one-trace")
    assert set().union(*map(linked, polls)) == {id_of(span) for span in sent}
    assert sum(span.attributes["messaging.batch.message_count"] for span in polls) == 3
    assert [span.kind for span in (sent[0], polls[0], processed[0], commits[0])] == [
        SpanKind.PRODUCER, SpanKind.CLIENT, SpanKind.CONSUMER, SpanKind.CLIENT,
    ]  # fmt: skip
    assert [span.attributes["messaging.kafka.offset"] for span in processed] == [0, 1, 2]
    assert dict(processed[1].attributes) == {
        "messaging.system": "kafka",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": "one-trace",
        "messaging.destination.partition.id": "0",
        "messaging.kafka.offset": 1,
        "messaging.kafka.message.key": "k1",
        "messaging.consumer.group.name": settings.group_id,
    }


def test_functions_see_the_span_of_their_record(
    recorder: Recorder, settings: ConsumerSettings, send: Send, system: ActorSystem
) -> None:
    send("functions", 20)
    seen: dict[str, list[tuple[bytes, int]]] = {name: [] for name in ("fused", "later", "pool", "coroutine", "sink")}
    lock = threading.Lock()

    def note(where: str, record: Any) -> Any:
        with lock:
            seen[where].append((record.value, current()))
        return record

    async def coroutine(record: Any) -> Any:
        return note("coroutine", record)

    graph = (
        source(settings, "functions")
        .map(lambda record: note("fused", record))
        .map_async(4, lambda record: note("pool", record))
        .async_boundary()
        .map_async(4, coroutine)
        .map(lambda record: note("later", record))
        .to_mat(Sink.foreach(lambda record: note("sink", record)), Keep.both)
    )
    run(graph, system)
    spans = {
        str(span.attributes["messaging.kafka.offset"]): id_of(span) for span in recorder.named("process functions")
    }
    assert len(spans) == 20
    for where, noted in seen.items():
        assert {value.decode(): span for value, span in noted} == spans, where
    assert current() == 0


def test_a_span_of_the_users_is_a_child_of_the_record(
    recorder: Recorder, settings: ConsumerSettings, send: Send, system: ActorSystem
) -> None:
    send("own-spans", 1)
    tracer = recorder.provider.get_tracer("user")

    def look_up(record: Any) -> Any:
        with tracer.start_as_current_span("look up"):
            return record

    run(source(settings, "own-spans").map(look_up).to_mat(Sink.ignore(), Keep.both), system)
    assert parent_of(recorder.one("look up")) == id_of(recorder.one("process own-spans"))


def test_a_batch_links_its_records(
    recorder: Recorder, settings: ConsumerSettings, producer_settings: ProducerSettings, cluster: Cluster, send: Send, system: ActorSystem
) -> None:  # fmt: skip
    send("batched", 10)
    cluster.create_topic("batches")
    graph = (
        source(settings, "batched")
        .grouped(4)
        .map(lambda batch: ProducerRecord("batches", b",".join(record.value for record in batch)))
        .to_mat(Producer.plain_sink(producer_settings), Keep.both)
    )
    run(graph, system)
    processed = [id_of(span) for span in recorder.named("process batched")]
    written = recorder.named("send batches")
    assert len(processed) == 10
    assert [parent_of(span) for span in written] == [None] * len(written)
    assert set().union(*map(linked, written)) == set(processed)


def test_an_element_of_a_merge_has_links(
    recorder: Recorder, settings: ConsumerSettings, producer_settings: ProducerSettings, cluster: Cluster, send: Send, system: ActorSystem
) -> None:  # fmt: skip
    send("left", 5)
    send("right", 5)
    cluster.create_topic("merged")
    right = Consumer.source(replace(settings, group_id="right"), Subscriptions.topics("right"), until="end")
    graph = (
        source(settings, "left")
        .merge(right)
        .map(lambda record: ProducerRecord("merged", record.value))
        .to_mat(Producer.plain_sink(producer_settings), Keep.both)
    )
    run(graph, system)
    processed = {id_of(span) for name in ("left", "right") for span in recorder.named(f"process {name}")}
    assert len(processed) == 10
    assert set().union(*map(linked, recorder.named("send merged"))) == processed


def test_stages_have_spans_where_asked(settings: ConsumerSettings, send: Send, system: ActorSystem) -> None:
    recorder = Recorder()
    with tracing.install(provider=recorder.provider, stages=True):
        send("stages", 2)
        graph = (
            source(settings, "stages")
            .map(lambda record: record)
            .async_boundary()
            .map_async(2, lambda record: record)
            .named("look up")
            .to_mat(Sink.ignore(), Keep.both)
        )
        run(graph, system)
    recorder.check()
    processed = [id_of(span) for span in recorder.named("process stages")]
    names = {span.name for span in recorder.ended if span.name.startswith("stage ")}
    assert "stage look up" in names
    assert not any("boundary" in name for name in names)
    assert [parent_of(span) for span in recorder.named("stage look up")] == processed


def test_a_failed_stage_fails_the_span_of_its_record(
    recorder: Recorder, settings: ConsumerSettings, send: Send, system: ActorSystem
) -> None:
    send("failing", 5)

    def fail(record: Any) -> Any:
        if record.value == b"3":
            raise OSError("disk full")
        return record

    control, done = source(settings, "failing").async_boundary().map(fail).to_mat(Sink.ignore(), Keep.both).run(system)
    assert isinstance(done.exception(timeout=30), OSError)
    control.is_shutdown.exception(timeout=30)
    failed = {
        span.attributes["messaging.kafka.offset"]: [event.name for event in span.events]
        for span in recorder.named("process failing")
        if span.status.status_code is StatusCode.ERROR
    }
    assert failed[3] == ["exception"]
    assert 0 not in failed or failed[0] == []
    (event,) = next(span for span in recorder.named("process failing") if span.events).events
    assert event.attributes["exception.message"] == "disk full"


def test_a_failed_step_inside_the_source_fails_the_span_of_its_record(
    recorder: Recorder, settings: ConsumerSettings, send: Send, system: ActorSystem
) -> None:
    send("failing-inside", 3)
    control, done = (
        source(settings, "failing-inside")
        .map(lambda record: 1 // int(record.value))
        .to_mat(Sink.ignore(), Keep.both)
        .run(system)
    )
    assert isinstance(done.exception(timeout=30), ZeroDivisionError)
    control.is_shutdown.exception(timeout=30)
    span = recorder.one("process failing-inside")
    assert span.status.status_code is StatusCode.ERROR
    assert span.attributes["error.type"] == "ZeroDivisionError"


@pytest.mark.expects_log("skipped: ZeroDivisionError")
def test_a_skipped_record_tells_why(
    recorder: Recorder, settings: ConsumerSettings, send: Send, system: ActorSystem
) -> None:
    send("skipped", 3)
    graph = (
        source(settings, "skipped")
        .map(lambda record: 1 // int(record.value))
        .with_attributes(decider=lambda error: Directive.RESUME)
        .to_mat(Sink.ignore(), Keep.both)
    )
    run(graph, system)
    first, *others = recorder.named("process skipped")
    assert [event.name for event in first.events] == ["exception"]
    assert first.status.status_code is StatusCode.ERROR
    assert all(span.status.status_code is StatusCode.UNSET for span in others)


def test_a_transaction_ends_the_spans_of_what_it_writes(
    recorder: Recorder, settings: ConsumerSettings, producer_settings: ProducerSettings, cluster: Cluster, send: Send, system: ActorSystem
) -> None:  # fmt: skip
    send("in", 4)
    cluster.create_topic("out")
    graph = (
        Transactional.source(settings, Subscriptions.topics("in"), until="end")
        .map(lambda record: ProducerRecord("out", record.value))
        .to_mat(Transactional.sink(producer_settings.with_transactional_id("tx-spans")), Keep.both)
    )
    run(graph, system)
    processed = [id_of(span) for span in recorder.named("process in")]
    written = recorder.named("send out")
    assert [parent_of(span) for span in written] == processed
    assert all(span.status.status_code is StatusCode.UNSET for span in written)
    assert sorted(map(parent_of, recorder.named("commit in"))) == sorted(processed)


def test_an_aborted_transaction_fails_the_spans_of_what_it_wrote(
    recorder: Recorder, settings: ConsumerSettings, producer_settings: ProducerSettings, cluster: Cluster, send: Send, system: ActorSystem
) -> None:  # fmt: skip
    send("in-aborted", 4)
    cluster.create_topic("out-aborted")
    # on a slow machine the first records would be committed before the last one fails
    one_transaction = replace(producer_settings, commit_interval_ms=60_000)

    def copy(record: Any) -> ProducerRecord:
        if record.value == b"3":
            raise OSError("disk full")
        return ProducerRecord("out-aborted", record.value)

    graph = (
        Transactional.source(settings, Subscriptions.topics("in-aborted"), until="end")
        .async_boundary()
        .map(copy)
        .to_mat(Transactional.sink(one_transaction.with_transactional_id("tx-aborted")), Keep.both)
    )
    control, done = graph.run(system)
    assert isinstance(done.exception(timeout=30), OSError)
    control.is_shutdown.exception(timeout=30)
    written = recorder.named("send out-aborted")
    assert all(span.status.status_code is StatusCode.ERROR for span in written)
    assert recorder.named("commit in-aborted") == []


@pytest.mark.expects_log("failed with OSError: once", "still in flight")
def test_a_restarted_source_traces_the_records_again(
    recorder: Recorder, settings: ConsumerSettings, send: Send, system: ActorSystem
) -> None:
    send("restarted", 5)
    failed = threading.Event()

    def once(record: Any) -> Any:
        if record.value == b"2" and not failed.is_set():
            failed.set()
            raise OSError("once")
        return record

    restarts = RestartSettings("10ms", "20ms", max_restarts=3)
    flow = RestartSource.on_failures_with_backoff(restarts, lambda: source(settings, "restarted").map(once))
    flow.run_with(Sink.foreach(lambda record: None), system).result(timeout=60)
    assert failed.is_set()

    def offsets() -> list[Any]:
        return [dict(span.attributes or {})["messaging.kafka.offset"] for span in recorder.named("process restarted")]

    # how many records are read again depends on what was committed when the function raised
    eventually(lambda: set(offsets()) == set(range(5)))
    processed = recorder.named("process restarted")
    assert offsets().count(2) == 2
    statuses = [span.status.status_code for span in processed if span.attributes["messaging.kafka.offset"] == 2]
    assert statuses == [StatusCode.ERROR, StatusCode.UNSET]


def test_committed_offsets_have_a_span(
    recorder: Recorder, settings: ConsumerSettings, send: Send, system: ActorSystem
) -> None:
    send("committable", 4)
    graph = (
        Consumer.committable_source(settings, Subscriptions.topics("committable"), until="end")
        .map(lambda message: message.offset)
        .to_mat(Committer.sink(CommitterSettings(max_batch=2)), Keep.both)
    )
    run(graph, system)
    assert sorted(map(parent_of, recorder.named("commit committable"))) == sorted(
        map(id_of, recorder.named("process committable"))
    )


def test_a_plain_source_ends_its_spans_when_every_sink_is_done(
    recorder: Recorder, settings: ConsumerSettings, send: Send, system: ActorSystem
) -> None:
    send("plain", 6)
    at_end = []

    def look(record: Any) -> None:
        at_end.append(len(recorder.named("process plain")))

    graph = Consumer.plain_source(settings, Subscriptions.topics("plain"), until="end")
    run(graph.async_boundary().to_mat(Sink.foreach(look), Keep.both), system)
    assert len(recorder.named("process plain")) == 6
    assert recorder.named("commit plain") == []
    assert at_end[0] == 0  # the first record was still open at the sink


def test_a_send_producer_continues_the_trace_of_the_caller(
    recorder: Recorder, cluster: Cluster, producer_settings: ProducerSettings
) -> None:
    cluster.create_topic("by-hand")
    tracer = recorder.provider.get_tracer("user")
    with SendProducer(producer_settings) as producer:
        with tracer.start_as_current_span("request"):
            producer.send(ProducerRecord("by-hand", b"1")).result(timeout=30)
        producer.send(ProducerRecord("by-hand", b"2", headers=[("traceparent", b"mine"), ("id", b"7")])).result(
            timeout=30
        )
    first, second = recorder.named("send by-hand")
    assert parent_of(first) == id_of(recorder.one("request"))
    assert parent_of(second) is None
    assert trace_of(second) != trace_of(first)


def test_a_record_that_cannot_be_sent_fails_its_span(
    recorder: Recorder, cluster: Cluster, producer_settings: ProducerSettings
) -> None:
    cluster.create_topic("refused")
    with SendProducer(producer_settings) as producer:
        assert producer.send(ProducerRecord("refused", b"x", partition=99)).exception(timeout=60) is not None
    assert recorder.one("send refused").status.status_code is StatusCode.ERROR


def test_traces_are_installed_once(recorder: Recorder) -> None:
    with pytest.raises(BuildError, match="installed already"):
        tracing.install(provider=recorder.provider)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ratio": 2}, "ratio must be between 0 and 1, got 2"),
        ({"export": "jaeger:host"}, "traces go to console, otlp or otlp:URL"),
        ({"export": "otlp:ftp://host"}, "traces go to console, otlp or otlp:URL"),
        ({"export": "console", "provider": object()}, "give `export` or `provider`"),
    ],
)
def test_a_wrong_option_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BuildError, match=message):
        tracing.install(**options)
    assert not tracing.is_installed()


def test_tracing_commits_nothing_else(
    recorder: Recorder, settings: ConsumerSettings, cluster: Cluster, send: Send, system: ActorSystem
) -> None:
    """A mark before the first sampled record committed offset 0 for a group that had done nothing."""
    send("not-done", 3)

    def fail(record: Any) -> Any:
        raise OSError("disk full")

    control, done = source(settings, "not-done").async_boundary().map(fail).to_mat(Sink.ignore(), Keep.both).run(system)
    assert isinstance(done.exception(timeout=30), OSError)
    control.is_shutdown.exception(timeout=30)
    with MetadataClient(settings) as metadata:
        assert metadata.committed([("not-done", 0)]) == {}
