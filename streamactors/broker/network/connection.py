"""A connection: its socket, its requests in service in their order, and its mute reasons.

Owner: a processor, on the data plane's thread."""

from __future__ import annotations

import logging
import socket
from collections import deque
from typing import TYPE_CHECKING, Final, Protocol

from streamactors.broker.network.ends import ends_of
from streamactors.broker.network.frame_reader import FrameReader
from streamactors.broker.network.listener import Listener, address
from streamactors.broker.network.output import Part
from streamactors.broker.security.login import Login
from streamactors.broker.security.rights import ANONYMOUS
from streamactors.log_limit import alike, log_limited

if TYPE_CHECKING:
    from streamactors.broker.network.processor import Processor

_log = logging.getLogger("streamactors.broker.network")


class Mute:
    """Reasons not to read from a connection, as bits. Reading continues when no bit is set. They are plain integers, because
    every answer tests them and an IntFlag costs half a microsecond per test."""

    NONE: Final = 0
    IN_FLIGHT: Final = 1  # the connection has the maximum of requests in service
    OUTPUT: Final = 2  # the client does not read its answers
    MEMORY: Final = 4  # no buffer is free for the incoming request
    QUEUE_FULL: Final = 8  # requests in service of all connections exceed the byte limit
    THROTTLED: Final = 16  # the client exceeds a quota (KIP-219)
    HANDLER: Final = 32  # a handler must finish this request before the next one
    CLOSING: Final = 64  # close after the answers to the requests in service


_CLOSED_BY_PEER: Final = (7, 8)  # TCP_CLOSE, TCP_CLOSE_WAIT


class InService(Protocol):
    """A request that has been read and whose answer is not sent yet. `parts` is the answer, None before it exists."""

    size: int
    """The bytes that count for the byte limit of all connections. A request with 0 never waits for it."""
    answered: bool
    parts: list[Part] | None


class Unfinished(Protocol):
    """An operation that a request waits for. It can be completed early at any time."""

    def force_complete(self) -> bool: ...


class ServerConnection:
    """One client's connection."""

    __slots__ = (
        "_taken_at_once",
        "client_software",
        "closed",
        "holds_input",
        "host",
        "id",
        "in_flight",
        "last_active_ms",
        "listener",
        "login",
        "muted",
        "output",
        "port",
        "principal",
        "processor",
        "reader",
        "receive_into",
        "registered",
        "socket",
        "throttles",
        "unfinished",
    )

    def __init__(
        self,
        sock: socket.socket,
        connection_id: int,
        listener: Listener,
        processor: Processor,
        reader: FrameReader,
        now_ms: float,
    ) -> None:
        peer = sock.getpeername()
        self.socket = sock
        self.id = connection_id
        self.listener = listener
        self.host: str = peer[0]
        self.port: int = peer[1]
        self.principal = ANONYMOUS
        self.login: Login | None = listener.protection.login()
        """Which requests the connection may send now; None on a listener without logins."""
        self.client_software = ""
        self.processor = processor
        self.reader = reader
        self.output, self.receive_into, self.holds_input = ends_of(sock, encrypted=listener.protection.tls is not None)
        self.in_flight: deque[InService] = deque()
        self.muted: int = Mute.NONE
        self.throttles = 0
        """Throttle times that are not over; several requests may be in service."""
        self.registered = (True, False)  # for reading, for writing
        self._taken_at_once = 0
        self.closed = False
        self.last_active_ms = now_ms
        self.unfinished: set[Unfinished] = set()
        """Waiting operations of this connection's requests; they are completed when the connection ends."""

    @property
    def peer(self) -> str:
        """The client's address."""
        return address(self.host, self.port)

    @property
    def left_by_peer(self) -> bool:
        """Whether the client has closed its end. Needs no read, but Linux."""
        if not hasattr(socket, "TCP_INFO"):
            return False
        return self.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] in _CLOSED_BY_PEER

    def begin(self, request: InService) -> None:
        """Add a request at the end of the order of answers."""
        in_flight, processor = self.in_flight, self.processor
        in_flight.append(request)
        processor.in_flight_bytes += request.size
        if len(in_flight) >= processor.max_in_flight or processor.in_flight_bytes > processor.max_in_flight_bytes:
            processor.limit_reached(self, request)

    def freed(self, request: InService) -> None:
        """Stop counting a request that waits for its answer for the byte limit: its bytes are no longer in memory."""
        if not self.closed:
            size, request.size = request.size, 0
            self.processor.bytes_freed(size)

    def answered(self, request: InService) -> None:
        """Send the answer of a request once all requests before it are answered."""
        if self.closed:
            _release(request)
            return
        in_flight, processor = self.in_flight, self.processor
        if request is not in_flight[0]:
            return
        while in_flight and in_flight[0].answered:
            done = in_flight.popleft()
            if done.parts:
                self.output.extend(done.parts)
                done.parts = None
            processor.in_flight_bytes -= done.size
        if self.muted & Mute.IN_FLIGHT:
            self.unmute(Mute.IN_FLIGHT)
        processor.has_output(self)

    def mute(self, reason: int) -> None:
        """Stop reading from the connection, for this reason."""
        self.muted |= reason

    def unmute(self, reason: int) -> None:
        """Remove a mute reason. Continue to read if no reason is left."""
        if self.muted & reason:
            self.muted &= ~reason
            if not self.muted and not self.closed:
                self.processor.resume(self)

    def throttle(self, ms: float) -> None:
        """Do not read from the connection for this time."""
        self.throttles += 1
        self.mute(Mute.THROTTLED)
        self.processor.call_later(ms, self._end_throttle)

    def _end_throttle(self) -> None:
        self.throttles -= 1
        if not self.throttles:
            self.unmute(Mute.THROTTLED)

    def take_at_once(self, size: int) -> None:
        """Let the kernel take this many bytes of an answer at once, although `socket.send.buffer.bytes` may be less."""
        if size <= self._taken_at_once or self.closed:
            return
        self._taken_at_once = size
        if self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) < size:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, size)

    def close_after_answers(self, reason: str) -> None:
        """Stop reading, complete waiting operations at once, and close the connection after its answers."""
        if self.closed or self.muted & Mute.CLOSING:
            return
        if reason:
            self._log_end(reason)
        self.muted |= Mute.CLOSING
        self.reader.close()
        for each in tuple(self.unfinished):
            each.force_complete()
        self.processor.has_output(self)

    def _log_end(self, reason: str) -> None:
        cause = (self.host, alike(reason))
        log_limited(_log, logging.WARNING, cause, "connection of %s closed: %.500s", self.peer, reason)

    def close(self, reason: str) -> None:
        """Close the connection and drop the answers to its requests. Log one line if there is a reason."""
        if self.closed:
            return
        self.closed = True
        if reason:
            self._log_end(reason)
        self.processor.forget(self)
        self.reader.close()
        self.output.discard()
        for request in self.in_flight:
            self.processor.in_flight_bytes -= request.size
            _release(request)
        self.in_flight.clear()
        for each in tuple(self.unfinished):
            each.force_complete()
        self.socket.close()

    def __str__(self) -> str:
        return self.peer


def _release(request: InService) -> None:
    for part in request.parts or ():
        if not isinstance(part, bytes | bytearray | memoryview):
            part.release()
    request.parts = None
