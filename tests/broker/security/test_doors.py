"""A broker with doors, and real clients in front of them."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import struct
import threading
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from streamactors.broker import Acl, Cluster
from streamactors.broker.cluster_doors import make_certificates
from streamactors.broker.errors import BrokerStartError, ErrorCode
from tests.broker.wire import WireClient, wait_until

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
DOORS = ((False, ("ann",)), (True, ("ann",)), (True, ()))


@pytest.fixture(scope="module", params=DOORS, ids=["SASL_PLAINTEXT", "SASL_SSL", "SSL"])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    tls, users = request.param
    with Cluster(users=dict.fromkeys(users, "pass word"), tls=tls) as running:
        running.create_topic("t", config={"max.message.bytes": "8000000"})
        yield running


@pytest.fixture(scope="module")
def guarded() -> Iterator[Cluster]:
    """With logins and the authoriser; `boss` may do everything."""
    everything = [Acl("boss", "ALL", kind, "*") for kind in ("TOPIC", "GROUP", "TRANSACTIONAL_ID")]
    everything.append(Acl("boss", "ALL", "CLUSTER"))
    with Cluster(users={"boss": "b", "ann": "a"}, acls=everything) as running:
        running.create_topic("t")
        yield running


def produce(properties: dict[str, str], topic: str, values: list[bytes]) -> list[KafkaError]:
    failed: list[KafkaError] = []
    producer = Producer({**properties, "message.timeout.ms": 30_000, "message.max.bytes": 8_000_000})
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, message: error and failed.append(error))
    assert producer.flush(60) == 0
    return failed


def consume(properties: dict[str, str], topic: str, first: int, count: int) -> list[bytes]:
    consumer = Consumer({**properties, "group.id": "g", "fetch.message.max.bytes": 8_000_000})
    consumer.assign([TopicPartition(topic, 0, first)])
    found: list[bytes] = []
    while len(found) < count:
        message = consumer.poll(60)
        assert message is not None
        assert message.error() is None, message.error()
        found.append(message.value())
    consumer.close()
    return found


def end_of(properties: dict[str, str], topic: str) -> int:
    consumer = Consumer({**properties, "group.id": "g"})
    end: int = consumer.get_watermark_offsets(TopicPartition(topic, 0), 30)[1]
    consumer.close()
    return end


def address(cluster: Cluster) -> tuple[str, int]:
    host, _, port = cluster.bootstrap_servers.rpartition(":")
    return host, int(port)


def encrypted(cluster: Cluster) -> bool:
    return "ssl.ca.location" in cluster.client_properties("ann")


def wire(cluster: Cluster) -> WireClient:
    """Return a raw client, behind the handshake of TLS where there is one."""
    client = WireClient(*address(cluster))
    if encrypted(cluster):
        context = ssl.create_default_context(cafile=cluster.client_properties("ann")["ssl.ca.location"])
        client.socket = context.wrap_socket(client.socket, server_hostname=address(cluster)[0])
    return client


# ---- the good ----


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_records_of_every_size_come_through_whole(cluster: Cluster, mechanism: str) -> None:
    properties = cluster.client_properties("ann", mechanism=mechanism)
    first = end_of(properties, "t")
    values = [os.urandom(size) for size in (0, 1, 100, 16_000, 70_000, 3_000_000, 5)]
    assert produce(properties, "t", values) == []
    assert consume(properties, "t", first, len(values)) == values


def test_many_small_requests_of_several_connections(cluster: Cluster) -> None:
    properties = cluster.client_properties("ann")
    first = end_of(properties, "t")
    threads = [
        threading.Thread(target=produce, args=({**properties, "linger.ms": "0"}, "t", [b"%d" % n for n in range(500)]))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(consume(properties, "t", first, 1_500)) == sorted([b"%d" % n for n in range(500)] * 3)


def test_kafka_python_comes_in(cluster: Cluster) -> None:
    kafka = pytest.importorskip("kafka")
    ours = cluster.client_properties("ann")
    theirs = {
        "security_protocol": ours["security.protocol"],
        "ssl_cafile": ours.get("ssl.ca.location"),
        "sasl_mechanism": ours.get("sasl.mechanism"),
        "sasl_plain_username": ours.get("sasl.username"),
        "sasl_plain_password": ours.get("sasl.password"),
    }
    producer = kafka.KafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers, **{k: v for k, v in theirs.items() if v is not None}
    )
    assert producer.send("t", b"from kafka-python").get(30).offset >= 0
    producer.close()


def test_a_process_of_its_own_has_the_same_doors() -> None:
    with Cluster(users={"ann": "a"}, tls=True, process=True) as running:
        running.create_topic("t")
        properties = running.client_properties("ann")
        assert produce(properties, "t", [b"x"]) == []
        authority = properties["ssl.ca.location"]
    assert not os.path.exists(authority)


def test_a_client_logs_in_again_while_it_works() -> None:
    with Cluster(users={"ann": "a"}, config={"connections.max.reauth.ms": 400}) as running:
        running.create_topic("t")
        failed: list[KafkaError] = []
        producer = Producer({**running.client_properties("ann"), "error_cb": failed.append, "linger.ms": "0"})
        give_up = time.monotonic() + 1.5  # three sessions
        count = 0
        while time.monotonic() < give_up:
            producer.produce("t", b"x", on_delivery=lambda error, message: error and failed.append(error))
            producer.flush(10)
            count += 1
        assert failed == []
        assert end_of(running.client_properties("ann"), "t") == count


# ---- the bad ----


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("wrong", [{"sasl.password": "no"}, {"sasl.username": "nobody"}])
def test_a_wrong_user_and_a_wrong_password_get_one_answer(
    guarded: Cluster, mechanism: str, wrong: dict[str, str]
) -> None:
    heard: list[KafkaError] = []
    client = Producer({**guarded.client_properties("ann", mechanism=mechanism), **wrong, "error_cb": heard.append})
    wait_until(lambda: client.poll(0.05) >= 0 and any(e.code() == KafkaError._AUTHENTICATION for e in heard))
    texts = {
        e.str().partition("(after")[0].partition("Authentication failed")[2]
        for e in heard
        if e.code() == KafkaError._AUTHENTICATION
    }
    expected = (
        ": Invalid username or password"
        if mechanism == "PLAIN"
        else f" during authentication due to invalid credentials with SASL mechanism {mechanism}"
    )
    assert {text.strip() for text in texts} == {expected.strip()}


def test_before_the_login_every_other_request_ends_the_connection(cluster: Cluster) -> None:
    if "sasl.mechanism" not in cluster.client_properties("ann"):
        pytest.skip("a listener without logins")
    for key, version, body in (
        (3, 12, {"topics": None}),
        (10, 2, {"key": "g", "key_type": 0}),
        (36, 1, {"auth_bytes": b"\0ann\0pass word"}),
    ):
        with wire(cluster) as client:
            assert client.call(18, 0, {}).error_code == 0
            client.send(key, version, body)
            assert client.closed_by_peer()
    with wire(cluster) as client:
        assert client.call(17, 1, {"mechanism": "PLAIN"}).error_code == 0
        client.send(3, 12, {"topics": None})
        assert client.closed_by_peer()


def test_a_mechanism_that_the_listener_does_not_have(cluster: Cluster) -> None:
    with wire(cluster) as client:
        answer = client.call(17, 1, {"mechanism": "GSSAPI\nlevel=ERROR forged=yes"})
        if "sasl.mechanism" in cluster.client_properties("ann"):
            assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
            assert sorted(answer.mechanisms) == sorted(MECHANISMS)
            assert client.closed_by_peer()
        else:
            assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE


def test_tokens_without_headers_after_a_handshake_of_version_0(guarded: Cluster) -> None:
    with wire(guarded) as client:
        assert client.call(17, 0, {"mechanism": "PLAIN"}).error_code == 0
        token = b"\0ann\0a"
        client.send_raw(struct.pack(">i", len(token)) + token)
        assert client.read_frame() == b""
        assert client.call(3, 12, {"topics": []}).cluster_id == guarded.cluster_id
    with wire(guarded) as client:
        assert client.call(17, 0, {"mechanism": "PLAIN"}).error_code == 0
        token = b"\0ann\0wrong"
        client.send_raw(struct.pack(">i", len(token)) + token)
        assert client.closed_by_peer()


def test_before_the_login_a_large_request_is_refused_by_its_size(
    guarded: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    with wire(guarded) as client:
        client.send_raw(struct.pack(">i", 600_000))
        assert client.closed_by_peer()
    assert "before the login 524288 bytes are allowed" in caplog.text


def test_a_client_without_tls_is_told_once_in_the_log(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    if not encrypted(cluster):
        pytest.skip("a listener without TLS")
    for _ in range(3):
        with WireClient(*address(cluster)) as client:
            client.send(18, 0, {})
            with contextlib.suppress(ConnectionResetError):
                while client.socket.recv(100):
                    pass  # OpenSSL's alert
    wait_until(lambda: "no TLS handshake" in caplog.text)
    lines = [record.getMessage().partition(" closed: ")[2] for record in caplog.records]
    said = [line for line in lines if line.startswith("no TLS handshake")]
    assert len(said) == len(set(said)), "each reason once a minute"


def test_old_versions_of_tls_are_refused(cluster: Cluster) -> None:
    if not encrypted(cluster):
        pytest.skip("a listener without TLS")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    with socket.create_connection(address(cluster)) as plain, pytest.raises((ssl.SSLError, ConnectionError)):
        context.wrap_socket(plain)


def test_a_handshake_that_stands_still_stops_nobody_else(cluster: Cluster) -> None:
    if not encrypted(cluster):
        pytest.skip("a listener without TLS")
    with WireClient(*address(cluster)) as slow:
        slow.send_raw(b"\x16\x03\x01\x02\x00\x01")
        assert produce(cluster.client_properties("ann"), "t", [b"x"]) == []


# ---- certificates of clients ----


def test_the_principal_of_a_clients_certificate(tmp_path) -> None:
    trustme = pytest.importorskip("trustme")
    authority, stranger = trustme.CA(), trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "clients.pem")
    for name, signer in (("ann", authority), ("mallory", stranger)):
        signer.issue_cert(f"{name}@example.org", common_name=name).private_key_and_cert_chain_pem.write_to_path(
            tmp_path / f"{name}.pem"
        )
    folder = make_certificates(tmp_path / "server")
    settings = {
        "ssl.keystore.location": str(folder / "server.pem"),
        "ssl.truststore.location": str(tmp_path / "clients.pem"),
        "ssl.client.auth": "required",
        "ssl.principal.mapping.rules": "RULE:^CN=([a-z]+).*$/$1/,DEFAULT",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ann",
    }
    with Cluster(listen="SSL://127.0.0.1:0", config=settings) as running:

        def topics(name: str | None) -> object:
            mine = (
                {}
                if name is None
                else {
                    "ssl.certificate.location": str(tmp_path / f"{name}.pem"),
                    "ssl.key.location": str(tmp_path / f"{name}.pem"),
                }
            )
            client = AdminClient(
                {
                    "bootstrap.servers": running.bootstrap_servers,
                    "security.protocol": "SSL",
                    "ssl.ca.location": str(folder / "ca.pem"),
                    "log_level": 0,
                    **mine,
                }
            )
            return client.list_topics(timeout=0.7 if name != "ann" else 30)

        assert topics("ann").cluster_id == running.cluster_id
        for name in ("mallory", None):
            with pytest.raises(KafkaException):
                topics(name)


# ---- rights ----


def test_without_a_right_each_api_says_so_and_with_it_works(guarded: Cluster) -> None:
    ann, boss = guarded.client_properties("ann"), AdminClient(guarded.client_properties("boss"))
    assert {e.code() for e in produce(ann, "t", [b"x"])} == {KafkaError.TOPIC_AUTHORIZATION_FAILED}

    def binding(kind: ResourceType, name: str, operation: AclOperation) -> AclBinding:
        return AclBinding(kind, name, ResourcePatternType.LITERAL, "User:ann", "*", operation, AclPermissionType.ALLOW)

    write = binding(ResourceType.TOPIC, "t", AclOperation.WRITE)
    for future in boss.create_acls([write, binding(ResourceType.TOPIC, "t", AclOperation.READ)]).values():
        future.result(30)
    assert produce(ann, "t", [b"x"]) == []
    consumer = Consumer({**ann, "group.id": "mine", "auto.offset.reset": "earliest"})
    consumer.subscribe(["t"])
    message = consumer.poll(30)
    assert message is not None
    assert message.error().code() == KafkaError.GROUP_AUTHORIZATION_FAILED
    consumer.close()
    assert consume(guarded.client_properties("boss"), "t", 0, 1) == [b"x"]

    mine = AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, "User:ann", None, AclOperation.ANY, AclPermissionType.ANY
    )
    assert len(boss.describe_acls(mine).result(30)) == 2
    (deleted,) = [future.result(30) for future in boss.delete_acls([mine]).values()]
    assert len(deleted) == 2
    assert boss.describe_acls(mine).result(30) == []
    assert {e.code() for e in produce(ann, "t", [b"x"])} == {KafkaError.TOPIC_AUTHORIZATION_FAILED}
    with wire(guarded) as client:
        client.call(17, 1, {"mechanism": "PLAIN"})
        client.call(36, 2, {"auth_bytes": b"\0ann\0a"})
        everything = {"resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1}
        everything |= {"principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1}
        denied = client.call(29, 3, everything)
        assert denied.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert denied.error_message == "Cluster authorization failed."


def test_an_idempotent_producer_needs_a_right_to_write(guarded: Cluster) -> None:
    producer = Producer({**guarded.client_properties("ann"), "enable.idempotence": "true", "message.timeout.ms": 5_000})
    failed: list[KafkaError] = []
    producer.produce("t", b"x", on_delivery=lambda error, message: failed.append(error))
    producer.flush(30)
    assert failed[0] is not None


def test_users_come_and_go_while_the_broker_runs(guarded: Cluster) -> None:
    boss = AdminClient(guarded.client_properties("boss"))
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 8192)
    (done,) = boss.alter_user_scram_credentials([UserScramCredentialUpsertion("eve", info, b"pw")]).values()
    done.result(30)
    found = boss.describe_user_scram_credentials(["eve"])["eve"].result(30)
    assert [(each.mechanism, each.iterations) for each in found.scram_credential_infos] == [
        (ScramMechanism.SCRAM_SHA_256, 8192)
    ]
    eve = {
        **guarded.client_properties("ann"),
        "sasl.username": "eve",
        "sasl.password": "pw",
        "sasl.mechanism": "SCRAM-SHA-256",
        "log_level": 0,
    }
    assert AdminClient(eve).list_topics(timeout=30).cluster_id == guarded.cluster_id
    (done,) = boss.alter_user_scram_credentials(
        [UserScramCredentialDeletion("eve", ScramMechanism.SCRAM_SHA_256)]
    ).values()
    done.result(30)
    with pytest.raises(KafkaException):
        AdminClient(eve).list_topics(timeout=0.7)
    with pytest.raises(KafkaException, match=r"UNACCEPTABLE_CREDENTIAL|Too few"):
        low = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 1000)
        (done,) = boss.alter_user_scram_credentials([UserScramCredentialUpsertion("eve", low, b"pw")]).values()
        done.result(30)


def test_users_and_entries_survive_a_restart(tmp_path) -> None:
    acls = [Acl("ann", "ALL", "TOPIC", "t")]
    with Cluster(users={"ann": "a"}, acls=acls, data=tmp_path) as running:
        running.create_topic("t")
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
    }
    with Cluster(listen="SASL_PLAINTEXT://127.0.0.1:0", config=settings, data=tmp_path) as running:
        properties = {
            "bootstrap.servers": running.bootstrap_servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "ann",
            "sasl.password": "a",
        }
        assert produce(properties, "t", [b"x"]) == []


# ---- a Cluster that cannot be ----


def test_a_cluster_says_what_is_missing() -> None:
    with pytest.raises(BrokerStartError, match="needs users"):
        Cluster(acls=[])
    with pytest.raises(BrokerStartError, match="not empty"):
        Cluster(users={"ann": ""})
    with Cluster(users={"ann": "a"}) as running:
        with pytest.raises(BrokerStartError, match="there is no user 'bob' in this Cluster; it has ann"):
            running.client_properties("bob")
        with pytest.raises(BrokerStartError, match="there is no mechanism 'GSSAPI'"):
            running.client_properties("ann", mechanism="GSSAPI")


def test_a_sasl_listener_without_a_mechanism_does_not_start() -> None:
    from streamactors.broker.config.setting import InvalidSetting

    with pytest.raises(InvalidSetting, match=r"sasl\.enabled\.mechanisms=SCRAM-SHA-512"):
        Cluster(listen="SASL_PLAINTEXT://127.0.0.1:0").start()


def test_no_secret_is_in_describe_configs(guarded: Cluster) -> None:
    from confluent_kafka.admin import ConfigResource

    boss = AdminClient(guarded.client_properties("boss"))
    (future,) = boss.describe_configs([ConfigResource(ConfigResource.Type.BROKER, "1")]).values()
    entries = future.result(30)
    shown = " ".join(f"{entry.value} {entry.synonyms}" for entry in entries.values())
    assert "user_ann" not in shown
    assert entries["plain.sasl.jaas.config"].is_sensitive
