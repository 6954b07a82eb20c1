"""What once stood still, or ended too early: demand that nobody repeats, members thrown out of their group, systems shut down."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from streamactors import ActorSystem, Keep, Sink
from streamactors.actors.futures import StreamFuture
from streamactors.broker import Cluster
from streamactors.kafka import Consumer, Subscriptions
from streamactors.kafka.errors import CommitFailed
from streamactors.kafka.reading.messages import TakeSnapshot
from streamactors.testing import TestSink
from tests.broker.wire import WireClient
from tests.kafka._members import CONSUMER, WAYS, member_settings


def members(cluster, group):
    """Return {member id: number of its partitions}."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    described = admin.describe_consumer_groups([group])[group]
    return {m.member_id: len(m.assignment.topic_partitions) for m in described.result(10).members}


def throw_out(cluster, group, way="range"):
    """Have the only member leave the group without knowing it, as if its session had run out."""
    host, port = cluster.bootstrap_servers.split(":")
    (gone,) = members(cluster, group)
    with WireClient(host, int(port)) as client:
        if way == CONSUMER:
            client.call(
                68,
                0,
                {
                    "group_id": group,
                    "member_id": gone,
                    "member_epoch": -1,
                    "subscribed_topic_names": None,
                    "topic_partitions": None,
                },
            )
        else:
            client.call(13, 3, {"group_id": group, "members": [{"member_id": gone, "group_instance_id": None}]})


def test_what_is_wanted_in_addition_is_asked_for_when_the_first_part_has_come(cluster, settings, system, topic_with):
    # asked for 100 -> 60 more wanted, too few for a request of their own -> the 100 come: nobody pulls again for the 60
    topic = topic_with("more", [])
    control, probe = (
        Consumer.plain_source(settings, Subscriptions.topics(topic))
        .map(lambda record: record.offset)
        .to_mat(TestSink.probe("30s"), Keep.both)
        .run(system)
    )
    probe.request(100)
    probe.request(60)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for i in range(160):
        producer.produce(topic, b"%d" % i)
    producer.flush(10)
    probe.expect_next_n(range(160))
    control.shutdown().result(30)


def test_a_system_that_is_shut_down_commits_what_is_done_and_leaves_the_group(cluster, settings, topic_with, committed):
    topic = topic_with("down", [b"x"] * 200)
    seen, enough, forever = [], threading.Event(), threading.Event()

    def store(record):
        if len(seen) == 100:
            enough.set()
            forever.wait(30)
        seen.append(record.offset)

    late = replace(settings, commit_interval_ms=60_000, max_poll_records=10)
    with ActorSystem("down") as system:
        source = Consumer.source(late, Subscriptions.topics(topic))
        control, done = source.to_mat(Sink.foreach(store), Keep.both).run(system)
        assert enough.wait(30)
        threading.Timer(0.2, forever.set).start()
        system.shutdown(20)
    assert done.exception(30) is not None
    control.is_shutdown.result(30)
    assert members(cluster, settings.group_id) == {}
    assert 0 < committed(topic)[0] <= len(seen)


@pytest.mark.expects_log("these do not return and keep their threads")
def test_a_consumer_that_the_shutdown_had_no_time_for_leaves_the_group_all_the_same(cluster, settings, topic_with):
    """Its session does not run out while the process lives: the next member would get nothing for max.poll.interval.ms."""
    topic = topic_with("hurry", [b"x"] * 500)
    reached, forever = threading.Event(), threading.Event()

    def store(record):
        reached.set()
        forever.wait(60)

    system = ActorSystem("hurry", max_threads=1)
    backlog = replace(settings, max_poll_records=10)  # full polls: the consumer takes its turns on the pool
    source = Consumer.source(backlog, Subscriptions.topics(topic))
    control, _ = source.to_mat(Sink.foreach(store), Keep.both).run(system)
    assert reached.wait(30)
    system.shutdown(0.2)
    control.is_shutdown.result(30)
    assert members(cluster, settings.group_id) == {}
    forever.set()


