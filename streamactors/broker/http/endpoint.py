"""What the address of metrics answers: pages, which need a token, and probes.

Owner: the server's loop; each page is made on a thread of its own, for it may wait for the data plane. A client sends the token as
`Authorization: Bearer TOKEN`, as Prometheus does. A probe says one word to everybody where probes need no token, and with the token the reasons, too."""

from __future__ import annotations

import asyncio
import hmac
import logging
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Final, NamedTuple

from streamactors.broker.http.endpoint_address import MetricsEndpoint, tls_context
from streamactors.http.messages import TEXT, Request, Response, said
from streamactors.http.server import HttpServer
from streamactors.log_limit import alike, log_limited

_log = logging.getLogger("streamactors.broker.network")

MOST_CONNECTIONS: Final = 64


class Page(NamedTuple):
    """A response."""

    body: bytes
    kind: str = TEXT
    status: HTTPStatus = HTTPStatus.OK


Pages = Mapping[str, Callable[[], Page]]


class Status(NamedTuple):
    """What a probe has found: `ok`, a word for everybody, and the reasons, one a line, for those with the token."""

    ok: bool
    word: str
    details: Sequence[str] = ()


Probes = Mapping[str, Callable[[], Status]]


class HttpEndpoint:
    """Serves until it is closed. Raises OSError if the address is not available."""

    def __init__(self, endpoint: MetricsEndpoint, pages: Pages, probes: Probes | None = None) -> None:
        self._pages = pages
        self._probes = probes or {}
        self._open_probes = endpoint.probes_without_token
        self._expected = f"Bearer {endpoint.token}".encode()
        tls = None if endpoint.certificate is None else tls_context(endpoint.certificate)
        self._server = HttpServer(
            "metrics", endpoint.host, endpoint.port, lambda: self._answer, tls=tls, most=MOST_CONNECTIONS
        )
        self.port = self._server.port

    def close(self) -> None:
        """Stop serving and free the address."""
        self._server.close()

    async def _answer(self, request: Request) -> Response:
        if request.method not in ("GET", "HEAD"):
            return said(HTTPStatus.METHOD_NOT_ALLOWED, "use GET", ("Allow", "GET"))
        given = request.headers.get("authorization", "").encode("utf-8", "replace")
        trusted = hmac.compare_digest(given, self._expected)
        try:
            return await asyncio.to_thread(self._of, request.path, trusted)
        except Exception as error:  # noqa: BLE001 - of a collector; the client gets an answer, and the log the reason
            path, cause = request.path, (request.path, type(error))
            log_limited(
                _log, logging.ERROR, cause, "%s of the metrics failed: %s", path, alike(str(error)), exc_info=error
            )
            return said(HTTPStatus.INTERNAL_SERVER_ERROR, "this page failed; the log of the process says why")

    def _of(self, path: str, trusted: bool) -> Response:
        probe = self._probes.get(path)
        if probe is not None and (trusted or self._open_probes):
            status = probe()
            lines = [status.word, *(status.details if trusted else ())]
            return said(HTTPStatus.OK if status.ok else HTTPStatus.SERVICE_UNAVAILABLE, "\n".join(lines))
        if not trusted:
            text = "the token is missing or wrong; send it as Authorization: Bearer TOKEN"
            return said(HTTPStatus.UNAUTHORIZED, text, ("WWW-Authenticate", "Bearer"))
        page = self._pages.get(path)
        if page is not None:
            made = page()
            return Response(made.status, made.body, made.kind)
        *others, last = sorted({*self._pages, *self._probes} - {"/healthz"})
        there = f"{', '.join(others)} and {last}" if others else last
        return said(HTTPStatus.NOT_FOUND, f"not found; there are {there}")
