"""TCP connections as stages: to a server, and those that a server has accepted."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from dataclasses import dataclass
from typing import Any

from streamactors.actors.futures import StreamFuture
from streamactors.durations import Duration
from streamactors.engine.attributes import Attributes
from streamactors.engine.logic import Logic
from streamactors.engine.stage import Stage
from streamactors.engine.user_code import shortened
from streamactors.errors import BuildError, ConnectionFailed
from streamactors.stages.checks import integer, span_ms
from streamactors.stages.network.duplex import BLOCK_BYTES, DuplexLogic

Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class OutgoingConnection:
    """The two ends of a connection: (host, port) each."""

    local: Address
    remote: Address


def checked_port(operator: str, port: int, least: int = 1) -> int:
    """Return `port` if it is a port number."""
    if not least <= integer(operator, "port", port) <= 65_535:
        raise BuildError(f"{operator}: port must be {least} to 65535, got {port}")
    return port


def checked_tls(operator: str, tls: Any) -> ssl.SSLContext | None:
    """Return `tls` if it is an SSLContext or None."""
    if tls is not None and not isinstance(tls, ssl.SSLContext):
        raise BuildError(
            f"{operator}: tls must be an ssl.SSLContext, such as ssl.create_default_context(), got {shortened(tls, 60)}"
        )
    return tls


def place(address: Any) -> str:
    """Return "host:port"."""
    return f"{address[0]}:{address[1]}"


def _reason(error: OSError) -> str:
    if isinstance(error, socket.gaierror) or not error.errno:
        return str(error.strerror or error or type(error).__name__)
    return os.strerror(error.errno).lower()


def address_of(name: Any) -> Address:
    """Return (host, port) of what `getsockname` and `getpeername` return."""
    return (str(name[0]), int(name[1]))


class OutgoingTcp(Stage[bytes, bytes]):
    """Send bytes over a TCP connection and emit those that come back. Each run makes a connection of its own.

    Emits when: bytes have come; where elements end means nothing.   Backpressures when: the peer does not read.
    Completes when: the peer has ended. Upstream's end tells the peer that nothing more comes (TLS cannot), and reading continues; with
    `half_close=False` upstream's end closes the connection.
    Cancels when: downstream cancels, the peer has ended, or the connection fails.
    Fails when: there is no connection within `connect_timeout`, it breaks, or upstream fails, which resets it (ConnectionFailed).
    Materializes: a future of the OutgoingConnection, when the connection is there.
    """

    name = "tcp"

    def __init__(
        self,
        host: str,
        port: int,
        tls: ssl.SSLContext | None = None,
        server_hostname: str | None = None,
        connect_timeout: Duration = "10s",
        half_close: bool = True,
    ) -> None:
        self.host = host
        self.port = checked_port("outgoing_connection", port)
        self.tls = checked_tls("outgoing_connection", tls)
        self.server_hostname = (server_hostname or host) if tls is not None else None
        self.connect_timeout_ms = span_ms("outgoing_connection", "connect_timeout", connect_timeout)
        self.half_close = half_close

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        logic = _OutgoingLogic(self)
        return logic, logic.future


class _TcpLogic(DuplexLogic):
    where = ""

    def failed(self, error: BaseException) -> BaseException:
        if isinstance(error, TimeoutError) and not error.errno:  # ours; the kernel's own has a number
            return ConnectionFailed(
                f"no connection to {self.where} within the connect_timeout; raise it, or look at the network"
            )
        if isinstance(error, ssl.SSLError):
            return ConnectionFailed(f"TLS with {self.where} failed: {error}")
        if isinstance(error, OSError):
            if not self._connected:
                return ConnectionFailed(
                    f"no connection to {self.where}: {_reason(error)}; is a server listening there?"
                )
            return ConnectionFailed(f"the connection to {self.where} broke: {_reason(error)}")
        return error


class _OutgoingLogic(_TcpLogic):
    stage: OutgoingTcp
    one_end = True

    def __init__(self, stage: OutgoingTcp) -> None:
        super().__init__(stage)
        self.half_close = stage.half_close
        self.where = place((stage.host, stage.port))
        self.future: StreamFuture[OutgoingConnection] = StreamFuture(f"the connection to {self.where}")

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        stage = self.stage
        opening = asyncio.open_connection(
            stage.host, stage.port, limit=BLOCK_BYTES, ssl=stage.tls, server_hostname=stage.server_hostname
        )
        return await asyncio.wait_for(opening, stage.connect_timeout_ms / 1000)

    def connected(self) -> None:
        assert self._writer is not None
        info = self._writer.get_extra_info
        self.future.try_complete(OutgoingConnection(address_of(info("sockname")), address_of(info("peername"))))

    def on_stop(self) -> None:
        super().on_stop()
        self.future.try_fail(
            self.failure or ConnectionFailed(f"the stream ended before it was connected to {self.where}")
        )


class AcceptedTcp(Stage[bytes, bytes]):
    """A connection that a server has accepted. It can run once.

    Emits when: bytes have come; where elements end means nothing.   Backpressures when: the peer does not read.
    Completes when: the client has ended, or, without `half_close`, upstream.   Cancels when: the connection fails. When
    downstream cancels, what upstream still has is sent, and what comes is dropped.
    Fails when: the connection breaks, or upstream fails, which resets it (ConnectionFailed).
    Materializes: a future of the end of the connection.
    """

    name = "tcp"

    def __init__(self, accepted: socket.socket, peer: Any, tls: ssl.SSLContext | None, half_close: bool) -> None:
        """`peer` is what `accept` returned: a client that has reset the connection since then no longer has an address."""
        self.socket: socket.socket | None = accepted
        self.local = address_of(accepted.getsockname())
        self.remote = address_of(peer)
        self.tls = tls
        self.half_close = half_close
        self.where = place(self.remote)

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        accepted, self.socket = self.socket, None
        if accepted is None:
            raise BuildError(f"the connection from {self.where} is in use by another run, or was closed")
        logic = _AcceptedLogic(self, accepted)
        return logic, logic.future


class _AcceptedLogic(_TcpLogic):
    def __init__(self, stage: AcceptedTcp, accepted: socket.socket) -> None:
        super().__init__(stage)
        self._socket: socket.socket | None = accepted
        self.half_close = stage.half_close
        self.where = stage.where
        self.future: StreamFuture[None] = StreamFuture(f"the connection from {self.where}")

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        loop = asyncio.get_running_loop()
        accepted, self._socket = self._socket, None
        assert accepted is not None
        reader = asyncio.StreamReader(limit=BLOCK_BYTES, loop=loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        try:
            transport, _ = await loop.connect_accepted_socket(lambda: protocol, accepted, ssl=self.stage.tls)
        except BaseException:
            accepted.close()
            raise
        return reader, asyncio.StreamWriter(transport, protocol, reader, loop)

    async def abandon(self) -> None:
        if self._socket is not None:
            self._socket.close()
        await super().abandon()

    def on_stop(self) -> None:
        super().on_stop()
        if self.failure is None:
            self.future.try_complete(None)
        else:
            self.future.try_fail(self.failure)
