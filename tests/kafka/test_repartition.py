"""key_by behind a Kafka source: rows under their new keys go through a topic, so that one key lies in one partition."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from streamactors import ActorSystem, Keep, Sink
from streamactors.kafka import Consumer, ProducerSettings, Subscriptions
from streamactors.kafka.client import Admin
from tests.kafka._windows import CLOSED, SECOND, produce, read, written

PARTITIONS = 3


@pytest.fixture
def transactional(cluster, request):
    return ProducerSettings(cluster.bootstrap_servers, transactional_id=request.node.name, commit_interval_ms=20)


def by_first_letter(settings, topic):
    return (
        Consumer.records(settings, Subscriptions.topics(topic), key="string", until="end")
        .key_by(lambda record: record.key[0])
        .windowed_by(SECOND)
        .count(name="letters")
        .suppress(CLOSED)
        .to_stream()
    )


def given(count=900):
    """Every key in every partition: under the new key they must meet. All within one window's time, so none is late."""
    dice = random.Random(3)
    return [(i % PARTITIONS, dice.choice("abcde") + str(i), 5_000 + i % 500) for i in range(count)]


def test_one_new_key_of_several_partitions_is_one_count(cluster, settings, system):
    produce(cluster, "letters", given(), PARTITIONS)
    control, done = by_first_letter(settings, "letters").to_mat(Sink.to_list(), Keep.both).run(system)
    found = {row.key: row.value for row in done.result(60)}
    control.is_shutdown.result(30)
    assert found == Counter(key[0] for _, key, _ in given())
    topics = {topic.name: topic.partitions for topic in Admin(cluster.bootstrap_servers).topics()}
    assert topics[f"{settings.group_id}-letters-repartition"] == PARTITIONS
    assert topics[f"{settings.group_id}-letters-store-changelog"] == PARTITIONS


def test_a_run_that_fails_writes_each_row_under_its_new_key_once(cluster, settings, transactional, read_all):
    produce(cluster, "again", given(), PARTITIONS)
    cluster.create_topic("again-out", partitions=PARTITIONS)
    poisoned, runs = [200, 500], 0

    def check(record):
        if poisoned and record.context.offset * PARTITIONS > poisoned[0]:
            poisoned.pop(0)
            raise ValueError("poison")
        return record

    while True:
        with ActorSystem("again") as system:
            source = (
                Consumer.records(settings, Subscriptions.topics("again"), key="string", until="end")
                .map(check)
                .key_by(lambda record: record.key[0])
                .windowed_by(SECOND)
                .count(name="letters")
                .suppress(CLOSED)
                .to_stream()
            )
            control, done = written(source, "again-out", transactional).run(system)
            runs += 1
            error = done.exception(60)
            control.is_shutdown.exception(60)
        if error is None:
            break
        assert "poison" in str(error)
    assert runs == 3
    found = {key.split("@")[0]: count for _, key, count in read(read_all("again-out", PARTITIONS))}
    assert found == Counter(key[0] for _, key, _ in given())


def test_the_graph_says_that_rows_go_through_a_topic(settings):
    picture = by_first_letter(settings, "x").to(Sink.ignore()).to_mermaid()
    topic = f"{settings.group_id}-letters-repartition"
    assert f"write {topic}" in picture
    assert f"read {topic}" in picture


def test_a_stop_leaves_windows_open_and_the_next_run_goes_on(cluster, settings, transactional, read_all, wait_for):
    cluster.create_topic("stops-out", partitions=PARTITIONS)
    rows = given(300)
    topic = f"{settings.group_id}-letters-repartition"
    for part in (rows[:150], rows[150:]):
        produce(cluster, "stops", part, PARTITIONS)
        with ActorSystem("stops") as system:
            source = (
                Consumer.records(settings, Subscriptions.topics("stops"), key="string")
                .key_by(lambda record: record.key[0])
                .windowed_by(SECOND)
                .count(name="letters")
                .suppress(CLOSED)
                .to_stream()
            )
            control, done = written(source, "stops-out", transactional).run(system)
            stored = 150 if part[0] == rows[0] else 300
            wait_for(lambda: len(read_all(topic, PARTITIONS)) == stored)  # noqa: B023
            control.shutdown().result(30)
            done.result(30)
    assert read_all("stops-out", PARTITIONS) == []
    with ActorSystem("ends") as system:
        control, done = written(by_first_letter(settings, "stops"), "stops-out", transactional).run(system)
        done.result(60)
        control.is_shutdown.result(30)
    found = {key.split("@")[0]: count for _, key, count in read(read_all("stops-out", PARTITIONS))}
    assert found == Counter(key[0] for _, key, _ in rows)
