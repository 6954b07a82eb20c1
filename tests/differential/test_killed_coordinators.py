"""A broker is killed in the middle of consumer groups, streams groups and transactions. The other broker starts on its folder and continues them, is
killed too, and the first one continues once more."""

from __future__ import annotations

import os
import signal
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from streamactors.broker import Cluster
from streamactors.broker.errors import ErrorCode
from tests.broker.apis.transaction_client import READ_COMMITTED, Producer, read, settled
from tests.broker.wire import WireClient, wait_until
from tests.differential.apache_kafka import broker as apache

pytestmark = [
    pytest.mark.differential,
    pytest.mark.skipif(not apache.found(), reason="Java or Maven is not here"),
    pytest.mark.timeout(900),
]

E = ErrorCode
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "group.consumer.assignment.interval.ms": "0",
    "group.streams.assignment.interval.ms": "0",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.consumer.session.timeout.ms": "60000",
    "group.streams.session.timeout.ms": "60000",
}
TOPIC, PARTITIONS = "held", 4
MOVING = (E.COORDINATOR_LOAD_IN_PROGRESS, E.COORDINATOR_NOT_AVAILABLE, E.NOT_COORDINATOR, E.NOT_LEADER_OR_FOLLOWER)
Serve = Callable[[Path], AbstractContextManager[str]]


@contextmanager
def theirs(folder: Path) -> Iterator[str]:
    """Serve a folder with Apache Kafka, which is killed at the end."""
    kafka = apache.ApacheKafka(folder, settings=SETTINGS)
    kafka.start()
    try:
        yield kafka.address
    finally:
        kafka.kill()


@contextmanager
def ours(folder: Path) -> Iterator[str]:
    """Serve a folder with this broker, which is killed at the end."""
    with Cluster(process=True, data=folder, config=SETTINGS) as cluster:
        yield cluster.bootstrap_servers
        os.kill(cluster.pid, signal.SIGKILL)


def client_of(address: str) -> WireClient:
    host, _, port = address.partition(":")
    return WireClient(host, int(port))


def again(call: Callable[[], Any]) -> Any:
    """Ask until the coordinator has read its log."""
    found: list[Any] = []

    def answered() -> bool:
        found.append(call())
        return found[-1].error_code not in MOVING

    wait_until(answered, timeout_s=180, describe=lambda: str(found[-1]))
    return found[-1]


def prepare(client: WireClient) -> uuid.UUID:
    """Make the topic and the internal topics; return the topic's id."""
    topic = {"name": TOPIC, "num_partitions": PARTITIONS, "replication_factor": 1, "assignments": [], "configs": []}
    (made,) = client.call(19, 7, {"topics": [topic], "timeout_ms": 30_000, "validate_only": False}).topics
    for kind in (0, 1):
        asked = {"key_type": kind, "coordinator_keys": ["x"]}
        wait_until(lambda asked=asked: not client.call(10, 4, asked).coordinators[0].error_code, timeout_s=180)  # type: ignore[misc]
    name = {"transactional_id": "x", "transaction_timeout_ms": 60_000}
    again(lambda: client.call(22, 4, name))
    found = made.topic_id
    assert isinstance(found, uuid.UUID)
    return found


@dataclass
class Member:
    """A member of a consumer group or of a streams group. It keeps its epoch and partitions while brokers come and go."""

    group: str
    topic_id: uuid.UUID
    name: str = field(default_factory=lambda: str(uuid.uuid4()))
    epoch: int = 0
    owned: tuple[int, ...] = ()
    target: tuple[int, ...] = ()

    def beat(self, client: WireClient) -> None:
        """Send a heartbeat that says what the member owns."""
        answer = again(lambda: self._ask(client))
        assert answer.error_code == E.NONE, answer
        self.epoch = answer.member_epoch
        given = self._given(answer)
        if given is not None:
            self.target = given

    def follow(self) -> None:
        """Give up and take what the last answer said."""
        self.owned = self.target

    def _ask(self, client: WireClient) -> Any:
        owned = [{"topic_id": self.topic_id, "partitions": self.owned}] if self.owned else []
        body = {
            "group_id": self.group, "member_id": self.name, "member_epoch": self.epoch, "instance_id": None, "rack_id": None,
            "rebalance_timeout_ms": 300_000, "subscribed_topic_names": [TOPIC], "subscribed_topic_regex": None,
            "server_assignor": None, "topic_partitions": owned,
        }  # fmt: skip
        return client.call(68, 1, body)

    def _given(self, answer: Any) -> tuple[int, ...] | None:
        if answer.assignment is None:
            return None
        return tuple(sorted(part for each in answer.assignment.topic_partitions for part in each.partitions))


