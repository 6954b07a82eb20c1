"""Pauses and assignments, with librdkafka: a pause belongs to one assignment, though librdkafka keeps it for the next."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from streamactors import Keep, Watchdog
from streamactors.engine.stalls.diagnosis import Cause
from streamactors.kafka import Consumer, Subscriptions, TopicPartition
from streamactors.testing import TestSink

RECORDS = 100
KEY = TopicPartition("paused", 0)


@pytest.fixture
def small(settings: Any) -> Any:
    quick = {"heartbeat.interval.ms": 100, "partition.assignment.strategy": "range"}
    return replace(settings.with_properties(quick), high_bytes=300_000, low_bytes=100_000)


def test_a_partition_that_was_paused_and_is_assigned_again_goes_on(
    small: Any, system: Any, topic_with: Any, wait_for: Any
) -> None:
    """Without the resume the member got its partition back and never another record of it."""
    topic_with(KEY.topic, [b"%d" % n + bytes(10_000) for n in range(RECORDS)])
    source = Consumer.source(small, Subscriptions.topics(KEY.topic)).map(lambda record: record.offset)
    control, probe = source.to_mat(TestSink.probe("30s"), Keep.both).run(system)
    probe.request(1)
    assert probe.expect_next() == 0
    name = str(KEY)

    def partition() -> dict[str, Any]:
        return control.snapshot()["partitions"].get(name, {})  # type: ignore[no-any-return]

    wait_for(lambda: partition().get("paused"))
    first = partition()["epoch"]
    other, _ = source.to_mat(TestSink.probe("30s"), Keep.both).run(system)  # asks for nothing
    wait_for(lambda: partition().get("epoch") != first)
    other.shutdown().result(30)
    wait_for(lambda: partition().get("epoch", first) != first)
    probe.request(3 * RECORDS)
    while probe.expect_next() != RECORDS - 1:
        pass
    control.shutdown()
    probe.expect_complete()


@pytest.mark.expects_log("nothing has moved for")
def test_a_stream_whose_partitions_are_all_paused_is_told_by_their_names(
    settings: Any, system: Any, topic_with: Any, wait_for: Any
) -> None:
    topic_with("held", [b"%d" % n for n in range(4)], 2)
    stalls: list[Any] = []
    source = Consumer.source(settings, Subscriptions.topics("held"))
    control, probe = source.to_mat(TestSink.probe("30s"), Keep.both).run(system)
    probe.request(4)
    for _ in range(4):
        probe.expect_next()
    with Watchdog(system, "400ms", stalls.append):
        control.pause(("held", 0))
        control.pause(("held", 1))
        probe.request(1)
        wait_for(lambda: any(stall.cause is Cause.PAUSED for stall in stalls))
    found = next(stall for stall in stalls if stall.cause is Cause.PAUSED)
    assert (
        str(found)
        == "the stream waits for control.resume: the user has paused every partition of the source: held-0, held-1"
    )
    control.shutdown()
    probe.expect_complete()
