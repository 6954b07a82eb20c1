"""Requests to a broker that librdkafka does not make: those of `streamactors transactions` and `streamactors quotas`.

Owner: one command, which ends after a few requests; a connection per broker, one request at a time. The versions
used are the highest that every broker since Apache Kafka 2.4 (DescribeTransactions: 3.0) serves."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final

from streamactors.broker.errors import ErrorCode, Refusal
from streamactors.broker.protocol.header import request_frame, response_header_is_flexible
from streamactors.broker.protocol.messages import decode_response, encode_request
from streamactors.broker.security.client_login import Door, encrypted, log_in
from streamactors.broker.security.sasl.mechanism import AuthenticationFailed
from streamactors.kafka.client.doors import not_kafka
from streamactors.kafka.errors import KafkaError, NoBroker
from streamactors.kafka.property_rules import Address, addresses_of

CONNECT_TIMEOUT_S: Final = 2.0
FIRST_ANSWER_TIMEOUT_S: Final = 4.0
"""A connection whose first request is not answered for so long leads to no broker."""
ANSWER_TIMEOUT_S: Final = 10.0
LARGEST_ANSWER: Final = 100 * 1024 * 1024
RETRY_S: Final = 0.1

GROUP, TRANSACTION = 0, 1
METADATA, FIND_COORDINATOR = 3, 10

_RETRIABLE: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


def _door(properties: Mapping[str, Any]) -> Door:
    """Return how librdkafka's properties say to come in."""
    protocol = str(properties.get("security.protocol", "PLAINTEXT")).upper()
    login = protocol.startswith("SASL")
    return Door(
        str(properties.get("ssl.ca.location", "")) if protocol.endswith("SSL") else None,
        str(properties.get("sasl.mechanism", properties.get("sasl.mechanisms", "SCRAM-SHA-512"))) if login else "",
        str(properties.get("sasl.username", "")),
        str(properties.get("sasl.password", "")),
        properties.get("ssl.certificate.location"),
        properties.get("ssl.key.location"),
    )


class Refused(KafkaError):
    """The broker answered with an error; `code` is Kafka's."""

    def __init__(self, what: str, code: int) -> None:
        known = ErrorCode(code) if code in ErrorCode._value2member_map_ else ErrorCode.UNKNOWN_SERVER_ERROR
        super().__init__(f"{what}: {known.name.replace('_', ' ').lower()}")
        self.code = known


