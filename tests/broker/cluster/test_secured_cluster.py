"""`Cluster(brokers=3, users=…, tls=True, acls=…)`: nodes that reach each other over TLS and with a login, as clients do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from streamactors.broker import Acl, Cluster
from streamactors.broker.errors import BrokerError, ErrorCode
from streamactors.broker.security.client_login import ListenerCredentials
from streamactors.broker.wire_request import call
from tests.broker.scram_login import log_in, log_in_by_token
from tests.broker.wire import WireClient, wait_until

VOTE = (52, 2)
ALL = {1, 2, 3}
WITHIN_S = 60


@pytest.fixture(scope="module")
def running() -> Iterator[Cluster]:
    acls = [Acl("ann", "ALL", "TOPIC", "t"), Acl("ann", "ALL", "TRANSACTIONAL_ID", "*"), Acl("boss", "ALL", "CLUSTER")]
    users = {"ann": "a b", "boss": "b"}
    with Cluster(brokers=3, users=users, tls=True, acls=acls) as cluster:
        yield cluster


@pytest.fixture
def three(running: Cluster) -> Cluster:
    running.reset()
    running.create_topic("t", partitions=3)
    for partition in range(3):
        running.await_isr("t", partition)
    return running


def controller_address(cluster: Cluster, node: int) -> str:
    return f"127.0.0.1:{cluster._several().node(node).controller_port}"


def next_vote(cluster: Cluster, leader: int) -> dict[str, Any]:
    """Return a request that deposes the leader of the controllers if it is heard."""
    partition = {"partition_index": 0, "replica_epoch": 10_000, "replica_id": leader % 3 + 1, "pre_vote": False}
    offsets = {"last_offset_epoch": 10_000, "last_offset": 10**9}
    topics = [{"topic_name": "__cluster_metadata", "partitions": [{**partition, **offsets}]}]
    return {"cluster_id": cluster.cluster_id, "voter_id": leader, "topics": topics}


@pytest.mark.slow
def test_acknowledged_records_survive_a_node_and_transactions_cross_the_nodes(three: Cluster) -> None:
    acked: list[tuple[str, bytes]] = []
    producer = Producer({**three.client_properties("ann"), "transactional.id": "t-1", "retry.backoff.max.ms": 100})
    producer.init_transactions(WITHIN_S)
    for round_ in range(2):
        producer.begin_transaction()
        for number in range(60):
            value = f"{round_}-{number}".encode()
            producer.produce("t", value, partition=number % 3)
            acked.append(("t", value))
        producer.commit_transaction(WITHIN_S)
        if round_ == 0:
            three.kill(three.leader("t", 0))
    assert three.acked_check(acked) == 120
    gone = next(node for node in ALL if node not in three.pids)
    three.start(gone)
    for partition in range(3):
        three.await_isr("t", partition, ALL, timeout=WITHIN_S)  # it was let in again, and has copied what it missed


def test_a_stranger_cannot_vote_in_the_quorum_nor_can_a_user_who_is_no_node(three: Cluster) -> None:
    """One Vote with a high epoch deposes a leader, so the listener of the controllers answers nobody before a login, and then nodes only."""
    leader = three.controller()
    address = controller_address(three, leader)
    with pytest.raises(OSError):
        call(address, VOTE, next_vote(three, leader))  # without TLS
    authority = three.client_properties("ann")["ssl.ca.location"]
    with pytest.raises((OSError, BrokerError)):
        call(address, VOTE, next_vote(three, leader), ListenerCredentials(authority))  # without a login
    answer = call(address, VOTE, next_vote(three, leader), ListenerCredentials(authority, "PLAIN", "ann", "a b"))
    assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    with pytest.raises(BrokerError, match="Invalid username or password"):
        call(address, VOTE, next_vote(three, leader), ListenerCredentials(authority, "PLAIN", "ann", "wrong"))
    assert three.controller() == leader


def test_users_and_rights_that_one_node_is_told_hold_at_every_node(three: Cluster) -> None:
    boss = AdminClient(three.client_properties("boss"))
    user = UserScramCredentialUpsertion("new", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), b"fresh")
    (set_,) = boss.alter_user_scram_credentials([user]).values()
    set_.result(WITHIN_S)
    right = AclBinding(
        ResourceType.TOPIC,
        "t",
        ResourcePatternType.LITERAL,
        "User:new",
        "*",
        AclOperation.DESCRIBE,
        AclPermissionType.ALLOW,
    )
    (created,) = boss.create_acls([right]).values()
    created.result(WITHIN_S)
    authority = three.client_properties("boss")["ssl.ca.location"]
    door = ListenerCredentials(authority, "SCRAM-SHA-512", "new", "fresh")

    def described(node: int) -> int:
        """Return the error of the topic's metadata at one node; -1 if it does not know the user yet."""
        try:
            answer = call(three._several().node(node).address, (3, 12), {"topics": [{"name": "t"}]}, door)
        except BrokerError:
            return -1
        return int(answer.topics[0].error_code)

    for node in ALL:
        wait_until(lambda node=node: described(node) == ErrorCode.NONE, f"node {node} knows the user")  # type: ignore[misc]


