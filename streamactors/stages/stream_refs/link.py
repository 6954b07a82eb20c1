"""Link: the connection of a stream ref, on the asyncio loop. It listens for one other end, or connects to it, and tells the stage what comes.

Who may connect: whoever shows the token. A connection without it is refused, and waiting continues until the subscription timeout."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol

from streamactors.accepting import OUT_OF_FILES, is_of_one_connection, pause_after
from streamactors.engine.island.coroutines import run_coroutine
from streamactors.engine.logic import Logic
from streamactors.errors import AbruptTermination, ConnectionFailed, StreamRefError, StreamTimeout
from streamactors.stages.network.tcp import place
from streamactors.stages.stream_refs.wire import (
    ALIVE,
    ELEMENTS,
    HELLO,
    REFUSED,
    VERSION,
    WELCOME,
    frame,
    read_frame,
)

HANDSHAKE_S: Final = 5.0
BEAT_S: Final = 5.0
SILENCE_S: Final = 20.0
"""The time without any frame, ALIVE included, after which the other end is taken for dead."""

_LONGEST_HELLO: Final = 1_024
_UNTAKEN_FRAMES: Final = 8

_log = logging.getLogger("streamactors.stages")

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a stream ref listens, and the token that opens it. `role`: what the listening end is, "source" or "sink"."""

    role: str
    host: str
    port: int
    token: bytes


class Opener(Protocol):
    """Makes the connection."""

    where: str

    async def open(self) -> Streams: ...

    def close(self) -> None: ...


class Listening:
    """Waits for the other end on a socket that is open already."""

    def __init__(self, listening: socket.socket, at: Place, tls: ssl.SSLContext | None, timeout_s: float) -> None:
        self._socket = listening
        self._place = at
        self._tls = tls
        self._timeout_s = timeout_s
        self.where = place((at.host, at.port))

    async def open(self) -> Streams:
        """Return the streams of the first connection that shows the token."""
        loop = asyncio.get_running_loop()
        found: asyncio.Future[Streams] = loop.create_future()
        trying: set[asyncio.Task[None]] = set()

        async def accept() -> None:
            while True:
                try:
                    accepted, _ = await loop.sock_accept(self._socket)
                except OSError as error:
                    if is_of_one_connection(error) or error.errno in OUT_OF_FILES:
                        await asyncio.sleep(pause_after(_log, f"stream ref {self.where}", error))
                        continue
                    if not found.done():
                        found.set_exception(ConnectionFailed(f"stream ref {self.where}: cannot accept: {error}"))
                    return
                with contextlib.suppress(OSError):  # of a connection that has ended already
                    # asyncio sets it on sockets of its own only
                    accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if len(trying) > 16:
                    accepted.close()
                    continue
                task = loop.create_task(self._greet(accepted, found))
                trying.add(task)
                task.add_done_callback(trying.discard)

        accepting = loop.create_task(accept())
        try:
            return await asyncio.wait_for(found, self._timeout_s)
        except TimeoutError:
            raise StreamTimeout(
                f"stream ref {self.where}: no other end connected within {self._timeout_s:g} s (subscription_timeout)"
            ) from None
        finally:
            for task in (accepting, *trying):
                task.cancel()
            await asyncio.gather(accepting, *trying, return_exceptions=True)
            self._socket.close()

    async def _greet(self, accepted: socket.socket, found: asyncio.Future[Streams]) -> None:
        """Let the connection in if it shows the token, else close it."""
        writer: asyncio.StreamWriter | None = None
        try:
            async with asyncio.timeout(HANDSHAKE_S):
                reader, writer = await _streams(accepted, self._tls)
                refused = _refused(await read_frame(reader, _LONGEST_HELLO), self._place)
                writer.write(frame(REFUSED, refused) if refused else frame(WELCOME))
                await writer.drain()
                if not refused and not found.done():
                    found.set_result((reader, writer))
                    writer = None
        except (OSError, EOFError, StreamRefError, TimeoutError):
            pass  # a stranger; the other end may still come
        finally:
            if writer is not None:
                writer.close()

    def close(self) -> None:
        """Stop listening."""
        self._socket.close()


def _refused(hello: list[Any], at: Place) -> str:
    """Return why a connection is refused, an empty text when it is not."""
    kind, *fields = hello
    if kind != HELLO:
        return "it did not begin with HELLO"
    version, role, token = fields
    if not hmac.compare_digest(token, at.token):
        return "the token is wrong"
    if version != VERSION:
        return f"it speaks version {version}, this end speaks {VERSION}"
    if role == at.role:
        return f"both ends are a {role}"
    return ""


async def _streams(accepted: socket.socket, tls: ssl.SSLContext | None) -> Streams:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(loop=loop)
    protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
    try:
        transport, _ = await loop.connect_accepted_socket(lambda: protocol, accepted, ssl=tls)
    except BaseException:
        accepted.close()
        raise
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)