class StreamsMember(Member):
    """Its tasks are those of one subtopology with a store."""

    def _ask(self, client: WireClient) -> Any:
        joins = self.epoch == 0
        store = {"name": f"{self.group}-store-changelog", "partitions": 0, "replication_factor": 1, "topic_configs": []}
        part = {
            "subtopology_id": "0", "source_topics": [TOPIC], "source_topic_regex": [], "state_changelog_topics": [store],
            "repartition_sink_topics": [], "repartition_source_topics": [], "copartition_groups": [],
        }  # fmt: skip
        tasks = [{"subtopology_id": "0", "partitions": self.owned}] if self.owned else []
        body = {
            "group_id": self.group, "member_id": self.name, "member_epoch": self.epoch, "endpoint_information_epoch": 0,
            "instance_id": None, "rack_id": None, "rebalance_timeout_ms": 300_000 if joins else -1,
            "topology": {"epoch": 1, "subtopologies": [part]} if joins else None, "active_tasks": tasks,
            "standby_tasks": [], "warmup_tasks": [], "process_id": self.name if joins else None, "user_endpoint": None,
            "client_tags": [] if joins else None, "task_offsets": None, "task_end_offsets": None,
            "shutdown_application": False,
        }  # fmt: skip
        return client.call(88, 1, body)

    def _given(self, answer: Any) -> tuple[int, ...] | None:
        if answer.active_tasks is None:
            return None
        return tuple(sorted(part for task in answer.active_tasks for part in task.partitions))


def settle(client: WireClient, *members: Member) -> None:
    """Send heartbeats until the members share all partitions in one epoch."""

    def done() -> bool:
        for each in members:
            each.beat(client)
            each.follow()
            each.beat(client)
        shared = sorted(part for each in members for part in each.owned)
        return shared == list(range(PARTITIONS)) and len({each.epoch for each in members}) == 1

    wait_until(done, timeout_s=180, describe=lambda: str(members))


def commit(client: WireClient, member: Member, offset: int) -> None:
    parts = [
        {"partition_index": each, "committed_offset": offset, "committed_leader_epoch": -1, "committed_metadata": ""}
        for each in member.owned
    ]
    body = {
        "group_id": member.group, "generation_id_or_member_epoch": member.epoch, "member_id": member.name,
        "group_instance_id": None, "topics": [{"name": TOPIC, "partitions": parts}],
    }  # fmt: skip
    (topic,) = client.call(8, 9, body).topics
    assert {each.error_code for each in topic.partitions} == {E.NONE}, topic


def offsets(client: WireClient, group: str) -> dict[int, int]:
    """Return the committed offsets of a group once none is part of an open transaction."""
    named = [{"name": TOPIC, "partition_indexes": list(range(PARTITIONS))}]
    asked = {"group_id": group, "member_id": None, "member_epoch": -1, "topics": named}
    found: dict[int, int] = {}
    told: list[Any] = []

    def stable() -> bool:
        (answer,) = told[:] = client.call(9, 9, {"groups": [asked], "require_stable": True}).groups
        parts = [each for topic in answer.topics for each in topic.partitions]
        found.update({each.partition_index: each.committed_offset for each in parts})
        return not answer.error_code and not any(each.error_code for each in parts)

    wait_until(stable, timeout_s=180, describe=lambda: str(told))
    return found


@pytest.mark.parametrize("kind", [Member, StreamsMember])
@pytest.mark.parametrize("first", [ours, theirs])
def test_the_other_broker_continues_a_group_whose_broker_was_killed_in_a_rebalance(
    tmp_path: Path, first: Serve, kind: type[Member]
) -> None:
    second, folder, group = (theirs if first is ours else ours), tmp_path / "data", "g"
    with first(folder) as address, client_of(address) as client:
        topic_id = prepare(client)
        old, new, third = (kind(group, topic_id) for _ in range(3))
        settle(client, old)
        commit(client, old, 11)
        new.beat(client)
        old.beat(client)
        assert len(old.target) == PARTITIONS / 2  # and it has not said that it gave up the others
        epoch = old.epoch
    with second(folder) as address, client_of(address) as client:
        assert offsets(client, group) == dict.fromkeys(range(PARTITIONS), 11)
        old.beat(client)
        assert (old.epoch, len(old.target)) == (epoch, PARTITIONS / 2)
        new.beat(client)
        assert new.target == ()  # not before the other has given it up
        settle(client, old, new)
        commit(client, new, 22)
        third.beat(client)
        between = old.epoch
    with first(folder) as address, client_of(address) as client:
        assert offsets(client, group) == {each: 22 if each in new.owned else 11 for each in range(PARTITIONS)}
        settle(client, old, new, third)
        assert third.owned
        assert old.epoch > between
        stale = kind(group, topic_id, name=old.name, epoch=between - 1, owned=old.owned)
        assert stale._ask(client).error_code == E.FENCED_MEMBER_EPOCH
        for each in (old, new, third):
            each.epoch = -1
            each.beat(client)


