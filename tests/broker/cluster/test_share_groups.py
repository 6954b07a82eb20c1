"""A share group in a cluster of three brokers: the leader of a partition, the share coordinator and the group coordinator are different brokers, and one dies."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from streamactors.broker import Cluster
from streamactors.broker.errors import ErrorCode
from tests.broker.apis.share_member import ACCEPT, ShareMember
from tests.broker.live_broker import batch, produce_body
from tests.broker.wire import WireClient, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

E = ErrorCode
SETTINGS = {
    "offsets.topic.num.partitions": 3,
    "share.coordinator.state.topic.num.partitions": 3,
    "group.share.assignment.interval.ms": 0,
}
TOPIC, GROUP, PARTITIONS = "t", "g", 6


def _clients(cluster: Any) -> dict[int, WireClient]:
    found = {}
    for address in cluster.bootstrap_servers.split(","):
        host, _, port = address.partition(":")
        client = WireClient(host, int(port))
        brokers = {each.port: each.node_id for each in client.call(3, 12, {"topics": []}).brokers}
        found[brokers[int(port)]] = client
    return found


def _join(client: WireClient, member: str) -> None:
    body = {"group_id": GROUP, "member_id": member, "rack_id": None}
    epoch = 0

    def assigned() -> bool:
        nonlocal epoch
        answer = client.call(
            76, 1, {**body, "member_epoch": epoch, "subscribed_topic_names": [TOPIC] if epoch == 0 else None}
        )
        if answer.error_code != E.NONE:
            return False
        epoch = answer.member_epoch
        if answer.assignment is None or not answer.assignment.topic_partitions:
            return False
        assert sum(len(each.partitions) for each in answer.assignment.topic_partitions) == PARTITIONS
        return True

    wait_until(assigned, "an assignment", timeout_s=60)


def _leaders(client: WireClient) -> tuple[uuid.UUID, dict[int, int]]:
    (topic,) = client.call(3, 12, {"topics": [{"topic_id": None, "name": TOPIC}]}).topics
    return topic.topic_id, {each.partition_index: each.leader_id for each in topic.partitions}


def test_every_leader_stores_its_share_partitions_with_their_coordinators_and_another_leader_continues() -> None:
    with Cluster(brokers=3, config=SETTINGS) as cluster:
        cluster.create_topic(TOPIC, PARTITIONS, replication_factor=3)
        clients = _clients(cluster)
        one = next(iter(clients.values()))
        wait_until(lambda: -1 not in _leaders(one)[1].values(), timeout_s=30)
        find = {"key_type": 0, "coordinator_keys": [GROUP]}
        wait_until(lambda: one.call(10, 6, find).coordinators[0].error_code == E.NONE, timeout_s=60)
        coordinator = one.call(10, 6, find).coordinators[0].node_id
        _from_the_start(one)
        _join(clients[coordinator], "m1")
        topic_id, leaders = _leaders(one)
        assert len(set(leaders.values())) > 1
        for partition, leader in leaders.items():
            _produce(clients[leader], partition)
        _work(clients, topic_id, leaders)
        victim = next(each for each in set(leaders.values()) if each != coordinator)
        cluster.kill(victim)
        left = {each: client for each, client in clients.items() if each != victim}
        wait_until(lambda: left.keys() >= set(_leaders(left[coordinator])[1].values()), timeout_s=60)
        moved = {partition for partition, leader in leaders.items() if leader == victim}
        found: dict[int, dict[int, int]] = {}
        for partition, leader in _leaders(left[coordinator])[1].items():
            if partition in moved:
                found[partition] = _acquired(left[leader], topic_id, partition)
        assert found == {partition: {1: 1} for partition in moved}, (
            "the first record was accepted, the second only locked"
        )


def _produce(client: WireClient, partition: int) -> None:
    sent = produce_body(batch(b"a", b"b"), TOPIC, partition)
    wait_until(lambda: client.call(0, 9, sent).responses[0].partition_responses[0].error_code == E.NONE)


def _from_the_start(client: WireClient) -> None:
    """Have new share partitions of the group begin at the first record."""
    reset = {"name": "share.auto.offset.reset", "config_operation": 0, "value": "earliest"}
    resource = {"resource_type": 32, "resource_name": GROUP, "configs": [reset]}
    answer = client.call(44, 1, {"resources": [resource], "validate_only": False})
    assert answer.responses[0].error_code == E.NONE, answer


def _acquired(client: WireClient, topic_id: uuid.UUID, partition: int) -> dict[int, int]:
    member = ShareMember(client, topic_id, uuid.uuid4().hex, GROUP, (partition,))
    found: dict[int, int] = {}

    def fetched() -> bool:
        for part in ShareMember.parts(member.fetch(wait_ms=500)):
            for each in part.acquired_records:
                found.update(dict.fromkeys(range(each.first_offset, each.last_offset + 1), each.delivery_count))
        return bool(found)

    wait_until(fetched, timeout_s=60)
    return found


def _work(clients: dict[int, WireClient], topic_id: uuid.UUID, leaders: dict[int, int]) -> None:
    """Acquire both records of each partition, and accept the first."""
    for partition, leader in leaders.items():
        member = ShareMember(clients[leader], topic_id, f"m-{partition}", GROUP, (partition,))

        def fetched(member: ShareMember = member) -> bool:
            return any(part.acquired_records for part in ShareMember.parts(member.fetch(wait_ms=500)))

        wait_until(fetched, timeout_s=60)
        acks = [{"first_offset": 0, "last_offset": 0, "acknowledge_types": [ACCEPT]}]
        (part,) = ShareMember.parts(member.fetch(acks={partition: acks}, max_records=0))
        assert part.acknowledge_error_code == E.NONE, part
