"""A partition whose broker lost records: with `reset_protection` nothing is read twice, and the consumer continues at its position."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest
from confluent_kafka.admin import AdminClient
from hypothesis import given
from hypothesis import strategies as st

from streamactors import Sink
from streamactors.errors import BuildError
from streamactors.kafka import Consumer, ResetProtection, Subscriptions
from streamactors.kafka.reading.assignment.reset_guard import ResetGuard
from streamactors.kafka.subscriptions import TopicPartition

KEY = TopicPartition("t", 0)


def read(guard: ResetGuard, offset: int, time_ms: int = 0) -> bool:
    """Read one record."""
    return guard.takes(KEY, (offset, time_ms), offset + 1, time_ms)


@pytest.mark.expects_log("again; the consumer continues to read", "the broker returns records from offset")
def test_records_behind_the_position_are_refused_until_the_consumer_has_gone_back_to_it() -> None:
    guard = ResetGuard(ResetProtection())
    assert read(guard, 7)
    assert read(guard, 9)
    assert not read(guard, 0)
    assert guard.waits(KEY)
    assert not read(guard, 10), "the consumer has not returned to its position yet"
    guard.moved(KEY, guard.position(KEY))
    assert not read(guard, 9)
    guard.moved(KEY, guard.position(KEY))
    assert read(guard, 10)


@pytest.mark.expects_log("the broker returns records from offset")
def test_what_the_group_has_committed_counts_and_what_is_revoked_does_not() -> None:
    guard = ResetGuard(ResetProtection())
    guard.assigned({KEY: 100})
    assert not read(guard, 0)
    guard.revoked([KEY])
    assert read(guard, 0)


@pytest.mark.expects_log("the broker returns records from offset")
@given(st.integers(0, 5), st.none() | st.integers(0, 50), st.integers(0, 20), st.integers(0, 100))
def test_a_step_back_within_both_limits_is_taken(most: int, most_ms: int | None, offset: int, time_ms: int) -> None:
    guard = ResetGuard(ResetProtection(max_offsets_back=most, max_time_back_ms=most_ms))
    assert read(guard, 9, 60)
    back = 10 - offset
    fits = back <= 0 or (back <= most and (most_ms is None or 60 - time_ms <= most_ms))
    assert read(guard, offset, time_ms) is fits


def test_wrong_settings_are_refused(settings) -> None:
    with pytest.raises(BuildError, match="max_offsets_back"):
        ResetProtection(max_offsets_back=-1)
    with pytest.raises(BuildError, match="reset_protection is True"):
        replace(settings, reset_protection=True)


def test_a_topic_that_was_made_again_is_not_read_twice(cluster, settings, system, topic_with, wait_for, caplog) -> None:
    topic = topic_with("again", [b"old %d" % n for n in range(10)], 1)
    got: list[tuple[int, bytes]] = []
    protected = replace(
        settings,
        reset_protection=ResetProtection(),
        properties={**settings.properties, "topic.metadata.refresh.interval.ms": 300},
    )
    # a member of a group would be told when the topic is not there for a moment
    source = Consumer.source(protected, Subscriptions.assignment(TopicPartition(topic, 0)))
    with caplog.at_level(logging.WARNING, "streamactors.kafka"):
        control = source.map(lambda record: got.append((record.offset, record.value))).to(Sink.ignore()).run(system)
        wait_for(lambda: len(got) == 10)
        admin = AdminClient({"bootstrap.servers": settings.bootstrap_servers})
        admin.delete_topics([topic])[topic].result(30)
        cluster.create_topic(topic, partitions=1)
        fill(settings, topic, range(3))
        wait_for(lambda: "has lost records, or the topic was created again" in caplog.text, 60)
        fill(settings, topic, range(3, 13))
        wait_for(lambda: len(got) == 13, 60)
    control.stop()
    assert got[10:] == [(n, b"new %d" % n) for n in (10, 11, 12)]
    assert caplog.text.count("has lost records, or the topic was created again") == 1
    assert "the broker has offset 10 again" in caplog.text


def fill(settings, topic: str, numbers: range) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": settings.bootstrap_servers})
    for n in numbers:
        producer.produce(topic, b"new %d" % n, partition=0)
    assert producer.flush(30) == 0
