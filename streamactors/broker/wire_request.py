"""One request to a broker over a socket of its own, for whoever needs a topic made and has no Kafka client at hand."""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping
from typing import Any, Final

from streamactors.broker.errors import BrokerError, ErrorCode
from streamactors.broker.protocol.header import request_frame, response_header_is_flexible
from streamactors.broker.protocol.messages import decode_response, encode_request

TIMEOUT_S: Final = 30.0
MAX_ANSWER: Final = 64 << 20
CREATE_TOPICS: Final = (19, 7)
DELETE_TOPICS: Final = (20, 6)


class Refused(BrokerError):
    """The broker said no."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code  # type: ignore[misc]  # one class for all codes


def create_topic(address: str, name: str, partitions: int, settings: Mapping[str, str]) -> None:
    """Create a topic. Raises Refused, OSError."""
    configs = [{"name": key, "value": value} for key, value in settings.items()]
    topic = {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": -1,
        "configs": configs,
        "assignments": (),
    }
    answer = _call(address, CREATE_TOPICS, {"topics": [topic], "timeout_ms": 30_000, "validate_only": False})
    _check(name, answer.topics[0])


def delete_topic(address: str, name: str) -> None:
    """Delete a topic; one that is not there is fine. Raises Refused, OSError."""
    topic = {"name": name, "topic_id": None}
    answer = _call(address, DELETE_TOPICS, {"topics": [topic], "timeout_ms": 30_000})
    if answer.responses[0].error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        _check(name, answer.responses[0])


def _check(name: str, result: Any) -> None:
    if result.error_code != ErrorCode.NONE:
        code = ErrorCode(result.error_code)
        raise Refused(code, f"topic {name}: {result.error_message or code.name}")


def _call(address: str, api: tuple[int, int], body: Mapping[str, Any]) -> Any:
    key, version = api
    host, _, port = address.split(",")[0].rpartition(":")
    with socket.create_connection((host.strip("[]"), int(port)), TIMEOUT_S) as connection:
        connection.sendall(request_frame(key, version, 1, "streamactors", encode_request(key, version, body)))
        (size,) = struct.unpack(">i", _read(connection, 4))
        if not 4 <= size <= MAX_ANSWER:
            raise ConnectionError(f"{address} answered with {size} bytes; is it a Kafka broker?")
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
