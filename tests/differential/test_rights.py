"""Who may do what: each API is asked by users with one right alone and by users with all rights but one, of Apache Kafka and of this broker.

The answers are compared, with their error codes, what they list and what they leave out."""

from __future__ import annotations

import time
import uuid
from typing import Any

import pytest

from streamactors.broker import Cluster, apis
from streamactors.broker.requests.api import Routes
from tests.broker.wire import WireClient
from tests.differential.apache_kafka import broker as apache
from tests.differential.rights_script import ASKED, USERS, Ask, creations, joining_streams
from tests.differential.test_answers import comparable, in_order

pytestmark = [
    pytest.mark.differential,
    pytest.mark.slow,
    pytest.mark.skipif(not apache.found(), reason="Java or Maven is not here"),
    pytest.mark.timeout(900),
]

PASSWORD = "pw"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
JAAS = f"{PLAIN} required user_admin=pw " + " ".join(f'user_{user.name}="{PASSWORD}"' for user in USERS) + ";"
SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:admin",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": JAAS,
    "auto.create.topics.enable": "false",
    "delegation.token.secret.key": "secret",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "log.retention.ms": "-1",
}
LIST_GROUPS = 16
DESCRIBE_TOKENS = 41
DESCRIBE_QUORUM = 55
NEEDS_NO_RIGHT = {
    17: "SaslHandshake: comes before the principal is known",
    18: "ApiVersions: comes before the principal is known",
    36: "SaslAuthenticate: tells the principal",
}
LEFT_OUT = (
    "error_message",
    "hmac",
    "token_id",
    "issue_timestamp_ms",
    "expiry_timestamp_ms",
    "max_timestamp_ms",
    "host",
    "subscription_id",  # a checksum
    "delta_temporality",  # here clients push totals, which /metrics shows
)


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], tuple[Any, Any]]:
    """(request, user) -> the answers of Apache Kafka and of our broker."""
    theirs = apache.ApacheKafka(
        tmp_path_factory.mktemp("apache") / "data", settings=dict(SETTINGS), second_listener="SASL_PLAINTEXT"
    )
    theirs.settings["listener.security.protocol.map"] = (
        "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT"
    )
    theirs.start()
    try:
        first = play(theirs.door_address)
    finally:
        theirs.kill()
    with Cluster(listen="SASL_PLAINTEXT://127.0.0.1:0", config=SETTINGS) as ours:
        second = play(ours.bootstrap_servers)
    return {each: (first[each], second[each]) for each in first}


def entered(address: str, user: str) -> WireClient:
    host, _, port = address.rpartition(":")
    client = WireClient(host, int(port))
    assert client.call(17, 1, {"mechanism": "PLAIN"}).error_code == 0
    assert client.call(36, 1, {"auth_bytes": f"\0{user}\0{PASSWORD}".encode()}).error_code == 0
    return client


def play(address: str) -> dict[tuple[str, str], Any]:
    """Prepare a broker, and let each user send each request."""
    with entered(address, "admin") as admin:
        topic_id = prepared(admin)
    found: dict[tuple[str, str], Any] = {}
    for user in USERS:
        with entered(address, user.name) as client:
            for ask in ASKED:
                found[ask.name, user.name] = answer_of(client, ask, user.name, topic_id)
    return found


def answer_of(client: WireClient, ask: Ask, user: str, topic_id: uuid.UUID) -> Any:
    # sorted again: lists were in the order of what is left out, and the secrets of tokens are random
    answer = in_order(without(comparable(client.call(ask.key, ask.version, ask.body(user, topic_id)))))
    if ask.key == DESCRIBE_TOKENS:
        # Apache Kafka's broker hears of a new token after its answer: the lists hold the tokens of before the users only
        answer["tokens"] = [each for each in answer["tokens"] if each["token_requester_principal_name"] == "admin"]
    if ask.key == LIST_GROUPS:
        for group in answer["groups"]:
            if group["group_type"] == "streams":
                group["group_state"] = "any"  # its member leaves when its session is over
    if ask.key == DESCRIBE_QUORUM:
        # our broker of one node has no listener for controllers, and knows its folder where Apache Kafka's voter is static
        answer["nodes"] = [each["node_id"] for each in answer["nodes"]]
        for topic in answer["topics"]:
            for partition in topic["partitions"]:
                partition["current_voters"] = [each["replica_id"] for each in partition["current_voters"]]
    return answer


