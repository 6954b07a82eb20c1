"""The error of a client with the wrong protocol: the probe asks real listeners of every protocol, with valid and with invalid certificates."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from streamactors.broker import Cluster
from streamactors.kafka import Admin, ConsumerSettings
from streamactors.kafka.client.diagnosis import listener_probe
from streamactors.kafka.client.diagnosis.listener_probe import Listener, fault_of, mismatch
from streamactors.kafka.errors import NoBroker
from streamactors.kafka.property_rules import Address, addresses_of

trustme = pytest.importorskip("trustme")

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
LOGIN = "sasl.mechanism to one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"


@pytest.fixture(scope="module")
def listeners() -> Iterator[dict[str, str]]:
    """The addresses of one broker's listeners by protocol, and the authority of its certificate."""
    with Cluster(users={"ann": "pw"}, tls=True, listen=[f"{each}://127.0.0.1:0" for each in PROTOCOLS]) as cluster:
        found = dict(zip(PROTOCOLS, cluster.bootstrap_servers.split(","), strict=True))
        yield {**found, "authority": cluster.client_properties("ann")["ssl.ca.location"]}


@pytest.mark.parametrize("there", PROTOCOLS)
@pytest.mark.parametrize("client", PROTOCOLS)
def test_every_wrong_protocol_is_told_with_the_right_one(listeners: dict[str, str], client: str, there: str) -> None:
    properties = {"security.protocol": client, "ssl.ca.location": listeners["authority"]}
    told = fault_of(addresses_of(listeners[there]), properties)
    if client == there:
        assert told is None
        return
    assert told is not None
    needs_login = there.startswith("SASL") and not client.startswith("SASL")
    assert told.endswith(f"set security.protocol to {there}" + (f" and {LOGIN}" if needs_login else ""))
    assert ("no TLS" in told, "wants TLS" in told) == (
        client.endswith("SSL") > there.endswith("SSL"),
        client.endswith("SSL") < there.endswith("SSL"),
    )


def test_a_broker_does_not_warn_of_the_probe_of_a_client_with_the_right_protocol(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The probe runs when a broker was away for a moment. It began with TLS, so the broker warned of a TLS hello, and advised PLAINTEXT, which the
    client had."""
    with Cluster(users={"ann": "pw"}, tls=True, listen=[f"{each}://127.0.0.1:0" for each in PROTOCOLS]) as cluster:
        there = dict(zip(PROTOCOLS, cluster.bootstrap_servers.split(","), strict=True))
        authority = cluster.client_properties("ann")["ssl.ca.location"]
        for each in PROTOCOLS:
            properties = {"security.protocol": each, "ssl.ca.location": authority}
            assert fault_of(addresses_of(there[each]), properties) is None
        assert not caplog.messages
        assert fault_of(addresses_of(there["SASL_PLAINTEXT"]), {}) is not None
        assert not any("TLS" in line for line in caplog.messages)  # neither the client nor the listener has TLS


@pytest.mark.parametrize(
    ("listener", "client", "said"),
    [
        (Listener(True, ("PLAIN",)), "PLAINTEXT", "wants TLS and a login; set security.protocol to SASL_SSL and"),
        (Listener(True, ()), "SASL_PLAINTEXT", "wants TLS and has no logins; set security.protocol to SSL"),
        (Listener(False, ("PLAIN",)), "SSL", "wants a login and has no TLS; set security.protocol to SASL_PLAINTEXT"),
        (Listener(False, ()), "SASL_SSL", "has no TLS and no logins; set security.protocol to PLAINTEXT"),
        # a listener that wants the client's certificate answers nothing without one
        (Listener(True, None), "PLAINTEXT", "wants TLS; set security.protocol to SSL or SASL_SSL"),
    ],
)
def test_two_faults_are_one_sentence(listener: Listener, client: str, said: str) -> None:
    told = mismatch(listener, client)
    assert told is not None
    assert told.startswith(f"the listener {said}")


@pytest.mark.parametrize(
    ("host", "age_days", "said"),
    [
        ("127.0.0.1", 9, "the broker's certificate has expired; its owner must renew it"),
        ("127.0.0.1", -2, "the broker's certificate is not valid yet; check the clocks of both machines"),
        ("elsewhere.example", 0, "the broker's certificate is for another host"),
    ],
)
def test_what_is_wrong_with_a_certificate_is_told(tmp_path: Path, host: str, age_days: int, said: str) -> None:
    # librdkafka says of each of them only that the certificate could not be verified
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    start = datetime.now(UTC) - timedelta(days=age_days)
    certificate = authority.issue_cert(host, not_before=start, not_after=start + timedelta(days=5))
    certificate.private_key_and_cert_chain_pem.write_to_path(tmp_path / "server.pem")
    store = {"ssl.keystore.location": str(tmp_path / "server.pem"), "ssl.keystore.type": "PEM"}
    with Cluster(listen="SSL://127.0.0.1:0", config=store) as cluster:
        properties = {"security.protocol": "SSL", "ssl.ca.location": str(tmp_path / "ca.pem")}
        settings = ConsumerSettings(cluster.bootstrap_servers, preflight_timeout_ms=500, properties=properties)
        with Admin(settings) as admin, pytest.raises(NoBroker, match=f"^{cluster.bootstrap_servers}: {said}"):
            admin.topics()


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"",
        b"\0\0\0\x0a",
        b"\0\0\0\x0a\0\0\0\1\0\x21\0\0\x7f\xff",
        # a thousand names of length -2: the position never moved, so a larger count kept the client busy and took its memory
        b"\0\0\0\x0c\0\0\0\1\0\x21\0\0\3\xe8\xff\xfe",
        b"\0\0\0\x0c\0\0\0\1\0\x21\0\0\0\1\0\1",  # a name that the answer does not have
    ],
)
def test_what_is_no_kafka_listener_is_no_reason(answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(64)
                    connection.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        address: Any = Address(*server.getsockname())
        assert fault_of([address], {"security.protocol": "SASL_SSL"}) is None
        server.shutdown(socket.SHUT_RDWR)
    thread.join(10)


def test_an_answer_in_single_bytes_does_not_prolong_the_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each byte had its own time limit: a listener that sent one byte a second held a command for hours."""
    now_s = 0.0
    monkeypatch.setattr(listener_probe, "monotonic", lambda: now_s)

    class Dripping:
        """A connection whose peer sends one byte a second of an answer of 4,096 bytes."""

        def __init__(self) -> None:
            self.sent = 0

        def sendall(self, data: bytes) -> None: ...

        def settimeout(self, timeout_s: float) -> None:
            assert timeout_s > 0

        def recv(self, size: int) -> bytes:
            nonlocal now_s
            now_s += 1
            self.sent += 1
            return b"\0\0\x10\0"[self.sent - 1 : self.sent] or b"x"

    connection: Any = Dripping()
    assert listener_probe._mechanisms(connection, "PLAIN") is None
    assert connection.sent <= listener_probe.ANSWER_S + 1


@pytest.mark.parametrize("host", ["a..b", "x" * 64])
def test_a_name_that_cannot_be_looked_up_takes_no_connections(host: str) -> None:
    # Python raises UnicodeError for such a name, not OSError: every command ended in a traceback
    assert fault_of([Address(host, 9092)], {}) is None
