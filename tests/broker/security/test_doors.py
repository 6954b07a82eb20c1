"""A broker with doors, and real clients in front of them."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import struct
import sys
import threading
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AdminClient,
)

from streamactors.broker import Cluster
from streamactors.broker.cluster.cluster_credentials import make_certificates
from streamactors.broker.errors import ErrorCode
from tests.broker.security.door_clients import address, consume, encrypted, end_of, produce, wire
from tests.broker.wire import WireClient, wait_until

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
DOORS = ((False, ("ann",)), (True, ("ann",)), (True, ()))


@pytest.fixture(scope="module", params=DOORS, ids=["SASL_PLAINTEXT", "SASL_SSL", "SSL"])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    tls, users = request.param
    with Cluster(users=dict.fromkeys(users, "pass word"), tls=tls) as running:
        running.create_topic("t", config={"max.message.bytes": "8000000"})
        yield running


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
    for session_ms in (
        400,
        1_600,
        6_400,
    ):  # the client has a tenth of it for the login, which is not enough beside load
        with Cluster(users={"ann": "a"}, config={"connections.max.reauth.ms": session_ms}) as running:
            running.create_topic("t")
            failed: list[KafkaError] = []
            producer = Producer({**running.client_properties("ann"), "error_cb": failed.append, "linger.ms": "0"})
            give_up = time.monotonic() + session_ms * 3.5 / 1_000
            count = 0
            while time.monotonic() < give_up and not failed:
                producer.produce(
                    "t", b"x", on_delivery=lambda error, message, into=failed: error and into.append(error)
                )
                producer.flush(10)
                count += 1
            if not failed:
                assert end_of(running.client_properties("ann"), "t") == count
                return
    assert failed == []


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


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have 127.0.0.1 alone")
def test_the_certificate_of_a_cluster_names_the_hosts_at_which_it_listens() -> None:
    # it named the hosts of loopback alone, and a client that verifies names refused each other address
    with Cluster(tls=True, listen="127.0.0.77:0") as cluster:
        cluster.create_topic("t")
        client = AdminClient(cluster.client_properties())
        assert cluster.bootstrap_servers.startswith("127.0.0.77:")
        assert "t" in client.list_topics(timeout=30).topics


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
