"""The span of a batch that Spark writes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk", reason="the extra otel is not installed")

from opentelemetry import trace
from opentelemetry.trace import StatusCode

from streamactors import ActorSystem, Keep
from streamactors.kafka import Consumer, ConsumerSettings, Subscriptions
from tests.actors.eventually import eventually
from tests.tracing.conftest import cluster, recorder, send, settings, system
from tests.tracing.conftest import producer_settings as producer_settings
from tests.tracing.spans import Recorder, id_of, linked

pytestmark = pytest.mark.timeout(600)
__all__ = ["cluster", "recorder", "send", "settings", "system"]


def test_the_span_of_a_batch_links_its_records_and_is_current_in_the_function(
    recorder: Recorder, settings: ConsumerSettings, send: Callable[..., None], system: ActorSystem, spark: Any, tmp_path: Path
) -> None:  # fmt: skip
    from streamactors.spark import SparkSink

    send("to-spark", 7)
    seen: dict[int, tuple[int, int]] = {}

    def write(df: Any, epoch: int) -> None:
        span = trace.get_current_span().get_span_context()
        seen[epoch] = span.span_id, df.count()

    sink = SparkSink.foreach_batch(spark, write, schema="n long", checkpoint=tmp_path / "ck", max_rows=4)
    reading = Consumer.source(settings, Subscriptions.topics("to-spark"), until="end")
    control, query = reading.map(lambda record: (int(record.value),)).to_mat(sink, Keep.both).run(system)
    assert query.await_termination(300)
    control.is_shutdown.result(timeout=60)
    eventually(lambda: len(recorder.ended) == len(recorder.started))
    batches = recorder.named("batch SparkSink.foreach_batch")
    processed = {id_of(span) for span in recorder.named("process to-spark")}
    assert len(processed) == 7
    assert all(span.parent is None for span in batches)
    assert {id_of(span) for span in batches} == {span for span, rows in seen.values() if rows}
    assert set().union(*map(linked, batches)) == processed
    assert sum(len(linked(span)) for span in batches) == 7
    rows = dict(seen.values())
    assert all(len(linked(span)) == rows[id_of(span)] for span in batches)


def test_an_error_of_the_function_is_in_the_span_of_the_batch(
    recorder: Recorder, settings: ConsumerSettings, send: Callable[..., None], system: ActorSystem, spark: Any, tmp_path: Path
) -> None:  # fmt: skip
    from streamactors.spark import SparkSink

    send("to-a-full-disk", 2)

    def write(df: Any, epoch: int) -> None:
        if df.count():
            raise OSError("disk full")

    sink = SparkSink.foreach_batch(spark, write, schema="n long", checkpoint=tmp_path / "ck")
    reading = Consumer.source(settings, Subscriptions.topics("to-a-full-disk"), until="end")
    control, query = reading.map(lambda record: (int(record.value),)).to_mat(sink, Keep.both).run(system)
    assert isinstance(query.completion.exception(300), OSError)
    control.is_shutdown.exception(timeout=60)
    eventually(lambda: len(recorder.ended) == len(recorder.started))
    (batch,) = recorder.named("batch SparkSink.foreach_batch")
    assert batch.status.status_code is StatusCode.ERROR
    assert [event.name for event in batch.events] == ["exception"]