def without(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without(each) for name, each in value.items() if name not in LEFT_OUT}
    return [without(each) for each in value] if isinstance(value, list) else value


def prepared(admin: WireClient) -> uuid.UUID:
    """Make the topics, a group with an offset, a transactional id and the entries. Return the id of topic t."""
    wanted = ["t", "none", *(f"{kind}-{user.name}" for user in USERS for kind in ("t-gone", "gone"))]
    topics = [
        {"name": name, "num_partitions": 1, "replication_factor": 1, "assignments": (), "configs": ()}
        for name in wanted
    ]
    made = admin.call(19, 7, {"topics": topics, "timeout_ms": 30_000, "validate_only": False})
    assert {topic.error_code for topic in made.topics} == {0}
    created = admin.call(30, 3, {"creations": [each for user in USERS for each in creations(user)]})
    assert {each.error_code for each in created.results} == {0}
    for kind in (0, 1):  # the first request makes the topic of the coordinators
        found = {"key_type": kind, "coordinator_keys": ("g", "x")}
        until(lambda found=found: {each.error_code for each in admin.call(10, 4, found).coordinators} == {0})
    offset = {"partition_index": 0, "committed_offset": 0, "committed_leader_epoch": -1, "committed_metadata": ""}
    for group in ("g", "none"):
        body = {
            "group_id": group,
            "generation_id_or_member_epoch": -1,
            "member_id": "",
            "topics": [{"name": name, "partitions": [offset]} for name in ("t", "none")],
        }
        until(lambda body=body: {p.error_code for t in admin.call(8, 8, body).topics for p in t.partitions} == {0})
    for name in ("x", "none"):
        body = {"transactional_id": name, "transaction_timeout_ms": 60_000}
        until(lambda body=body: admin.call(22, 4, body).error_code == 0)
    for group, sources in (("g-streams", ("t",)), ("g-both", ("t", "none"))):
        joining = joining_streams("admin", group, *sources)
        until(lambda joining=joining: admin.call(88, 1, joining).error_code == 0)
        gone = {
            "member_epoch": -1,
            "topology": None,
            "rebalance_timeout_ms": -1,
            "process_id": None,
            "client_tags": None,
        }
        assert admin.call(88, 1, {**joining, **gone}).error_code == 0
    asked = {"topics": [{"name": name, "topic_id": None} for name in wanted], "allow_auto_topic_creation": False}
    until(lambda: all(topic.partitions and not topic.error_code for topic in admin.call(3, 12, asked).topics))
    for owner in ("other", "nobody"):
        token = {"owner_principal_type": "User", "owner_principal_name": owner, "renewers": (), "max_lifetime_ms": -1}
        assert admin.call(38, 3, token).error_code == 0
    until(lambda: len(admin.call(DESCRIBE_TOKENS, 3, {"owners": None}).tokens) == 2)
    last = {
        "resource_type_filter": 1,
        "resource_name_filter": None,
        "pattern_type_filter": 1,
        "principal_filter": f"User:{USERS[-1].name}",
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
    }
    until(lambda: sum(len(each.acls) for each in admin.call(29, 3, last).resources) == len(USERS[-1].entries))
    return next(topic.topic_id for topic in admin.call(3, 12, asked).topics if topic.name == "t")


def until(happened: Any) -> None:
    give_up = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < give_up


def test_each_served_api_is_asked() -> None:
    served = {key for key, _, _ in Routes.of_package(apis).ranges}
    assert {ask.key for ask in ASKED} | NEEDS_NO_RIGHT.keys() == served


@pytest.mark.parametrize("ask", ASKED, ids=[ask.name for ask in ASKED])
def test_an_api_is_open_to_whom_apache_kafka_opens_it(
    answers: dict[tuple[str, str], tuple[Any, Any]], ask: Ask
) -> None:
    different = {
        user: answers[ask.name, user]
        for (name, user) in answers
        if name == ask.name and len(set(map(repr, answers[name, user]))) > 1
    }
    assert different == {}
