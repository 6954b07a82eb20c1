"""Subscriptions.topics(…).starting_at(time): a group that has committed nothing begins at the records of that time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from streamactors import BuildError, Keep, Sink, Source
from streamactors.broker import Cluster
from streamactors.kafka import Consumer, ConsumerSettings, Producer, ProducerRecord, ProducerSettings, Subscriptions

NOON_MS = 1_700_000_000_000


@pytest.fixture(scope="module")
def cluster() -> Any:
    with Cluster() as cluster:
        cluster.create_topic("orders", partitions=2)
        # partition 0: ten records, a minute apart; partition 1: three records, all before noon + 3 min
        records = [ProducerRecord("orders", str(n), None, 0, NOON_MS + n * 60_000) for n in range(10)]
        cluster.create_topic("minutes", partitions=1)
        records += [ProducerRecord("minutes", str(n), None, 0, NOON_MS + n * 60_000) for n in range(5)]
        records += [ProducerRecord("orders", f"b{n}", None, 1, NOON_MS + n * 60_000) for n in range(3)]
        Source.from_iterable(records).run_with(Producer.plain_sink(ProducerSettings(cluster.bootstrap_servers))).result(
            30
        )
        yield cluster


def settings_of(cluster: Cluster, group: str) -> ConsumerSettings:
    return ConsumerSettings(cluster.bootstrap_servers, group_id=group, auto_offset_reset="earliest")


def read(source: Any, system: Any) -> list[str]:
    control, values = source.map(lambda record: record.value.decode()).to_mat(Sink.to_list(), Keep.both).run(system)
    found = sorted(values.result(timeout=30))
    control.is_shutdown.result(timeout=30)
    return found


AT = Subscriptions.topics("orders").starting_at(NOON_MS + 7 * 60_000)


def test_the_first_run_of_a_group_begins_at_the_time_and_the_next_where_it_has_committed(cluster, actor_system):
    settings, topics = settings_of(cluster, "first"), Subscriptions.topics("minutes")
    assert read(
        Consumer.source(settings, topics.starting_at(NOON_MS + 120_000), until="end").take(2), actor_system
    ) == [
        "2",
        "3",
    ]
    assert read(Consumer.source(settings, topics.starting_at(NOON_MS), until="end"), actor_system) == ["4"]


@pytest.mark.parametrize("reset", ["earliest", "latest"])
def test_the_time_counts_instead_of_auto_offset_reset(cluster, actor_system, reset):
    settings = settings_of(cluster, f"reset-{reset}").with_auto_offset_reset(reset)
    assert read(Consumer.plain_source(settings, AT, until="end"), actor_system) == ["7", "8", "9"]


def test_a_record_of_the_very_time_is_read_and_a_time_after_all_records_reads_none(cluster, actor_system):
    topics = Subscriptions.topics("orders")
    exact = settings_of(cluster, "exact")
    assert read(Consumer.plain_source(exact, topics.starting_at(NOON_MS + 9 * 60_000), until="end"), actor_system) == [
        "9"
    ]
    between = topics.starting_at(NOON_MS + 8 * 60_000 + 1)
    assert read(Consumer.plain_source(exact, between, until="end"), actor_system) == ["9"]
    late = topics.starting_at(NOON_MS + 9 * 60_000 + 1)
    assert read(Consumer.plain_source(exact, late, until="end"), actor_system) == []


def test_partitioned_sources_begin_at_the_time_too(cluster, actor_system):
    settings = settings_of(cluster, "partitioned")
    for make in (
        Consumer.plain_partitioned_source,
        lambda *args, until: Consumer.plain_partitioned_manual_offset_source(*args, lambda keys: {}, until=until),
    ):
        source = make(settings, AT, until="end").flat_map_merge(4, lambda pair: pair[1])
        assert read(source, actor_system) == ["7", "8", "9"]


def test_a_pattern_begins_at_the_time(cluster, actor_system):
    pattern = Subscriptions.topic_pattern("ord.*").starting_at(NOON_MS + 9 * 60_000)
    assert read(Consumer.plain_source(settings_of(cluster, "pattern"), pattern, until="end"), actor_system) == ["9"]


def test_assigned_partitions_take_a_datetime_too(cluster, actor_system):
    when = datetime.fromtimestamp((NOON_MS + 9 * 60_000) / 1_000, UTC)
    subscription = Subscriptions.assignment_offsets_for_times({("orders", 0): when})
    assert subscription.times_ms == {("orders", 0): NOON_MS + 9 * 60_000}
    assert read(Consumer.plain_source(settings_of(cluster, "x"), subscription, until="end"), actor_system) == ["9"]


def test_a_datetime_and_its_milliseconds_are_the_same_moment():
    topics = Subscriptions.topics("orders")
    moment = datetime(2023, 11, 14, 22, 13, 20, 7_000, UTC)
    elsewhere = moment.astimezone(timezone(timedelta(hours=5, minutes=30)))
    assert topics.starting_at(moment).start_ms == topics.starting_at(elsewhere).start_ms == NOON_MS + 7
    assert str(topics.starting_at(NOON_MS + 7)) == "orders from 2023-11-14 22:13:20.007+00:00"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (datetime(2026, 11, 1), "has no time zone, so it is no moment"),
        ("2026-11-01", "expects a datetime with a time zone, or ms since 1970, got '2026-11-01'"),
        (1.5, "expects a datetime"),
        (True, "expects a datetime"),
        (-1, "is before 1970"),
    ],
)
def test_what_is_no_moment_is_refused_where_it_is_written(wrong, message):
    with pytest.raises(BuildError, match=message):
        Subscriptions.topics("orders").starting_at(wrong)


def test_a_member_without_partitions_ends_although_nobody_commits_what_is_before_the_time(cluster, actor_system):
    # partition 1 has no record of the time, so its owner commits nothing there, and a member without partitions must not wait for it
    settings = ConsumerSettings(cluster.bootstrap_servers, group_id="members", group_protocol="consumer")
    runs = [
        Consumer.source(settings, AT, until="end").to_mat(Sink.to_list(), Keep.both).run(actor_system) for _ in range(3)
    ]
    values = [record.value for _, done in runs for record in done.result(timeout=60)]
    assert sorted(values) == [b"7", b"8", b"9"]


def test_a_sink_that_owns_the_positions_begins_at_the_time_too(cluster):
    from streamactors.kafka.reading.assignment.start_positions import StartPositions

    def initial(group: str | None) -> dict[str, int]:
        return StartPositions(
            settings_of(cluster, "owner").with_group_id(group), AT, True, lambda begin: None
        ).initial()

    assert initial("owner") == initial(None) == {"orders-0": 7, "orders-1": 3}
