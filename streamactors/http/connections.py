"""The connections of a server: reads a request within bounds of size and time, and writes a response or a stream of events.

HTTP/1.1. Owner: the server's loop. Bounded: connections, the head (16 KB) and the body (64 KB) of a request, the time for both. A client that stops reading
holds one event at most: the next one is written when the last has left, and a client that takes nothing for 30 s is closed."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from http import HTTPStatus
from typing import Final

from streamactors.http.messages import BadRequest, Handler, Request, Response, parsed, said
from streamactors.log_limit import alike, log_limited

_log = logging.getLogger("streamactors.http")

MOST_CONNECTIONS: Final = 256
MOST_HEAD: Final = 16 << 10
MOST_BODY: Final = 64 << 10
REQUEST_S: Final = 10.0
IDLE_S: Final = 30.0
STUCK_S: Final = 30.0
"""A client that takes nothing for so long is closed."""

SAFE: Final = (
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Cache-Control", "no-store"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    (
        "Content-Security-Policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'self'",
    ),
)


class Connections:
    """Serves each connection as a task."""

    def __init__(self, handle: Handler, most: int = MOST_CONNECTIONS) -> None:
        self._handle = handle
        self._most = most
        self._open: set[asyncio.StreamWriter] = set()
        self._silent: dict[asyncio.StreamWriter, None] = {}  # those that wait for a request, the oldest first

    @property
    def count(self) -> int:
        """Open connections."""
        return len(self._open)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection until it ends. When there are too many, the one that has waited for a request for the longest time is closed."""
        if len(self._open) >= self._most:
            oldest = next(iter(self._silent), None)
            if oldest is None:
                writer.transport.abort()
                return
            self._forget(oldest)
            oldest.transport.abort()
        self._open.add(writer)
        self._silent[writer] = None
        try:
            await self._requests(reader, writer)
        except (OSError, asyncio.IncompleteReadError, TimeoutError, asyncio.CancelledError):
            pass  # the client has left, or sends nothing, or the server ends
        except Exception as error:  # noqa: BLE001  # one connection must not end the server
            cause = (type(error), alike(error))
            log_limited(_log, logging.WARNING, cause, "a request failed: %s", alike(error), exc_info=error)
        finally:
            self._forget(writer)
            writer.transport.abort() if writer.transport.get_write_buffer_size() else writer.close()

    def _forget(self, writer: asyncio.StreamWriter) -> None:
        self._open.discard(writer)
        self._silent.pop(writer, None)

    async def _requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.set_write_buffer_limits(high=0)
        wait_s = REQUEST_S
        while True:
            try:
                request = await asyncio.wait_for(_read(reader), wait_s)
            except BadRequest as bad:
                await _write(writer, said(bad.status, str(bad)), head_only=False, keep=False)
                return
            if request is None:
                return
            self._silent.pop(writer, None)
            response = await self._handle(replace(request, peer=_peer(writer)))
            keep = response.events is None and request.headers.get("connection", "").lower() != "close"
            await _write(writer, response, request.method == "HEAD", keep)
            if not keep:
                return
            self._silent[writer] = None
            wait_s = IDLE_S


async def _read(reader: asyncio.StreamReader) -> Request | None:
    """Return the next request; None if the client has ended the connection."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        raise BadRequest(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the head of the request is too long") from None
    except asyncio.IncompleteReadError as end:
        if end.partial:
            raise
        return None
    request = parsed(head)
    length = request.headers.get("content-length", "0")
    if "transfer-encoding" in request.headers:
        raise BadRequest(HTTPStatus.NOT_IMPLEMENTED, "send a Content-Length")
    if not length.isascii() or not length.isdigit():
        raise BadRequest(HTTPStatus.BAD_REQUEST, "Content-Length is not a number")
    if int(length) > MOST_BODY:
        raise BadRequest(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body has at most {MOST_BODY} bytes")
    body = await reader.readexactly(int(length))
    return Request(request.method, request.path, request.query, request.headers, body)


async def _write(writer: asyncio.StreamWriter, response: Response, head_only: bool, keep: bool) -> None:
    lines = [f"HTTP/1.1 {response.status.value} {response.status.phrase}", f"Content-Type: {response.kind}"]
    if response.events is None:
        lines.append(f"Content-Length: {len(response.body)}")
    lines.append(f"Connection: {'keep-alive' if keep else 'close'}")
    lines += [f"{name}: {value}" for name, value in (*SAFE, *response.headers)]
    head = "\r\n".join([*lines, "", ""]).encode("latin-1")
    await _send(writer, head if head_only or response.events is not None else head + response.body)
    if response.events is None or head_only:
        return
    try:
        async for piece in response.events:
            if writer.transport.is_closing():
                return
            await _send(writer, piece)
    finally:
        close = getattr(response.events, "aclose", None)
        if close is not None:
            await close()


def _peer(writer: asyncio.StreamWriter) -> str:
    name = writer.get_extra_info("peername")
    return str(name[0]) if name else ""


async def _send(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(data)
    await asyncio.wait_for(writer.drain(), STUCK_S)
