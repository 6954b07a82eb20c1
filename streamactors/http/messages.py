"""A request and the response to it, and how the head of a request is read. Pure."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qsl, unquote

TEXT: Final = "text/plain; charset=utf-8"
JSON: Final = "application/json"
EVENTS: Final = "text/event-stream"
MOST_FIELDS: Final = 50
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


@dataclass(frozen=True, slots=True)
class Request:
    """`headers` by lower-case name; a header that comes twice is joined by commas. `query`: the last value of each name.
    `peer`: the address that it came from."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes = b""
    peer: str = ""


@dataclass(frozen=True, slots=True)
class Response:
    """`events`: instead of a body, pieces of an event stream, until it ends or the client leaves."""

    status: HTTPStatus = HTTPStatus.OK
    body: bytes = b""
    kind: str = TEXT
    headers: tuple[tuple[str, str], ...] = ()
    events: AsyncIterator[bytes] | None = field(default=None, compare=False)


def said(status: HTTPStatus, text: str, *headers: tuple[str, str]) -> Response:
    """Return a response of some lines of text."""
    return Response(status, f"{text}\n".encode(), headers=headers)


class BadRequest(Exception):
    """What was sent is not a request that this server reads."""

    def __init__(self, status: HTTPStatus, text: str) -> None:
        super().__init__(text)
        self.status = status


Handler = Callable[[Request], Awaitable[Response]]


def parsed(head: bytes) -> Request:
    """Return the request of a head. Raises BadRequest. Pure."""
    first, *lines = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    parts = first.split(" ")
    if len(parts) != 3 or not _TOKEN.fullmatch(parts[0]) or parts[2] not in ("HTTP/1.1", "HTTP/1.0"):
        raise BadRequest(HTTPStatus.BAD_REQUEST, "this is not an HTTP/1.1 request")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not _TOKEN.fullmatch(name) or "\n" in value or "\0" in value or "\r" in value:
            raise BadRequest(HTTPStatus.BAD_REQUEST, "a header cannot be read")
        name = name.lower()
        if name in headers and name in ("host", "content-length", "authorization", "origin"):
            raise BadRequest(HTTPStatus.BAD_REQUEST, f"{name} comes twice")
        headers[name] = f"{headers[name]}, {value.strip()}" if name in headers else value.strip()
    path, _, query = parts[1].partition("?")
    if not path.startswith("/"):
        raise BadRequest(HTTPStatus.BAD_REQUEST, "the path must begin with /")
    if parts[2] == "HTTP/1.0":
        headers.setdefault("connection", "close")
    try:
        fields = dict(parse_qsl(query, max_num_fields=MOST_FIELDS))
    except ValueError:
        raise BadRequest(HTTPStatus.BAD_REQUEST, f"a query has at most {MOST_FIELDS} fields") from None
    return Request(parts[0], unquote(path), fields, headers)
