"""A bounded read whose consumer gets no partitions at first, as with a cooperative assignor: other members have them, and may give them up."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
from confluent_kafka import Consumer as BareConsumer
from confluent_kafka import Producer as BareProducer
from confluent_kafka import TopicPartition

from streamactors import ActorSystem, Keep, RestartSettings, RestartSource, Sink
from streamactors.kafka import Consumer, Subscriptions
from streamactors.kafka.reading import ending
from tests.kafka._members import with_assignor


@pytest.fixture
def cooperative(settings):
    return with_assignor(settings, "cooperative-sticky")


@pytest.mark.parametrize("group", [True, False])
def test_a_read_until_the_end_that_begins_at_the_end_says_so(settings, system, topic_with, caplog, group):
    """A new group with the default auto_offset_reset read 0 of 20,008 records in silence."""
    topic = topic_with(f"begins-at-its-end-{group}", [b"1", b"2", b"3"], partitions=2)
    latest = settings.with_auto_offset_reset("latest").with_group_id(settings.group_id if group else None)
    assert read_to_the_end(latest, topic, system) == []
    (said,) = [record.getMessage() for record in caplog.records if "begins at the end" in record.getMessage()]
    who = f"group {settings.group_id}" if group else "a consumer without a group"
    assert said.startswith(f"{who} has no committed offset of {topic}-0, {topic}-1, and auto_offset_reset is 'latest'")
    assert "has none of the 3 records that are there; auto_offset_reset='earliest' reads them" in said


def test_a_read_until_the_end_that_loses_nothing_says_nothing(settings, system, topic_with, caplog):
    topic = topic_with("is-read-whole", [b"1", b"2"])
    assert len(read_to_the_end(settings, topic, system)) == 2
    assert read_to_the_end(settings.with_auto_offset_reset("latest"), topic, system) == [], "all were committed"
    empty = topic_with("has-nothing", [])
    assert read_to_the_end(settings.with_auto_offset_reset("latest"), empty, system) == []
    assert "begins at the end" not in caplog.text


def read_to_the_end(settings, topic, system):
    """Return the values that a bounded read of a topic gives; one without a group is assigned its partitions."""
    if settings.group_id:
        source = Consumer.source(settings, Subscriptions.topics(topic), until="end")
    else:
        source = Consumer.plain_source(settings, Subscriptions.assignment((topic, 0), (topic, 1)), until="end")
    source = source.map(lambda record: record.value)
    return source.run_with(Sink.to_list(), system).result(30)


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
@pytest.mark.expects_log("restart_source: failed")
def test_a_restarted_source_reads_what_its_former_instance_left(settings, system, topic_with, monkeypatch, assignor):
    monkeypatch.setattr(ending, "AFTER_FAILURE_MS", 2_000)  # so long it is a member
    # The former instance was still a member. The next one got no partition, took that for the end, and the stream succeeded without the rest.
    of_group = with_assignor(settings, assignor)
    topic, failed = topic_with(f"left-over-{assignor}", [b"x"] * 20), []

    def fail_once(record):
        if record.offset == 10 and not failed:
            failed.append(record)
            raise ValueError("once")
        return record.offset

    source = RestartSource.on_failures_with_backoff(
        RestartSettings("10ms", "20ms", 0.0),
        lambda: Consumer.source(of_group, Subscriptions.topics(topic), until="end").map(fail_once),
    )
    assert set(source.run_with(Sink.to_list(), system).result(60)) == set(range(20))


@pytest.mark.expects_log("restart_source: failed")
def test_a_restarted_source_reads_the_partition_that_its_former_instance_still_has(
    cooperative, system, topic_with, monkeypatch
):
    monkeypatch.setattr(ending, "AFTER_FAILURE_MS", 3_000)  # so long it is a member
    # The group gave one of the two partitions to the next instance, which read it to its end. The stream succeeded without the other one's records.
    topic, failed = topic_with("still-held", [b"x"] * 20, 2), []

    def fail_once(record):
        if record.offset == 5 and not failed:
            failed.append(record)
            raise ValueError("once")
        return record.partition, record.offset

    source = RestartSource.on_failures_with_backoff(
        RestartSettings("10ms", "20ms", 0.0),
        lambda: Consumer.source(cooperative, Subscriptions.topics(topic), until="end").map(fail_once),
    )
    expected = {(number, offset) for number in range(2) for offset in range(10)}
    assert set(source.run_with(Sink.to_list(), system).result(60)) == expected


def test_an_instance_that_comes_later_takes_its_share(cooperative, system, topic_with):
    topic = topic_with("shared-out", [b"x"] * 20, 2)
    go, reached = threading.Event(), threading.Event()

    def wait(record):
        reached.set()
        assert go.wait(60)
        return record.partition, record.offset

    def start(where, step):
        slowly = replace(cooperative, revoke_timeout_ms=100, max_in_flight=1)
        source = Consumer.source(slowly, Subscriptions.topics(topic), until="end")
        return source.map(step).run_with(Sink.to_list(), where)

    first = start(system, wait)
    assert reached.wait(30)
    with ActorSystem("second") as second:
        later = start(second, lambda record: (record.partition, record.offset)).result(60)
        go.set()
        assert {*later, *first.result(60)} == {(number, offset) for number in range(2) for offset in range(10)}
    assert later


def test_an_instance_without_partitions_ends_when_the_group_has_committed_everything(
    cooperative, system, topic_with, committed, wait_for
):
    topic = topic_with("held-by-another", [b"x"] * 20)
    source = Consumer.source(cooperative, Subscriptions.topics(topic))
    control, done = source.to_mat(Sink.foreach(lambda _: None), Keep.both).run(system)
    wait_for(lambda: committed(topic) == {0: 20})
    with ActorSystem("second") as second:
        bounded = Consumer.source(cooperative, Subscriptions.topics(topic), until="end")
        assert bounded.run_with(Sink.to_list(), second).result(60) == []
    assert control.snapshot()["partitions"], "the partition stays with the first"
    control.drain_and_shutdown(done)


def test_a_marker_after_what_the_group_has_committed_is_not_waited_for(
    cluster, cooperative, system, topic_with, committed, wait_for
):
    # Other clients commit the offset after the last record that they have read. The marker of the transaction has the offset before the end.
    topic = topic_with("marker-at-the-end", [b"x"])
    producer = BareProducer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": "marker-at-the-end"})
    producer.init_transactions(10)
    producer.begin_transaction()
    producer.produce(topic, b"y")
    producer.commit_transaction(10)
    member = BareConsumer(cooperative.client_properties() | {"enable.auto.commit": False})
    member.subscribe([topic])
    try:
        assert [message.offset() for message in member.consume(2, 60)] == [0, 1]
        member.commit(offsets=[TopicPartition(topic, 0, 2)], asynchronous=False)
        bounded = Consumer.source(cooperative, Subscriptions.topics(topic), until="end")
        done = bounded.run_with(Sink.to_list(), system)
        wait_for(lambda: member.poll(0) is None and done.done())
        assert done.result(0) == []
        assert committed(topic) == {0: 2}
        assert member.assignment() == [TopicPartition(topic, 0)], "the partition stays with the first"
    finally:
        member.close()


def test_two_sources_of_one_run_do_not_wait_for_a_commit_that_comes_with_the_end_of_the_run(
    cooperative, system, topic_with
):
    # One has the partition and has read it; its records are done when the list is. The other one waited until they were committed.
    topic = topic_with("two-in-a-run", [b"x"] * 20)
    one, two = (Consumer.source(cooperative, Subscriptions.topics(topic), until="end") for _ in range(2))
    offsets = one.merge(two).map(lambda record: record.offset)
    assert set(offsets.run_with(Sink.to_list(), system).result(60)) == set(range(20))
