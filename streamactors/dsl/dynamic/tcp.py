"""Tcp: connections as flows and servers as sources of connections, in the shape of Akka's."""

from __future__ import annotations

import logging
import ssl
from typing import TYPE_CHECKING, Any

from streamactors.actors.futures import StreamFuture
from streamactors.dsl.flow import Flow
from streamactors.dsl.keep import Keep
from streamactors.dsl.part import module_of
from streamactors.dsl.runnable import RunnableGraph
from streamactors.dsl.sink import Sink
from streamactors.dsl.source import Source
from streamactors.durations import Duration
from streamactors.engine.blueprint.modules import StageModule, Wired
from streamactors.log_limit import log_limited
from streamactors.stages.network.server import ServerBinding, TcpServer
from streamactors.stages.network.tcp import AcceptedTcp, Address, OutgoingConnection, OutgoingTcp

if TYPE_CHECKING:
    from streamactors.actors.system import ActorSystem


_log = logging.getLogger("streamactors.dsl")


class IncomingConnection:
    """A connection that a client has made to a server. `flow` sends bytes to the client and emits those that come from it."""

    def __init__(self, accepted: AcceptedTcp) -> None:
        self._accepted = accepted
        self.local: Address = accepted.local
        """(host, port) of the server."""
        self.remote: Address = accepted.remote
        """(host, port) of the client."""

    @property
    def flow(self) -> Flow[bytes, bytes, StreamFuture[None]]:
        """The connection as a flow, which can run once. It materializes a future of the end of the connection."""
        return Flow(StageModule(self._accepted))

    def handle_with(self, flow: Flow[bytes, bytes, Any], system: ActorSystem | None = None) -> StreamFuture[None]:
        """Send the client what `flow` makes of the bytes that come from it; return a future of the end of the connection."""
        parts = (StageModule(self._accepted), module_of("handle_with", flow, (1, 1)))
        graph = Wired(parts, (((0, 0), (1, 0)), ((1, 0), (0, 0))), (), (), lambda values: values[0])
        ended: StreamFuture[None] = RunnableGraph(graph).run(system)
        return ended

    def close(self) -> None:
        """Refuse the connection, if no run uses it yet."""
        accepted, self._accepted.socket = self._accepted.socket, None
        if accepted is not None:
            accepted.close()

    def __repr__(self) -> str:
        return f"IncomingConnection({self.remote[0]}:{self.remote[1]})"


class Tcp:
    """Connections and servers. Addresses are loopback unless a host is given; `tls` is an `ssl.SSLContext`."""

    @staticmethod
    def outgoing_connection(
        host: str,
        port: int,
        *,
        tls: ssl.SSLContext | None = None,
        server_hostname: str | None = None,
        connect_timeout: Duration = "10s",
        half_close: bool = True,
    ) -> Flow[bytes, bytes, StreamFuture[OutgoingConnection]]:
        """Return a flow that sends bytes to a server and emits those that come back; each run makes a new connection.

        With `tls` the certificate is checked against `server_hostname`, by default the host. `connect_timeout` is a number of
        seconds, a timedelta, or a string such as "5s". When upstream ends, the server hears it (not with TLS, which has no such
        signal), and reading continues; with `half_close=False` the connection is closed. It materializes a future of the
        OutgoingConnection. Errors are ConnectionFailed and name the address."""
        return Flow(StageModule(OutgoingTcp(host, port, tls, server_hostname, connect_timeout, half_close)))

    @staticmethod
    def bind(
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        backlog: int = 100,
        tls: ssl.SSLContext | None = None,
        half_close: bool = False,
    ) -> Source[IncomingConnection, StreamFuture[ServerBinding]]:
        """Return a source of the connections that clients make to a port; 0: any free port.

        A connection is accepted when there is demand; until then up to `backlog` clients wait in the kernel. Each is to be handled
        (`handle_with`) or closed. A connection is closed when the flow that handles it has ended; with `half_close=True` not before the
        client has ended, too. It materializes a future of the ServerBinding, with the address and `unbind()`."""
        source: Source[Any, StreamFuture[ServerBinding]] = Source(
            StageModule(TcpServer(host, port, backlog, tls, half_close))
        )
        return source.map(IncomingConnection)

    @staticmethod
    def bind_and_handle(
        flow: Flow[bytes, bytes, Any],
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        backlog: int = 100,
        max_connections: int = 1_024,
        tls: ssl.SSLContext | None = None,
        half_close: bool = False,
        system: ActorSystem | None = None,
    ) -> StreamFuture[ServerBinding]:
        """Serve every client with a run of `flow`, up to `max_connections` at a time; return a future of the ServerBinding.

        The failure of one connection is logged and touches no other."""

        def handle(connection: IncomingConnection) -> StreamFuture[None]:
            ended = connection.handle_with(flow, system)
            settled: StreamFuture[None] = StreamFuture()

            def log(done: Any) -> None:
                error = done.exception()
                if error is not None:
                    client = connection.remote
                    log_limited(
                        _log,
                        logging.WARNING,
                        (client[0], type(error)),
                        "the connection from %s:%d failed: %s",
                        *client,
                        error,
                    )
                settled.try_complete(None)

            ended.add_done_callback(log)
            return settled

        source = Tcp.bind(host, port, backlog=backlog, tls=tls, half_close=half_close)
        return source.map_async_unordered(max_connections, handle).to_mat(Sink.ignore(), Keep.left).run(system)