@pytest.mark.parametrize("node", sorted(ALL))
def test_every_node_refuses_what_no_entry_allows(three: Cluster, node: int) -> None:
    authority = three.client_properties("ann")["ssl.ca.location"]
    address = three._several().node(node).address
    door = ListenerCredentials(authority, "SCRAM-SHA-256", "ann", "a b")
    topic = {"name": "mine", "num_partitions": 1, "replication_factor": 3, "configs": [], "assignments": []}
    created = call(address, (19, 7), {"topics": [topic], "timeout_ms": 30_000, "validate_only": False}, door)
    assert (
        created.topics[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    )  # the controller knows whose request it was
    scram = call(address, (51, 0), {"deletions": [{"name": "boss", "mechanism": 1}], "upsertions": []}, door)
    assert scram.results[0].error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_a_reader_cannot_pass_for_a_follower(three: Cluster) -> None:
    """The offset that a follower asks for moves the high watermark: records would count as copied that nobody has."""
    authority = three.client_properties("ann")["ssl.ca.location"]
    leader = three.leader("t", 0)
    follower = next(iter(ALL - {leader}))
    asked = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    body = {"max_bytes": 1 << 20, "topics": [{"topic": "t", "partitions": [asked]}]}

    def error(replica_id: int) -> int:
        door = ListenerCredentials(authority, "PLAIN", "ann", "a b")
        answer = call(three._several().node(leader).address, (1, 12), {**body, "replica_id": replica_id}, door)
        return int(answer.responses[0].partitions[0].error_code)

    assert error(-1) == ErrorCode.NONE
    assert error(follower) == ErrorCode.TOPIC_AUTHORIZATION_FAILED


@pytest.fixture(scope="module")
def two() -> Iterator[Cluster]:
    with Cluster(
        brokers=2, users={"ann": "a"}, config={"delegation.token.secret.key": "only brokers know it"}
    ) as cluster:
        yield cluster


def test_two_brokers_and_one_controller_log_in_without_tls(two: Cluster) -> None:
    two.create_topic("t")
    two.await_isr("t", 0, {1, 2}, timeout=WITHIN_S)
    failed: list[object] = []
    producer = Producer(two.client_properties("ann", mechanism="SCRAM-SHA-256"))
    producer.produce("t", b"one", on_delivery=lambda error, message: error and failed.append(error))
    assert producer.flush(WITHIN_S) == 0
    assert failed == []


def test_a_token_of_any_node_holds_at_every_node_and_makes_no_tokens(two: Cluster) -> None:
    controller = two.controller()
    (member,) = {1, 2} - {controller}
    with ExitStack() as undo:

        def connected(node: int) -> WireClient:
            host, _, port = two._several().node(node).address.rpartition(":")
            return undo.enter_context(closing(WireClient(host, int(port))))

        ann = connected(member)
        assert log_in(ann, "ann", "a").error_code == ErrorCode.NONE
        none = {"renewers": [], "max_lifetime_ms": -1, "owner_principal_type": "User", "owner_principal_name": ""}
        token = ann.call(38, 3, none)
        assert token.error_code == ErrorCode.NONE
        secret = bytes(token.hmac)

        def enters(node: int) -> WireClient | None:
            client = connected(node)
            return client if log_in_by_token(client, token.token_id, secret).error_code == ErrorCode.NONE else None

        for node in (controller, member):
            wait_until(lambda node=node: enters(node), f"node {node} knows the token")  # type: ignore[misc]
            by_token = enters(node)
            assert by_token is not None
            assert by_token.call(38, 3, none).error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        assert ann.call(39, 2, {"hmac": secret, "renew_period_ms": -1}).error_code == ErrorCode.NONE
        ended = ann.call(40, 2, {"hmac": secret, "expiry_time_period_ms": -1})
        assert ended.error_code == ErrorCode.NONE
        for node in (controller, member):
            wait_until(lambda node=node: enters(node) is None, f"node {node} has forgotten the token")  # type: ignore[misc]
