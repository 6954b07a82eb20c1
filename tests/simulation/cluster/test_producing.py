"""Producers of a simulated cluster when requests and answers are lost, leaders move and queues fill."""

from __future__ import annotations

import random
from typing import Any

import confluent_kafka as ck
import pytest

from streamactors.simulation.client.consumer import SimConsumer
from streamactors.simulation.client.producer import SimProducer
from streamactors.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.cluster.one_task_world import OneTaskWorld
from tests.simulation.cluster.storms import Storm

READER = {"group.id": "g", "enable.auto.commit": False, "auto.offset.reset": "earliest"}


def make(seed: int = 0, brokers: int = 1, **settings: Any) -> tuple[OneTaskWorld, SimulatedCluster]:
    world = OneTaskWorld(seed)
    cluster = SimulatedCluster(world, brokers=brokers, settings=settings)
    cluster.create_topic("t", 2, replication_factor=min(brokers, 3))
    return world, cluster


def read_all(world: OneTaskWorld, cluster: SimulatedCluster, topic: str = "t", **properties: Any) -> list[Any]:
    """Return (partition, offset, value) of every record, in the order of each partition."""
    reader = SimConsumer(world, cluster, {**READER, **properties})
    partitions = range(len(cluster.topics.of(topic)))
    reader.assign([ck.TopicPartition(topic, each, ck.OFFSET_BEGINNING) for each in partitions])
    found = []
    while (message := reader.poll(30.0)) is not None:
        found.append((message.partition(), message.offset(), message.value()))
    reader.close()
    return sorted(found)


def send(producer: SimProducer, count: int, first: int = 0) -> list[Any]:
    reports: list[Any] = []
    for each in range(first, first + count):
        producer.produce(
            "t", b"%d" % each, partition=each % 2, on_delivery=lambda e, m: reports.append((e and e.name(), m.value()))
        )
        if each % 7 == 0:
            producer.poll(0.002)
    return reports


@pytest.mark.parametrize("seed", range(20))
def test_idempotent_records_are_stored_once_and_in_order_though_requests_and_answers_are_lost(seed: int) -> None:
    world, cluster = make(seed)
    cluster.weather = storm = Storm(random.Random(seed), lost=0.2, unanswered=0.2)
    producer = SimProducer(world, cluster, {"enable.idempotence": True, "linger.ms": 1})
    reports = send(producer, 300)
    assert producer.flush(600.0) == 0
    storm.over()
    assert sorted(reports) == sorted((None, b"%d" % each) for each in range(300))
    values = [value for _, _, value in read_all(world, cluster)]
    assert values == [b"%d" % each for each in [*range(0, 300, 2), *range(1, 300, 2)]]


def test_records_without_idempotence_are_stored_twice_when_answers_are_lost() -> None:
    stored = []
    for seed in range(10):
        world, cluster = make(seed)
        cluster.weather = storm = Storm(random.Random(seed), unanswered=0.3)
        producer = SimProducer(world, cluster, {"linger.ms": 1})
        send(producer, 100)
        assert producer.flush(600.0) == 0
        storm.over()
        stored.append(len(read_all(world, cluster)))
    assert min(stored) >= 100
    assert max(stored) > 100


@pytest.mark.parametrize("seed", range(10))
def test_acknowledged_records_survive_the_death_of_leaders(seed: int) -> None:
    world, cluster = make(seed, brokers=3)
    producer = SimProducer(world, cluster, {"enable.idempotence": True, "linger.ms": 1})
    dice = random.Random(seed)
    reports: list[Any] = []
    for part in range(10):
        reports.append(send(producer, 30, part * 30))
        victim = dice.randrange(3)
        world.later(dice.uniform(0, 20), lambda each=victim: cluster.stop_broker(each), "a broker stops")
        world.later(1_000, lambda each=victim: cluster.start_broker(each), "it starts")
        producer.flush(3.0)
    assert producer.flush(600.0) == 0
    acknowledged = sorted(value for part in reports for error, value in part if error is None)
    assert len(acknowledged) == 300
    assert sorted(value for _, _, value in read_all(world, cluster)) == acknowledged


