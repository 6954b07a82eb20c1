"""`/api/records`: a search in a topic that streams its hits. At most four searches run at once.

Owner: the server's loop; the records are read on asyncio's threads."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from http import HTTPStatus
from typing import Any, Final

from streamactors.dashboard.reading.record_query import MOST_HITS, RecordQuery, as_text
from streamactors.dashboard.redacting import Redact, redacted
from streamactors.dashboard.server.feed import BEGIN, event
from streamactors.dashboard.server.routes import Route
from streamactors.errors import StreamActorsError
from streamactors.http.messages import EVENTS, Request, Response, said

MOST_SEARCHES: Final = 4
FULL: Final = f"{MOST_SEARCHES} searches run already"
NO_CLUSTER: Final = "nothing that runs here reads or writes Kafka topics"


class Records:
    """`properties()` returns librdkafka's, with `bootstrap.servers`; None if no cluster is known. `redact(text of a value)` returns what is shown instead."""

    def __init__(self, properties: Callable[[], Mapping[str, Any] | None], redact: Redact | None) -> None:
        self._properties = properties
        self._redact = redact
        self._running = 0

    def routes(self) -> dict[str, tuple[str, Route]]:
        """Return the routes, by path."""
        return {"/api/records": ("GET", self._search)}

    async def _search(self, request: Request) -> Response:
        try:
            query = query_of(request.query)
        except ValueError as error:
            return said(HTTPStatus.BAD_REQUEST, str(error))
        properties = self._properties()
        if properties is None:
            return said(HTTPStatus.NOT_FOUND, NO_CLUSTER)
        if request.method == "HEAD":
            return Response(kind=EVENTS)
        if self._running >= MOST_SEARCHES:
            return said(HTTPStatus.SERVICE_UNAVAILABLE, FULL)
        return Response(kind=EVENTS, events=self._found(properties, query))

    async def _found(self, properties: Mapping[str, Any], query: RecordQuery) -> AsyncIterator[bytes]:
        from streamactors.dashboard.reading.record_search import search  # librdkafka: only where it is used

        if self._running >= MOST_SEARCHES:  # others began after this request was admitted
            yield event("failed", _json({"error": FULL}))
            return
        self._running += 1
        found = search(properties, query, self._shown if self._redact else None)
        try:
            yield BEGIN
            while (part := await asyncio.to_thread(next, found, None)) is not None:
                for hit in part.hits:
                    yield event("hit", _json(hit))
                yield event("progress", _json({"read": part.read, "total": part.total}))
            yield event("end", b"{}")
        except StreamActorsError as error:
            yield event("failed", _json({"error": " ".join(str(error).split())}))
        finally:
            self._running -= 1
            await asyncio.to_thread(found.close)  # type: ignore[attr-defined]  # a generator

    def _shown(self, value: bytes) -> bytes:
        return redacted(as_text(value), self._redact, str).encode()


def query_of(given: Mapping[str, str]) -> RecordQuery:
    """Return the query of a request's parameters. Raises ValueError, whose text says what is wrong. Pure."""
    if not given.get("topic"):
        raise ValueError("give topic=")
    numbers = {}
    for name in ("from", "to", "limit"):
        text = given.get(name, "")
        if text and (not text.isdecimal() or len(text) > 15):
            raise ValueError(f"{name}= is a number: of ms since 1970, or of hits")
        numbers[name] = int(text) if text else None
    return RecordQuery(
        given["topic"],
        given.get("key", ""),
        given.get("value", ""),
        given.get("path", ""),
        numbers["from"],
        numbers["to"],
        max(1, min(MOST_HITS, numbers["limit"] or 100)),
    )


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