def producer_of(client: WireClient, name: str) -> Producer:
    """Return a producer, when the coordinator has read its log; it ends the transaction of its predecessor."""
    again(lambda: client.call(22, 4, {"transactional_id": name, "transaction_timeout_ms": 60_000}))
    return Producer(client, name)


def soon(call: Callable[[], int]) -> None:
    """Ask until the transaction before has ended."""
    while (error := call()) in (*MOVING, E.CONCURRENT_TRANSACTIONS, E.NOT_ENOUGH_REPLICAS):
        pass
    assert error == E.NONE, ErrorCode(error)


class Hammer:
    """One client that commits as fast as it can, until its broker dies: transactions with an offset each, by their numbers."""

    def __init__(self, address: str, name: str) -> None:
        self.acknowledged = 0
        self._name = name
        self._address = address
        self._thread = threading.Thread(target=self._work)
        self._thread.start()

    def _work(self) -> None:
        try:
            with client_of(self._address) as client:
                producer = producer_of(client, self._name)
                while True:
                    number = self.acknowledged + 1
                    for each in (0, 1):
                        value = f"{self._name} {number}"
                        soon(lambda each=each, value=value: producer.produce(TOPIC, value, partition=each, version=12))  # type: ignore[misc]
                    soon(lambda number=number: producer.commit_offset(self._name, TOPIC, number))  # type: ignore[misc]
                    soon(lambda: producer.end(True, 5))
                    self.acknowledged = number
        except OSError:
            pass

    def await_dead(self) -> int:
        """Return how many transactions were acknowledged."""
        self._thread.join(120)
        assert not self._thread.is_alive()
        return self.acknowledged


def committed(client: WireClient, name: str) -> Mapping[int, list[int]]:
    """Return the numbers of the transactions that readers see in both partitions."""
    seen = {each: read(client, TOPIC, READ_COMMITTED, each) for each in (0, 1)}
    return {
        part: [int(value.split()[-1]) for value in values if value.startswith(f"{name} ")]
        for part, values in seen.items()
    }


@pytest.mark.parametrize("first", [ours, theirs])
def test_transactions_are_whole_after_their_broker_was_killed_between_two_requests(
    tmp_path: Path, first: Serve
) -> None:
    second, folder = (theirs if first is ours else ours), tmp_path / "data"
    with first(folder) as address:
        with client_of(address) as client:
            prepare(client)
            held = producer_of(client, "held")
            soon(lambda: held.produce(TOPIC, "held 1", partition=2, version=12))
        hammers = [Hammer(address, f"hammer{n}") for n in range(3)]
        wait_until(lambda: all(each.acknowledged >= 5 for each in hammers), timeout_s=300)
    counts = {each._name: each.await_dead() for each in hammers}
    with second(folder) as address, client_of(address) as client:
        held.client = client
        ended: list[int] = []

        def over() -> bool:
            ended.append(held.end(True, 5))
            return ended[-1] not in MOVING

        wait_until(over, timeout_s=180)
        assert ended[-1] == E.NONE
        for name, acknowledged in counts.items():
            heir = producer_of(client, name)  # ends the transaction in which its broker was killed
            settled(client, name)
            last = offsets(client, name)[0]
            assert acknowledged <= last <= acknowledged + 1
            assert committed(client, name) == {0: list(range(1, last + 1)), 1: list(range(1, last + 1))}
            for partition in (0, 1):
                value = f"{name} {last + 1}"
                soon(lambda heir=heir, value=value, p=partition: heir.produce(TOPIC, value, partition=p, version=12))  # type: ignore[misc]
            assert heir.end(True, 5) == E.NONE
            counts[name] = last + 1
    with first(folder) as address, client_of(address) as client:
        for name, last in counts.items():
            producer_of(client, name)
            assert committed(client, name) == {0: list(range(1, last + 1)), 1: list(range(1, last + 1))}
        assert read(client, TOPIC, READ_COMMITTED, 2) == ["held 1"]
