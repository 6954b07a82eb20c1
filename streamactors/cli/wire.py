"""Requests to a broker for the commands that no client library has: groups with their lag, transactions.

Owner: one command, which ends after a few requests; a connection per broker, one request at a time. The versions
used are the highest that every broker since Apache Kafka 2.4 (DescribeTransactions: 3.0) serves."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final

from streamactors.broker.errors import ErrorCode
from streamactors.broker.protocol.header import request_frame, response_header_is_flexible
from streamactors.broker.protocol.messages import decode_response, encode_request
from streamactors.kafka.errors import KafkaError, NoBroker

DEFAULT_PORT: Final = "9092"  # librdkafka's, too
CONNECT_TIMEOUT_S: Final = 2.0
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


class Refused(KafkaError):
    """The broker answered with an error; `code` is Kafka's."""

    def __init__(self, what: str, code: int) -> None:
        known = ErrorCode(code) if code in ErrorCode._value2member_map_ else ErrorCode.UNKNOWN_SERVER_ERROR
        super().__init__(f"{what}: {known.name.replace('_', ' ').lower()}")
        self.code = known


class Wire:
    """Talks to a cluster. Raises NoBroker where nobody answers, KafkaError where what answers is no broker."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._bootstrap = bootstrap_servers
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
        """Ask until the coordinator knows: just after its start it may still be reading."""
        give_up = time.monotonic() + ANSWER_TIMEOUT_S
        while True:
            answer = ask()
            if error_of(answer) not in _RETRIABLE or time.monotonic() > give_up:
                return answer
            time.sleep(RETRY_S)

    # -- sockets ----------------------------------------------------------------------------------------------------

    def _anybody(self, key: int, version: int, body: Mapping[str, Any]) -> Any:
        failure: NoBroker | None = None
        for address in self._bootstrap.split(","):
            host, colon, port = address.strip().rpartition(":")
            if not colon:
                host, port = port, DEFAULT_PORT
            if not port.isdecimal() or int(port) > 65535:
                raise KafkaError(f"{address!r} is no address; its form is HOST:PORT")
            try:
                return self._call((host.strip("[]"), int(port)), key, version, body)
            except NoBroker as error:
                failure = error
        assert failure is not None
        raise failure

    def _call(self, address: tuple[str, int], key: int, version: int, body: Mapping[str, Any]) -> Any:
        connection = self._connect(address)
        frame = request_frame(key, version, 1, "streamactors", encode_request(key, version, body))
        try:
            connection.sendall(frame)
            (size,) = struct.unpack(">i", self._read(connection, 4))
            if not 4 <= size <= LARGEST_ANSWER:
                raise KafkaError(f"what answers at {address[0]}:{address[1]} is no Kafka broker")
            answer = self._read(connection, size)
        except OSError as error:
            del self._sockets[address]
            connection.close()
            raise NoBroker(f"the broker at {address[0]}:{address[1]} went away: {error}") from error
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
            connection.settimeout(ANSWER_TIMEOUT_S)
            self._sockets[address] = connection
        return connection

    @staticmethod
    def _read(connection: socket.socket, size: int) -> bytes:
        out = bytearray()
        while len(out) < size:
            piece = connection.recv(min(size - len(out), 1 << 20))
            if not piece:
                raise ConnectionError("the connection was closed")
            out += piece
        return bytes(out)
