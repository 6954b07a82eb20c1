"""The connector's own Admin on a real cluster and on a simulated one: every call must return the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import confluent_kafka as ck
import pytest

from streamactors.broker import Cluster
from streamactors.kafka.client.admin import EARLIEST, LATEST, Admin
from streamactors.kafka.settings import ConsumerSettings
from streamactors.kafka.subscriptions import TopicPartition
from streamactors.simulation.client.admin import SimAdmin
from streamactors.simulation.client.factories import simulated_clients
from streamactors.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.cluster.one_task_world import OneTaskWorld
from tests.simulation.cluster.test_producing import READER, make

WRITER = {"linger.ms": 1}
A0 = TopicPartition("a", 0)


def outcome(call: Callable[..., Any], *arguments: Any, **more: Any) -> Any:
    try:
        return call(*arguments, **more)
    except Exception as error:  # its kind is the outcome; the text has the address of the broker
        return type(error).__name__


def fill(servers: str) -> None:
    producer = ck.Producer({"bootstrap.servers": servers, **WRITER})
    for each in range(10):
        producer.produce("a", b"%d" % each, b"k", each % 2, timestamp=1_700_000_000_000 + each)
    assert producer.flush(30) == 0


def play(servers: str) -> list[Any]:
    """Return the outcomes of calls on the connector's Admin."""
    with Admin(ConsumerSettings(servers, "g")) as admin:
        return calls(admin, servers)


def calls(admin: Admin, servers: str) -> list[Any]:
    found = [
        outcome(admin.create, "a", 2, 1, {"retention.ms": "5000000"}),
        outcome(admin.create, "a", 2, 1),
        outcome(admin.create, "a", 2, 1, exist_ok=True),
        outcome(admin.create, "b", 1, 1, {"no.such.setting": "1"}),
        outcome(admin.create, "bad name", 1, 1),
        outcome(admin.create, "c", 0, 1),
        outcome(admin.create, "c", 1, 9),
        outcome(admin.alter, "a", {"cleanup.policy": "compact", "retention.ms": None}),
        outcome(admin.alter, "a", {"cleanup.policy": "nonsense"}),
        outcome(admin.grow, "a", 3),
        outcome(admin.grow, "a", 2),
        outcome(admin.grow, "none", 2),
        outcome(admin.delete, "none"),
    ]
    fill(servers)
    detail = admin.describe("a")
    ends = [(each.partition, each.earliest, each.latest) for each in detail.partitions]
    found += [
        detail.settings,
        ends,
        outcome(admin.offsets, {A0: EARLIEST, TopicPartition("a", 1): LATEST}),
        outcome(admin.offsets, {A0: 1_700_000_000_005}),
        outcome(admin.offsets, {TopicPartition("a", 9): LATEST}, unknown_ok=True),
        outcome(admin.delete_records, {A0: 2}),
        outcome(admin.alter, "a", {"cleanup.policy": "delete"}),
        outcome(admin.delete_records, {A0: 2}),
        outcome(admin.delete_records, {A0: 99}),
        outcome(admin.offsets, {A0: EARLIEST}),
        outcome(admin.describe_group, "g"),
        outcome(admin.commit, "g", {A0: 3}, "note"),
        outcome(admin.committed_with_metadata, "g", [A0, TopicPartition("a", 1)]),
        [tuple(each) for each in admin.groups()],
        outcome(admin.delete_group, "g"),
        outcome(admin.delete_group, "g"),
        outcome(admin.committed, "g", [A0]),
    ]
    admin.delete("a")
    found.append([each.name for each in admin.topics() if not each.name.startswith("__")])
    return found


def simulated(call: Callable[[str], Any]) -> Any:
    world = OneTaskWorld()
    with simulated_clients(world, SimulatedCluster(world)):
        return call("simulated:9092")


def test_the_connectors_admin_gets_the_same_answers() -> None:
    with Cluster() as cluster:
        real = play(cluster.bootstrap_servers)
    for number, (one, other) in enumerate(zip(real, simulated(play), strict=True)):
        assert one == other, number


def test_a_group_with_members_is_described_and_not_deleted() -> None:
    world, cluster = make()
    with simulated_clients(world, cluster):
        reader = ck.Consumer({**READER, "client.id": "me"})
        reader.subscribe(["t"])
        reader.poll(10)
        admin = Admin(ConsumerSettings("simulated:9092", "g"))
        group = admin.describe_group("g")
        assert (group.state, group.assignor) == ("Stable", "range")
        (member,) = group.members
        assert member.client_id == "me"
        assert member.partitions == (TopicPartition("t", 0), TopicPartition("t", 1))
        assert outcome(admin.delete_group, "g") == "GroupInUse"


def test_what_is_not_simulated_says_so() -> None:
    world, cluster = make()
    with pytest.raises(ck.KafkaException, match="describe_user_scram_credentials is not simulated"):
        SimAdmin(world, cluster, {}).describe_user_scram_credentials([])


def test_real_clients_are_back_after_a_simulation() -> None:
    before = (ck.Consumer, ck.Producer)
    world, cluster = make()
    with pytest.raises(RuntimeError), simulated_clients(world, cluster):
        assert (ck.Consumer, ck.Producer) != before
        raise RuntimeError
    assert (ck.Consumer, ck.Producer) == before
