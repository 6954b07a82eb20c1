"""Single requests to a cluster whose nodes come and go."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from streamactors.broker.errors import ErrorCode
from tests.broker.wire import WireClient

E = ErrorCode
GROUP, TRANSACTION = 0, 1
ELSEWHERE = frozenset(
    {
        E.NOT_COORDINATOR,
        E.COORDINATOR_NOT_AVAILABLE,
        E.COORDINATOR_LOAD_IN_PROGRESS,
        E.NOT_LEADER_OR_FOLLOWER,
        E.LEADER_NOT_AVAILABLE,
        E.KAFKA_STORAGE_ERROR,
        E.NOT_ENOUGH_REPLICAS,
        E.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        E.REQUEST_TIMED_OUT,
        E.NETWORK_EXCEPTION,
        E.UNKNOWN_TOPIC_OR_PARTITION,
        E.UNKNOWN_TOPIC_ID,
        E.FENCED_LEADER_EPOCH,
        E.UNKNOWN_LEADER_EPOCH,
    }
)
"""Errors of a node that has just moved something away, or is not yet ready to have it."""
ANSWER_S = 8.0
Address = tuple[str, int]


class Lost(Exception):
    """No answer has come. What was asked may have happened."""


class Wires:
    """The connections of one client, one per node."""

    def __init__(self, servers: str, name: str) -> None:
        self._servers: list[Address] = [
            (host, int(port)) for host, _, port in (each.rpartition(":") for each in servers.split(","))
        ]
        self._name = name
        self._clients: dict[Address, WireClient] = {}
        self._coordinators: dict[tuple[int, str], Address] = {}
        self._turn = 0
        self.on_close: Callable[[Address], object] = lambda _: None
        """Called before a connection is closed, for whatever reason: what the node keeps for it may be free at once."""

    def close(self) -> None:
        for client in self._clients.values():
            client.close()
        self._clients.clear()

    def ask(self, address: Address, key: int, version: int, body: Mapping[str, Any]) -> Any:
        """Return the answer of one node. Raises Lost."""
        try:
            client = self._clients.get(address)
            if client is None:
                client = self._clients[address] = WireClient(*address, client_id=self._name)
                client.socket.settimeout(ANSWER_S)
            return client.call(key, version, body)
        except OSError as error:
            self.forget(address)
            raise Lost(str(error)) from error

    def forget(self, address: Address) -> None:
        """Close the connection to a node."""
        client = self._clients.pop(address, None)
        if client is not None:
            self.on_close(address)
            with suppress(OSError):
                client.close()

    def anybody(self, key: int, version: int, body: Mapping[str, Any]) -> Any:
        """Return the answer of some node. Raises Lost if none answers."""
        for _ in self._servers:
            self._turn += 1
            with suppress(Lost):
                return self.ask(self._servers[self._turn % len(self._servers)], key, version, body)
        raise Lost("no node answers")

    def coordinated(self, kind: int, name: str, key: int, version: int, body: Mapping[str, Any]) -> Any:
        """Return the answer of the coordinator of a group or of a transactional id. Raises Lost; then, and after `moved`, it is looked up again."""
        address = self._coordinators.get((kind, name))
        if address is None:
            (found,) = self.anybody(10, 4, {"key_type": kind, "coordinator_keys": [name]}).coordinators
            if found.error_code:
                raise Lost(f"no coordinator: {found.error_code}")
            address = self._coordinators[kind, name] = (found.host, found.port)
        try:
            return self.ask(address, key, version, body)
        except Lost:
            self.moved(kind, name)
            raise

    def moved(self, kind: int, name: str) -> None:
        """Look the coordinator up before the next request."""
        self._coordinators.pop((kind, name), None)

    def leaders(self, topic: str) -> tuple[uuid.UUID, dict[int, Address]]:
        """Return the id of a topic, and where the leader of each partition is. Raises Lost."""
        asked = {"topics": [{"topic_id": None, "name": topic}], "allow_auto_topic_creation": False}
        answer = self.anybody(3, 12, asked)
        nodes = {each.node_id: (each.host, each.port) for each in answer.brokers}
        (found,) = answer.topics
        if found.error_code or found.topic_id is None:
            raise Lost(f"no topic: {found.error_code}")
        led = {each.partition_index: nodes[each.leader_id] for each in found.partitions if each.leader_id in nodes}
        return found.topic_id, led
