"""A server on a thread of its own, with one asyncio loop, apart from the pool on which streams run.

Owner: who has started it. A TLS handshake is a task of its own; there are at most as many as connections, and the oldest makes room."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from streamactors.accepting import pause_after
from streamactors.http.connections import MOST_CONNECTIONS, MOST_HEAD, REQUEST_S, Connections
from streamactors.http.messages import Handler

_log = logging.getLogger("streamactors.http")

Build = Callable[[], Handler]
BACKLOG: Final = 256
MOST_THREADS: Final = 64
END_S: Final = 5.0


class HttpServer:
    """Serves from the start until `close`. Raises OSError if the address is not available.

    `name`: of its thread, and in its log. `build()` makes the handler on that thread. `tls`: serve HTTPS. `most`: connections at once; `asyncio.to_thread`
    has at most 64 threads."""

    def __init__(
        self,
        name: str,
        host: str,
        port: int,
        build: Build,
        *,
        tls: ssl.SSLContext | None = None,
        most: int = MOST_CONNECTIONS,
    ) -> None:
        self.name = name
        listening = _listening(host, port)
        self.port: int = listening.getsockname()[1]
        self.connections: Connections
        self.loop = asyncio.new_event_loop()
        self._tls = tls
        self._most = most
        self._handshakes: dict[asyncio.Task[None], None] = {}  # the oldest first
        self._built: Future[None] = Future()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._work, args=(listening, build), name=name, daemon=True)
        self._thread.start()
        self._built.result()

    def _work(self, listening: socket.socket, build: Build) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.set_default_executor(ThreadPoolExecutor(min(self._most, MOST_THREADS), self.name))
        try:
            self.loop.run_until_complete(self._serve(listening, build))
        except BaseException as error:  # noqa: BLE001  # for the thread that starts it
            if not self._built.done():
                self._built.set_exception(error)
        finally:
            listening.close()
            try:
                self._end_tasks()
            finally:
                self.loop.close()

    async def _serve(self, listening: socket.socket, build: Build) -> None:
        self.connections = Connections(build(), self._most)
        self._built.set_result(None)
        accepting = self.loop.create_task(self._accept(listening))
        stopping = self.loop.create_task(self._stop.wait())
        await asyncio.wait((accepting, stopping), return_when=asyncio.FIRST_COMPLETED)

    async def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                accepted, _ = await self.loop.sock_accept(listening)
            except OSError as error:
                await asyncio.sleep(pause_after(_log, self.name, error))
                continue
            if len(self._handshakes) >= self._most:
                next(iter(self._handshakes)).cancel()
            begun = self.loop.create_task(self._begin(accepted))
            self._handshakes[begun] = None
            begun.add_done_callback(lambda task: self._handshakes.pop(task, None))

    async def _begin(self, accepted: socket.socket) -> None:
        """Shake hands, if there is TLS, and serve the connection as a task."""
        reader = asyncio.StreamReader(MOST_HEAD, self.loop)
        protocol = asyncio.StreamReaderProtocol(reader, self.connections.serve, self.loop)
        within_s = None if self._tls is None else REQUEST_S
        try:
            await self.loop.connect_accepted_socket(
                lambda: protocol, accepted, ssl=self._tls, ssl_handshake_timeout=within_s
            )
        except OSError:
            accepted.close()  # the client has left, is silent, or speaks no TLS

    def _end_tasks(self) -> None:
        tasks = asyncio.all_tasks(self.loop)
        for task in tasks:
            task.cancel()
        self.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.run_until_complete(self.loop.shutdown_default_executor())

    def call(self, fn: Callable[..., object], *arguments: object) -> None:
        """Call a function on the server's thread. Nothing happens when it has ended."""
        try:
            self.loop.call_soon_threadsafe(fn, *arguments)
        except RuntimeError:
            pass  # it has ended

    def close(self) -> None:
        """End every connection and the thread. Idempotent."""
        self.call(self._stop.set)
        if self._thread is not threading.current_thread():
            self._thread.join(END_S)


def _listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens at the first address of a host."""
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    both = host == "::" and socket.has_dualstack_ipv6()
    made = socket.create_server(address, family=family, backlog=BACKLOG, dualstack_ipv6=both)
    made.setblocking(False)
    return made
