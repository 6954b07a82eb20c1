"""Preflight: refusal is told after the time that was given for it, silence is waited for."""

from __future__ import annotations

import socket
import threading
from dataclasses import replace

import confluent_kafka as ck
import pytest
from confluent_kafka import Consumer as BareConsumer

from streamactors.kafka.client.connection import ClientConnection
from streamactors.kafka.errors import NoBroker


class SilentUntil:
    """Takes connections in a broker's place; what they send goes to the broker, and back, once `go` is set."""

    def __init__(self, broker: str) -> None:
        self.go = threading.Event()
        host, port = broker.split(":")
        self._broker = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._open = [self._listener]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(client)
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        self.go.wait(60)
        broker = socket.create_connection(self._broker)
        self._open.append(broker)
        threading.Thread(target=self._copy, args=(broker, client), daemon=True).start()
        self._copy(client, broker)

    @staticmethod
    def _copy(source: socket.socket, target: socket.socket) -> None:
        try:
            while part := source.recv(1 << 16):
                target.sendall(part)
        except OSError:
            pass  # closed

    def close(self) -> None:
        self.go.set()
        for each in self._open:
            each.close()


class Watched(ClientConnection):
    """Calls `look` whenever the connection looks for a complaint of librdkafka."""

    look = staticmethod(lambda complaint: complaint)
    _said = ""

    @property
    def complaint(self):
        return self.look(self._said)

    @complaint.setter
    def complaint(self, said):
        self._said = said


def test_a_broker_that_is_busy_for_longer_than_the_preflight_is_waited_for(cluster, settings):
    cluster.create_topic("there")
    silent = SilentUntil(cluster.bootstrap_servers)
    connection = Watched(replace(settings, bootstrap_servers=silent.address, preflight_timeout_ms=100))
    client = connection.make(BareConsumer, {"bootstrap.servers": silent.address, "group.id": "preflight"})
    looked = []

    def look(_):
        looked.append(True)
        silent.go.set()  # the time for a refusal is over by now
        return ""

    connection.look = look
    try:
        assert "there" in connection.known_topics(client)
        assert looked
    finally:
        client.close()
        silent.close()


class Counted:
    """A client that notes for how long it was asked to wait, in seconds."""

    def __init__(self, client):
        self._client = client
        self.waits = []

    def list_topics(self, timeout):
        self.waits.append(timeout)
        return self._client.list_topics(timeout=timeout)

    def poll(self, timeout):
        return self._client.poll(timeout)


def test_a_broker_that_refuses_has_the_preflight_and_no_more(settings):
    connection = Watched(replace(settings, bootstrap_servers="127.0.0.1:1", preflight_timeout_ms=100))
    client = connection.make(BareConsumer, {"bootstrap.servers": "127.0.0.1:1", "group.id": "preflight"})
    connection.look = lambda _: "Connect to 127.0.0.1:1 failed: Connection refused"
    counted = Counted(client)
    with pytest.raises(
        NoBroker, match=r"no broker at 127.0.0.1:1 \(connection refused for \d+\.\d s\); start one with"
    ):
        connection.known_topics(counted)
    assert counted.waits == [0.1]
    client.close()


@pytest.mark.parametrize(
    ("line", "waits"),
    [
        ("FAIL [x]: [y]: 127.0.0.1:1/bootstrap: SASL authentication error: no", [1.0]),
        ("FAIL [x]: [y]: 127.0.0.1:1/bootstrap: Disconnected: connection closed by peer", [1.0, 5.0]),
    ],
)
def test_a_broker_that_refuses_the_client_is_not_waited_for_to_the_end(settings, line, waits):
    """A wrong password was told after the whole preflight, although librdkafka had said so in its first tenth of a second."""
    connection = Watched(replace(settings, bootstrap_servers="127.0.0.1:1", preflight_timeout_ms=6_000))
    connection.look = lambda _: line

    class Refused:
        waits: list[float] = []

        def list_topics(self, timeout):
            self.waits.append(timeout)
            connection.log(3, line)
            raise ck.KafkaException(ck.KafkaError(ck.KafkaError._TRANSPORT))

        def poll(self, timeout):
            return None

    client = Refused()
    with pytest.raises(NoBroker):
        connection.known_topics(client)
    assert client.waits == waits
