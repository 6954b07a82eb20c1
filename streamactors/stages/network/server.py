"""A listening socket as a source of the connections it accepts. A connection is accepted when there is demand."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Any

from streamactors.accepting import OUT_OF_FILES, is_of_one_connection, pause_after
from streamactors.actors.futures import StreamFuture
from streamactors.engine.attributes import Attributes
from streamactors.engine.awaiting import when_done
from streamactors.engine.island.connection import Connection
from streamactors.engine.island.coroutines import run_coroutine
from streamactors.engine.logic import Logic, SourceLogic
from streamactors.engine.stage import SOURCE, GraphStage
from streamactors.engine.stage_traits import StageTraits
from streamactors.errors import AbruptTermination, ConnectionFailed
from streamactors.stages.checks import positive
from streamactors.stages.network.tcp import AcceptedTcp, Address, address_of, checked_port, checked_tls, place

_log = logging.getLogger("streamactors.stages")


class ServerBinding:
    """A server that listens. Materialized, as a future, by `Tcp.bind`."""

    def __init__(self, address: Address, unbind: Callable[[], None], unbound: StreamFuture[None]) -> None:
        self.address = address
        """(host, port) of the listening socket."""
        self._unbind = unbind
        self.when_unbound = unbound
        """A future that ends when the server no longer listens."""

    def unbind(self) -> StreamFuture[None]:
        """Stop listening and complete the source of connections; those that were accepted continue. Return `when_unbound`."""
        self._unbind()
        return self.when_unbound

    def __repr__(self) -> str:
        return f"ServerBinding({place(self.address)})"


class TcpServer(GraphStage):
    """Listen on a TCP port and emit the connections, each as a stage (`AcceptedTcp`).

    Emits when: there is demand and a client connects; further clients wait in the kernel, up to `backlog`.
    Completes when: `unbind()` of the binding was called.   Cancels when: downstream does; the port is closed.
    Fails when: the port cannot be listened on (ConnectionFailed).
    Materializes: a future of the ServerBinding.
    """

    shape = SOURCE
    traits = StageTraits(endless=True)
    name = "tcp_server"

    def __init__(self, host: str, port: int, backlog: int, tls: ssl.SSLContext | None, half_close: bool) -> None:
        self.host = host
        self.port = checked_port("Tcp.bind", port, 0)
        self.backlog = positive("Tcp.bind", "backlog", backlog)
        self.tls = checked_tls("Tcp.bind", tls)
        self.half_close = half_close

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        logic = _ServerLogic(self)
        return logic, logic.future


class _ServerLogic(SourceLogic):
    stage: TcpServer

    def __init__(self, stage: TcpServer) -> None:
        super().__init__(stage)
        self.future: StreamFuture[ServerBinding] = StreamFuture("the binding of a server")
        self._unbound: StreamFuture[None] = StreamFuture("the end of a server's binding")
        self._socket: socket.socket | None = None
        self._cancel: Callable[[], Any] | None = None  # of the accept under way

    def on_start(self) -> None:
        stage = self.stage
        family = socket.AF_INET6 if ":" in stage.host else socket.AF_INET
        listening = socket.socket(family, socket.SOCK_STREAM)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.setblocking(False)
            listening.bind((stage.host, stage.port))
            listening.listen(stage.backlog)
        except OSError as error:
            listening.close()
            where = place((stage.host, stage.port))
            raise ConnectionFailed(
                f"cannot listen on {where}: {error.strerror or error}; port 0 takes any free port"
            ) from None
        self._socket = listening
        unbind = self.async_callback(self._unbind)
        self.future.try_complete(
            ServerBinding(address_of(listening.getsockname()), lambda: unbind.invoke(None), self._unbound)
        )

    def _unbind(self, _: None) -> None:
        self.complete_stage()

    def on_pull(self, out: Connection) -> None:
        if self._cancel is None and self._socket is not None:
            self._cancel = when_done(self, _accept(self._socket), self._accepted)

    def _accepted(self, accepted: tuple[socket.socket, Any] | None, error: BaseException | None) -> None:
        self._cancel = None
        if error is not None:
            self.fail_stage(
                ConnectionFailed(f"accepting connections on port {self.stage.port} failed: {error}")
                if isinstance(error, OSError)
                else error
            )
            return
        if accepted is not None:
            self.out.push([AcceptedTcp(*accepted, self.stage.tls, self.stage.half_close)])
        if self.out.asked:
            self.out.again()

    def on_stop(self) -> None:
        self.future.try_fail(self.failure or AbruptTermination("the stream ended before the server listened"))
        if self._cancel is not None:
            self._cancel()
        if self._socket is not None:
            try:
                run_coroutine(self.interpreter.island.run.system, _close(self._socket)).add_done_callback(
                    lambda _: self._unbound.try_complete(None)
                )
            except AbruptTermination:
                self._socket.close()
                self._unbound.try_complete(None)


async def _accept(listening: socket.socket) -> tuple[socket.socket, Any] | None:
    """Return the next connection and its peer; None for one that was gone before it was accepted."""
    try:
        accepted, peer = await asyncio.get_running_loop().sock_accept(listening)
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # asyncio sets it on sockets of its own only
    except OSError as error:
        if not is_of_one_connection(error) and error.errno not in OUT_OF_FILES:
            raise
        await asyncio.sleep(pause_after(_log, f"server on {place(listening.getsockname())}", error))
        return None
    return accepted, peer


async def _close(listening: socket.socket) -> None:
    asyncio.get_running_loop().remove_reader(
        listening
    )  # a cancelled accept would do that too late, for another socket of this number
    listening.close()
