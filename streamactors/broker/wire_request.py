"""Creates and deletes topics over a socket of its own, without a Kafka client."""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping
from typing import Any, Final

from streamactors.broker.errors import ErrorCode, Refusal
from streamactors.broker.protocol.header import request_frame, response_header_is_flexible
from streamactors.broker.protocol.messages import decode_response, encode_request
from streamactors.broker.security.client_login import Door, encrypted, log_in

TIMEOUT_S: Final = 30.0
MAX_ANSWER: Final = 64 << 20
CREATE_TOPICS: Final = (19, 7)
DELETE_TOPICS: Final = (20, 6)


def create_topic(
    address: str, name: str, partitions: int, settings: Mapping[str, str], door: Door | None = None
) -> None:
    """Create a topic. Raises Refusal, OSError."""
    configs = [{"name": key, "value": value} for key, value in settings.items()]
    topic = {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": -1,
        "configs": configs,
        "assignments": (),
    }
    answer = call(address, CREATE_TOPICS, {"topics": [topic], "timeout_ms": 30_000, "validate_only": False}, door)
    _check(name, answer.topics[0])


def delete_topic(address: str, name: str, door: Door | None = None) -> None:
    """Delete a topic if it exists. Raises Refusal, OSError."""
    topic = {"name": name, "topic_id": None}
    answer = call(address, DELETE_TOPICS, {"topics": [topic], "timeout_ms": 30_000}, door)
    if answer.responses[0].error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        _check(name, answer.responses[0])


def _check(name: str, result: Any) -> None:
    if result.error_code != ErrorCode.NONE:
        code = ErrorCode(result.error_code)
        raise Refusal(code, f"topic {name}: {result.error_message or code.name}")


def call(address: str, api: tuple[int, int], body: Mapping[str, Any], door: Door | None = None) -> Any:
    """Send one request to the first of the addresses, and return the decoded answer. Raises OSError."""
    host, _, port = address.split(",")[0].rpartition(":")
    door = door or Door()
    host = host.strip("[]")
    with (
        socket.create_connection((host, int(port)), TIMEOUT_S) as plain,
        encrypted(plain, host, door) as connection,
    ):
        log_in(door, lambda api, body: _ask(connection, api, body))
        return _ask(connection, api, body)


def _ask(connection: socket.socket, api: tuple[int, int], body: Mapping[str, Any]) -> Any:
    key, version = api
    connection.sendall(request_frame(key, version, 1, "streamactors", encode_request(key, version, body)))
    (size,) = struct.unpack(">i", _read(connection, 4))
    if not 4 <= size <= MAX_ANSWER:
        raise ConnectionError(f"the broker answered with {size} bytes; is it a Kafka broker?")
    answer = _read(connection, size)
    after_header = 5 if response_header_is_flexible(key, version) else 4  # correlation id, no tagged fields
    return decode_response(key, version, memoryview(answer), after_header)


def _read(connection: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        more = connection.recv(size - len(received))
        if not more:
            raise ConnectionError("the broker closed the connection")
        received += more
    return bytes(received)
