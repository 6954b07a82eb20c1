"""The connector as it is, as two instances, on a simulated cluster in a simulated world: crashes, lost requests, dying brokers."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import confluent_kafka as ck
import pytest

from streamactors import ActorSystem, Source
from streamactors.kafka import (
    Consumer,
    ConsumerSettings,
    Producer,
    ProducerRecord,
    ProducerSettings,
    Subscriptions,
    Transactional,
)
from streamactors.simulation.client.factories import simulated_clients
from streamactors.simulation.cluster.cluster import SimulatedCluster
from streamactors.simulation.world.simulated import SimulatedWorld
from tests.simulation.cluster.storms import Storm

SERVERS = "simulated:9092"
READER = ConsumerSettings(SERVERS, "copy", "earliest", properties={"session.timeout.ms": 10_000})
WRITER = ProducerSettings(SERVERS)
MEMBERS = Subscriptions.topics("in")


def fill(count: int) -> None:
    with ActorSystem() as system:
        records = (ProducerRecord("in", b"%d" % each, b"k%d" % (each % 20)) for each in range(count))
        Source.from_iterable(records).run_with(Producer.plain_sink(WRITER), system).result(60)


def copied(record: Any) -> ProducerRecord:
    return ProducerRecord("out", record.value, record.key)


def at_least_once(_: str) -> None:
    with ActorSystem() as system:
        Consumer.source(READER, MEMBERS).map(copied).run_with(Producer.plain_sink(WRITER), system).result()


def exactly_once(instance: str) -> None:
    settings = WRITER.with_transactional_id(f"copy-{instance}")
    with ActorSystem() as system:
        copies = Transactional.source(READER, MEMBERS).map(copied)
        copies.run_with(Transactional.sink(settings), system).result()


def values(topic: str, cluster: SimulatedCluster) -> list[int]:
    """Return the committed values of a topic, each as often as it is there."""
    reader = ck.Consumer({"bootstrap.servers": SERVERS, "group.id": "look", "enable.auto.commit": False})
    reader.assign([ck.TopicPartition(topic, each.index, 0) for each in cluster.topics.of(topic)])
    found = []
    while (message := reader.poll(2.0)) is not None:
        found.append(int(message.value()))
    reader.close()
    return sorted(found)


def run(seed: int, pipeline: Callable[[str], None], count: int, *, crashes: bool = True) -> tuple[list[int], list[str]]:
    """Run two instances of a pipeline under faults until everything is copied; return the copies and the trace."""
    world = SimulatedWorld(seed)

    def main() -> list[int]:
        cluster = SimulatedCluster(world, brokers=3)
        for topic in ("in", "out"):
            cluster.create_topic(topic, 3, 3)
        with simulated_clients(world, cluster):
            fill(count)
            cluster.weather = storm = Storm(random.Random(seed), lost=0.01, unanswered=0.01)
            for instance in ("1", "2"):
                world.start(instance, partial(pipeline, instance))
            if crashes:
                world.sleep(world.dice.uniform(50, 3_000))
                world.crash("1")
                cluster.stop_broker(world.dice.randrange(3))
                world.sleep(world.dice.uniform(500, 3_000))
                world.start("1", partial(pipeline, "1"))
            for broker in range(3):
                cluster.start_broker(broker)
            world.sleep(5_000)
            storm.over()
            world.sleep(60_000)
            found = values("out", cluster)
            for instance in ("1", "2"):
                world.crash(instance)
            return found

    return world.run(main), world.trace.lines()


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.expects_log("the group waits for one that does not answer")
def test_every_record_is_copied_at_least_once_though_an_instance_crashes(seed: int) -> None:
    found, _ = run(seed, at_least_once, 200)
    assert sorted(set(found)) == list(range(200))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.expects_log("the group waits for one that does not answer")
def test_every_record_is_copied_exactly_once_in_transactions(seed: int) -> None:
    found, _ = run(seed, exactly_once, 200)
    assert found == list(range(200))


def test_the_same_seed_has_the_same_trace() -> None:
    once, again, other = (run(seed, exactly_once, 50, crashes=False) for seed in (3, 3, 4))
    assert once == again
    assert once[1] != other[1]
