"""Preflight: refusal is told after the time that was given for it, silence is waited for."""

from __future__ import annotations

import socket
import threading
from dataclasses import replace

import pytest
from confluent_kafka import Consumer as BareConsumer

from streamactors.kafka.errors import NoBroker
from streamactors.kafka.preflight import known_topics


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


def test_a_broker_that_is_busy_for_longer_than_the_preflight_is_waited_for(cluster, settings):
    cluster.create_topic("there")
    silent = SilentUntil(cluster.bootstrap_servers)
    client = BareConsumer({"bootstrap.servers": silent.address, "group.id": "preflight"})
    looked = []

    def complaint():
        looked.append(True)
        silent.go.set()  # the time for a refusal is over by now
        return ""

    try:
        assert "there" in known_topics(client, replace(settings, preflight_timeout_ms=100), complaint)
        assert looked
    finally:
        client.close()
        silent.close()


def test_a_broker_that_refuses_has_the_preflight_and_no_more(settings):
    client = BareConsumer({"bootstrap.servers": "127.0.0.1:1", "group.id": "preflight", "log_level": 0})
    looked = []

    def complaint():
        looked.append(True)
        return "Connection refused"

    nobody = replace(settings, bootstrap_servers="127.0.0.1:1", preflight_timeout_ms=100)
    with pytest.raises(NoBroker, match=r"no broker at 127.0.0.1:1 \(Connection refused\); start one with"):
        known_topics(client, nobody, complaint)
    assert len(looked) == 2, "once after the only wait, once for the sentence"
    client.close()
