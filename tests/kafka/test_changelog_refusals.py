"""Windows over Kafka that are refused at their start, or fail: a changelog that is not theirs, topics that do not fit, two stores of one name."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer as BareProducer

from streamactors import Flow, RestartSettings, RestartSource, Sink, Source
from streamactors.codec import dumps
from streamactors.errors import BuildError
from streamactors.kafka import Consumer, Subscriptions, Transactional
from streamactors.windows import RestoreError, TimeWindows
from streamactors.windows.state.store_log import META_KEY
from tests.kafka._windows import (  # noqa: F401  # fixtures
    SECOND,
    changelog_of,
    counted,
    produce,
    to_records,
    windows_producer,
    windows_settings,
    written,
)


def fails_to_start(settings, transactional, system, topic):
    _, done = written(counted(settings, topic), f"{topic}-out", transactional).run(system)
    return done.exception(30)


def test_a_changelog_of_another_partition_count_is_refused(cluster, settings, transactional, system):
    produce(cluster, "count", [(0, "a", 5_000)], 2)
    cluster.create_topic(changelog_of(settings), partitions=3)
    error = fails_to_start(settings, transactional, system, "count")
    assert isinstance(error, RestoreError)
    assert "has 3 partitions, the input has 2" in str(error)


def meta(**changes):
    fields = {
        "format": 1,
        "application": "other",
        "partition": 0,
        "partitions": 1,
        "node": "seconds",
        "shape": "",
        "state": {},
    } | changes
    return dumps(list(fields.values()))


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (meta(), "belongs to group 'other', this task has"),
        (meta(format=9), "has format version 9, this version reads 1"),
        (b"\xc1 no msgpack", "is not what this package writes"),
    ],
    ids=["application", "format", "bytes"],
)
def test_a_changelog_that_is_not_this_ones_is_refused(cluster, settings, transactional, system, value, says):
    topic = "foreign" + says[-5:].strip(" 1'").replace(" ", "")
    produce(cluster, topic, [(0, "a", 5_000)], 1)
    cluster.create_topic(changelog_of(settings), partitions=1)
    producer = BareProducer({"bootstrap.servers": cluster.bootstrap_servers})
    producer.produce(changelog_of(settings), value, META_KEY)
    assert producer.flush(10) == 0
    error = fails_to_start(settings, transactional, system, topic)
    assert isinstance(error, RestoreError)
    assert says in str(error)


def test_topics_of_different_partition_counts_are_refused(cluster, settings, transactional, system):
    produce(cluster, "uneven-1", [(0, "a", 5_000)], 1)
    produce(cluster, "uneven-2", [(0, "a", 5_000)], 2)
    source = (
        Consumer.records(settings, Subscriptions.topics("uneven-1", "uneven-2"), key="string", until="end")
        .group_by_key()
        .windowed_by(SECOND)
        .count()
        .to_stream()
    )
    error = written(source, "out", transactional).run(system)[1].exception(30)
    assert isinstance(error, RestoreError)
    assert "uneven-1 has 1, uneven-2 has 2" in str(error)


def test_two_stores_of_one_name_are_refused(cluster, settings, transactional, system):
    produce(cluster, "twice", [(0, "a", 5_000)], 1)
    source = Consumer.records(settings, Subscriptions.topics("twice"), key="string", until="end")
    branch = Flow.identity().group_by_key().windowed_by(SECOND).count().to_stream().to(Sink.ignore())
    both = source.also_to(branch).group_by_key().windowed_by(SECOND).count().to_stream()
    error = written(both, "out", transactional).run(system)[1].exception(30)
    assert isinstance(error, BuildError)
    assert "name their steps" in str(error)


@pytest.mark.expects_log("restart_source: failed")
def test_windows_that_are_begun_anew_inside_a_transactional_run_fail_it(
    cluster, settings, transactional, system, read_all, committed
):
    """What the sink outside has written of the first must not be committed with what the second gives again."""
    produce(cluster, "anew", [(0, "a", 5_000), (0, "a", 9_000)], 1)
    cluster.create_topic("anew-out", partitions=1)

    def poisoned():
        def check(row):
            raise ValueError("poison")

        return counted(settings, "anew").map(check)

    anew = RestartSource.on_failures_with_backoff(RestartSettings("10ms", "20ms", 0.0), poisoned)
    done = anew.map(to_records("anew-out")).run_with(Transactional.sink(transactional), system)
    reasons = ("poison", "restart the whole graph", "aborted", "what was in flight cannot be committed")
    error = str(done.exception(60))
    assert any(reason in error for reason in reasons), error
    assert read_all("anew-out") == []
    assert committed("anew") == {0: -1001}


def test_K_13_a_stage_that_blurs_marks_in_front_of_the_windows_is_refused(settings, system):
    source = Consumer.records(settings, Subscriptions.topics("x"), key="string")
    blurred = (
        source.map_async_unordered(4, lambda record: record).group_by_key().windowed_by(SECOND).count().to_stream()
    )
    with pytest.raises(BuildError, match="windows with a changelog needs exact cuts, and stage 'map_async_unordered'"):
        blurred.run_with(Sink.ignore(), system)
    Source.from_iterable([]).map_async_unordered(4, lambda record: record).group_by_key().windowed_by(
        TimeWindows.of_size(10).with_grace(0)
    ).count().to_stream().run_with(Sink.ignore(), system).result(30)


def test_a_group_whose_changelogs_could_not_be_named_is_refused_at_its_start(cluster, settings, system):
    # the run failed seconds later, with the name of a changelog topic
    cluster.create_topic("of-a-group-with-a-space", partitions=1)
    source = Consumer.records(
        settings.with_group_id("my app"), Subscriptions.topics("of-a-group-with-a-space"), key="string", until="end"
    )
    counts = source.group_by_key().count(name="counts").to_stream()
    with pytest.raises(BuildError, match=r"the group 'my app' has ' '.*group_id='my-app', for example"):
        counts.run_with(Sink.to_list(), system).result(30)
