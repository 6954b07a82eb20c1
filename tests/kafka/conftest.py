"""One broker per test module, a system per test, and small helpers."""

from __future__ import annotations

import re
import threading

import pytest
from confluent_kafka import Consumer as BareConsumer
from confluent_kafka import Producer as BareProducer
from confluent_kafka import TopicPartition

from streamactors import ActorSystem
from streamactors.broker import Cluster
from streamactors.kafka import ConsumerSettings, MetadataClient, ProducerSettings
from streamactors.kafka.client.connection import ClientConnection
from streamactors.kafka.client.consumer import StreamConsumer
from tests.bare_clients import IN_ORDER, TO_THE_END
from tests.kafka._members import (
    CONSUMER,
    OVER_APACHE,
    QUICK_GROUPS,
    WITH_BOTH_PROTOCOLS,
    of_protocol,
    over_apache,
)


@pytest.fixture(autouse=True, scope="session")
def patient():
    """A broker of the tests shares two cores with other tests: it may be silent for longer than users would wait."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ClientConnection, "silence_ms", 30_000)
        yield


def pytest_generate_tests(metafunc):
    """Run the tests of some modules with both group protocols, each on a broker of its own."""
    if (
        "group_protocol" in metafunc.fixturenames
        and metafunc.module.__name__.rpartition(".")[-1] in WITH_BOTH_PROTOCOLS
    ):
        consumer = pytest.param(CONSUMER, marks=() if OVER_APACHE else pytest.mark.slow)
        metafunc.parametrize("group_protocol", ["classic", consumer], indirect=True, scope="module")


@pytest.fixture(scope="module")
def group_protocol(request):
    return getattr(request, "param", "classic")


@pytest.fixture(scope="module")
def cluster(group_protocol, tmp_path_factory):
    if OVER_APACHE:
        yield from over_apache(tmp_path_factory)
        return
    with Cluster(config=QUICK_GROUPS if group_protocol == CONSUMER else None) as cluster:
        yield cluster


@pytest.fixture
def system():
    with ActorSystem("kafka") as system:
        yield system


@pytest.fixture
def settings(cluster, request, group_protocol):
    classic = ConsumerSettings(
        cluster.bootstrap_servers,
        group_id=re.sub(r"[^\w-]", "-", request.node.name),
        auto_offset_reset="earliest",
        commit_interval_ms=50,
        poll_interval_ms=5,  # what a stream tells its consumer is heard between two polls: a test is made of such moments
        poll_timeout_ms=5,
        # members hear of a rebalance by their next heartbeat
        properties={"session.timeout.ms": 6_000, "heartbeat.interval.ms": 300, "fetch.wait.max.ms": 50},
    )
    return of_protocol(classic, group_protocol)


@pytest.fixture
def producer_settings(cluster):
    return ProducerSettings(cluster.bootstrap_servers)


@pytest.fixture
def topic_with(cluster):
    """Create a topic and write records, round robin."""

    def make(name, records, partitions=1):
        cluster.create_topic(name, partitions=partitions)
        producer = BareProducer({"bootstrap.servers": cluster.bootstrap_servers, **IN_ORDER})
        for i, value in enumerate(records):
            producer.produce(name, value, partition=i % partitions)
        assert producer.flush(10) == 0
        return name

    return make


@pytest.fixture
def committed(settings):
    """Return the group's committed offsets of a topic."""

    def look(topic, partitions=1):
        consumer = BareConsumer({"bootstrap.servers": settings.bootstrap_servers, "group.id": settings.group_id})
        found = consumer.committed([TopicPartition(topic, i) for i in range(partitions)], timeout=10)
        consumer.close()
        return {p.partition: p.offset for p in found}

    return look


@pytest.fixture
def committed_of(cluster):
    """Return the committed offset of partition 0 of a topic, of the group with the topic's name; -1 if there is none."""

    def look(topic):
        with MetadataClient(ConsumerSettings(cluster.bootstrap_servers, topic)) as client:
            return client.committed([(topic, 0)]).get((topic, 0), -1)

    return look


@pytest.fixture
def read_all(cluster):
    """Return the messages of a topic, in partition order."""

    def read(topic, partitions=1, isolation="read_committed"):
        consumer = BareConsumer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "group.id": "reader",
                **TO_THE_END,
                "auto.offset.reset": "earliest",
                "isolation.level": isolation,
            }
        )
        consumer.assign([TopicPartition(topic, i, 0) for i in range(partitions)])
        messages, ended = [], 0
        while ended < partitions:
            message = consumer.poll(30)  # consume(n) would wait for all n, or for its whole timeout
            assert message is not None, f"{topic}: nothing more comes, and no end"
            if message.error() is None:
                messages.append(message)
            else:
                assert message.error().name() == "_PARTITION_EOF", message.error()
                ended += 1
        consumer.close()
        return sorted(messages, key=lambda m: (m.partition(), m.offset()))

    return read


@pytest.fixture
def wait_for():
    def wait(condition, timeout=30):
        pause = threading.Event()
        for _ in range(int(timeout / 0.02)):
            if condition():
                return
            pause.wait(0.02)
        raise AssertionError("the condition did not come true")

    return wait


@pytest.fixture
def commits(monkeypatch):
    """Watch what is sent to the broker; `answers` are taken instead of the broker's while there are any. None: no answer comes."""
    sent, answers = [], []
    genuine = StreamConsumer.commit

    def commit(self, offsets, texts, heard):
        sent.append(dict(offsets))
        if answers:
            answer = answers.pop(0)
            if answer is not None:
                heard(answer)
        else:
            genuine(self, offsets, texts, heard)

    monkeypatch.setattr(StreamConsumer, "commit", commit)
    commit.sent, commit.answers = sent, answers
    return commit
