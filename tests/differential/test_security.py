"""Listeners with logins beside Apache Kafka: its own tools and clients at our broker, and the verdicts of both authorisers."""

from __future__ import annotations

import random
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from streamactors.broker import Cluster
from streamactors.kafka.client.diagnosis.listener_probe import fault_of
from streamactors.kafka.property_rules import addresses_of
from tests.broker.wire import WireClient
from tests.differential.apache_kafka import broker as apache

pytestmark = [
    pytest.mark.differential,
    pytest.mark.slow,
    pytest.mark.skipif(not apache.found(), reason="Java or Maven is not here"),
    pytest.mark.timeout(900),
]

WRONG = {"PLAINTEXT": "wants a login", "SSL": "wants a login and has no TLS", "SASL_SSL": "has no TLS"}
LOGIN = {"PLAIN": "plain.PlainLoginModule", "SCRAM": "scram.ScramLoginModule"}


def java_properties(cluster: Cluster, user: str, mechanism: str, file: Path) -> str:
    """Write the client properties of a Java client; return the file's name."""
    ours = cluster.client_properties(user, mechanism=mechanism)
    module = LOGIN[mechanism.partition("-")[0]]
    file.write_text(
        f"security.protocol={ours['security.protocol']}\nsasl.mechanism={mechanism}\n"
        f'sasl.jaas.config=org.apache.kafka.common.security.{module} required username="{user}" password="{ours["sasl.password"]}";\n'
        f"ssl.truststore.type=PEM\nssl.truststore.location={ours['ssl.ca.location']}\n"
    )
    return str(file)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_javas_clients_and_kafkas_tools_come_in(tmp_path: Path, mechanism: str) -> None:
    with Cluster(
        users={"ann": "pw"}, tls=True, acls=[], config={"super.users": "User:ann;User:streamactors-cluster"}
    ) as running:
        running.create_topic("t")
        at, file = running.bootstrap_servers, java_properties(running, "ann", mechanism, tmp_path / "client.properties")
        produced = apache.tool(
            "org.apache.kafka.tools.VerifiableProducer",
            "--bootstrap-server",
            at,
            "--topic",
            "t",
            "--max-messages",
            "50",
            "--producer.config",
            file,
        )
        assert '"acked":50' in produced
        consumed = apache.tool(
            "org.apache.kafka.tools.VerifiableConsumer",
            "--bootstrap-server",
            at,
            "--topic",
            "t",
            "--group-id",
            "g",
            "--max-messages",
            "50",
            "--reset-policy",
            "earliest",
            "--consumer.config",
            file,
        )
        assert '"offset":50' in consumed


def test_kafkas_tools_for_acls_and_users(tmp_path: Path) -> None:
    with Cluster(
        users={"ann": "pw"}, tls=True, acls=[], config={"super.users": "User:ann;User:streamactors-cluster"}
    ) as running:
        running.create_topic("t")
        at, file = (
            running.bootstrap_servers,
            java_properties(running, "ann", "SCRAM-SHA-512", tmp_path / "client.properties"),
        )
        acls = ("org.apache.kafka.tools.AclCommand", "--bootstrap-server", at, "--command-config", file)
        added = apache.tool(
            *acls,
            "--add",
            "--allow-principal",
            "User:bob",
            "--producer",
            "--topic",
            "orders-",
            "--resource-pattern-type",
            "prefixed",
        )
        assert "operation=WRITE" in added
        listed = apache.tool(*acls, "--list", "--principal", "User:bob")
        assert "ResourcePattern(resourceType=TOPIC, name=orders-, patternType=PREFIXED)" in listed
        assert {
            word for word in ("WRITE", "DESCRIBE", "CREATE") if f"operation={word}, permissionType=ALLOW" in listed
        } == {"WRITE", "DESCRIBE", "CREATE"}
        apache.tool(
            *acls,
            "--remove",
            "--force",
            "--allow-principal",
            "User:bob",
            "--producer",
            "--topic",
            "orders-",
            "--resource-pattern-type",
            "prefixed",
        )
        assert "User:bob" not in apache.tool(*acls, "--list")
        users = (
            "org.apache.kafka.tools.ConfigCommand",
            "--bootstrap-server",
            at,
            "--command-config",
            file,
            "--entity-type",
            "users",
            "--entity-name",
            "carl",
        )
        assert "Completed updating config for user carl" in apache.tool(
            *users, "--alter", "--add-config", "SCRAM-SHA-256=[iterations=8192,password=c]"
        )
        assert "SCRAM-SHA-256=iterations=8192" in apache.tool(*users, "--describe")
        carl = {
            **running.client_properties("ann", mechanism="SCRAM-SHA-256"),
            "sasl.username": "carl",
            "sasl.password": "c",
        }
        assert AdminClient(carl).list_topics(timeout=30).cluster_id == running.cluster_id


