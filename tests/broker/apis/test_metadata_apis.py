"""Metadata, DescribeTopicPartitions and DescribeCluster over a real socket, in every version served."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from streamactors.broker import Cluster
from streamactors.broker.errors import ErrorCode
from tests.broker.wire import WireClient

TOPIC_OPERATIONS = 3576  # read, write, create, delete, alter, describe, describe configs, alter configs
CLUSTER_OPERATIONS = 8096


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(config={"broker.rack": "r1"}) as cluster:
        for name in ("a", "b"):
            cluster.create_topic(name, 3)
        yield cluster


def metadata(client: WireClient, version: int, names: list[str] | None, *, create: bool = False) -> Any:
    topics = None if names is None else [{"name": name, "topic_id": None} for name in names]
    body: dict[str, Any] = {"topics": topics}
    if version >= 4:
        body["allow_auto_topic_creation"] = create
    return client.call(3, version, body)


@pytest.mark.parametrize("version", range(14))
def test_metadata_tells_topics_and_where_the_broker_is(cluster: Cluster, client: WireClient, version: int) -> None:
    answer = metadata(client, version, ["a"])
    (broker,) = answer.brokers
    assert f"{broker.host}:{broker.port}" == cluster.bootstrap_servers
    (topic,) = answer.topics
    assert (topic.name, topic.error_code) == ("a", 0)
    assert [(p.partition_index, p.leader_id, tuple(p.replica_nodes)) for p in topic.partitions] == [
        (number, broker.node_id, (broker.node_id,)) for number in range(3)
    ]
    if version >= 1:
        assert (broker.rack, answer.controller_id, topic.is_internal) == ("r1", broker.node_id, False)
    if version >= 2:
        assert answer.cluster_id == cluster.cluster_id
    if version >= 7:
        assert {p.leader_epoch for p in topic.partitions} == {0}
    if version >= 10:
        assert isinstance(topic.topic_id, uuid.UUID)


def test_metadata_of_all_topics_is_asked_for_with_null_or_in_version_0_with_nothing(client: WireClient) -> None:
    assert {"a", "b"} <= {topic.name for topic in metadata(client, 0, []).topics}
    assert {"a", "b"} <= {topic.name for topic in metadata(client, 12, None).topics}
    assert metadata(client, 12, []).topics == ()


def test_metadata_is_asked_for_by_id_too(client: WireClient) -> None:
    topic_id = metadata(client, 12, ["b"]).topics[0].topic_id
    unknown = uuid.uuid4()
    found, missing = client.call(
        3, 12, {"topics": [{"topic_id": topic_id, "name": None}, {"topic_id": unknown, "name": None}]}
    ).topics
    assert (found.name, found.topic_id, len(found.partitions)) == ("b", topic_id, 3)
    assert (missing.error_code, missing.name, missing.topic_id) == (ErrorCode.UNKNOWN_TOPIC_ID, None, unknown)


def until_created(client: WireClient, name: str) -> Any:
    """Ask, as a client does, until the topic is there."""
    while (topic := metadata(client, 12, [name]).topics[0]).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        pass
    assert topic.error_code == 0
    return topic


def test_a_missing_topic_is_created_where_that_is_wanted_and_the_client_asks_again(client: WireClient) -> None:
    (refused,) = metadata(client, 12, ["fresh-1"]).topics
    assert refused.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    (missing,) = metadata(client, 12, ["fresh-1"], create=True).topics
    assert (missing.error_code, missing.partitions) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ())
    created = until_created(client, "fresh-1")
    assert len(created.partitions) == 1
    assert created.partitions[0].leader_id == 1


def test_an_illegal_name_is_neither_created_nor_known(client: WireClient) -> None:
    (topic,) = metadata(client, 12, ["a b"], create=True).topics
    assert topic.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_internal_topics_say_so(client: WireClient) -> None:
    metadata(client, 12, ["__consumer_offsets"], create=True)
    topic = until_created(client, "__consumer_offsets")
    assert (topic.error_code, topic.is_internal, len(topic.partitions)) == (0, True, 4)


def test_a_topic_asked_for_twice_is_answered_once(client: WireClient) -> None:
    assert [topic.name for topic in metadata(client, 12, ["a", "b", "a"]).topics] == ["a", "b"]


def test_authorised_operations_are_listed_on_request(client: WireClient) -> None:
    answer = client.call(
        3,
        10,
        {
            "topics": [{"name": "a", "topic_id": None}],
            "include_cluster_authorized_operations": True,
            "include_topic_authorized_operations": True,
        },
    )
    assert (answer.cluster_authorized_operations, answer.topics[0].topic_authorized_operations) == (
        CLUSTER_OPERATIONS,
        TOPIC_OPERATIONS,
    )
    assert metadata(client, 12, ["a"]).topics[0].topic_authorized_operations == -(2**31)


# --- DescribeTopicPartitions ---


def pages(client: WireClient, names: list[str], limit: int) -> list[Any]:
    """Return every page, following the cursor."""
    found: list[Any] = []
    cursor = None
    while True:
        answer = client.call(
            75, 0, {"topics": [{"name": n} for n in names], "response_partition_limit": limit, "cursor": cursor}
        )
        found.append(answer)
        if answer.next_cursor is None:
            return found
        cursor = {
            "topic_name": answer.next_cursor.topic_name,
            "partition_index": answer.next_cursor.partition_index,
        }


@pytest.mark.parametrize("limit", range(8))
def test_pages_of_any_size_give_every_partition_once(client: WireClient, limit: int) -> None:
    answers = pages(client, ["b", "a", "none"], limit)
    seen = [(t.name, p.partition_index) for answer in answers for t in answer.topics for p in t.partitions]
    assert seen == [(name, number) for name in "ab" for number in range(3)]
    assert all(sum(len(t.partitions) for t in answer.topics) <= max(limit, 1) for answer in answers)
    (missing,) = [t for answer in answers for t in answer.topics if t.name == "none"]
    assert missing.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_no_topics_asked_for_means_all(client: WireClient) -> None:
    names = {topic.name for answer in pages(client, [], 2000) for topic in answer.topics}
    assert {"a", "b"} <= names


def test_a_cursor_before_the_first_partition_is_refused(client: WireClient) -> None:
    answer = client.call(
        75,
        0,
        {
            "topics": [{"name": "a"}],
            "response_partition_limit": 9,
            "cursor": {"topic_name": "a", "partition_index": -1},
        },
    )
    assert answer.topics[0].error_code == ErrorCode.INVALID_REQUEST


# --- DescribeCluster ---


@pytest.mark.parametrize("version", range(3))
def test_the_cluster_describes_itself(cluster: Cluster, client: WireClient, version: int) -> None:
    answer = client.call(60, version, {"include_cluster_authorized_operations": True})
    assert (answer.error_code, answer.cluster_id, answer.controller_id) == (0, cluster.cluster_id, 1)
    assert [f"{b.host}:{b.port}" for b in answer.brokers] == [cluster.bootstrap_servers]
    assert answer.cluster_authorized_operations == CLUSTER_OPERATIONS


@pytest.mark.parametrize(
    ("endpoint_type", "code"), [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)]
)
def test_a_clients_listener_is_no_controllers(client: WireClient, endpoint_type: int, code: ErrorCode) -> None:
    answer = client.call(60, 1, {"include_cluster_authorized_operations": False, "endpoint_type": endpoint_type})
    assert (answer.error_code, answer.controller_id) == (code, -1)


def test_each_listener_answers_with_its_own_address() -> None:
    listeners = ["127.0.0.1:0", "OTHER://127.0.0.1:0"]
    with Cluster(listen=listeners, advertise="OTHER://example.org:4711") as cluster:
        plain, _ = cluster.bootstrap_servers.split(",")
        node = cluster._running._broker.node  # type: ignore[union-attr]  # the bound port of OTHER is told to nobody
        for listener, told in zip(node.listeners, [plain, "example.org:4711"], strict=True):
            with WireClient("127.0.0.1", listener.port) as client:
                (broker,) = metadata(client, 12, []).brokers
                assert f"{broker.host}:{broker.port}" == told
