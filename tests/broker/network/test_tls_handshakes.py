"""TLS handshakes of new connections: what the log says of a client that does not come in."""

from __future__ import annotations

import contextlib
import datetime
import socket
import ssl
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import trustme

from streamactors.broker.network.other_protocols import NonKafkaClients
from streamactors.broker.network.tls.tls_handshakes import TlsHandshakes

PAST = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
OURS, OTHER = trustme.CA(), trustme.CA()
WANTED = "; it must be valid now, and signed by an authority of ssl.truststore.location"


class Steps:
    """A dispatcher that knows the next step of one socket. The test takes it."""

    clock = SimpleNamespace(now_ms=lambda: 0.0)
    step: Any = None

    def register(self, _: object, step: Any) -> None:
        self.step = step

    def modify(self, _: object, *steps: Any) -> None: ...

    def unregister(self, _: object) -> None:
        self.step = None


@pytest.fixture
def connected() -> Iterator[tuple[socket.socket, socket.socket]]:
    """A client's socket and the broker's."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        client = socket.create_connection(listening.getsockname())
        server, _ = listening.accept()
    with client, server:
        yield client, server


def logged_of(
    sockets: tuple[socket.socket, socket.socket], of_client: ssl.SSLContext, of_broker: ssl.SSLContext
) -> Any:
    """Shake hands until the broker ends it. Returns how many handshakes are open then."""
    left, right = sockets
    left.setblocking(False)
    right.setblocking(False)
    dispatcher: Any = Steps()
    handshakes = TlsHandshakes(dispatcher, NonKafkaClients(lambda: 0.0), lambda *_: None)
    handshakes.begin(right, SimpleNamespace(), SimpleNamespace(context=lambda: of_broker))  # type: ignore[arg-type]
    client = of_client.wrap_socket(left, server_hostname="127.0.0.1", do_handshake_on_connect=False)
    for _ in range(10):
        with contextlib.suppress(ssl.SSLError):
            client.do_handshake()
        if dispatcher.step is not None:
            dispatcher.step()
    client.close()
    return len(handshakes)


@pytest.mark.parametrize(
    ("shown", "reason"),
    [
        (OTHER.issue_cert("a.example"), f"its certificate is refused: unable to get local issuer certificate{WANTED}"),
        (
            OURS.issue_cert("a.example", not_before=PAST, not_after=PAST),
            f"its certificate is refused: certificate has expired{WANTED}",
        ),
        (None, "it has no certificate, and ssl.client.auth is required"),
    ],
    ids=["of another authority", "expired", "none"],
)
def test_the_log_says_why_the_broker_refuses_a_clients_certificate(connected, shown, reason, caplog) -> None:
    of_broker = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    OURS.issue_cert("127.0.0.1").configure_cert(of_broker)
    OURS.configure_trust(of_broker)
    of_broker.verify_mode = ssl.CERT_REQUIRED
    of_client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    OURS.configure_trust(of_client)
    if shown is not None:
        shown.configure_cert(of_client)
    assert logged_of(connected, of_client, of_broker) == 0
    assert [line.partition(" closed: no TLS handshake, ")[2] for line in caplog.messages] == [reason]


@pytest.mark.parametrize(
    ("of_broker_shown", "reason"),
    [
        (
            OTHER.issue_cert("127.0.0.1"),
            "it does not trust the broker's certificate; give it the authority (ssl.ca.location)",
        ),
        (
            OURS.issue_cert("127.0.0.1", not_before=PAST, not_after=PAST),
            "it refuses the broker's certificate: it has expired",
        ),
        (OURS.issue_cert("elsewhere.example"), "it refuses the broker's certificate"),
    ],
    ids=["of another authority", "expired", "of another host"],
)
def test_the_log_says_why_a_client_refuses_the_brokers_certificate(connected, of_broker_shown, reason, caplog) -> None:
    of_broker = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    of_broker_shown.configure_cert(of_broker)
    of_client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    OURS.configure_trust(of_client)
    assert logged_of(connected, of_client, of_broker) == 0
    assert [line.partition(" closed: no TLS handshake, ")[2] for line in caplog.messages] == [reason]
