"""Input of a TLS connection: as many TLS records as there are in one call, and an end or an error after the bytes before it."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamactors.broker.cluster.cluster_credentials import make_certificates
from streamactors.broker.network.tls.tls_input import TlsInput

RECORDS = [bytes([65 + n]) * 100 for n in range(20)]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificates(tmp_path_factory.mktemp("input"))


@pytest.fixture
def pair(certificates: Path) -> Iterator[tuple[ssl.SSLSocket, ssl.SSLSocket]]:
    """A client and a server after their handshake; neither of them blocks."""
    of_server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    of_server.load_cert_chain(certificates / "server.pem")
    of_client = ssl.create_default_context(cafile=str(certificates / "ca.pem"))
    left, right = socket.socketpair()
    with contextlib.closing(left), contextlib.closing(right):
        left.setblocking(False)
        right.setblocking(False)
        client = of_client.wrap_socket(left, server_hostname="localhost", do_handshake_on_connect=False)
        server = of_server.wrap_socket(right, server_side=True, do_handshake_on_connect=False)
        waiting = [client, server]
        for _ in range(10):
            for each in list(waiting):
                with contextlib.suppress(ssl.SSLWantReadError):
                    each.do_handshake()
                    waiting.remove(each)
        assert not waiting
        with client, server:
            yield client, server


def send_each(client: ssl.SSLSocket) -> None:
    for record in RECORDS:
        assert client.send(record) == len(record)


def test_one_call_takes_all_records_of_tls_that_are_there(pair):
    client, server = pair
    received, view = TlsInput(server), memoryview(bytearray(10_000))
    send_each(client)
    assert received.receive_into(view) == 2_000
    assert bytes(view[:2_000]) == b"".join(RECORDS)
    assert not received.holds()
    with pytest.raises(BlockingIOError):
        received.receive_into(view)


def test_a_full_view_leaves_the_rest_to_the_next_call(pair):
    client, server = pair
    received, view = TlsInput(server), memoryview(bytearray(250))
    send_each(client)
    assert received.receive_into(view) == 250
    assert bytes(view) == b"".join(RECORDS)[:250]
    assert received.holds(), "half of a record of TLS: the socket announces nothing"
    assert received.receive_into(view) == 250
    assert bytes(view) == b"".join(RECORDS)[250:500]
    assert not received.holds(), "the next bytes are in the socket"


@pytest.mark.parametrize("how", ["goodbye", "closed"])
def test_the_end_is_told_after_the_bytes_before_it_although_no_event_announces_it(pair, how):
    client, server = pair
    received, view = TlsInput(server), memoryview(bytearray(10_000))
    send_each(client)
    if how == "goodbye":
        with pytest.raises(ssl.SSLWantReadError):
            client.unwrap()  # close_notify; the connection itself stays open
    else:
        client.close()
    assert received.receive_into(view) == 2_000
    assert received.holds()
    assert received.receive_into(view) == 0
    assert received.receive_into(view) == 0


def test_an_error_is_raised_after_the_bytes_before_it(pair):
    client, server = pair
    received, view = TlsInput(server), memoryview(bytearray(10_000))
    send_each(client)
    with socket.socket(fileno=client.detach()) as plain:
        plain.send(b"these are not records of TLS")
        assert received.receive_into(view) == 2_000
        assert received.holds()
        for _ in range(2):
            with pytest.raises(ssl.SSLError):
                received.receive_into(view)
