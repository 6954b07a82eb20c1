"""What windows send is linked to the records of the window."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk", reason="the extra otel is not installed")

from streamactors import ActorSystem, Keep
from streamactors.broker import Cluster
from streamactors.kafka import (
    Consumer,
    ConsumerSettings,
    Producer,
    ProducerRecord,
    ProducerSettings,
    Subscriptions,
    Transactional,
)
from streamactors.windows import BufferConfig, Suppressed, TimeWindows
from tests.tracing.spans import Recorder, id_of, linked


@pytest.fixture
def counted(settings: ConsumerSettings) -> Callable[[str], Any]:
    """Return a function that counts the records of a topic per key, in one window."""

    def counted(topic: str) -> Any:
        return (
            Consumer.records(
                settings.with_group_id(f"group-{topic}"),
                Subscriptions.topics(topic),
                key="string",
                value="bytes",
                until="end",
            )
            .group_by_key()
            .windowed_by(TimeWindows.of_size("1h").with_grace("0ms"))
            .count()
            .suppress(Suppressed.until_window_closes(BufferConfig.unbounded()))
            .to_stream()
        )

    return counted


@pytest.mark.parametrize("transactional", [False, True])
def test_the_result_of_a_window_links_the_records_of_the_stream(
    recorder: Recorder,
    counted: Callable[[str], Any],
    producer_settings: ProducerSettings,
    cluster: Cluster,
    send: Callable[..., None],
    system: ActorSystem,
    transactional: bool,
) -> None:
    topic, out = f"rows-{transactional}", f"counts-{transactional}"
    send(topic, 6)
    cluster.create_topic(out)
    # A commit in between would settle the first records: later results link only those that are not settled.
    sink = (
        Transactional.sink(replace(producer_settings, commit_interval_ms=30_000).with_transactional_id("tx-counts"))
        if transactional
        else Producer.plain_sink(producer_settings)
    )
    stream = counted(topic).map(lambda row: ProducerRecord(out, str(row.value), row.key))
    control, done = stream.to_mat(sink, Keep.both).run(system)
    done.result(timeout=60)
    control.is_shutdown.result(timeout=60)
    processed = {id_of(span) for span in recorder.named(f"process {topic}")}
    assert len(processed) == 6
    written = recorder.named(f"send {out}")
    assert len(written) > 1  # the results of several keys, before the mark that tells of the records
    assert all(span.parent is None for span in written)
    assert all(linked(span) == processed for span in written)