def test_acks_1_loses_records_that_no_follower_had_copied() -> None:
    lost = 0
    for seed in range(10):
        world, cluster = make(seed, brokers=3)
        producer = SimProducer(world, cluster, {"acks": "1", "linger.ms": 0})
        reports = send(producer, 2)
        world.wait(lambda p=producer, r=reports: p.poll(0) >= 0 and len(r) == 2, 1_000)  # type: ignore[misc]
        for broker in (cluster.leader_of("t", 0), cluster.leader_of("t", 1)):
            cluster.stop_broker(broker)
        lost += 2 - len(read_all(world, cluster))
    assert lost > 0


def test_produce_raises_at_a_full_queue_until_reports_were_served() -> None:
    world, cluster = make()
    producer = SimProducer(world, cluster, {"queue.buffering.max.messages": 3, "linger.ms": 1})
    for _ in range(3):
        producer.produce("t", b"x")
    with pytest.raises(BufferError, match="Queue full"):
        producer.produce("t", b"x")
    world.sleep(100)
    with pytest.raises(BufferError):  # the reports wait
        producer.produce("t", b"x")
    producer.poll(0)
    producer.produce("t", b"x")


def test_a_record_that_is_not_stored_in_time_is_reported_and_leaves_no_gap() -> None:
    world, cluster = make()
    cluster.stop_broker(0)
    producer = SimProducer(world, cluster, {"enable.idempotence": True, "linger.ms": 1, "message.timeout.ms": 3_000})
    late = send(producer, 4)
    assert producer.flush(30.0) == 0
    assert {error for error, _ in late} == {"_MSG_TIMED_OUT"}
    cluster.start_broker(0)
    later = send(producer, 4, 4)
    assert producer.flush(30.0) == 0
    assert {error for error, _ in later} == {None}
    assert [value for _, _, value in read_all(world, cluster)] == [b"4", b"6", b"5", b"7"]


def test_a_purge_reports_what_was_queued_and_what_was_on_its_way() -> None:
    world, cluster = make()
    cluster.weather = Storm(random.Random(1), slowest_ms=500.0)
    producer = SimProducer(world, cluster, {"linger.ms": 1})
    sent = send(producer, 2)
    world.sleep(2)
    queued = send(producer, 1, 2)
    producer.purge()
    producer.poll(0)
    assert sorted(sent) == [("_PURGE_INFLIGHT", b"0"), ("_PURGE_INFLIGHT", b"1")]
    assert queued == [("_PURGE_QUEUE", b"2")]
    assert len(producer) == 0


def test_records_for_a_topic_that_does_not_exist_fail_and_go_to_one_that_is_created() -> None:
    world, cluster = make()
    producer = SimProducer(world, cluster, {"topic.metadata.propagation.max.ms": 1_000})
    reports: list[Any] = []
    for topic in ("never", "soon"):
        producer.produce(topic, b"x", on_delivery=lambda e, m: reports.append((m.topic(), e and e.name())))
    world.later(500, lambda: cluster.create_topic("soon"), "a topic is created")
    assert producer.flush(10.0) == 0
    assert sorted(reports) == [("never", "_UNKNOWN_TOPIC"), ("soon", None)]


def test_the_trace_of_a_seed_is_the_same_again() -> None:
    def run(seed: int) -> list[str]:
        world, cluster = make(seed, brokers=3)
        cluster.weather = Storm(random.Random(seed), lost=0.1, unanswered=0.1)
        producer = SimProducer(world, cluster, {"enable.idempotence": True, "linger.ms": 1})
        send(producer, 100)
        producer.flush(600.0)
        return world.trace

    assert run(7) == run(7)
    assert run(7) != run(8)
