"""A blocking connection to a broker, with TLS and a login, for one request at a time.

Owner: `wire_request.call` for one request, the commands' `ClusterRequests` for several brokers."""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self

from streamactors.broker.protocol.header import request_frame, response_header_is_flexible
from streamactors.broker.protocol.messages import decode_response, encode_request
from streamactors.broker.security.client_login import ListenerCredentials, log_in
from streamactors.broker.security.client_tls import encrypted

MAX_ANSWER: Final = 100 << 20


class NoKafka(ConnectionError):
    """The other side does not speak Kafka's protocol."""


class NotConnected(ConnectionError):
    """The connection was refused, or the host was not found; the message has the operating system's reason."""


class TlsFailed(ConnectionError):
    """The handshake of TLS failed; the message is OpenSSL's reason."""


class WireConnection:
    """A blocking connection for one request at a time. `timeout_s` bounds the connect and each wait for bytes.

    Raises NotConnected, TlsFailed, and Refusal or AuthenticationFailed if the broker refuses the login."""

    def __init__(
        self,
        host: str,
        port: int,
        credentials: ListenerCredentials,
        timeout_s: float,
        first_answer_timeout_s: float | None = None,
    ) -> None:
        try:
            self._socket = socket.create_connection((host, port), timeout_s)
        except (OSError, UnicodeError) as error:  # UnicodeError: Python cannot encode the host name
            raise NotConnected(f"{host}:{port} ({getattr(error, 'strerror', None) or error})") from error
        try:
            self._socket.settimeout(first_answer_timeout_s or timeout_s)
            try:
                self._socket = encrypted(self._socket, host, credentials.tls)
            except TimeoutError:
                raise
            except OSError as error:
                raise TlsFailed(str(error)) from None
            log_in(credentials, lambda api, body: self.ask(api, body))
        except BaseException:
            self._socket.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def abort(self) -> None:
        """End the connection, also while another thread waits for its answer: that wait raises ConnectionError."""
        with suppress(OSError):  # it is closed already
            self._socket.shutdown(socket.SHUT_RDWR)

    def wait_up_to(self, timeout_s: float) -> None:
        """Set how long each wait for bytes may take."""
        self._socket.settimeout(timeout_s)

    def ask(self, api: tuple[int, int], body: Mapping[str, Any]) -> Any:
        """Send a request of (key, version) and return the decoded answer. Raises OSError, NoKafka."""
        key, version = api
        self._socket.sendall(request_frame(key, version, 1, "streamactors", encode_request(key, version, body)))
        (size,) = struct.unpack(">i", self._read(4))
        if not 4 <= size <= MAX_ANSWER:
            raise NoKafka(f"the broker answered with {size} bytes; is it a Kafka broker?")
        answer = self._read(size)
        after_header = 5 if response_header_is_flexible(key, version) else 4  # correlation id, no tagged fields
        return decode_response(key, version, memoryview(answer), after_header)

    def _read(self, size: int) -> bytes:
        received = bytearray()
        while len(received) < size:
            more = self._socket.recv(min(size - len(received), 1 << 20))
            if not more:
                raise ConnectionError("the broker closed the connection")
            received += more
        return bytes(received)
