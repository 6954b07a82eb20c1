"""The spans of records that pass graphs inside stages, side sinks, windows and rebalances."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk", reason="the extra otel is not installed")

import reactivex.operators as rx
from opentelemetry import trace
from opentelemetry.trace import StatusCode

from streamactors import ActorSystem, Flow, Keep, Sink
from streamactors.broker import Cluster
from streamactors.kafka import Consumer, ConsumerSettings, Producer, ProducerSettings, Subscriptions
from tests.actors.eventually import eventually
from tests.tracing.spans import Recorder, id_of, parent_of

Send = Callable[..., None]


class Noted:
    """What a function saw: the current span of each value."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.spans: dict[str, int] = {}

    def __call__(self, record: Any) -> Any:
        with self._lock:
            self.spans[record.value.decode()] = trace.get_current_span().get_span_context().span_id
        return record


def by_offset(recorder: Recorder, topic: str) -> dict[str, int]:
    """Return the id of the process span of each record, by offset; the values of these tests equal their offsets."""
    return {
        str(dict(span.attributes or {})["messaging.kafka.offset"]): id_of(span)
        for span in recorder.named(f"process {topic}")
    }


def run(source: Any, system: ActorSystem) -> None:
    control, done = source.to_mat(Sink.ignore(), Keep.both).run(system)
    done.result(timeout=60)
    control.is_shutdown.result(timeout=60)


def reading(settings: ConsumerSettings, topic: str) -> Any:
    return Consumer.source(settings, Subscriptions.topics(topic), until="end")


def test_substreams_and_rx_operators_see_the_span_of_their_record(
    recorder: Recorder, settings: ConsumerSettings, send: Send, system: ActorSystem
) -> None:
    send("inside", 12)
    in_rx, in_substream = Noted(), Noted()
    stream = (
        reading(settings, "inside")
        .via(Flow.rx(rx.map(in_rx), rx.filter(lambda record: True)))
        .group_by(lambda record: int(record.value) % 3, 3)
        .map(in_substream)
        .merge_substreams()
    )
    run(stream, system)
    spans = by_offset(recorder, "inside")
    assert len(spans) == 12
    assert in_rx.spans == spans
    assert in_substream.spans == spans


def test_a_dead_letter_is_sent_in_the_trace_of_its_record(
    recorder: Recorder, settings: ConsumerSettings, producer_settings: ProducerSettings, cluster: Cluster, send: Send, system: ActorSystem
) -> None:  # fmt: skip
    send("retried", 4)
    cluster.create_topic("retried-dead")
    tries = Noted()
    flow = Flow.map(tries).map(lambda record: 6 // (int(record.value) - 2)).retry(
        2, "10ms", dead_letters=Producer.dead_letter_sink(producer_settings, "retried-dead")
    )  # fmt: skip
    run(reading(settings, "retried").via(flow), system)
    spans = by_offset(recorder, "retried")
    assert tries.spans == spans
    assert parent_of(recorder.one("send retried-dead")) == spans["2"]
    assert len(recorder.named("commit retried")) == 4


def test_every_branch_sees_the_record_and_all_of_them_end_its_span(
    recorder: Recorder, settings: ConsumerSettings, send: Send, system: ActorSystem
) -> None:
    send("branches", 6)
    left, right = Noted(), Noted()
    gate = threading.Event()

    def slow(record: Any) -> None:
        gate.wait(30)
        right(record)

    stream = reading(settings, "branches").also_to(Flow.async_boundary().to(Sink.foreach(slow))).map(left)
    control, done = stream.to_mat(Sink.ignore(), Keep.both).run(system)
    eventually(lambda: len(left.spans) == 6)
    assert recorder.named("process branches") == []
    gate.set()
    done.result(timeout=60)
    control.is_shutdown.result(timeout=60)
    spans = by_offset(recorder, "branches")
    assert left.spans == right.spans == spans


def test_an_opaque_stage_ends_the_span_of_the_record(
    recorder: Recorder, settings: ConsumerSettings, send: Send, system: ActorSystem
) -> None:
    send("opaque", 3)
    stream = Consumer.plain_source(settings, Subscriptions.topics("opaque"), until="end")
    run(stream.via(Flow.rx(rx.group_by(lambda record: record.value), rx.flat_map(lambda group: group))), system)
    assert len(recorder.named("process opaque")) == 3


@pytest.mark.expects_log("in flight", "revoked")
def test_a_rebalance_leaves_no_span_open(
    recorder: Recorder, settings: ConsumerSettings, send: Send, cluster: Cluster
) -> None:
    n, partitions = 300, 4
    send("rebalanced", n, partitions)
    seen: set[tuple[int, int]] = set()
    lock = threading.Lock()

    def work(record: Any) -> Any:
        with lock:
            seen.add((record.partition, record.offset))
        threading.Event().wait(0.002)
        return record

    graph = (
        Consumer.source(settings, Subscriptions.topics("rebalanced"))
        .map_async(2, work)
        .to_mat(Sink.ignore(), Keep.left)
    )
    with ActorSystem("first") as first, ActorSystem("second") as second:
        one = graph.run(first)
        eventually(lambda: len(seen) > 20)
        two = graph.run(second)
        eventually(lambda: len(seen) == n)
        for control in (two, one):
            control.stop()
            control.is_shutdown.result(timeout=60)
    recorder.check()
    assert {(span.attributes["messaging.destination.partition.id"], span.attributes["messaging.kafka.offset"])
            for span in recorder.named("process rebalanced")} == {(str(p), o) for p, o in seen}  # fmt: skip
    assert all(span.status.status_code is StatusCode.UNSET for span in recorder.named("process rebalanced"))
