"""A connection: its socket, the requests it has in service in their order, and why it is not read from.

Owner: a processor, on the data plane's thread."""

from __future__ import annotations

import logging
import socket
from collections import deque
from typing import TYPE_CHECKING, Final, Protocol

from streamactors.broker.network.frame_reader import FrameReader
from streamactors.broker.network.listener import Listener, address
from streamactors.broker.network.output import Output
from streamactors.broker.security import ANONYMOUS

if TYPE_CHECKING:
    from streamactors.broker.network.processor import Processor
    from streamactors.broker.request import Request

_log = logging.getLogger("streamactors.broker.network")


class Mute:
    """Why nothing is read from a connection, as bits. It is read again when no reason is left. (An IntFlag would cost
    half a microsecond per look, and every answer looks.)"""

    NONE: Final = 0
    IN_FLIGHT: Final = 1  # as many requests in service as one connection may have
    OUTPUT: Final = 2  # the client does not read its answers
    MEMORY: Final = 4  # no buffer for the request it is sending
    QUEUE_FULL: Final = 8  # too many bytes of requests in service, over all connections
    THROTTLED: Final = 16  # a quota; the place for it (KIP-219)
    HANDLER: Final = 32  # a handler must not see the next request before it is done with this one
    CLOSING: Final = 64  # nothing is read any more; it is closed when what was asked is answered


_CLOSED_BY_PEER: Final = (7, 8)  # TCP_CLOSE, TCP_CLOSE_WAIT


class Unfinished(Protocol):
    """Something that a request waits for, and that can be brought to its end at any time."""

    def force_complete(self) -> bool: ...


class Connection:
    """One client's connection."""

    __slots__ = (
        "client_software",
        "closed",
        "host",
        "id",
        "in_flight",
        "last_active_ms",
        "listener",
        "muted",
        "output",
        "port",
        "principal",
        "processor",
        "reader",
        "registered",
        "socket",
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
        self.principal: Final = ANONYMOUS
        self.client_software = ""
        self.processor = processor
        self.reader = reader
        self.output = Output(sock)
        self.in_flight: deque[Request] = deque()
        self.muted: int = Mute.NONE
        self.registered = (True, False)  # for reading, for writing
        self.closed = False
        self.last_active_ms = now_ms
        self.unfinished: set[Unfinished] = set()
        """What requests wait for that nobody waits for any more once the connection ends."""

    @property
    def peer(self) -> str:
        """The client's address."""
        return address(self.host, self.port)

    @property
    def left_by_peer(self) -> bool:
        """Whether the client has closed its end, as can be seen without reading (on Linux)."""
        if not hasattr(socket, "TCP_INFO"):
            return False
        return self.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] in _CLOSED_BY_PEER

    def begin(self, request: Request) -> None:
        """Give a request its place in the order of answers."""
        in_flight, processor = self.in_flight, self.processor
        in_flight.append(request)
        processor.in_flight_bytes += request.size
        if len(in_flight) >= processor.max_in_flight or processor.in_flight_bytes > processor.max_in_flight_bytes:
            processor.limit_reached(self)

    def answered(self, request: Request) -> None:
        """A request has its answer. It leaves as soon as all before it have left."""
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
        """This reason is gone; read on if it was the last."""
        if self.muted & reason:
            self.muted &= ~reason
            if not self.muted and not self.closed:
                self.processor.resume(self)

    def close_after_answers(self, reason: str) -> None:
        """Read no more, and close the connection when the requests before have their answers, which must not wait for
        anything long. As `close` else."""
        if self.closed or self.muted & Mute.CLOSING:
            return
        if reason:
            _log.warning("connection of %s closed: %.500s", self.peer, reason)
        self.muted |= Mute.CLOSING
        self.reader.close()
        for each in tuple(self.unfinished):
            each.force_complete()
        self.processor.has_output(self)

    def close(self, reason: str) -> None:
        """Close the connection; its requests go on, their answers are dropped. One log line if there is a reason."""
        if self.closed:
            return
        self.closed = True
        if reason:
            _log.warning("connection of %s closed: %.500s", self.peer, reason)
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


def _release(request: Request) -> None:
    for part in request.parts or ():
        if not isinstance(part, bytes | bytearray | memoryview):
            part.release()
    request.parts = None