class Connecting:
    """Connects to a stream ref."""

    def __init__(self, at: Place, tls: ssl.SSLContext | None) -> None:
        self._place = at
        self._tls = tls
        self.where = place((at.host, at.port))

    async def open(self) -> Streams:
        """Return the streams when the other end has let this one in."""
        at = self._place
        try:
            async with asyncio.timeout(HANDSHAKE_S):
                reader, writer = await asyncio.open_connection(at.host, at.port, ssl=self._tls)
        except (OSError, TimeoutError) as error:
            raise ConnectionFailed(
                f"stream ref {self.where}: no connection ({error or type(error).__name__}); its process has ended, another end has used "
                "it, or its subscription_timeout is over"
            ) from None
        try:
            async with asyncio.timeout(HANDSHAKE_S):
                writer.write(frame(HELLO, VERSION, "sink" if at.role == "source" else "source", at.token))
                await writer.drain()
                kind, *rest = await read_frame(reader, 4 * _LONGEST_HELLO)
        except BaseException as error:
            writer.close()
            if isinstance(error, OSError | EOFError | TimeoutError):
                raise ConnectionFailed(
                    f"stream ref {self.where}: the other end did not answer; another end may use it"
                ) from None
            raise
        if kind != WELCOME:
            writer.close()
            raise StreamRefError(
                f"stream ref {self.where} refused the connection: {rest[0] if kind == REFUSED else 'no WELCOME'}"
            )
        return reader, writer

    def close(self) -> None:
        """Nothing is held."""


def _call(step: Callable[[], None]) -> None:
    step()


class Link:
    """Owner: one stage. `on_frame(frame)` and `on_lost(error)` are called on its island; `on_lost` once, when the connection has ended."""

    def __init__(
        self, logic: Logic, opener: Opener, on_open: Callable[[], None], on_frame: Callable[[list[Any]], None],
        on_lost: Callable[[BaseException], None],
    ) -> None:  # fmt: skip
        self._system = logic.interpreter.island.run.system
        self._opener = opener
        self.where = opener.where
        self._tell: Callable[[Callable[[], None]], None] = logic.async_callback(_call).invoke
        self._on_open, self._on_frame, self._on_lost = on_open, on_frame, on_lost
        self._writer: asyncio.StreamWriter | None = None
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    # ── on the island ─────────────────────────────────────────────────────────────────────────────────────────────

    def start(self) -> None:
        """Open the connection and read frames."""
        run_coroutine(self._system, self._run())

    def send(self, data: bytes, then: Callable[[], None] | None = None) -> None:
        """Send frames; `then` is called on the island when the kernel has taken them. Frames of different calls keep their order."""

        def outside(future: Any) -> None:
            if then is not None and not future.cancelled() and future.exception() is None:
                self._tell(then)

        run_coroutine(self._system, self._send(data, then is not None)).add_done_callback(outside)

    def taken(self) -> None:
        """A frame of elements was taken: another may be read."""
        run_coroutine(self._system, self._let_in())

    def close(self, farewell: bytes = b"") -> None:
        """Send the last frames and close; returns at once."""
        try:
            run_coroutine(self._system, self._close(farewell))
        except AbruptTermination:
            self._opener.close()  # the loop has ended, and its connections with it

    # ── on the loop ───────────────────────────────────────────────────────────────────────────────────────────────

    async def _run(self) -> None:
        if self._closed:
            return
        self._task = asyncio.current_task()
        self._room = asyncio.Semaphore(_UNTAKEN_FRAMES)
        beating: asyncio.Task[None] | None = None
        try:
            reader, self._writer = await self._opener.open()
            self._tell(self._on_open)
            beating = asyncio.create_task(self._beat(self._writer))
            while True:
                async with asyncio.timeout(SILENCE_S):
                    found = await read_frame(reader)
                if found[0] == ELEMENTS:
                    await self._room.acquire()
                if found[0] != ALIVE:
                    self._tell(partial(self._on_frame, found))
        except asyncio.CancelledError:
            if not self._closed:
                self._lost(AbruptTermination("the asyncio loop has ended"))
        except Exception as error:  # noqa: BLE001  # whatever ended the connection
            self._lost(error)
        finally:
            if beating is not None:
                beating.cancel()
            if self._writer is not None and not self._closed:
                self._writer.close()

    def _lost(self, error: BaseException) -> None:
        named: BaseException = error
        if isinstance(error, EOFError | TimeoutError | OSError) and not isinstance(
            error, ConnectionFailed | StreamTimeout
        ):
            silent = isinstance(error, TimeoutError)
            reason = f"nothing has come from it for {SILENCE_S:g} s" if silent else "the connection has ended"
            named = StreamRefError(f"stream ref {self.where}: the other end is gone: {reason}")
        self._tell(lambda: self._on_lost(named))

    async def _beat(self, writer: asyncio.StreamWriter) -> None:
        while True:
            await asyncio.sleep(BEAT_S)
            writer.write(frame(ALIVE))

    async def _let_in(self) -> None:
        self._room.release()

    async def _send(self, data: bytes, drained: bool) -> None:
        if self._writer is not None:
            self._writer.write(data)
            if drained:
                await self._writer.drain()

    async def _close(self, farewell: bytes) -> None:
        self._closed = True
        if self._task is not None:
            self._task.cancel()  # a socket that it listens on is closed after the end of its accept
        else:
            self._opener.close()
        writer = self._writer
        if writer is not None:
            try:
                writer.write(farewell)
                async with asyncio.timeout(HANDSHAKE_S):
                    await writer.drain()
            except (OSError, TimeoutError):
                pass  # the other end is gone; nothing reaches it any more
            finally:
                writer.close()
