"""Committed offsets over a real socket, in every version served: who may commit, what is found again, and when they go."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from streamactors.broker import Cluster
from tests.broker.apis.group_client import E, commit, fetch, join, sync
from tests.broker.wire import WireClient

BROKER_CONFIG = {"group.max.session.timeout.ms": 60_000}
COORDINATORS = (0,)


@pytest.mark.parametrize("version", range(2, 11))
def test_commit_in_every_version(client: WireClient, cluster: Cluster, group: str, topic: str, version: int) -> None:
    topic_id = None
    if version >= 10:
        topics = client.call(3, 12, {"topics": [{"name": topic, "topic_id": None}], "allow_auto_topic_creation": False})
        topic_id = topics.topics[0].topic_id
    assert commit(client, group, topic, version, topic_id=topic_id) == [E.NONE]
    body = {"group_id": group, "topics": [{"name": topic, "partition_indexes": [0, 1]}]}
    partitions = client.call(9, 5, body).topics[0].partitions
    assert [(p.committed_offset, p.metadata, p.committed_leader_epoch) for p in partitions] == [
        (7, "why", 3 if version >= 6 else -1),
        (-1, "", -1),
    ]


def test_a_fetch_behind_a_commit_that_is_not_answered_yet_finds_its_offset(
    client: WireClient, group: str, topic: str
) -> None:
    # A consumer may call commitAsync() and then committed(). Apache Kafka serves the requests of a connection one by one; the commit waited for its
    # append here, and the fetch was answered with the offset before it.
    def frame(key: int, version: int, **partitions: Any) -> bytes:
        return client.frame(key, version, {"group_id": group, "topics": [{"name": topic, **partitions}]})

    committing = frame(8, 5, partitions=[{"partition_index": 0, "committed_offset": 7}])
    fetching, deleting = frame(9, 5, partition_indexes=[0]), frame(47, 0, partitions=[{"partition_index": 0}])
    client.send_raw(committing + fetching + deleting + frame(9, 5, partition_indexes=[0]))
    answers = [client.receive()[1] for _ in range(4)]
    assert [answers[at].topics[0].partitions[0].committed_offset for at in (1, 3)] == [7, -1]


def test_a_retention_beyond_the_largest_time_never_ends(client: WireClient, group: str, topic: str) -> None:
    # now + retention.ms does not fit into the record's 64 bits: the request was never answered
    assert commit(client, group, topic, 4, retention_time_ms=2**63 - 1) == [E.NONE]
    assert fetch(client, group, topic) == [(7, E.NONE)]


@pytest.mark.parametrize("version", range(1, 11))
def test_fetch_in_every_version(client: WireClient, group: str, topic: str, version: int) -> None:
    commit(client, group, topic)
    asked: dict[str, Any] = {"name": topic, "partition_indexes": [0, 1]}
    if version >= 10:
        body = {"topics": [{"name": topic, "topic_id": None}], "allow_auto_topic_creation": False}
        asked["topic_id"] = client.call(3, 12, body).topics[0].topic_id
    single = {"group_id": group, "topics": [{k: asked[k] for k in ("name", "partition_indexes")}]}
    body = {**single, "groups": [{"group_id": group, "topics": [asked]}, {"group_id": "nobody", "topics": None}]}
    answer = client.call(9, version, body)
    found = answer.groups[0] if version >= 8 else answer
    assert [(p.committed_offset, p.error_code) for t in found.topics for p in t.partitions] == [(7, 0), (-1, 0)]
    if version >= 8:
        assert (answer.groups[1].group_id, answer.groups[1].error_code, answer.groups[1].topics) == ("nobody", 0, ())


@pytest.mark.parametrize("version", [2, 7, 8, 10])
def test_fetch_of_all_partitions(client: WireClient, group: str, topic: str, version: int) -> None:
    commit(client, group, topic)
    body = {"group_id": group, "topics": None, "groups": [{"group_id": group, "topics": None}]}
    answer = client.call(9, version, body)
    found = answer.groups[0] if version >= 8 else answer
    assert [p.committed_offset for t in found.topics for p in t.partitions] == [7]


def test_an_unknown_group_has_no_offsets_and_that_is_no_error(client: WireClient, topic: str) -> None:
    assert fetch(client, "nobody-at-all", topic, 0, 1) == [(-1, E.NONE), (-1, E.NONE)]


def test_commits_to_missing_partitions_are_refused_one_by_one(client: WireClient, group: str, topic: str) -> None:
    partitions = [{"partition_index": index, "committed_offset": 1, "committed_metadata": None} for index in (0, 2, -1)]
    body = {
        "group_id": group,
        "generation_id_or_member_epoch": -1,
        "topics": [{"name": topic, "partitions": partitions}, {"name": "no-such", "partitions": partitions[:1]}],
    }
    answer = client.call(8, 8, body)
    assert [[p.error_code for p in t.partitions] for t in answer.topics] == [
        [E.NONE, E.UNKNOWN_TOPIC_OR_PARTITION, E.UNKNOWN_TOPIC_OR_PARTITION],
        [E.UNKNOWN_TOPIC_OR_PARTITION],
    ]
    assert commit(client, group, "ignored", 10, topic_id=uuid.uuid4()) == [E.UNKNOWN_TOPIC_ID]


def test_only_a_member_of_the_generation_commits(client: WireClient, group: str, topic: str) -> None:
    assert commit(client, group, topic, generation_id_or_member_epoch=3, member_id="m") == [E.ILLEGAL_GENERATION]
    assert commit(client, group, topic, 9, generation_id_or_member_epoch=3, member_id="m") == [E.GROUP_ID_NOT_FOUND]
    joined = join(client, group)
    mine = {"member_id": joined.member_id, "generation_id_or_member_epoch": 1}
    assert commit(client, group, topic, **mine) == [E.REBALANCE_IN_PROGRESS]
    sync(client, group, joined)
    assert commit(client, group, topic, **mine) == [E.NONE]
    assert commit(client, group, topic, **{**mine, "generation_id_or_member_epoch": 2}) == [E.ILLEGAL_GENERATION]
    assert commit(client, group, topic, **{**mine, "member_id": "x"}) == [E.UNKNOWN_MEMBER_ID]
    assert commit(client, group, topic) == [E.UNKNOWN_MEMBER_ID]
    assert commit(client, group, topic, 8, **mine, group_instance_id="i") == [E.UNKNOWN_MEMBER_ID]


def test_offsets_stay_when_a_broker_restarts(tmp_path) -> None:
    with Cluster(data=tmp_path) as cluster:
        cluster.create_topic("t", 1)
        host, port = cluster.bootstrap_servers.split(":")
        with WireClient(host, int(port)) as client:
            client.call(10, 3, {"key": "g", "key_type": 0})
            joined = join(client, "g")
            sync(client, "g", joined)
            mine = {"member_id": joined.member_id, "generation_id_or_member_epoch": 1}
            assert commit(client, "g", "t", **mine) == [E.NONE]
    with Cluster(data=tmp_path) as cluster:
        host, port = cluster.bootstrap_servers.split(":")
        with WireClient(host, int(port)) as client:
            wait_until_loaded(client, "g")
            assert fetch(client, "g", "t") == [(7, E.NONE)]
            beat = {"group_id": "g", "generation_id": 1, "member_id": joined.member_id}
            assert client.call(12, 4, beat).error_code == E.NONE
            assert commit(client, "g", "t", **mine) == [E.NONE]


def wait_until_loaded(client: WireClient, group: str) -> None:
    while client.call(15, 4, {"groups": [group]}).groups[0].error_code == E.COORDINATOR_LOAD_IN_PROGRESS:
        pass


def test_offsets_go_with_their_topic(client: WireClient, group: str, topic: str) -> None:
    commit(client, group, topic)
    client.call(20, 4, {"topic_names": [topic], "timeout_ms": 10_000})
    assert fetch(client, group, topic) == [(-1, E.NONE)]


def test_delete_offsets(client: WireClient, group: str, topic: str) -> None:
    commit(client, group, topic)
    partitions = [{"partition_index": index} for index in (0, 1, 5)]
    body = {"group_id": group, "topics": [{"name": topic, "partitions": partitions}]}
    answer = client.call(47, 0, body)
    assert [p.error_code for t in answer.topics for p in t.partitions] == [
        E.NONE,
        E.NONE,
        E.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert fetch(client, group, topic) == [(-1, E.NONE)]
    assert client.call(47, 0, {**body, "group_id": "nobody"}).error_code == E.GROUP_ID_NOT_FOUND
    assert client.call(47, 0, {**body, "group_id": ""}).error_code == E.INVALID_GROUP_ID


def test_offsets_are_unstable_while_a_transaction_may_still_commit_them(
    client: WireClient, group: str, topic: str
) -> None:
    tx = f"tx-{group}"
    client.call(10, 3, {"key": tx, "key_type": 1})
    init = client.call(22, 4, {"transactional_id": tx, "transaction_timeout_ms": 10_000})
    producer = {"producer_id": init.producer_id, "producer_epoch": init.producer_epoch}
    assert client.call(25, 3, {"transactional_id": tx, **producer, "group_id": group}).error_code == E.NONE
    offsets = {
        "transactional_id": tx,
        "group_id": group,
        **producer,
        "topics": [{"name": topic, "partitions": [{"partition_index": 0, "committed_offset": 9}]}],
    }
    assert client.call(28, 3, offsets).topics[0].partitions[0].error_code == E.NONE
    stable = {"group_id": group, "topics": [{"name": topic, "partition_indexes": [0]}], "require_stable": True}
    assert client.call(9, 7, stable).topics[0].partitions[0].error_code == E.UNSTABLE_OFFSET_COMMIT
    assert fetch(client, group, topic) == [(-1, E.NONE)]
    assert client.call(26, 3, {"transactional_id": tx, **producer, "committed": True}).error_code == E.NONE
    while (found := client.call(9, 7, stable).topics[0].partitions[0]).error_code == E.UNSTABLE_OFFSET_COMMIT:
        pass
    assert found.committed_offset == 9
