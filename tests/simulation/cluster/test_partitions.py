"""Logs of a simulated cluster: ends, retention, compaction, times, replicas."""

from __future__ import annotations

from typing import Any

import confluent_kafka as ck

from streamactors.simulation.client.consumer import SimConsumer
from streamactors.simulation.client.producer import SimProducer
from streamactors.simulation.cluster.cluster import SimulatedCluster
from streamactors.simulation.cluster.partitions.partition import Partition
from tests.simulation.cluster.one_task_world import OneTaskWorld
from tests.simulation.cluster.test_producing import READER, make, read_all

HOUR_MS = 3_600_000


def write(world: OneTaskWorld, cluster: SimulatedCluster, topic: str, *records: tuple[Any, Any]) -> None:
    producer = SimProducer(world, cluster, {"linger.ms": 0})
    for key, value in records:
        producer.produce(topic, value, key, 0)
        assert producer.flush(10.0) == 0  # a batch for each


def partition(cluster: SimulatedCluster, topic: str) -> Partition:
    found = cluster.topics.get(topic, 0)
    assert found is not None
    return found


def test_old_records_go_and_a_reader_below_the_start_is_reset() -> None:
    world, cluster = make()
    cluster.create_topic("old", settings={"retention.ms": str(HOUR_MS)})
    write(world, cluster, "old", (b"k", b"1"), (b"k", b"2"))
    world.sleep(2 * HOUR_MS)
    write(world, cluster, "old", (b"k", b"3"))
    world.sleep(HOUR_MS / 2)
    assert [value for _, _, value in read_all(world, cluster, "old")] == [b"3"]
    lines: list[str] = []

    class Log:
        def log(self, level: int, text: str) -> None:
            lines.append(text)

    reader = SimConsumer(world, cluster, {**READER, "logger": Log()})
    reader.assign([ck.TopicPartition("old", 0, 0)])
    message = reader.poll(5.0)
    assert (message.offset(), message.value()) == (2, b"3")
    assert "old [0]: offset reset (at offset 0" in lines[0]


def test_a_compacted_topic_keeps_the_newest_record_of_each_key_at_its_offset() -> None:
    world, cluster = make()
    cluster.create_topic("c", settings={"cleanup.policy": "compact", "delete.retention.ms": str(HOUR_MS)})
    write(world, cluster, "c", (b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (b"b", None), (b"c", b"1"), (b"d", b"1"))
    world.sleep(HOUR_MS / 2)
    assert read_all(world, cluster, "c") == [(0, 2, b"2"), (0, 3, None), (0, 4, b"1"), (0, 5, b"1")]
    world.sleep(2 * HOUR_MS)
    assert read_all(world, cluster, "c") == [(0, 2, b"2"), (0, 4, b"1"), (0, 5, b"1")]


def test_the_high_watermark_waits_for_the_replicas_in_sync() -> None:
    world, cluster = make(brokers=3)
    found = partition(cluster, "t")
    producer = SimProducer(world, cluster, {"linger.ms": 0})
    producer.produce("t", b"x", partition=0)
    world.wait(lambda: found.log.end_offset == 1, 1_000)
    assert found.high_watermark == 0
    assert producer.flush(1.0) == 0
    assert found.high_watermark == 1


def test_too_few_replicas_refuse_records_until_one_is_back() -> None:
    world, cluster = make(brokers=3)
    cluster.create_topic("m", replication_factor=3, settings={"min.insync.replicas": "2"})
    leader = partition(cluster, "m").leader
    for broker in {0, 1, 2} - {leader}:
        cluster.stop_broker(broker)
    producer = SimProducer(world, cluster, {"linger.ms": 0})
    producer.produce("m", b"x", partition=0)
    assert producer.flush(5.0) == 1
    cluster.start_broker((leader + 1) % 3)
    assert producer.flush(5.0) == 0
    assert len(partition(cluster, "m").isr) == 2


def test_a_topic_with_log_append_time_has_the_time_of_the_append() -> None:
    world, cluster = make()
    cluster.create_topic("l", settings={"message.timestamp.type": "LogAppendTime"})
    producer = SimProducer(world, cluster, {"linger.ms": 0})
    producer.produce("l", b"x", timestamp=5)
    producer.flush(1.0)
    reader = SimConsumer(world, cluster, READER)
    reader.assign([ck.TopicPartition("l", 0, 0)])
    kind, time = reader.poll(1.0).timestamp()
    assert kind == ck.TIMESTAMP_LOG_APPEND_TIME
    assert 0 <= world.wall_ms() - time < 1_000


def test_an_idle_reader_sends_nothing_for_an_hour() -> None:
    world, cluster = make()
    reader = SimConsumer(world, cluster, READER)
    reader.assign([ck.TopicPartition("t", 0), ck.TopicPartition("t", 1)])
    reader.poll(1.0)
    before = len(world.trace)
    assert reader.poll(3_600.0) is None
    ours = [line for line in world.trace[before:] if "consumer-" in line]
    assert ours == []
