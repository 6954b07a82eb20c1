"""Taps, searches and keys of stores on a page of several processes: each question goes to the process that has the answer, which streams it back.

Owner: the server's loop. An id of a state has the number of its process in front, `2:0`; a topic or a store is asked for in one process after the other.
What comes back is bounded: an answer by its length, a stream by the piece that is on its way."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final, Protocol
from urllib.parse import urlencode

from streamactors.dashboard.server.routes import Route, json_response
from streamactors.http.messages import EVENTS, JSON, TEXT, Request, Response, said

CONNECT_S: Final = 3.0
ANSWER_S: Final = 15.0
CHANGE_S: Final = 120.0
NOTHING_DONE: Final = (HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND, HTTPStatus.SERVICE_UNAVAILABLE)
NOT_YET: Final = "this process has not said yet where its page is"
SILENT_S: Final = 60.0
"""A stream that sends nothing for so long is given up."""
MOST_ANSWER: Final = 4 << 20
PIECE: Final = 64 << 10
_MOST_HEAD: Final = 16 << 10


class Behind(Protocol):
    """The dashboard of another process. `token`: what its address ends in."""

    name: str

    @property
    def host(self) -> str: ...
    @property
    def port(self) -> int: ...
    @property
    def path(self) -> str: ...
    @property
    def token(self) -> str: ...
    @property
    def tls(self) -> bool: ...


class Forwarding:
    """`remotes()`: by the number that the ids of their states have; None for a process that has not said yet where its page is."""

    def __init__(self, remotes: Callable[[], Sequence[Behind | None]]) -> None:
        self._remotes = remotes

    def routes(self) -> dict[str, tuple[str, Route]]:
        """Return the routes, by path."""
        return {
            "/api/tap": ("GET", self._tap),
            "/api/store": ("GET", self._store),
            "/api/records": ("GET", self._anywhere),
            "/api/dead-letters": ("GET", self._anywhere),
            "/api/dead-letters/replay": ("POST", self._change),
        }

    async def _tap(self, request: Request) -> Response:
        given = request.query.get("run", "")
        remotes = self._remotes()
        number, _, run = given.partition(":") if len(remotes) > 1 else ("0", "", given)
        if not run or not number.isdecimal() or len(number) > 5 or int(number) >= len(remotes):
            return said(HTTPStatus.NOT_FOUND, "no such stage runs; give run= and stage=, the ids of a state")
        remote = remotes[int(number)]
        if remote is None:
            return said(HTTPStatus.SERVICE_UNAVAILABLE, NOT_YET)
        return await _asked(remote, request, {**request.query, "run": run})

    async def _store(self, request: Request) -> Response:
        """Ask all processes: each has the keys of its own partitions. Return the entries of those that answer, else the last refusal."""
        found: dict[str, Any] = {}  # copies are shown once
        last = said(HTTPStatus.SERVICE_UNAVAILABLE, NOT_YET)
        answers = [_asked(remote, request, request.query) for remote in self._remotes() if remote is not None]
        there = False
        for answer in await asyncio.gather(*answers):
            if answer.status is HTTPStatus.OK and request.method != "HEAD":
                there = True
                found |= {json.dumps(each): each for each in _entries(answer.body)}
            elif not there:
                last = answer
        return json_response({"entries": list(found.values())}) if there else last

    async def _anywhere(self, request: Request) -> Response:
        """Ask one process after the other, until one has what is asked for; else return the last refusal."""
        last = said(HTTPStatus.SERVICE_UNAVAILABLE, NOT_YET)
        for remote in self._remotes():
            if remote is not None:
                last = await _asked(remote, request, request.query)
                if last.status in (HTTPStatus.OK, HTTPStatus.BAD_REQUEST):
                    break
        return last

    async def _change(self, request: Request) -> Response:
        """Ask one process after the other, as long as the one before has surely changed nothing: it was not reached, does not have it, or refuses."""
        last = said(HTTPStatus.SERVICE_UNAVAILABLE, NOT_YET)
        for remote in self._remotes():
            if remote is not None:
                last = await _asked(remote, request, request.query)
                if last.status not in NOTHING_DONE:
                    break
        return last


def _entries(body: bytes) -> list[Any]:
    """Return the entries that a process has answered with; none if its answer is nonsense."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return []
    entries = answer.get("entries") if isinstance(answer, dict) else None
    return entries if isinstance(entries, list) else []


async def _asked(remote: Behind, request: Request, query: Mapping[str, str]) -> Response:
    """Return the answer of a process. An answer that is a stream ends its connection when it is closed."""
    opening = asyncio.open_connection(remote.host, remote.port, ssl=True if remote.tls else None, limit=_MOST_HEAD)
    try:
        reader, writer = await asyncio.wait_for(opening, CONNECT_S)
    except (OSError, TimeoutError) as error:
        return said(HTTPStatus.SERVICE_UNAVAILABLE, f"{remote.name} does not answer: {type(error).__name__}")
    streams = False
    try:
        host = f"[{remote.host}]" if ":" in remote.host else remote.host
        head = (
            f"{request.method} {remote.path}{request.path}?{urlencode(query)} HTTP/1.1\r\nHost: {host}:{remote.port}\r\n"
            f"Authorization: Bearer {remote.token}\r\nConnection: close\r\n"
        )
        changes = request.method == "POST"
        if changes:
            head += f"Content-Type: {JSON}\r\nContent-Length: {len(request.body)}\r\n"
        writer.write(head.encode("ascii") + b"\r\n" + (request.body if changes else b""))
        status, headers = await asyncio.wait_for(_head(reader), CHANGE_S if changes else ANSWER_S)
        kind = headers.get("content-type", TEXT)
        streams = status is HTTPStatus.OK and kind == EVENTS and request.method != "HEAD"
        if streams:
            return Response(kind=EVENTS, events=_pieces(reader, writer))
        body = b"" if request.method == "HEAD" else await asyncio.wait_for(_body(reader), ANSWER_S)
        return Response(status, body, kind if kind in (JSON, TEXT, EVENTS) else TEXT)
    except (
        OSError,
        ValueError,
        IndexError,
        asyncio.IncompleteReadError,
        asyncio.LimitOverrunError,
        TimeoutError,
    ) as error:
        return said(HTTPStatus.BAD_GATEWAY, f"{remote.name} does not answer: {type(error).__name__}")
    finally:
        if not streams:
            writer.close()


async def _head(reader: asyncio.StreamReader) -> tuple[HTTPStatus, dict[str, str]]:
    """Return status and headers. Raises ValueError for what is no answer."""
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    status = HTTPStatus(int(first.split(" ")[1]))
    return status, {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines) if value}


async def _body(reader: asyncio.StreamReader) -> bytes:
    body = b""
    while piece := await reader.read(PIECE):
        body += piece
        if len(body) > MOST_ANSWER:
            raise ValueError("the answer is too long")
    return body


async def _pieces(reader: asyncio.StreamReader, writer: Any) -> AsyncIterator[bytes]:
    """Yield the stream as it comes, one piece at a time: what is not taken stays in the other process."""
    try:
        while piece := await asyncio.wait_for(reader.read(PIECE), SILENT_S):
            yield piece
    except (OSError, TimeoutError):
        pass  # the process has ended; the page's stream ends with it
    finally:
        writer.close()
