"""Lag in records and in seconds, from the assignment on, against what an independent client computes."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import confluent_kafka as ck
import pytest

from streamactors import Keep, Sink
from streamactors.kafka import Admin, Committer, CommitterSettings, Consumer, Subscriptions
from streamactors.kafka.reading.partition_bounds import PartitionBounds
from streamactors.kafka.subscriptions import TopicPartition

START_MS = 1_700_000_000_000


@pytest.fixture
def dated(cluster):
    """Make a topic with records that are a minute apart, by default with 40 per partition."""

    def make(topic, partitions=1, count=40):
        cluster.create_topic(topic, partitions)
        write(topic, partitions, range(count))
        return topic

    def write(topic, partitions, numbers):
        producer = ck.Producer({"bootstrap.servers": cluster.bootstrap_servers})
        for number in numbers:
            for partition in range(partitions):
                producer.produce(topic, b"x", partition=partition, timestamp=START_MS + number * 60_000)
        assert not producer.flush(30)

    make.write = write
    return make


def independent(cluster, topic, partition, done):
    """Return the lag of a reader at `done`, and the timestamp of its oldest record that is not done, as another client sees them."""
    client = ck.Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "independent", "enable.partition.eof": True}
    )
    try:
        end = client.get_watermark_offsets(ck.TopicPartition(topic, partition), 10)[1]
        client.assign([ck.TopicPartition(topic, partition, done)])
        while (message := client.poll(10)) is not None:
            return end - done, None if message.error() else message.timestamp()[1]
    finally:
        client.close()
    raise AssertionError("the broker does not answer")


def shown(control, topic, partition=0):
    return control.snapshot()["partitions"].get(f"{topic}-{partition}")


def check(cluster, topic, found, done, partition=0):
    lag, oldest_ms = independent(cluster, topic, partition, done)
    assert found["lag"] == lag
    if oldest_ms is None:
        assert found["lag_seconds"] == 0
    else:
        age_s = time.time() - oldest_ms / 1_000
        assert age_s - 30 < found["lag_seconds"] <= age_s, "records are a minute apart: it is this record's age"


@pytest.mark.parametrize("max_chunk", [1, 7, 64])
def test_lag_is_that_of_the_oldest_record_that_is_not_done(settings, cluster, system, dated, wait_for, max_chunk):
    topic = dated(f"oldest-{max_chunk}", 2)
    step, begun = threading.Semaphore(0), []

    def take(record):
        begun.append(record)
        step.acquire(timeout=60)

    source = Consumer.source(settings, Subscriptions.topics(topic)).max_chunk(max_chunk)
    control, _ = source.to_mat(Sink.foreach(take), Keep.both).run(system)
    for target in (1, 4, 24, 45, 79):
        wait_for(lambda target=target: len(begun) == target)
        wait_for(lambda: all((shown(control, topic, n) or {}).get("lag_seconds") is not None for n in (0, 1)))
        for partition in (0, 1):
            found = shown(control, topic, partition)
            check(cluster, topic, found, found["done"] or 0, partition)
        step.release({1: 3, 4: 20, 24: 21, 45: 34, 79: 100}[target])
    wait_for(lambda: [shown(control, topic, n)["lag_seconds"] for n in (0, 1)] == [0, 0])
    assert [shown(control, topic, n)["lag"] for n in (0, 1)] == [0, 0]
    control.shutdown().result(60)


def test_what_the_blocked_stream_has_not_even_taken_is_the_oldest_record(settings, cluster, system, dated, wait_for):
    """The records of the second partition wait in the mailbox of an island that is busy with one record of the first."""
    topic = dated("blocked", 2)
    go = threading.Event()
    control = Consumer.source(settings, Subscriptions.topics(topic)).to(Sink.foreach(lambda _: go.wait(60))).run(system)
    wait_for(lambda: all((shown(control, topic, n) or {}).get("lag_seconds") for n in (0, 1)))
    for partition in (0, 1):
        check(cluster, topic, shown(control, topic, partition), 0, partition)
    go.set()
    control.shutdown().result(60)


@pytest.mark.parametrize("committed_at", [None, 4, 40])
def test_a_stream_that_has_taken_nothing_has_its_lag_at_its_first_snapshot(
    settings, cluster, system, dated, wait_for, committed_at
):
    """No statistics are waited for: they come every five seconds."""
    topic = dated(f"untaken-{committed_at}")
    if committed_at is not None:
        with Admin(settings) as admin:
            admin.commit(settings.group_id, {TopicPartition(topic, 0): committed_at})
    control = Consumer.source(settings, Subscriptions.topics(topic)).to(Sink.never()).run(system)
    wait_for(lambda: shown(control, topic))
    assert shown(control, topic)["lag"] == 40 - (committed_at or 0)
    wait_for(lambda: shown(control, topic)["lag_seconds"] is not None)
    check(cluster, topic, shown(control, topic), committed_at or 0)
    control.shutdown().result(60)


@pytest.mark.expects_log("the offset 4 does not exist")
def test_records_that_were_deleted_before_they_were_read_are_no_lag(settings, cluster, system, dated, wait_for):
    """The committed offset does not exist any more; the group reads from where the log begins, or from its end."""
    topic = dated("expired")
    with Admin(settings) as admin:
        admin.commit(settings.group_id, {TopicPartition(topic, 0): 4})
        admin.delete_records({TopicPartition(topic, 0): 10})
    control = Consumer.source(settings, Subscriptions.topics(topic)).to(Sink.never()).run(system)
    wait_for(lambda: shown(control, topic))
    assert shown(control, topic)["lag"] == 30
    control.shutdown().result(60)


def test_two_members_show_each_partition_once(settings, system, dated, wait_for):
    """What a rebalance has taken away is shown by its new owner alone: sums over members are right."""
    topic = dated("members", 4)

    def member():
        return Consumer.source(settings, Subscriptions.topics(topic)).to(Sink.ignore()).run(system)

    first = member()
    wait_for(lambda: len(first.snapshot()["partitions"]) == 4)
    second = member()
    wait_for(lambda: len(second.snapshot()["partitions"]) == 2)
    keys = [list(each.snapshot()["partitions"]) for each in (first, second)]
    assert sorted(keys[0] + keys[1]) == [f"{topic}-{n}" for n in range(4)]
    assert first.snapshot()["rebalances"] >= 2
    for each in (first, second):
        each.shutdown().result(60)


@pytest.mark.parametrize(
    ("reset", "start", "lag"), [("latest", None, 0), ("earliest", 15, 25), ("earliest", "the end", 0)]
)
def test_a_partition_paused_before_its_first_fetch_has_a_lag(
    settings, cluster, system, dated, wait_for, reset, start, lag
):
    topic = dated(f"paused-{reset}-{str(start).replace(' ', '-')}")
    at = {
        None: lambda: Subscriptions.assignment((topic, 0)),
        15: lambda: Subscriptions.assignment_with_offset({(topic, 0): 15}),
        "the end": lambda: Subscriptions.assignment_offsets_for_times({(topic, 0): START_MS * 2}),
    }[start]()
    control = Consumer.source(settings.with_auto_offset_reset(reset), at).to(Sink.never()).run(system)
    control.pause((topic, 0))
    wait_for(lambda: shown(control, topic))
    assert shown(control, topic)["lag"] == lag
    wait_for(lambda: shown(control, topic)["lag_seconds"] is not None)
    check(cluster, topic, shown(control, topic), 40 - lag)
    control.shutdown().result(60)


def test_the_age_of_records_that_wait_in_librdkafka_is_asked_for(settings, cluster, system, dated, wait_for):
    """The stream takes nothing, so the consumer takes one record a second: the records of one partition stay in the queue after those of the other."""
    topic = dated("queued", 2)
    lazy = replace(settings, poll_interval_ms=1_000, max_poll_records=1)
    control = Consumer.source(lazy, Subscriptions.topics(topic)).to(Sink.never()).run(system)
    wait_for(lambda: len(control.snapshot()["partitions"]) == 2)
    assert sorted(shown(control, topic, n)["buffered_records"] > 0 for n in (0, 1)) != [True, True]
    wait_for(lambda: all(shown(control, topic, n)["lag_seconds"] for n in (0, 1)))
    assert sorted(shown(control, topic, n)["buffered_records"] > 0 for n in (0, 1)) != [True, True]
    for partition in (0, 1):
        check(cluster, topic, shown(control, topic, partition), 0, partition)
    control.shutdown().result(60)


def test_the_end_of_a_paused_partition_is_looked_up_while_nothing_is_fetched(
    settings, cluster, system, dated, wait_for, monkeypatch
):
    monkeypatch.setattr("streamactors.kafka.reading.partition_bounds.STALE_S", 0.2)
    topic = dated("grows")
    tight = replace(settings, high_bytes=200, low_bytes=100, pause_dwell_ms=0)
    control = Consumer.source(tight, Subscriptions.topics(topic)).to(Sink.ignore()).run(system)
    wait_for(lambda: (shown(control, topic) or {}).get("done") == 40)
    control.pause((topic, 0))
    wait_for(lambda: shown(control, topic)["paused_by_user"])
    dated.write(topic, 1, range(40, 50))
    wait_for(lambda: shown(control, topic)["paused"])  # the fetch that was on its way has brought the first of them
    time.sleep(0.6)
    dated.write(topic, 1, range(50, 60))
    wait_for(lambda: shown(control, topic)["lag"] == 20)
    check(cluster, topic, shown(control, topic), 40)
    control.resume((topic, 0))
    wait_for(lambda: shown(control, topic)["lag"] == 0)
    control.shutdown().result(60)


def test_a_record_counts_until_it_is_acknowledged(settings, cluster, system, dated, wait_for):
    topic = dated("acknowledged")
    offsets = []
    go = threading.Event()

    def hold(message):
        offsets.append(message.offset)
        if len(offsets) == 11:
            go.wait(60)
        return message.offset

    source = Consumer.committable_source(settings, Subscriptions.topics(topic)).max_chunk(1)
    graph = source.map(hold).to_mat(Committer.sink(CommitterSettings(max_batch=1)), Keep.left)
    control = graph.run(system)
    wait_for(lambda: (shown(control, topic) or {}).get("committed") == 10)
    check(cluster, topic, shown(control, topic), 10)
    go.set()
    wait_for(lambda: shown(control, topic)["lag"] == 0)
    control.shutdown().result(60)


def test_without_anybody_who_tracks_a_delivered_record_is_done(settings, cluster, system, dated, wait_for):
    topic = dated("untracked")
    control = Consumer.plain_source(settings, Subscriptions.topics(topic)).to(Sink.never()).run(system)
    wait_for(lambda: (shown(control, topic) or {}).get("lag_seconds"))
    check(cluster, topic, shown(control, topic), 0)
    control.shutdown().result(60)


@pytest.mark.slow
def test_a_snapshot_answers_while_the_broker_is_away(settings, cluster, system, dated, wait_for, monkeypatch):
    """The thread that asks waits for its timeout; the consumer and the snapshots do not."""
    begun, over = threading.Event(), threading.Event()

    def ask(self, due, starts):
        begun.set()
        over.wait(60)

    monkeypatch.setattr(PartitionBounds, "_ask", ask)
    topic = dated("away")
    go = threading.Event()
    control = Consumer.source(settings, Subscriptions.topics(topic)).to(Sink.foreach(lambda _: go.wait(60))).run(system)
    wait_for(lambda: shown(control, topic) is not None)
    control.pause((topic, 0))
    assert shown(control, topic)["assigned"]
    go.set()
    control.shutdown().result(60)
    over.set()
