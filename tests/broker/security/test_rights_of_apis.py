"""What one right opens of an API, as with Apache Kafka. `tests/differential/test_rights.py` asks both brokers the same."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from streamactors.broker import Acl, Cluster
from streamactors.broker.errors import ErrorCode
from tests.broker.wire import WireClient

CLUSTER = "kafka-cluster"
USERS = ("boss", "action", "altering", "deleting", "describing", "creating", "nobody")
REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
MISSING = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.fixture(scope="module")
def guarded() -> Iterator[Cluster]:
    entries = [
        *(Acl("boss", "ALL", kind, "*") for kind in ("TOPIC", "GROUP")),
        Acl("boss", "ALL", "CLUSTER"),
        Acl("action", "CLUSTER_ACTION", "CLUSTER"),
        Acl("altering", "ALTER", "CLUSTER"),
        Acl("deleting", "DELETE", "CLUSTER"),
        *(Acl("describing", "DESCRIBE", "TOPIC", name) for name in ("t", "missing")),
        Acl("creating", "CREATE", "CLUSTER"),
    ]
    with Cluster(users=dict.fromkeys(USERS, "pw"), acls=entries) as running:
        running.create_topic("t")
        yield running


@pytest.fixture
def ask(guarded: Cluster) -> Iterator[Any]:
    """(user, key, version, body) -> the answer."""
    opened: dict[str, WireClient] = {}

    def send(user: str, key: int, version: int, body: dict[str, Any]) -> Any:
        if user not in opened:
            host, _, port = guarded.bootstrap_servers.rpartition(":")
            opened[user] = WireClient(host, int(port))
            opened[user].call(17, 1, {"mechanism": "PLAIN"})
            assert opened[user].call(36, 1, {"auth_bytes": f"\0{user}\0pw".encode()}).error_code == 0
        return opened[user].call(key, version, body)

    yield send
    for client in opened.values():
        client.close()


@pytest.mark.parametrize(("user", "error"), [("action", 0), ("describing", 0), ("altering", REFUSED)])
def test_epochs_are_told_to_brokers_and_to_who_may_describe_the_topic(ask, user: str, error: int) -> None:
    partition = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}
    answer = ask(user, 23, 4, {"replica_id": -2, "topics": [{"topic": "t", "partitions": [partition]}]})
    assert answer.topics[0].partitions[0].error_code == error


@pytest.mark.parametrize(
    ("user", "error"),
    [("action", MISSING), ("altering", MISSING), ("deleting", ErrorCode.CLUSTER_AUTHORIZATION_FAILED)],
)
def test_markers_are_written_for_brokers_and_for_administrators(ask, user: str, error: int) -> None:
    marker = {
        "producer_id": 1,
        "producer_epoch": 0,
        "transaction_result": False,
        "coordinator_epoch": 0,
        "topics": [{"name": "missing", "partition_indexes": (0,)}],
    }
    answer = ask(user, 27, 1, {"markers": [marker]})
    assert answer.markers[0].topics[0].partitions[0].error_code == error


def delete(ask: Any, user: str, *names: str) -> list[int]:
    topics = [{"name": name, "topic_id": None} for name in names]
    return [each.error_code for each in ask(user, 20, 6, {"topics": topics, "timeout_ms": 5_000}).responses]


def test_topics_are_deleted_by_a_right_to_the_cluster(guarded: Cluster, ask) -> None:
    guarded.create_topic("gone")
    assert delete(ask, "nobody", "gone", "missing") == [REFUSED, REFUSED]
    assert delete(ask, "deleting", "gone", "missing") == [0, MISSING]


def test_who_may_describe_a_topic_hears_that_it_cannot_be_deleted_because_it_is_missing(ask) -> None:
    assert delete(ask, "describing", "t", "missing", "hidden") == [REFUSED, MISSING, REFUSED]


def test_settings_of_a_new_topic_are_told_to_who_may_describe_them(ask) -> None:
    topic = {"name": "new", "num_partitions": 1, "replication_factor": 1, "assignments": (), "configs": ()}
    body = {"topics": [topic], "timeout_ms": 5_000, "validate_only": True}
    (told,) = ask("boss", 19, 7, body).topics
    assert (told.error_code, told.topic_config_error_code, told.num_partitions) == (0, 0, 1)
    assert told.configs
    (hidden,) = ask("creating", 19, 7, body).topics
    assert (hidden.error_code, hidden.topic_config_error_code, hidden.num_partitions) == (0, REFUSED, -1)
    assert not hidden.configs


def test_metadata_by_an_id_is_refused_without_the_right(guarded: Cluster, ask) -> None:
    def by_id(user: str, topic_id: uuid.UUID) -> tuple[int, str | None]:
        asked = {"topics": [{"name": None, "topic_id": topic_id}], "allow_auto_topic_creation": False}
        (topic,) = ask(user, 3, 12, asked).topics
        return topic.error_code, topic.name

    named = {"topics": [{"name": "t", "topic_id": None}], "allow_auto_topic_creation": False}
    topic_id = ask("boss", 3, 12, named).topics[0].topic_id
    assert by_id("describing", topic_id) == (0, "t")
    assert by_id("nobody", topic_id) == (REFUSED, None)
    assert by_id("nobody", uuid.uuid4()) == (ErrorCode.UNKNOWN_TOPIC_ID, None)


def test_the_refusals_have_the_form_of_apache_kafka(ask) -> None:
    joined = {
        "group_id": "g",
        "session_timeout_ms": 30_000,
        "rebalance_timeout_ms": 30_000,
        "member_id": "mine",
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b""}],
    }
    refused = ask("nobody", 11, 9, joined)
    assert (refused.error_code, refused.member_id) == (ErrorCode.GROUP_AUTHORIZATION_FAILED, "")
    moved = {"timeout_ms": 5_000, "topics": [{"name": "t", "partitions": [{"partition_index": 0, "replicas": None}]}]}
    (topic,) = ask("nobody", 45, 1, moved).responses
    assert [each.error_code for each in topic.partitions] == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED]
    (user,) = ask("nobody", 50, 0, {"users": [{"name": "other"}]}).results
    assert (user.user, user.error_code) == ("", ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
