"""A raw client for tests: frames, requests and responses over a plain socket, nothing clever."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

from streamactors.broker.protocol.header import request_frame, response_header_is_flexible
from streamactors.broker.protocol.messages import decode_response, encode_request

TIMEOUT_S = 30.0


def wait_until(
    condition: Callable[[], bool],
    what: str = "the condition",
    timeout_s: float = TIMEOUT_S,
    describe: Callable[[], str] = str,
) -> None:
    """Wait for something that another thread does. If it does not come about, the error has what `describe` returns."""
    give_up = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > give_up:
            raise AssertionError(f"{what} did not come about within {timeout_s:.0f} s\n{describe()}".rstrip())
        time.sleep(0.001)


class WireClient:
    """One connection. Bodies are dictionaries as in `protocol.messages`."""

    def __init__(self, host: str, port: int, client_id: str | None = "test", receive_buffer: int | None = None) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.socket = socket.socket(family, socket.SOCK_STREAM)
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(TIMEOUT_S)
        self.socket.connect((host, port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.client_id = client_id
        self._correlation_id = 0
        self._sent: dict[int, tuple[int, int]] = {}

    def frame(self, key: int, version: int, body: Mapping[str, Any]) -> bytes:
        """Return the bytes of a request; its answer is to be received with `receive`."""
        self._correlation_id += 1
        self._sent[self._correlation_id] = (key, version)
        return request_frame(key, version, self._correlation_id, self.client_id, encode_request(key, version, body))

    def send(self, key: int, version: int, body: Mapping[str, Any]) -> int:
        """Send a request; return its correlation id."""
        self.socket.sendall(self.frame(key, version, body))
        return self._correlation_id

    def send_raw(self, content: bytes) -> None:
        self.socket.sendall(content)

    def read_exactly(self, size: int) -> bytes:
        chunks = bytearray()
        while len(chunks) < size:
            piece = self.socket.recv(size - len(chunks))
            if not piece:
                raise ConnectionError(f"closed by the broker after {len(chunks)} of {size} bytes")
            chunks += piece
        return bytes(chunks)

    def read_frame(self) -> bytes:
        """Return the next response without its size."""
        (size,) = struct.unpack(">i", self.read_exactly(4))
        return self.read_exactly(size)

    def receive(self) -> tuple[int, Any]:
        """Return the next response: (correlation id, message)."""
        frame = self.read_frame()
        correlation_id = int.from_bytes(frame[:4], "big")
        key, version = self._sent.pop(correlation_id)
        position = 4
        if response_header_is_flexible(key, version):
            assert frame[4] == 0
            position = 5
        return correlation_id, decode_response(key, version, memoryview(frame), position)

    def call(self, key: int, version: int, body: Mapping[str, Any]) -> Any:
        """Send a request and return its answer."""
        sent = self.send(key, version, body)
        correlation_id, message = self.receive()
        assert correlation_id == sent
        return message

    def closed_by_peer(self) -> bool:
        """Wait for the broker to close the connection; False if it sends something instead."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> WireClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def await_coordinator(client: WireClient, key: str, kind: int) -> None:
    """Wait until a group (kind 0) or a transactional id (kind 1) has a coordinator: the first request creates the topic of its state."""
    wait_until(lambda: client.call(10, 2, {"key": key, "key_type": kind}).error_code == 0, f"a coordinator of {key}")
