"""The client of `streamactors transactions` and `quotas` beside servers that answer, but not as a broker does."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from streamactors.kafka.client.cluster_requests import ClusterRequests
from streamactors.kafka.errors import NoBroker

NO_BROKERS = bytes(60)
"""A Metadata response, version 5, without brokers and topics."""


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of a server that gives one answer to whatever it gets."""
    body: bytes = request.param

    def talk(connection: socket.socket) -> None:
        with connection:
            try:
                while connection.recv(65_536):
                    connection.sendall(struct.pack(">ii", 4 + len(body), 1) + body)
            except OSError:
                pass  # the client has closed the connection

    def serve() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            threading.Thread(target=talk, args=(connection,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)
    thread.join(10)


@pytest.mark.parametrize("server", [b"\xff" * 60, b""], indirect=True)
def test_an_answer_that_is_none_is_an_error_with_the_address(server: str) -> None:
    # the error was that of the decoder, without an address: MetadataResponse version 5: the message ends too early
    with (
        ClusterRequests(server) as requests,
        pytest.raises(NoBroker, match=f"^{server}: what answers is no Kafka broker"),
    ):
        requests.brokers()


@pytest.mark.parametrize("server", [NO_BROKERS], indirect=True)
def test_a_cluster_that_names_no_broker_is_an_error(server: str) -> None:
    # `streamactors quotas list` ended in an IndexError, and `transactions list` said that there are none
    with ClusterRequests(server) as requests, pytest.raises(NoBroker, match=f"^{server}: the cluster names no broker"):
        requests.brokers()


@pytest.mark.parametrize("server", [NO_BROKERS], indirect=True)
def test_a_broker_that_the_cluster_does_not_name_is_an_error(server: str) -> None:
    """It was a KeyError with the number alone."""
    with (
        ClusterRequests(server) as requests,
        pytest.raises(NoBroker, match=f"^{server}: broker 3 is not in the cluster"),
    ):
        requests.call(3, 35, 1, {"topics": None})