@pytest.mark.expects_log(": lost ")
@pytest.mark.parametrize("strategy", WAYS)
def test_a_bounded_read_goes_on_when_its_member_was_thrown_out(
    cluster, settings, system, topic_with, committed, wait_for, strategy, caplog
):
    # heartbeat: unknown member -> everything is lost -> for a moment no partition is ours: that is not the end of the input
    topic = topic_with(f"out-{strategy}", [b"x"] * 15_000, 3)
    seen, go = [], threading.Event()

    def store(record):
        seen.append((record.partition, record.offset))
        if len(seen) == 50:
            go.wait(30)

    quick = member_settings(settings, strategy)
    source = Consumer.source(quick, Subscriptions.topics(topic), until="end")
    control, done = source.to_mat(Sink.foreach(store), Keep.both).run(system)
    wait_for(lambda: len(seen) >= 50)
    before = set(members(cluster, settings.group_id))
    throw_out(cluster, settings.group_id, strategy)
    # a member of a consumer group keeps its id when it joins again
    wait_for(
        lambda: set(members(cluster, settings.group_id)) - before or (strategy == CONSUMER and ": lost " in caplog.text)
    )
    go.set()
    done.result(60)
    control.is_shutdown.result(30)
    assert set(seen) == {(p, offset) for p in range(3) for offset in range(5_000)}
    assert committed(topic, 3) == {0: 5_000, 1: 5_000, 2: 5_000}


@pytest.mark.expects_log(": lost ")
@pytest.mark.parametrize("strategy", WAYS[::2])
def test_a_member_that_was_thrown_out_commits_nothing_for_what_it_lost_and_goes_on(
    cluster, settings, system, topic_with, committed, wait_for, strategy
):
    topic = topic_with(f"unknown-{strategy}", [b"x"] * 10)
    reached, go = threading.Event(), threading.Event()
    seen = []

    def store(record):
        seen.append(record.offset)
        if len(seen) == 5:
            reached.set()
            go.wait(30)

    slow_to_notice = member_settings(settings, strategy, 3_000)
    source = Consumer.source(slow_to_notice, Subscriptions.topics(topic))
    control, done = source.to_mat(Sink.foreach(store), Keep.both).run(system)
    assert reached.wait(30)
    throw_out(cluster, settings.group_id, strategy)
    go.set()  # what is done now is committed before the next heartbeat: the coordinator knows no such member
    wait_for(lambda: committed(topic)[0] == 10)
    assert not done.done()
    control.shutdown().result(30)
    assert set(seen) == set(range(10))


def test_a_commit_beside_members_of_the_group_is_refused_at_once(cluster, settings, system, topic_with, wait_for):
    topic = topic_with("beside", [b"x"] * 10)
    member, _ = Consumer.source(settings, Subscriptions.topics(topic)).to_mat(Sink.ignore(), Keep.both).run(system)
    wait_for(lambda: sum(members(cluster, settings.group_id).values()) == 1)
    by_hand = Consumer.source(settings, Subscriptions.assignment((topic, 0)), until="end")
    control, _ = by_hand.to_mat(Sink.ignore(), Keep.both).run(system)
    assert isinstance(control.is_shutdown.exception(30), CommitFailed)
    member.shutdown().result(30)


@pytest.mark.expects_log(": lost ", "Application maximum poll interval")
def test_a_consumer_that_was_too_late_with_its_poll_joins_again(wait_for, request):
    with Cluster(config={"group.min.session.timeout.ms": 500}) as cluster, ActorSystem("late") as system:
        from streamactors.kafka import ConsumerSettings

        cluster.create_topic("late", partitions=1)
        settings = ConsumerSettings(
            cluster.bootstrap_servers,
            "late",
            "earliest",
            properties={"session.timeout.ms": 600, "heartbeat.interval.ms": 100, "max.poll.interval.ms": 700},
        )
        seen = []
        source = Consumer.source(settings, Subscriptions.topics("late"))
        control, done = source.to_mat(Sink.foreach(lambda r: seen.append(r.value)), Keep.both).run(system)
        wait_for(lambda: sum(members(cluster, "late").values()) == 1)
        go, reply = threading.Event(), StreamFuture("holds the consumer's thread")
        reply.add_done_callback(lambda _: go.wait(30))
        control._send(TakeSnapshot(reply))
        wait_for(lambda: members(cluster, "late") == {})
        go.set()
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
        producer.produce("late", b"x")
        producer.flush(10)
        wait_for(lambda: seen == [b"x"] or done.done())
        assert not done.done(), done.exception()
        control.shutdown().result(30)
