"""The share coordinator over a socket: keys 83 to 87 and FindCoordinator of share partitions."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streamactors.broker.errors import ErrorCode
from tests.broker.live_broker import LiveBroker
from tests.broker.wire import WireClient

E = ErrorCode
SETTINGS = {"share.coordinator.state.topic.num.partitions": 3}


@pytest.fixture
def live(tmp_path: Path) -> Iterator[LiveBroker]:
    with LiveBroker(tmp_path / "data", SETTINGS) as live:
        live.create_topic("t", 2)
        yield live


def _topic_id(live: LiveBroker) -> uuid.UUID:
    return live.node.metadata.image.topics["t"].topic_id


def _key(group: str, topic: uuid.UUID, partition: int) -> str:
    return f"{group}:{base64.urlsafe_b64encode(topic.bytes).decode().rstrip('=')}:{partition}"


def _find(client: WireClient, *keys: str, version: int = 6) -> list[Any]:
    return list(client.call(10, version, {"key_type": 2, "coordinator_keys": list(keys)}).coordinators)


def _ask(client: WireClient, key: int, version: int, topic: uuid.UUID, **fields: Any) -> Any:
    partition = {"partition": 0, **fields}
    body = {"group_id": "g", "topics": [{"topic_id": topic, "partitions": [partition]}]}
    while True:
        (answer,) = client.call(key, version, body).results[0].partitions
        if answer.error_code not in (E.COORDINATOR_LOAD_IN_PROGRESS, E.NOT_COORDINATOR):
            return answer


BATCH = {"first_offset": 0, "last_offset": 4, "delivery_state": 2, "delivery_count": 1}


def test_a_share_partition_is_begun_taken_over_written_and_deleted(live: LiveBroker) -> None:
    client, topic = live.client(), _topic_id(live)
    (found,) = _find(client, _key("g", topic, 0))
    assert (found.error_code, found.node_id, found.port) == (E.NONE, 1, live.port)
    assert _ask(client, 83, 0, topic, state_epoch=1, start_offset=0).error_code == E.NONE
    taken = _ask(client, 84, 0, topic, leader_epoch=2)
    assert (taken.error_code, taken.state_epoch, taken.start_offset, list(taken.state_batches)) == (E.NONE, 1, 0, [])
    write = {"state_epoch": 1, "leader_epoch": 2, "start_offset": 0, "state_batches": [BATCH]}
    assert _ask(client, 85, 1, topic, **write, delivery_complete_count=5).error_code == E.NONE
    summary = _ask(client, 87, 1, topic, leader_epoch=2)
    assert (summary.state_epoch, summary.leader_epoch, summary.start_offset, summary.delivery_complete_count) == (
        1,
        2,
        0,
        5,
    )
    assert _ask(client, 85, 0, topic, **{**write, "leader_epoch": 1}).error_code == E.FENCED_LEADER_EPOCH
    assert _ask(client, 86, 0, topic).error_code == E.NONE
    assert _ask(client, 84, 0, topic, leader_epoch=2).error_code == E.INVALID_REQUEST


def test_the_states_are_there_after_a_restart(tmp_path: Path) -> None:
    with LiveBroker(tmp_path / "data", SETTINGS) as live:
        live.create_topic("t", 2)
        client, topic = live.client(), _topic_id(live)
        _find(client, _key("g", topic, 0))
        _ask(client, 83, 0, topic, state_epoch=1, start_offset=0)
        _ask(client, 85, 0, topic, state_epoch=1, leader_epoch=0, start_offset=0, state_batches=[BATCH])
    with LiveBroker(tmp_path / "data", SETTINGS) as live:
        (batch,) = _ask(live.client(), 84, 0, topic, leader_epoch=0).state_batches
    assert (batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count) == (0, 4, 2, 1)


def test_the_topic_of_the_share_coordinator_is_internal_and_never_expires(live: LiveBroker) -> None:
    client, topic = live.client(), _topic_id(live)
    _find(client, _key("g", topic, 0))
    (named,) = client.call(3, 12, {"topics": [{"topic_id": None, "name": "__share_group_state"}]}).topics
    assert (named.is_internal, len(named.partitions)) == (True, 3)
    overrides = live.node.metadata.image.topic_overrides("__share_group_state")
    assert dict(overrides) == {
        "cleanup.policy": "delete",
        "compression.type": "producer",
        "min.insync.replicas": "1",
        "retention.ms": "-1",
        "segment.bytes": "104857600",
    }


def test_a_key_that_names_no_share_partition_is_invalid_and_makes_no_topic(live: LiveBroker) -> None:
    client = live.client()
    assert [each.error_code for each in _find(client, "g", "g:x:0")] == [E.INVALID_REQUEST] * 2
    assert [each.error_code for each in _find(client, _key("g", _topic_id(live), 0), version=5)] == [E.INVALID_REQUEST]
    assert "__share_group_state" not in live.node.metadata.image.topics


@pytest.mark.parametrize(("key", "version"), [(83, 0), (84, 0), (85, 0), (85, 1), (86, 0), (87, 0), (87, 1)])
def test_a_request_for_nothing_has_an_empty_answer(live: LiveBroker, key: int, version: int) -> None:
    client = live.client()
    assert list(client.call(key, version, {"group_id": "", "topics": []}).results) == []
    no_partitions = [{"topic_id": _topic_id(live), "partitions": []}]
    assert list(client.call(key, version, {"group_id": "g", "topics": no_partitions}).results) == []


ACLS = {
    **SETTINGS,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
}


def test_only_a_broker_may_ask_the_share_coordinator(tmp_path: Path) -> None:
    with LiveBroker(tmp_path / "data", ACLS) as live:
        client, topic = live.client(), uuid.uuid4()
        assert [each.error_code for each in _find(client, _key("g", topic, 0))] == [E.CLUSTER_AUTHORIZATION_FAILED]
        write = {"state_epoch": 1, "leader_epoch": 2, "start_offset": 0}
        for key, fields in (
            (83, {"state_epoch": 1, "start_offset": 0}), (84, {"leader_epoch": 1}), (85, {**write, "state_batches": []}),
            (86, {}), (87, {"leader_epoch": 1}),
        ):  # fmt: skip
            assert _ask(client, key, 0, topic, **fields).error_code == E.CLUSTER_AUTHORIZATION_FAILED
