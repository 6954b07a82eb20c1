"""The spans of records that a transaction writes twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk", reason="the extra otel is not installed")

from opentelemetry.trace import StatusCode

from streamactors import ActorSystem, Keep, Sink
from streamactors.broker import Cluster
from streamactors.kafka import (
    Consumer,
    ConsumerSettings,
    ProducerRecord,
    ProducerSettings,
    Subscriptions,
    Transactional,
)
from streamactors.kafka.client.diagnosis.delivery_errors import StaleMembership
from streamactors.kafka.client.producer import StreamProducer
from tests.tracing.spans import Recorder, id_of, parent_of


def finished(graph: Any, system: ActorSystem) -> Any:
    control, done = graph.run(system)
    result = done.result(timeout=60)
    control.is_shutdown.result(timeout=60)
    return result


def test_a_record_that_is_written_again_keeps_its_trace(
    recorder: Recorder,
    settings: ConsumerSettings,
    producer_settings: ProducerSettings,
    cluster: Cluster,
    send: Callable[..., None],
    system: ActorSystem,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The records that were kept to be written again were those of the user, without the context of their spans: the trace ended at the rebalance.
    genuine, refusals = StreamProducer.send_offsets, [StaleMembership("the group has rebalanced")]

    def send_offsets(*arguments: Any) -> None:
        if refusals:
            raise refusals.pop()
        genuine(*arguments)

    monkeypatch.setattr(StreamProducer, "send_offsets", send_offsets)
    send("twice", 3)
    cluster.create_topic("twice-out")
    copy = (
        Transactional.source(settings, Subscriptions.topics("twice"), until="end")
        .map(lambda record: ProducerRecord("twice-out", record.value))
        .to_mat(Transactional.sink(producer_settings.with_transactional_id("tx-twice")), Keep.both)
    )
    finished(copy, system)
    assert refusals == []
    reading = Consumer.source(settings.with_group_id("twice-reader"), Subscriptions.topics("twice-out"), until="end")
    records = finished(reading.to_mat(Sink.to_list(), Keep.both), system)
    assert [record.value for record in records] == [b"0", b"1", b"2"]
    processed = [id_of(span) for span in recorder.named("process twice")]
    written = recorder.named("send twice-out")
    aborted = [span for span in written if span.status.status_code is StatusCode.ERROR]
    again = [span for span in written if span.status.status_code is not StatusCode.ERROR]
    # The first transaction has the records of the first poll, which may be only one.
    assert aborted
    assert [parent_of(span) for span in aborted] == processed[: len(aborted)]
    assert [parent_of(span) for span in again] == [*map(id_of, aborted), *processed[len(aborted) :]]
    assert [parent_of(span) for span in recorder.named("process twice-out")] == [id_of(span) for span in again]