# ---- the verdicts of both authorisers ----

USERS = {"admin": "a", "ann": "x", "bob": "y"}
JAAS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    + " ".join(f'user_{n}="{p}"' for n, p in USERS.items())
    + ";"
)
SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:admin",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": JAAS,
    "auto.create.topics.enable": "false",
}
TOPICS = ("a", "ab", "abc", "b", "orders-1")
ROUNDS = 170  # times 2 users and 6 resources: above 2,000 answers of each broker
OPERATIONS = [
    AclOperation.ALL,
    AclOperation.READ,
    AclOperation.WRITE,
    AclOperation.DESCRIBE,
    AclOperation.DELETE,
    AclOperation.ALTER,
    AclOperation.ALTER_CONFIGS,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.CREATE,
]
EVERYTHING = AclBindingFilter(
    ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
)


@pytest.fixture(params=[False, True], ids=["deny by default", "everyone without entries"])
def doors(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """The addresses of the SASL listeners of Apache Kafka and of our broker."""
    settings = {**SETTINGS, "allow.everyone.if.no.acl.found": str(request.param).lower()}
    theirs = apache.ApacheKafka(tmp_path / "apache", settings=settings, second_listener="SASL_PLAINTEXT")
    theirs.settings["listener.security.protocol.map"] = (
        "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT"
    )
    theirs.start()
    try:
        with Cluster(listen="SASL_PLAINTEXT://127.0.0.1:0", config=settings) as ours:
            yield theirs.door_address, ours.bootstrap_servers
    finally:
        theirs.kill()


def boss(address: str) -> AdminClient:
    return AdminClient(
        {
            "bootstrap.servers": address,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "admin",
            "sasl.password": "a",
        }
    )


def verdicts(address: str, user: str) -> dict[str, tuple[int, int]]:
    """Return the operations that a user may do on each topic, as the broker answers."""
    host, _, port = address.rpartition(":")
    with WireClient(host, int(port)) as client:
        assert client.call(17, 1, {"mechanism": "PLAIN"}).error_code == 0
        assert client.call(36, 1, {"auth_bytes": f"\0{user}\0{USERS[user]}".encode()}).error_code == 0
        answer = client.call(
            3,
            9,
            {
                "topics": [{"name": name} for name in TOPICS],
                "allow_auto_topic_creation": False,
                "include_cluster_authorized_operations": True,
                "include_topic_authorized_operations": True,
            },
        )
    found = {topic.name: (int(topic.error_code), topic.topic_authorized_operations) for topic in answer.topics}
    return {**found, "the cluster": (0, answer.cluster_authorized_operations)}


def random_entries(rng: random.Random) -> list[AclBinding]:
    made = {
        (
            rng.choice([ResourceType.TOPIC] * 5 + [ResourceType.BROKER]),
            rng.choice(["a", "ab", "abc", "b", "*", "orders-", "o"]),
            rng.choice([ResourcePatternType.LITERAL, ResourcePatternType.PREFIXED]),
            rng.choice(["User:ann", "User:bob", "User:*"]),
            rng.choice(["*", "*", "127.0.0.1", "10.0.0.1"]),
            rng.choice(OPERATIONS),
            rng.choice([AclPermissionType.ALLOW, AclPermissionType.ALLOW, AclPermissionType.DENY]),
        )
        for _ in range(rng.randint(0, 7))
    }
    entries = [
        AclBinding(
            kind,
            "kafka-cluster" if kind is ResourceType.BROKER else name,
            ResourcePatternType.LITERAL if kind is ResourceType.BROKER else pattern,
            *rest,
        )
        for kind, name, pattern, *rest in sorted(made, key=str)
    ]
    return list({str(entry): entry for entry in entries}.values())  # the client refuses an entry that comes twice


def test_both_authorisers_give_the_same_verdicts(doors: tuple[str, str]) -> None:
    rng = random.Random(20261122)
    admins = [boss(address) for address in doors]
    from confluent_kafka.admin import NewTopic

    for admin in admins:
        for future in admin.create_topics([NewTopic(name, 1, 1) for name in TOPICS]).values():
            future.result(30)
    for number in range(ROUNDS):
        entries = random_entries(rng)
        for admin in admins:
            for future in admin.delete_acls([EVERYTHING]).values():
                future.result(30)
            for future in (admin.create_acls(entries) if entries else {}).values():
                future.result(30)
        for user in ("ann", "bob"):
            ours = verdicts(doors[1], user)
            give_up = time.monotonic() + 3
            while (theirs := verdicts(doors[0], user)) != ours and time.monotonic() < give_up:
                pass  # Apache Kafka answers an admin before its authoriser has read the record
            assert ours == theirs, (number, user, [str(entry) for entry in entries])


@pytest.mark.expects_log("its login failed")
def test_a_wrong_password_gets_the_same_answer_of_both(doors: tuple[str, str]) -> None:
    answers = []
    for address in doors:
        host, _, port = address.rpartition(":")
        with WireClient(host, int(port)) as client:
            client.call(17, 1, {"mechanism": "PLAIN"})
            answer = client.call(36, 1, {"auth_bytes": b"\0ann\0no"})
            answers.append((answer.error_code, answer.error_message))
            assert client.closed_by_peer()
    assert answers[0] == answers[1]


@pytest.mark.expects_log("a TLS hello on a plain listener", "another request before its login")
def test_the_right_protocol_is_told_of_both(doors: tuple[str, str]) -> None:
    for protocol in ("PLAINTEXT", "SSL", "SASL_SSL", "SASL_PLAINTEXT"):
        told = [fault_of(addresses_of(address), {"security.protocol": protocol}) for address in doors]
        assert [None if each is None else each.partition(" and sasl.mechanism")[0] for each in told] == [
            None
            if protocol == "SASL_PLAINTEXT"
            else f"the listener {WRONG[protocol]}; set security.protocol to SASL_PLAINTEXT"
        ] * 2


def test_a_key_store_of_keytool_is_used_as_it_is_or_exported_as_the_error_says(tmp_path: Path) -> None:
    store = tmp_path / "store.p12"
    subprocess.run(
        [
            "keytool",
            "-genkeypair",
            "-alias",
            "x",
            "-keyalg",
            "EC",
            "-dname",
            "CN=localhost",
            "-ext",
            "san=dns:localhost,ip:127.0.0.1",
            "-storetype",
            "PKCS12",
            "-keystore",
            str(store),
            "-storepass",
            "secret1",
        ],
        check=True,
        capture_output=True,
        timeout=120,
    )
    pem = tmp_path / "server.pem"
    done = subprocess.run(
        ["openssl", "pkcs12", "-in", str(store), "-nodes", "-passin", "pass:secret1"],
        check=True,
        capture_output=True,
        timeout=60,
    )
    pem.write_bytes(done.stdout)
    exported = {"ssl.keystore.location": str(pem)}
    itself = {"ssl.keystore.location": str(store), "ssl.keystore.password": "secret1", "ssl.keystore.type": "PKCS12"}
    for config in (exported, itself):
        with Cluster(listen="SSL://127.0.0.1:0", config=config) as running:
            trust = {"security.protocol": "SSL", "ssl.ca.location": str(pem)}
            client = AdminClient({"bootstrap.servers": running.bootstrap_servers, **trust})
            assert client.list_topics(timeout=30).cluster_id == running.cluster_id


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_kafkas_tool_makes_tokens_and_javas_clients_log_in_by_them(tmp_path: Path, mechanism: str) -> None:
    settings = {
        "super.users": "User:ann;User:streamactors-cluster",
        "delegation.token.secret.key": "only brokers know it",
    }
    with Cluster(users={"ann": "pw"}, tls=True, acls=[], config=settings) as running:
        running.create_topic("t")
        at, file = running.bootstrap_servers, java_properties(running, "ann", mechanism, tmp_path / "ann.properties")
        tokens = ("org.apache.kafka.tools.DelegationTokenCommand", "--bootstrap-server", at, "--command-config", file)
        made = apache.tool(*tokens, "--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob")
        token_id, secret = made.splitlines()[-1].split()[:2]
        by_token = tmp_path / "token.properties"
        by_token.write_text(
            Path(file)
            .read_text()
            .replace('username="ann"', f'tokenauth="true" username="{token_id}"')
            .replace('password="pw"', f'password="{secret}"')
        )
        verify = (
            "org.apache.kafka.tools.VerifiableProducer",
            "--bootstrap-server",
            at,
            "--topic",
            "t",
            "--max-messages",
            "20",
        )
        assert '"acked":20' in apache.tool(*verify, "--producer.config", str(by_token))
        renewed = apache.tool(*tokens, "--renew", "--renew-time-period", "-1", "--hmac", secret)
        assert "Completed renew operation" in renewed
        assert token_id in apache.tool(*tokens, "--describe", "--owner-principal", "User:ann")
        apache.tool(*tokens, "--expire", "--expiry-time-period", "-1", "--hmac", secret)
        assert token_id not in apache.tool(*tokens, "--describe")