class Wire:
    """Talks to a cluster. Raises NoBroker if there is no answer, KafkaError if the peer is no broker."""

    def __init__(self, bootstrap_servers: str, properties: Mapping[str, Any] | None = None) -> None:
        """`properties` are librdkafka's: `security.protocol`, `ssl.ca.location`, `sasl.*`."""
        self._bootstrap = bootstrap_servers
        self._door = _door(properties or {})
        self._sockets: dict[tuple[str, int], socket.socket] = {}
        self._brokers: dict[int, tuple[str, int]] = {}

    def __enter__(self) -> Wire:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each in self._sockets.values():
            each.close()

    # -- where to ask -----------------------------------------------------------------------------------------------

    def metadata(self, topics: list[str] | None) -> Any:
        """Return the cluster's metadata, for some topics or for all."""
        asked = None if topics is None else [{"name": name} for name in topics]
        answer = self._anybody(METADATA, 5, {"topics": asked, "allow_auto_topic_creation": False})
        self._brokers = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
        return answer

    def brokers(self) -> list[int]:
        """Return the ids of the brokers that are there."""
        if not self._brokers:
            self.metadata([])
        return sorted(self._brokers)

    def call(self, broker: int, key: int, version: int, body: Mapping[str, Any]) -> Any:
        """Send a request to a broker by its id, and return the answer."""
        if broker not in self._brokers:
            self.metadata([])
        return self._call(self._brokers[broker], key, version, body)

    def coordinator(self, kind: int, name: str) -> tuple[str, int, int]:
        """Return the host, port and id of the broker that coordinates a group or transactional id."""
        give_up = time.monotonic() + ANSWER_TIMEOUT_S
        while True:
            found = self._anybody(FIND_COORDINATOR, 2, {"key": name, "key_type": kind})
            if found.error_code == ErrorCode.NONE:
                return found.host, found.port, found.node_id
            if found.error_code not in _RETRIABLE or time.monotonic() > give_up:
                raise Refused(f"the coordinator of {name!r}", found.error_code)
            time.sleep(RETRY_S)

    def call_coordinator(self, kind: int, name: str, key: int, version: int, body: Mapping[str, Any]) -> Any:
        """Send a request to the coordinator of a group or transactional id, and return the answer."""
        host, port, _ = self.coordinator(kind, name)
        return self._call((host, port), key, version, body)

    def retried(self, ask: Any, error_of: Any) -> Any:
        """Repeat the request until the coordinator has loaded its state, which takes a moment after its start."""
        give_up = time.monotonic() + ANSWER_TIMEOUT_S
        while True:
            answer = ask()
            if error_of(answer) not in _RETRIABLE or time.monotonic() > give_up:
                return answer
            time.sleep(RETRY_S)

    # -- sockets ----------------------------------------------------------------------------------------------------

    def _anybody(self, key: int, version: int, body: Mapping[str, Any]) -> Any:
        failure: NoBroker | None = None
        for address in addresses_of(self._bootstrap):
            try:
                return self._call((address.host, address.port), key, version, body)
            except NoBroker as error:
                failure = error
        assert failure is not None
        raise failure

    def _call(self, address: tuple[str, int], key: int, version: int, body: Mapping[str, Any]) -> Any:
        return self._ask(address, self._connect(address), key, version, body)

    def _ask(
        self, address: tuple[str, int], connection: socket.socket, key: int, version: int, body: Mapping[str, Any]
    ) -> Any:
        frame = request_frame(key, version, 1, "streamactors", encode_request(key, version, body))
        try:
            connection.sendall(frame)
            (size,) = struct.unpack(">i", self._read(connection, 4))
            if not 4 <= size <= LARGEST_ANSWER:
                raise KafkaError(f"what answers at {address[0]}:{address[1]} is no Kafka broker")
            answer = self._read(connection, size)
        except OSError as error:
            self._sockets.pop(address, None)
            silent = isinstance(error, TimeoutError) and connection.gettimeout() == FIRST_ANSWER_TIMEOUT_S
            connection.close()
            if silent:
                raise not_kafka(Address(*address), FIRST_ANSWER_TIMEOUT_S) from None
            raise NoBroker(f"the broker at {address[0]}:{address[1]} went away: {error}") from error
        connection.settimeout(ANSWER_TIMEOUT_S)
        position = 5 if response_header_is_flexible(key, version) else 4
        return decode_response(key, version, memoryview(answer), position)

    def _connect(self, address: tuple[str, int]) -> socket.socket:
        connection = self._sockets.get(address)
        if connection is None:
            try:
                connection = socket.create_connection(address, CONNECT_TIMEOUT_S)
            except OSError as error:
                raise NoBroker(
                    f"no broker at {address[0]}:{address[1]} ({error.strerror or error}); "
                    "start one with: streamactors broker"
                ) from error
            connection.settimeout(FIRST_ANSWER_TIMEOUT_S)
            connection = self._enter(address, connection)
            self._sockets[address] = connection
        return connection

    def _enter(self, address: tuple[str, int], connection: socket.socket) -> socket.socket:
        """Come in by TLS and login. Raises NoBroker if the listener has no TLS, KafkaError if the login is refused."""
        where = f"{address[0]}:{address[1]}"
        try:
            entered = encrypted(connection, address[0], self._door)
        except OSError as error:
            connection.close()
            reason = getattr(error, "verify_message", None) or getattr(error, "reason", None) or error
            raise NoBroker(f"no TLS with {where} ({reason}); see security.protocol and ssl.ca.location") from None
        try:
            log_in(self._door, lambda api, body: self._ask(address, entered, *api, body))
        except (Refusal, AuthenticationFailed) as error:
            entered.close()
            raise KafkaError(f"the login at {where} failed: {error}") from None
        return entered

    @staticmethod
    def _read(connection: socket.socket, size: int) -> bytes:
        out = bytearray()
        while len(out) < size:
            piece = connection.recv(min(size - len(out), 1 << 20))
            if not piece:
                raise ConnectionError("the connection was closed")
            out += piece
        return bytes(out)
