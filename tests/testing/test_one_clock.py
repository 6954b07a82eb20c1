"""One virtual clock moves the broker, the connector, the stream and its windows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streamactors import ActorSystem, Keep, Sink, Source, VirtualClock
from streamactors.broker import Cluster
from streamactors.broker.errors import BrokerStartError
from streamactors.clock import NotQuiescent
from streamactors.kafka import (
    Consumer,
    ConsumerSettings,
    PartitionAssignmentHandler,
    Producer,
    ProducerRecord,
    ProducerSettings,
    Subscriptions,
    TopicPartition,
)
from streamactors.testing import TestSink
from streamactors.windows import BufferConfig, Suppressed, TimeWindows

CLOSED = Suppressed.until_window_closes(BufferConfig.unbounded())


@pytest.fixture
def clock():
    return VirtualClock(wall_start_ms=0)


@pytest.fixture
def cluster(clock):
    with Cluster(clock=clock) as cluster:
        yield cluster


@pytest.fixture
def system(clock, cluster):
    with ActorSystem(clock=clock) as system:
        yield system


def reading(cluster, group="one-clock"):
    return ConsumerSettings(cluster.bootstrap_servers, group_id=group, auto_offset_reset="earliest")


def test_the_broker_stamps_records_and_windows_close_by_one_clock(clock, cluster, system):
    cluster.create_topic("clicks", config={"message.timestamp.type": "LogAppendTime"})

    def write(*keys):
        records = [ProducerRecord("clicks", "click", key) for key in keys]
        sink = Producer.plain_sink(ProducerSettings(cluster.bootstrap_servers))
        Source.from_iterable(records).run_with(sink, system).result(30)

    sink = (
        Consumer.records(reading(cluster), Subscriptions.topics("clicks"), key="string")
        .group_by_key()
        .windowed_by(TimeWindows.of_size("20s").with_no_grace())
        .count()
        .suppress(CLOSED)
        .to_stream()
        .map(lambda window: (window.key, window.start, window.value))
        .to_mat(TestSink.probe(timeout=30), Keep.right)
        .run(system)
    )
    sink.request(10)
    write("a", "a")
    clock.advance("20s")
    write("b")
    sink.expect_next(("a", 0, 2))
    clock.advance("40s")
    write("c")
    sink.expect_next(("b", 20_000, 1))
    sink.cancel()


def test_each_tick_has_passed_two_topics_before_the_time_moves_on(clock, cluster, system):
    # tick -> producer -> broker -> consumer -> producer -> broker -> consumer: all of it at one moment of virtual time
    for topic in ("ticks", "copies"):
        cluster.create_topic(topic, config={"message.timestamp.type": "LogAppendTime"})
    writing = ProducerSettings(cluster.bootstrap_servers)
    Consumer.plain_source(reading(cluster), Subscriptions.topics("ticks")).map(
        lambda record: ProducerRecord("copies", b"%d" % record.timestamp)
    ).to(Producer.plain_sink(writing)).run(system)
    seen = []
    Consumer.plain_source(reading(cluster, "copies"), Subscriptions.topics("copies")).to(
        Sink.foreach(lambda record: seen.append((int(record.value), record.timestamp, clock.wall_ms())))
    ).run(system)
    ticks = Source.tick("1s", "2s", ProducerRecord("ticks", b"tick")).take(5).to(Producer.plain_sink(writing))
    ticks.run(system)

    clock.advance("999ms")
    assert seen == []
    clock.advance("6s")  # to 6,999 ms: the ticks of the seconds 1, 3 and 5
    assert seen == [(at, at, at) for at in (1_000, 3_000, 5_000)]
    clock.advance("1m")
    assert seen == [(at, at, at) for at in (1_000, 3_000, 5_000, 7_000, 9_000)]


def test_sources_of_a_shared_consumer_follow_the_clock(clock, cluster, system):
    cluster.create_topic("shared", 2, config={"message.timestamp.type": "LogAppendTime"})
    seen = {0: [], 1: []}
    with Consumer.shared(reading(cluster, "shared")) as shared:
        for partition, times in seen.items():
            shared.plain_source(Subscriptions.assignment(TopicPartition("shared", partition))).to(
                Sink.foreach(lambda record, times=times: times.append((record.timestamp, clock.wall_ms())))
            ).run(system)
        Source.tick("1s", "1s", None).zip_with_index().take(4).map(
            lambda pair: ProducerRecord("shared", b"tick", partition=pair[1] % 2)
        ).to(Producer.plain_sink(ProducerSettings(cluster.bootstrap_servers))).run(system)
        clock.advance("3500ms")
        assert seen == {0: [(1_000, 1_000), (3_000, 3_000)], 1: [(2_000, 2_000)]}
        clock.advance("1s")
        assert seen[1] == [(2_000, 2_000), (4_000, 4_000)]


def test_a_member_keeps_its_partitions_when_the_time_passes_its_session(clock, cluster, system):
    # heartbeats come every 3 s of real time: sessions (45 s) and open connections (10 min) must not end by the virtual clock
    cluster.create_topic("orders")
    assignments = []

    class Assignments(PartitionAssignmentHandler):
        def on_assigned(self, partitions, consumer):
            assignments.append(partitions)

    subscription = Subscriptions.topics("orders").with_assignment_handler(Assignments())
    settings = replace(reading(cluster), commit_interval_ms=300_000)
    source = Consumer.plain_source(settings, subscription).map(lambda record: record.value)
    sink = source.run_with(TestSink.probe(timeout=30), system)
    sink.request(1)
    clock.advance("11m")
    written = Source.single(ProducerRecord("orders", b"late"))
    written.run_with(Producer.plain_sink(ProducerSettings(cluster.bootstrap_servers)), system).result(30)
    sink.expect_next(b"late")
    assert len(assignments) == 1
    sink.cancel()


def test_a_clock_is_for_one_broker_in_this_process(clock):
    with pytest.raises(BrokerStartError, match="in this process"):
        Cluster(clock=clock, process=True)
    with pytest.raises(BrokerStartError, match="in this process"):
        Cluster(clock=clock, brokers=3)


def test_a_part_outside_that_never_rests_is_named(clock):
    class Busy:
        name = "a producer of 127.0.0.1:9"

        def at_rest(self):
            return None

    clock.attach_outside(Busy())
    with pytest.raises(NotQuiescent, match=r"not at rest after 0\.05 s: a producer of 127"):
        clock.advance("1s", patience_s=0.05)
    assert clock.now_ms() == 0
