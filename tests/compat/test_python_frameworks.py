"""The hello-world programs of Python's own stream frameworks, against this broker, each with the packages it asks for."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from streamactors.broker import Cluster
from tests.compat.support import HERE, python_packages, run

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.timeout(600)]

# Each in a folder of its own: they pin clients that exclude one another.
PACKAGES = {
    "aiokafka": ("aiokafka==0.14.0",),
    "quixstreams": ("quixstreams==3.28.1",),
    "faust": ("faust-streaming==0.15.3",),
    "bytewax": ("bytewax==0.21.1", "confluent-kafka==2.4.0", "fastavro==1.9.7"),
}
GREETINGS = [f"hello {number}" for number in range(20)]


@pytest.fixture(scope="module")
def broker() -> Iterator[str]:
    with Cluster(process=True, config={"num.partitions": 2}) as cluster:
        yield cluster.bootstrap_servers


def hello(name: str, *arguments: object, folder: Path) -> list[str]:
    """Run a program to its end; return the lines it printed."""
    program = HERE / "programs" / f"{name}_hello.py"
    packages = python_packages(f"{name}-packages", *PACKAGES[name])
    env = {"PYTHONPATH": str(packages), "PYTHONUNBUFFERED": "1"}
    ran = run([sys.executable, program, *map(str, arguments)], folder=folder, timeout_s=120, env=env)
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-3000:]
    return ran.stdout.splitlines()


def produced(broker: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker})
    admin.list_topics(topic, timeout=30)  # which creates it
    producer = Producer({"bootstrap.servers": broker})
    for number, greeting in enumerate(GREETINGS):
        producer.produce(topic, greeting, partition=number % 2)
    assert producer.flush(30) == 0


def consumed(broker: str, topic: str) -> list[str]:
    """Return what is in a topic, as one sees it who reads only what is committed."""
    settings = {"bootstrap.servers": broker, "group.id": "reader", "isolation.level": "read_committed"}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, number, 0) for number in range(2)])
    messages: list[str] = []
    while len(messages) < len(GREETINGS):
        found = consumer.consume(len(GREETINGS), 30)
        assert found, f"only {len(messages)} of {len(GREETINGS)} are in {topic}"
        messages += [message.value().decode() for message in found]
    consumer.close()
    return sorted(messages)


def committed(broker: str, group: str, topic: str) -> int:
    """Return how many records of a topic a group has done, all partitions together."""
    admin = AdminClient({"bootstrap.servers": broker})
    (future,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
    return sum(place.offset for place in future.result(30).topic_partitions if place.topic == topic)


def test_aiokafka(broker: str, tmp_path: Path) -> None:
    said = hello("aiokafka", broker, "aiokafka-in", len(GREETINGS), folder=tmp_path)
    assert sorted(said) == sorted(GREETINGS)
    assert committed(broker, "aiokafka-hello", "aiokafka-in") == len(GREETINGS)


def test_quixstreams(broker: str, tmp_path: Path) -> None:
    produced(broker, "quix-in")
    said = hello("quixstreams", broker, "quix-in", "quix-out", len(GREETINGS), folder=tmp_path)
    shouted = sorted(greeting.upper() for greeting in GREETINGS)
    assert sorted(line for line in said if line.startswith("HELLO")) == shouted
    assert consumed(broker, "quix-out") == shouted
    assert committed(broker, "quixstreams-hello", "quix-in") == len(GREETINGS)


def test_faust(broker: str, tmp_path: Path) -> None:
    produced(broker, "faust-in")
    said = hello("faust", broker, "faust-in", len(GREETINGS), tmp_path / "data", folder=tmp_path)
    assert sorted(line for line in said if line.startswith("hello")) == sorted(GREETINGS)
    assert f"counted {len(GREETINGS)}" in said


def test_bytewax(broker: str, tmp_path: Path) -> None:
    produced(broker, "bytewax-in")
    said = hello("bytewax", broker, "bytewax-in", "bytewax-out", folder=tmp_path)
    shouted = sorted(greeting.upper() for greeting in GREETINGS)
    assert sorted(said) == shouted
    assert consumed(broker, "bytewax-out") == shouted
