"""A sink of a hundred records a second behind a hundred partitions: nothing piles up, nobody is thrown out, little is ahead of the sink.

Times are told in work of the sink (in its records), so that a busy machine changes nothing."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from streamactors import ActorSystem, Sink
from streamactors.broker import Cluster
from streamactors.kafka import Consumer, ConsumerSettings, DrainingControl, Subscriptions
from tests.own_process import own_process

PARTITIONS = 100
RECORD_BYTES = 5_000
RECORDS_PER_S = 100
HALF_A_SECOND = RECORDS_PER_S // 2


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4_096


class SlowSink:
    """Counts what it has done; an element takes ten milliseconds."""

    def __init__(self) -> None:
        self.done: list[tuple[int, int]] = []
        self._pause = threading.Event()

    def __call__(self, record) -> None:
        self._pause.wait(1 / RECORDS_PER_S)
        self.done.append((record.partition, record.offset))


@pytest.fixture
def cluster():
    with Cluster(process=True) as cluster:
        cluster.create_topic("slow", partitions=PARTITIONS)
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 5})
        for i in range(40_000):
            producer.produce("slow", bytes(RECORD_BYTES), partition=i % PARTITIONS)
            if i % 5_000 == 0:
                producer.flush(30)
        assert producer.flush(60) == 0
        yield cluster


def settings_of(cluster) -> ConsumerSettings:
    return ConsumerSettings(
        cluster.bootstrap_servers,
        "slow",
        "earliest",
        commit_interval_ms=200,
        properties={"session.timeout.ms": 6_000, "heartbeat.interval.ms": 500, "max.poll.interval.ms": 10_000},
    )


def members(cluster) -> dict[str, int]:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    described = admin.describe_consumer_groups(["slow"])["slow"]
    return {m.member_id: len(m.assignment.topic_partitions) for m in described.result(20).members}


@own_process
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_slow_sink_behind_a_hundred_partitions(cluster, caplog):
    before = resident_bytes()
    settings, sink, pause = settings_of(cluster), SlowSink(), threading.Event()
    source = Consumer.source(settings, Subscriptions.topics("slow"))
    with ActorSystem("slow") as system:
        control = source.to_mat(Sink.foreach(sink), DrainingControl.create).run(system)
        while len(sink.done) < RECORDS_PER_S:
            pause.wait(0.1)
        (member,) = members(cluster)
        held, ahead, grown = 0, 0, 0
        while len(sink.done) < 30 * RECORDS_PER_S:  # three times the longest pause between polls that the group allows
            pause.wait(0.2)
            through = len(sink.done)
            found = control.snapshot()
            partitions = found["partitions"].values()
            held = max(held, sum(p["buffered_bytes"] for p in partitions))
            ahead = max(ahead, found["delivered"] + found["demand"] - through)
            grown = max(grown, resident_bytes() - before)
        print(f"held {held:,} bytes, {ahead} records ahead, {grown:,} bytes more in memory, {found['pauses']} pauses")
        assert members(cluster) == {member: PARTITIONS}, "nobody was thrown out"
        assert held <= settings.max_buffered_bytes + 2 * 500 * RECORD_BYTES, "the limit, and a poll beyond it"
        assert grown < 160 << 20, "buffers, librdkafka's queue of 8 MiB, fetches on their way"
        assert ahead <= HALF_A_SECOND + 10, "what was asked for in advance is half a second of the sink's work"
        through = len(sink.done)
        control.drain_and_shutdown(timeout=60)
        assert len(sink.done) - through <= 2 * RECORDS_PER_S, "a drain takes less than two seconds of work"
    assert "still in flight" not in caplog.text
    assert len(set(sink.done)) == len(sink.done), "nothing came twice"


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_revocation_under_full_load_waits_for_what_is_in_flight_and_no_longer(cluster, caplog):
    settings, first, second, pause = settings_of(cluster), SlowSink(), SlowSink(), threading.Event()
    source = Consumer.source(settings, Subscriptions.topics("slow"))
    with ActorSystem("slow") as system:
        one = source.to_mat(Sink.foreach(first), DrainingControl.create).run(system)
        while len(first.done) < 2 * RECORDS_PER_S:
            pause.wait(0.1)
        two = source.to_mat(Sink.foreach(second), DrainingControl.create).run(system)
        while not second.done:
            pause.wait(0.1)
        while len(second.done) < RECORDS_PER_S:
            pause.wait(0.1)
        assert "still in flight" not in caplog.text, "the deadline was met"
        assert not set(first.done) & set(second.done), (
            "what was in flight was committed before the partition was handed over"
        )
        one.drain_and_shutdown(timeout=60)
        two.drain_and_shutdown(timeout=60)
