"""What the server answers: the page, the session, and the data under `/api/`.

Owner: the server's loop. Everything under `/api/` needs the session or the token; the page's files hold no data, and need neither."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any, Final

from streamactors.dashboard import schema
from streamactors.dashboard.history import History
from streamactors.dashboard.sampling import Frame
from streamactors.dashboard.server.access import Access
from streamactors.dashboard.server.feed import Feed
from streamactors.dashboard.server.pages import page_files
from streamactors.http.messages import EVENTS, JSON, Request, Response, said

WRONG_S: Final = 0.2
"""How long the answer to a wrong token waits."""
READ_ONLY: Final = "this page is read-only; start it with allow_changes=True or --allow-changes"
NO_PAGE: Final = b"the files of the page are missing; the data is under /api/\n"

Route = Callable[[Request], Awaitable[Response]]


class Routes:
    """Answers requests. `last` returns the newest frame and may block; `more`: further routes by path, which need the session, too."""

    def __init__(
        self,
        access: Access,
        feed: Feed,
        history: History,
        last: Callable[[], Frame],
        more: Mapping[str, tuple[str, Route]] | None = None,
    ) -> None:
        self._access = access
        self._feed = feed
        self._history = history
        self._last = last
        self._files = page_files()
        self._files.setdefault("/", ("text/plain; charset=utf-8", NO_PAGE))
        self._api: dict[str, tuple[str, Route]] = {
            "/api/state": ("GET", self._state),
            "/api/events": ("GET", self._events),
            "/api/history": ("GET", self._past),
            "/api/schema": ("GET", self._schema),
            "/api/page": ("GET", self._page),
            **(more or {}),
        }

    async def answer(self, request: Request) -> Response:
        """Return the response to a request."""
        if not self._access.host_allowed(request.headers.get("host")):
            return said(
                HTTPStatus.MISDIRECTED_REQUEST, "this name is not one of this machine; give it as hosts= or --host-name"
            )
        method = "GET" if request.method == "HEAD" else request.method
        file = self._files.get(request.path)
        if file is not None:
            if method != "GET":
                return _not_allowed("GET")
            return Response(HTTPStatus.OK, file[1], file[0])
        if not self._access.origin_allowed(request.headers):
            return said(HTTPStatus.FORBIDDEN, "this request comes from another page")
        if request.path == "/session":
            return await self._session(request) if method == "POST" else _not_allowed("POST")
        if not self._access.admits(request.headers):
            text = "open the page with its token, or send Authorization: Bearer TOKEN"
            return Response(HTTPStatus.UNAUTHORIZED, f"{text}\n".encode(), headers=(("WWW-Authenticate", "Bearer"),))
        known = self._api.get(request.path)
        if known is None:
            return said(HTTPStatus.NOT_FOUND, f"not found; there are {', '.join(sorted(self._api))}")
        if method != known[0]:
            return _not_allowed(known[0])
        if method == "POST" and (refused := self._refused_change(request)):
            return refused
        return await known[1](request)

    def _refused_change(self, request: Request) -> Response | None:
        if not self._access.changes:
            return said(HTTPStatus.FORBIDDEN, READ_ONLY)
        if not is_json(request):
            return said(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"send {JSON}")
        if not self._access.admits_change(request.headers):
            return said(HTTPStatus.FORBIDDEN, "a change by cookie must name its Origin; programs send the token")
        return None

    async def _session(self, request: Request) -> Response:
        if not is_json(request):
            return said(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"send {JSON}")
        token = json_object(request).get("token")
        if not isinstance(token, str) or not self._access.is_token(token):
            await asyncio.sleep(WRONG_S)
            return said(
                HTTPStatus.UNAUTHORIZED, "the token is wrong; it is in the address that was printed at the start"
            )
        return Response(HTTPStatus.OK, b"{}", JSON, (("Set-Cookie", self._access.set_cookie()),))

    async def _state(self, request: Request) -> Response:
        state = (await self._newest())[1]
        return Response(HTTPStatus.OK, state, JSON)

    async def _events(self, request: Request) -> Response:
        if request.method == "HEAD":
            return Response(HTTPStatus.OK, kind=EVENTS)
        return Response(
            kind=EVENTS, headers=(("X-Accel-Buffering", "no"),), events=self._feed.follow(await self._newest())
        )

    async def _past(self, request: Request) -> Response:
        at = request.query.get("at_ms")
        if at is None:
            return json_response({"frames": self._history.moments()})
        if not at.lstrip("-").isdecimal() or len(at) > 20:
            return said(HTTPStatus.BAD_REQUEST, "at_ms is a number of milliseconds since 1970")
        frame = await asyncio.to_thread(self._history.at, int(at))
        if frame is None:
            return said(HTTPStatus.NOT_FOUND, "no state was kept yet")
        return Response(HTTPStatus.OK, frame, JSON)

    async def _schema(self, request: Request) -> Response:
        return Response(HTTPStatus.OK, schema.FILE.read_bytes(), "application/schema+json")

    async def _page(self, request: Request) -> Response:
        return json_response({"allow_changes": self._access.changes, "paths": sorted(self._api)})

    async def _newest(self) -> Frame:
        return await asyncio.to_thread(self._last)


def json_response(value: Any, status: HTTPStatus = HTTPStatus.OK) -> Response:
    """Return a value as JSON."""
    return Response(status, json.dumps(value, separators=(",", ":"), default=str).encode(), JSON)


def is_json(request: Request) -> bool:
    """Return whether a request says that its body is JSON."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower() == JSON


def json_object(request: Request) -> dict[str, Any]:
    """Return the JSON object of a request's body; an empty one if it is none."""
    try:
        given = json.loads(request.body)
    except (ValueError, RecursionError):
        return {}
    return given if isinstance(given, dict) else {}


def _not_allowed(method: str) -> Response:
    return Response(HTTPStatus.METHOD_NOT_ALLOWED, f"use {method}\n".encode(), headers=(("Allow", method),))
