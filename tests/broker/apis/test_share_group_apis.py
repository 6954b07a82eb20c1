"""Share groups over a socket: heartbeats, descriptions, and what the other requests about groups say of them."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streamactors.broker.errors import ErrorCode
from tests.broker.live_broker import LiveBroker
from tests.broker.wire import WireClient

E = ErrorCode
SETTINGS = {
    "offsets.topic.num.partitions": 2,
    "share.coordinator.state.topic.num.partitions": 2,
    "group.share.assignment.interval.ms": 0,
}


@pytest.fixture
def live(tmp_path: Path) -> Iterator[LiveBroker]:
    with LiveBroker(tmp_path / "data", SETTINGS) as live:
        live.create_topic("t", 2)
        live.client().call(10, 3, {"key": "any", "key_type": 0})
        yield live


def beat(client: WireClient, member: str, epoch: int, topics: list[str] | None = None, **fields: Any) -> Any:
    body = {
        "group_id": "g",
        "member_id": member,
        "member_epoch": epoch,
        "rack_id": None,
        "subscribed_topic_names": topics,
    }
    while True:
        answer = client.call(76, 1, {**body, **fields})
        if answer.error_code not in (E.COORDINATOR_LOAD_IN_PROGRESS, E.NOT_COORDINATOR):
            return answer


def join(client: WireClient, member: str, topics: list[str]) -> tuple[int, dict[uuid.UUID, list[int]]]:
    """Join, and beat until there is an assignment."""
    answer = beat(client, member, 0, topics)
    assert answer.error_code == E.NONE, answer
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if answer.assignment is not None and answer.assignment.topic_partitions:
            found = {each.topic_id: list(each.partitions) for each in answer.assignment.topic_partitions}
            return answer.member_epoch, found
        answer = beat(client, member, answer.member_epoch)
    raise AssertionError(f"no assignment: {answer}")


def describe(client: WireClient) -> Any:
    (group,) = client.call(77, 1, {"group_ids": ["g"], "include_authorized_operations": False}).groups
    return group


def test_a_member_joins_gets_its_partitions_and_leaves(live: LiveBroker) -> None:
    client, topic = live.client(), live.node.metadata.image.topics["t"].topic_id
    epoch, assigned = join(client, "m1", ["t"])
    assert assigned == {topic: [0, 1]}
    group = describe(client)
    assert (group.group_state, group.assignor_name, group.group_epoch) == ("Stable", "simple", epoch)
    (member,) = group.members
    (found,) = member.assignment.topic_partitions
    assert (member.member_id, member.client_host, list(member.subscribed_topic_names)) == ("m1", "/127.0.0.1", ["t"])
    assert (found.topic_id, found.topic_name, list(found.partitions)) == (topic, "t", [0, 1])
    left = beat(client, "m1", -1)
    assert (left.error_code, left.member_epoch) == (E.NONE, -1)
    assert describe(client).group_state == "Empty"


def test_a_share_group_is_listed_and_deleted_and_its_states_go_with_it(live: LiveBroker) -> None:
    client = live.client()
    join(client, "m1", ["t"])
    (listed,) = client.call(16, 5, {"states_filter": [], "types_filter": ["share"]}).groups
    assert (listed.group_id, listed.protocol_type, listed.group_state, listed.group_type) == (
        "g",
        "share",
        "Stable",
        "share",
    )
    assert client.call(42, 2, {"groups_names": ["g"]}).results[0].error_code == E.NON_EMPTY_GROUP
    beat(client, "m1", -1)
    assert client.call(42, 2, {"groups_names": ["g"]}).results[0].error_code == E.NONE
    assert describe(client).error_code == E.GROUP_ID_NOT_FOUND
    topic = live.node.metadata.image.topics["t"].topic_id
    asked = {"group_id": "g", "topics": [{"topic_id": topic, "partitions": [{"partition": 0, "leader_epoch": 0}]}]}
    deadline = time.monotonic() + 20
    while client.call(87, 0, asked).results[0].partitions[0].start_offset != -1 or _is_known(client, asked):
        assert time.monotonic() < deadline


def _is_known(client: WireClient, asked: dict[str, Any]) -> bool:
    (partition,) = client.call(84, 0, asked).results[0].partitions
    return bool(partition.error_code != E.INVALID_REQUEST)


def test_a_group_of_another_kind_is_refused_both_ways(live: LiveBroker) -> None:
    client = live.client()
    join(client, "m1", ["t"])
    commit = {
        "group_id": "g",
        "topics": [
            {"name": "t", "partitions": [{"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}]}
        ],
    }
    assert (
        client.call(8, 2, {**commit, "generation_id_or_member_epoch": -1, "member_id": "", "retention_time_ms": -1})
        .topics[0]
        .partitions[0]
        .error_code
        == E.GROUP_ID_NOT_FOUND
    )
    (described,) = client.call(15, 6, {"groups": ["g"], "include_authorized_operations": False}).groups
    assert described.error_code == E.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"member_id": ""}, "Invalid member id in the request."),
        ({"member_id": "x" * 37}, "Invalid member id in the request."),
        ({"group_id": ""}, "GroupId can't be empty."),
        ({"rack_id": ""}, "RackId can't be empty."),
        ({"subscribed_topic_names": None}, "SubscribedTopicNames must be set in first request."),
        ({"member_epoch": -2}, "MemberEpoch is invalid."),
    ],
)
def test_a_heartbeat_that_makes_no_sense_is_invalid(live: LiveBroker, fields: dict[str, Any], message: str) -> None:
    body = {"group_id": "g", "member_id": "m", "member_epoch": 0, "rack_id": None, "subscribed_topic_names": ["t"]}
    answer = live.client().call(76, 1, {**body, **fields})
    assert (answer.error_code, answer.error_message) == (E.INVALID_REQUEST, message)


def test_an_unknown_group_is_not_found(live: LiveBroker) -> None:
    client = live.client()
    assert beat(client, "m", 4).error_code == E.GROUP_ID_NOT_FOUND
    assert beat(client, "m", -1).error_code == E.GROUP_ID_NOT_FOUND
    assert describe(client).error_message == "Group g not found."


def test_a_share_group_is_there_after_a_restart(tmp_path: Path) -> None:
    with LiveBroker(tmp_path / "data", SETTINGS) as live:
        live.create_topic("t", 2)
        live.client().call(10, 3, {"key": "any", "key_type": 0})
        epoch, _ = join(live.client(), "m1", ["t"])
    with LiveBroker(tmp_path / "data", SETTINGS) as live:
        answer = beat(live.client(), "m1", epoch, ["t"])
        assert (answer.error_code, answer.member_epoch) == (E.NONE, epoch)
        assert [list(each.partitions) for each in answer.assignment.topic_partitions] == [[0, 1]]
