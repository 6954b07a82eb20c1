"""ConsumerGroupHeartbeat and ConsumerGroupDescribe over a socket, the settings of a group, and offsets with member epochs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streamactors.broker.errors import ErrorCode
from tests.broker.live_broker import LiveBroker
from tests.broker.wire import WireClient, wait_until


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveBroker]:
    folder: Path = tmp_path_factory.mktemp("consumers")
    with LiveBroker(folder) as live:
        live.create_topic("t", 3)
        with live.client() as client:
            wait_until(
                lambda: not client.call(10, 4, {"key_type": 0, "coordinator_keys": ["g"]}).coordinators[0].error_code
            )
            wait_until(lambda: beat(client, "first").error_code == 0)
        yield live


@pytest.fixture
def client(broker: LiveBroker) -> Iterator[WireClient]:
    with broker.client() as made:
        yield made


def beat(client: WireClient, group: str, member: str = "m", epoch: int = 0, version: int = 1, **fields: Any) -> Any:
    joins = epoch == 0
    body = {
        "group_id": group, "member_id": member, "member_epoch": epoch, "instance_id": None, "rack_id": None,
        "rebalance_timeout_ms": 60_000 if joins else -1, "subscribed_topic_names": ["t"] if joins else None,
        "subscribed_topic_regex": None, "server_assignor": None, "topic_partitions": [] if joins else None, **fields,
    }  # fmt: skip
    return client.call(68, version, body)


@pytest.mark.parametrize("version", [0, 1])
def test_a_member_joins_and_leaves(client: WireClient, version: int) -> None:
    group = f"life-{version}"
    joined = beat(client, group, version=version)
    assert (joined.error_code, joined.member_epoch, joined.heartbeat_interval_ms) == (0, 2, 5_000)
    (topic,) = joined.assignment.topic_partitions
    assert sorted(topic.partitions) == [0, 1, 2]
    again = beat(client, group, epoch=2, version=version)
    assert (again.error_code, again.assignment) == (0, None)
    assert beat(client, group, epoch=-1, version=version).member_epoch == -1
    assert beat(client, group, epoch=2, version=version).error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("version", [0, 1])
def test_a_group_is_described(client: WireClient, version: int) -> None:
    group = f"described-{version}"
    beat(client, group, rack_id="r", instance_id="i")
    asked = {"group_ids": [group, "none"], "include_authorized_operations": True}
    found, missing = client.call(69, version, asked).groups
    assert (missing.error_code, missing.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group none not found.")
    assert (found.group_state, found.group_epoch, found.assignment_epoch, found.assignor_name) == (
        "Stable",
        2,
        2,
        "uniform",
    )
    assert found.authorized_operations > 0
    (member,) = found.members
    assert (member.member_id, member.instance_id, member.rack_id, member.member_epoch) == ("m", "i", "r", 2)
    for assignment in (member.assignment, member.target_assignment):
        assert [(each.topic_name, list(each.partitions)) for each in assignment.topic_partitions] == [("t", [0, 1, 2])]


def test_a_classic_group_is_no_consumer_group_and_the_other_way_round(client: WireClient) -> None:
    beat(client, "theirs")
    described = client.call(15, 6, {"groups": ["theirs"], "include_authorized_operations": False}).groups[0]
    assert (described.error_code, described.error_message) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        "Group theirs is not a classic group.",
    )
    listed = {
        each.group_id: (each.group_type, each.group_state)
        for each in client.call(16, 5, {"states_filter": [], "types_filter": ["Consumer"]}).groups
    }
    assert listed["theirs"] == ("consumer", "Stable")


def test_a_group_may_have_settings_of_its_own(client: WireClient) -> None:
    beat(client, "slow")
    change = {"name": "consumer.heartbeat.interval.ms", "config_operation": 0, "value": "7000"}
    resource = {"resource_type": 32, "resource_name": "slow", "configs": [change]}
    assert client.call(44, 1, {"resources": [resource], "validate_only": False}).responses[0].error_code == 0
    wait_until(lambda: beat(client, "slow", epoch=2).heartbeat_interval_ms == 7_000)


def commit(client: WireClient, group: str, epoch: int, version: int = 9, member: str = "m") -> int:
    partition = {"partition_index": 0, "committed_offset": 5, "committed_leader_epoch": -1, "committed_metadata": ""}
    body = {
        "group_id": group, "generation_id_or_member_epoch": epoch, "member_id": member, "group_instance_id": None,
        "retention_time_ms": -1, "topics": [{"name": "t", "partitions": [partition]}],
    }  # fmt: skip
    answer = client.call(8, version, body)
    return int(answer.topics[0].partitions[0].error_code)


def test_a_commit_needs_the_epoch_at_which_its_partition_was_assigned(client: WireClient) -> None:
    beat(client, "commits")
    assert commit(client, "commits", 2) == 0
    assert commit(client, "commits", 1) == ErrorCode.STALE_MEMBER_EPOCH
    assert commit(client, "commits", 3) == ErrorCode.STALE_MEMBER_EPOCH
    assert commit(client, "commits", 2, version=8) == ErrorCode.UNSUPPORTED_VERSION
    assert commit(client, "commits", 2, member="nobody") == ErrorCode.UNKNOWN_MEMBER_ID


def test_an_offset_is_fetched_with_the_epoch_of_the_member(client: WireClient) -> None:
    beat(client, "fetches")
    commit(client, "fetches", 2)

    def fetched(member: str | None, epoch: int) -> int:
        group = {"group_id": "fetches", "member_id": member, "member_epoch": epoch, "topics": None}
        return int(client.call(9, 9, {"groups": [group], "require_stable": False}).groups[0].error_code)

    assert [fetched(None, -1), fetched("m", 2)] == [0, 0]
    assert fetched("m", 1) == ErrorCode.STALE_MEMBER_EPOCH
    assert fetched("x", 2) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_is_there_after_a_restart(tmp_path: Path) -> None:
    with LiveBroker(tmp_path) as first:
        first.create_topic("t", 3)
        with first.client() as client:
            wait_until(
                lambda: not client.call(10, 4, {"key_type": 0, "coordinator_keys": ["g"]}).coordinators[0].error_code
            )
            wait_until(lambda: beat(client, "g").error_code == 0)
    with LiveBroker(tmp_path) as second, second.client() as client:
        wait_until(lambda: beat(client, "g", epoch=2).error_code == 0)
        assert beat(client, "g", epoch=2).member_epoch == 2
