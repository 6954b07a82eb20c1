"""key_by behind a Kafka source: rows under their new keys go through a topic, so that one key lies in one partition."""

from __future__ import annotations

import random
import threading
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import pytest
from confluent_kafka import Consumer as BareConsumer
from confluent_kafka import Producer as BareProducer
from confluent_kafka import TopicPartition

from streamactors import ActorSystem, Keep, Sink
from streamactors.broker import Cluster
from streamactors.kafka import Consumer, ConsumerSettings, MetadataClient, ProducerSettings, Subscriptions
from streamactors.kafka.client.admin import Admin
from streamactors.kafka.settings import ClientSettings
from streamactors.kafka.state import topic_upkeep
from streamactors.kafka.state.repartition import repartitioned
from streamactors.windows import State
from tests.bare_clients import TO_THE_END
from tests.kafka._windows import CLOSED, SECOND, produce, read, written

PARTITIONS = 3


@pytest.fixture
def transactional(cluster, request):
    return ProducerSettings(cluster.bootstrap_servers, transactional_id=request.node.name, commit_interval_ms=20)


def by_first_letter(settings, topic, check=lambda record: record, until="end"):
    return (
        Consumer.records(settings, Subscriptions.topics(topic), key="string", until=until)
        .map(check)
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
    topics = {topic.name: topic.partitions for topic in Admin(ClientSettings(cluster.bootstrap_servers)).topics()}
    assert topics[f"{settings.group_id}-letters-repartition"] == PARTITIONS
    assert topics[f"{settings.group_id}-letters-store-changelog"] == PARTITIONS


def test_state_on_disk_holds_what_is_counted_by_a_new_key(cluster, settings, system, tmp_path):
    # The source that reads the repartition topic did not have the `state=` of the settings: the counts were kept in memory, no folder was made,
    # there were no standby copies, and nothing said so.
    produce(cluster, "on-disk", given(), PARTITIONS)
    on_disk = settings.with_state(State.on_disk(tmp_path, cache="16MB"))
    control, done = by_first_letter(on_disk, "on-disk").to_mat(Sink.to_list(), Keep.both).run(system)
    assert {row.key: row.value for row in done.result(60)} == Counter(key[0] for _, key, _ in given())
    control.is_shutdown.result(30)
    databases = {each.name for each in (tmp_path / settings.group_id / "letters-store").iterdir()}
    assert databases == {str(partition) for partition in range(PARTITIONS)}


def test_the_source_that_reads_the_topic_has_the_users_settings():
    # It had those for the broker, and state= and commit_interval_ms; the others had no effect behind key_by, and nothing said so.
    asked = []

    def reading_between(name, settings, subscription):
        asked.append(settings)
        raise NotImplementedError

    given = ConsumerSettings(
        "localhost:1", "rows", revoke_timeout_ms=1, max_in_flight=7, poll_interval_ms=3, discover=lambda: "localhost:2"
    )
    stage = SimpleNamespace(plan=SimpleNamespace(settings=given), reading_between=reading_between)
    with pytest.raises(NotImplementedError):
        repartitioned(stage, str, "letters", {}, bounded=True)
    (settings,) = asked
    own = {"group_id": "rows-letters-repartition", "auto_offset_reset": "earliest"}
    assert settings == replace(given, **own, properties={"isolation.level": "read_committed"})


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


def test_a_stop_leaves_windows_open_and_the_next_run_goes_on(
    cluster, settings, transactional, read_all, committed, wait_for
):
    cluster.create_topic("stops-out", partitions=PARTITIONS)
    rows = given(300)
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
            wait_for(lambda: sum(committed("stops", PARTITIONS).values()) == stored)  # noqa: B023
            control.shutdown().result(30)
            done.result(30)
    assert read_all("stops-out", PARTITIONS) == []
    with ActorSystem("ends") as system:
        control, done = written(by_first_letter(settings, "stops"), "stops-out", transactional).run(system)
        done.result(60)
        control.is_shutdown.result(30)
    found = {key.split("@")[0]: count for _, key, count in read(read_all("stops-out", PARTITIONS))}
    assert found == Counter(key[0] for _, key, _ in rows)


def test_what_was_read_and_done_is_deleted_from_the_topic(
    cluster, settings, transactional, system, read_all, wait_for, monkeypatch
):
    monkeypatch.setattr(topic_upkeep, "PURGE_INTERVAL_MS", 50)
    cluster.create_topic("purged-out", partitions=PARTITIONS)
    topic = f"{settings.group_id}-letters-repartition"
    rows = given(300)
    produce(cluster, "purged", rows, PARTITIONS)
    source = by_first_letter(settings, "purged", until=None)
    control, done = written(source, "purged-out", transactional).run(system)
    admin = Admin(ClientSettings(cluster.bootstrap_servers))

    def left():
        return [p.latest - p.earliest for p in admin.describe(topic).partitions]

    wait_for(lambda: topic in {each.name for each in admin.topics()})
    wait_for(lambda: sum(p.latest for p in admin.describe(topic).partitions) >= 300 and max(left()) <= 1)  # a marker
    closing = [(p, f"{letter}-closes", 20_000) for p in range(PARTITIONS) for letter in "abcde"]
    produce(cluster, "purged", closing, PARTITIONS)
    wait_for(lambda: len(read_all("purged-out", PARTITIONS)) == 5)
    control.shutdown().result(30)
    done.result(30)
    found = {key.split("@")[0]: count for _, key, count in read(read_all("purged-out", PARTITIONS))}
    assert found == Counter(key[0] for _, key, _ in rows)


@pytest.mark.slow
def test_the_end_of_the_topic_is_waited_for_until_other_instances_have_written_theirs():
    """One instance is at the end of its input while another one still writes: it must not close windows over those rows."""
    rows = [(i % 2, letter + str(i), 5_000 + i) for i, letter in enumerate("abcde" * 100)]
    go = threading.Event()

    def held(record):
        if record.context.partition == 1:
            go.wait(60)
        return record

    # So long the broker waits for members of the first generation: both instances are in it, on a busy machine as well. One instance alone
    # would stop at the held record of partition 1 and never come to partition 0.
    with Cluster(config={"group.initial.rebalance.delay.ms": 6_000}) as cluster:
        produce(cluster, "shared", rows, 2)
        cluster.create_topic("shared-out", partitions=2)
        settings = ConsumerSettings(cluster.bootstrap_servers, "shared", "earliest", commit_interval_ms=50)

        def start(system, number):
            producer = ProducerSettings(cluster.bootstrap_servers, transactional_id=str(number), commit_interval_ms=20)
            return written(by_first_letter(settings, "shared", held), "shared-out", producer).run(system)[1]

        def committed(group, topic):
            with MetadataClient(settings.with_group_id(group)) as client:
                return client.committed((topic, number) for number in range(2))

        with ActorSystem("one") as one, ActorSystem("two") as two:
            runs = [start(one, 1), start(two, 2)]
            topic = "shared-letters-repartition"
            wait(lambda: committed("shared", "shared").get(("shared", 0), 0) == 250)
            wait(lambda: committed(topic, topic), 60)
            go.set()
            for done in runs:
                done.result(60)
        found = sorted(read_topic(cluster, "shared-out"))
    assert found == [(f"{letter}@5000", 100) for letter in "abcde"]


def test_a_bounded_run_that_is_stopped_closes_nothing(cluster, settings, transactional, system, read_all, wait_for):
    produce(cluster, "halts", given(300), PARTITIONS)
    cluster.create_topic("halts-out", partitions=PARTITIONS)
    seen, go = threading.Event(), threading.Event()

    def held(record):
        seen.set()
        go.wait(60)
        return record

    control, done = written(by_first_letter(settings, "halts", held), "halts-out", transactional).run(system)
    assert seen.wait(60)
    control.stop()
    go.set()
    done.result(60)
    assert read_all("halts-out", PARTITIONS) == []


def wait(condition, timeout=30):
    pause = threading.Event()
    for _ in range(int(timeout / 0.05)):
        if condition():
            return
        pause.wait(0.05)
    raise AssertionError("the condition did not come true")


def read_topic(cluster, topic):
    """(key, count) of the committed records of a topic of two partitions."""
    consumer = BareConsumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "reader", "isolation.level": "read_committed", **TO_THE_END})  # fmt: skip
    consumer.assign([TopicPartition(topic, number, 0) for number in range(2)])
    ended = 0
    while ended < 2:
        for message in consumer.consume(500, 1):
            if message.error() is None:
                yield message.key().decode(), int(message.value())
            else:
                ended += 1
    consumer.close()


def test_a_member_with_a_name_ends_the_transaction_of_its_killed_predecessor(settings, topic_with, cluster):
    """The id was another one in each run: readers of the topic waited 15 s until the broker had aborted the open transaction."""
    topic = topic_with("named", [])
    produce(cluster, topic, [(0, "ab", 5_000), (0, "ac", 5_100)], 1)
    named = settings.with_property("group.instance.id", "hours-0")
    group = named.group_id
    cluster.create_topic(f"{group}-letters-repartition", partitions=1)
    killed = BareProducer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "transactional.id": f"{group}-letters-repartition-hours-0",
            "transaction.timeout.ms": 600_000,
        }
    )
    killed.init_transactions(30)
    killed.begin_transaction()
    killed.produce(f"{group}-letters-repartition", b"never committed")
    killed.flush(30)
    done = by_first_letter(named, topic).map(lambda row: row.value).run_with(Sink.to_list())
    assert done.result(60) == [2]
