"""Transactions of a simulated cluster: all or nothing, fencing, timeouts, when requests and answers are lost and brokers die."""

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
from tests.simulation.cluster.test_producing import READER, make, read_all


def transactional(world: OneTaskWorld, cluster: SimulatedCluster, **properties: Any) -> SimProducer:
    producer = SimProducer(world, cluster, {"transactional.id": "x", "linger.ms": 1, **properties})
    producer.init_transactions(60)
    return producer


def committed_offset(world: OneTaskWorld, cluster: SimulatedCluster) -> int:
    consumer = SimConsumer(world, cluster, READER)
    found: int = consumer.committed([ck.TopicPartition("t", 0)], timeout=60)[0].offset
    consumer.close()
    return found


def _commits(producer: SimProducer) -> bool:
    """Commit, again as long as that may help. Returns False for a transaction that must be aborted."""
    while True:
        try:
            producer.commit_transaction(60)
        except ck.KafkaException as error:
            if error.args[0].txn_requires_abort():
                return False
            if not error.args[0].retriable():
                raise
        else:
            return True


@pytest.mark.parametrize("seed", range(20))
def test_every_transaction_is_stored_once_or_not_at_all_in_a_storm(seed: int) -> None:
    world, cluster = make(seed, brokers=3)
    group = SimConsumer(world, cluster, READER).consumer_group_metadata()
    cluster.weather = storm = Storm(random.Random(seed), lost=0.1, unanswered=0.1)
    producer = transactional(world, cluster)
    victim = world.dice.randrange(3)
    world.later(500, lambda: cluster.stop_broker(victim), "a broker stops")
    world.later(1_500, lambda: cluster.start_broker(victim), "it starts")
    expected: list[bytes] = []
    for number in range(12):
        values = [b"%d-%d" % (number, each) for each in range(4)]
        commits = world.dice.random() < 0.7
        producer.begin_transaction()
        for each, value in enumerate(values):
            producer.produce("t", value, partition=each % 2)
        producer.send_offsets_to_transaction([ck.TopicPartition("t", 0, number)], group, 60)
        if commits:
            commits = _commits(producer)
        if commits:
            expected += values
            last = number
        else:
            producer.abort_transaction(60)
    storm.over()
    world.sleep(1_000)
    assert sorted(value for _, _, value in read_all(world, cluster)) == sorted(expected)
    assert committed_offset(world, cluster) == last


def test_a_producer_that_begins_fences_the_one_before_and_aborts_its_transaction() -> None:
    world, cluster = make()
    old = transactional(world, cluster)
    old.begin_transaction()
    old.produce("t", b"old", partition=0)
    old.flush(5)
    new = transactional(world, cluster)
    with pytest.raises(ck.KafkaException) as failed:
        old.commit_transaction(5)
    assert (failed.value.args[0].name(), failed.value.args[0].fatal()) == ("_FENCED", True)
    with pytest.raises(ck.KafkaException, match="_FENCED"):
        old.poll(0)  # told once more where reports are served
    old.poll(0)
    new.begin_transaction()
    new.produce("t", b"new", partition=0)
    new.commit_transaction(5)
    world.sleep(100)
    assert [value for _, _, value in read_all(world, cluster)] == [b"new"]


def test_a_transaction_past_its_timeout_is_aborted_and_holds_readers_up_no_longer() -> None:
    world, cluster = make()
    producer = transactional(world, cluster, **{"transaction.timeout.ms": 5_000})
    producer.begin_transaction()
    producer.produce("t", b"left", partition=0)
    producer.flush(5)
    found = cluster.topics.get("t", 0)
    assert found is not None
    assert (found.stable_end, found.high_watermark) == (0, 1)
    world.sleep(30_000)
    assert found.stable_end == found.high_watermark == 2
    with pytest.raises(ck.KafkaException, match="_FENCED"):
        producer.commit_transaction(5)


def test_a_transaction_has_only_the_partitions_that_it_writes_to() -> None:
    world, cluster = make()
    producer = transactional(world, cluster)
    for partitions in ([0, 1], [], [1]):
        producer.begin_transaction()
        for partition in partitions:
            producer.produce("t", b"x", partition=partition)
        producer.commit_transaction(5)
    world.sleep(100)
    ends = [found.log.end_offset for found in cluster.topics.of("t")]
    assert ends == [2, 4]  # each record has one marker


def test_offsets_of_a_transaction_count_when_it_commits() -> None:
    world, cluster = make()
    producer = transactional(world, cluster)
    group = SimConsumer(world, cluster, READER).consumer_group_metadata()
    for commits, expected in ((False, ck.OFFSET_INVALID), (True, 7)):
        producer.begin_transaction()
        producer.send_offsets_to_transaction([ck.TopicPartition("t", 0, 7)], group, 5)
        with pytest.raises(ck.KafkaException, match="_TIMED_OUT"):
            SimConsumer(world, cluster, READER).committed([ck.TopicPartition("t", 0)], timeout=1)
        if commits:
            producer.commit_transaction(5)
        else:
            producer.abort_transaction(5)
        world.sleep(50)
        assert committed_offset(world, cluster) == expected


def test_an_abort_drops_what_is_queued_and_reports_it() -> None:
    world, cluster = make()
    producer = transactional(world, cluster, **{"linger.ms": 1_000})
    reports: list[Any] = []
    producer.begin_transaction()
    producer.produce("t", b"x", on_delivery=lambda error, _: reports.append(error.name()))
    producer.abort_transaction(5)
    assert reports == ["_PURGE_QUEUE"]
    assert read_all(world, cluster, **{"isolation.level": "read_uncommitted"}) == []


def test_a_record_that_is_refused_leaves_the_transaction_only_an_abort() -> None:
    world, cluster = make()
    cluster.create_topic("c", settings={"cleanup.policy": "compact"})
    producer = transactional(world, cluster)
    producer.begin_transaction()
    producer.produce("c", b"without a key")
    producer.flush(5)
    for call in (producer.commit_transaction, producer.begin_transaction):
        with pytest.raises(ck.KafkaException) as failed:
            call()
        assert failed.value.args[0].txn_requires_abort()
    with pytest.raises(ck.KafkaException, match="_STATE"):
        producer.produce("t", b"x")
    producer.abort_transaction(5)
    producer.begin_transaction()
    producer.produce("t", b"after")
    producer.commit_transaction(5)
    world.sleep(50)
    assert [value for _, _, value in read_all(world, cluster)] == [b"after"]
