"""Pages over HTTP or HTTPS that need a token: metrics and readiness.

Owner: a thread of its own, and one for each request. A client sends the token as
`Authorization: Bearer TOKEN`, as Prometheus does. A probe sends it, too."""

from __future__ import annotations

import hmac
import logging
import socket
import threading
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, NamedTuple

from streamactors.accepting import pause_after
from streamactors.broker.http.door import HttpDoor, tls_context

_log = logging.getLogger("streamactors.broker.network")

CLIENT_TIMEOUT_S: Final = 10.0
LONGEST_S: Final = 30.0
"""A connection ends after so long, however slowly it sends."""
MOST_CONNECTIONS: Final = 64

TEXT: Final = "text/plain; charset=utf-8"


class Page(NamedTuple):
    """An answer."""

    body: bytes
    kind: str = TEXT
    status: HTTPStatus = HTTPStatus.OK


Pages = Mapping[str, Callable[[], Page]]


class HttpEndpoint:
    """Serves until it is closed. Raises OSError if the address is not available."""

    def __init__(self, door: HttpDoor, pages: Pages) -> None:
        self._server = _Server(door, pages)
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), name="metrics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop serving and free the address."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = MOST_CONNECTIONS  # of 5, the default, a burst of connections waits a second for each

    def __init__(self, door: HttpDoor, pages: Pages) -> None:
        self.pages = pages
        self.expected = f"Bearer {door.token}".encode()
        self.address_family = socket.AF_INET6 if ":" in door.host else socket.AF_INET
        self._tls = None if door.certificate is None else tls_context(door.certificate)
        self._open: dict[socket.socket, float] = {}  # since when, the oldest first
        self._asking: set[socket.socket] = set()  # those that have sent a request
        self._lock = threading.Lock()
        super().__init__((door.host, door.port), _Handler)

    def get_request(self) -> tuple[socket.socket, Any]:
        """Accept a connection; its TLS handshake happens on its own thread."""
        try:
            connection, peer = super().get_request()
        except OSError as error:
            time.sleep(pause_after(_log, "metrics", error))
            raise
        if self._tls is not None:
            connection.settimeout(CLIENT_TIMEOUT_S)
            connection = self._tls.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        return connection, peer

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection on a thread. If there are too many, the oldest one that has not sent its request makes room; connections that take too
        long are ended, too."""
        now = time.monotonic()
        with self._lock:
            for connection, since in self._open.items():
                if now - since > LONGEST_S:
                    _end(connection)
            if len(self._open) >= MOST_CONNECTIONS:
                silent = next((each for each in self._open if each not in self._asking), None)
                if silent is not None:
                    _end(silent)
                    del self._open[silent]
            full = len(self._open) >= MOST_CONNECTIONS
            if not full:
                self._open[request] = now
        if full:
            self.shutdown_request(request)
        else:
            super().process_request(request, client_address)

    def asks(self, request: Any) -> None:
        """A connection has sent its request."""
        with self._lock:
            if request in self._open:
                self._asking.add(request)

    def shutdown_request(self, request: Any) -> None:
        """Forget a connection and close it."""
        with self._lock:
            self._open.pop(request, None)
            self._asking.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away, or speaks no TLS, is no error of this process."""


def _end(connection: socket.socket) -> None:
    try:
        socket.socket.shutdown(connection, socket.SHUT_RDWR)
    except OSError:
        pass  # it has ended by itself


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = CLIENT_TIMEOUT_S

    def do_HEAD(self) -> None:
        """Answer a probe that reads only the status."""
        self.do_GET()

    def do_GET(self) -> None:
        """Answer with a page."""
        self.server.asks(self.request)
        path = self.path.partition("?")[0]
        given = self.headers.get("Authorization", "").encode("utf-8", "replace")
        if not hmac.compare_digest(given, self.server.expected):
            text = b"the token is missing or wrong; send it as Authorization: Bearer TOKEN\n"
            self._answer(Page(text, status=HTTPStatus.UNAUTHORIZED))
            return
        page = self.server.pages.get(path)
        if page is not None:
            self._answer(page())
        else:
            there = " and ".join(sorted(self.server.pages.keys() - {"/healthz"}))
            self._answer(Page(f"not found; there are {there}\n".encode(), status=HTTPStatus.NOT_FOUND))

    def _answer(self, page: Page) -> None:
        self.send_response(page.status)
        self.send_header("Content-Type", page.kind)
        self.send_header("Content-Length", str(len(page.body)))
        if page.status == HTTPStatus.UNAUTHORIZED:
            self.send_header("WWW-Authenticate", "Bearer")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(page.body)

    def log_message(self, *_: Any) -> None:
        """Do not log scrapes."""
