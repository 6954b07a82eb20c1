"""The HTTP route to the stores of a run: `POST /stores/<name>` for other instances, `GET /stores/<name>?key=…` for people.

Every request needs the token of `State(advertise=…, token=…)`. Owner: the run; a thread of its own, and one for each request."""

from __future__ import annotations

import hmac
import json
import logging
import socket
import threading
import time
import urllib.parse
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from streamactors.accepting import pause_after
from streamactors.engine.island.run import Run
from streamactors.errors import StoreNotReady, StreamActorsError, UnknownStore
from streamactors.kafka.settings import ConsumerSettings
from streamactors.kafka.state.queries.query_peers import Peers
from streamactors.kafka.state.queries.query_wire import (
    CONTENT,
    LAG,
    MOST_REQUEST_BYTES,
    BadRequest,
    pack_entries,
    unpack_request,
)
from streamactors.log_limit import log_limited
from streamactors.windows.stage.queryable_store import QueryableStore
from streamactors.windows.stage.store_reads import RunStores, stores_of
from streamactors.windows.state.disk.errors import StateError
from streamactors.windows.state.reads import StoreEntry, StoreRequest

_log = logging.getLogger("streamactors.kafka")

ANSWER_S: Final = 30.0
_SILENT_S: Final = 10.0
MOST_CONNECTIONS: Final = 64
STRANGER_S: Final = 20.0
"""A connection that has not sent the token after this time makes room for the next one."""
JSON: Final = "application/json"
RETRY_AFTER_S: Final = 1
"""When a client that got 503 should ask again."""
_BELONGS: Final = {
    "windows": {"windows", "since", "until"},
    "key": {"key"},
    "prefix": {"prefix"},
    "range": {"from", "to"},
}
"""The parameters of each kind of request."""
_NONE: Final[Mapping[str, str]] = {}


class QueryServer:
    """Answers for the stores of one run, at the address that its state advertises. Raises StateError if the address cannot be used."""

    def __init__(self, stores: RunStores, settings: ConsumerSettings) -> None:
        address = settings.state.advertise
        assert address is not None
        host, _, port = address.rpartition(":")
        stores.peers = Peers(settings)
        try:
            self._server = _Server((host, int(port)), _handler(stores, settings.state.token or ""))
        except (OSError, socket.gaierror) as error:
            raise StateError(
                f"State(advertise={address!r}): {error.strerror or error}; give an address of this machine that is free; each instance needs "
                "its own, and in a member of `streamactors run --processes` STREAMACTORS_MEMBER is its number"
            ) from error
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.2,), name=f"queries at {address}", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Answer no more. Idempotent."""
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    address_family = socket.AF_INET
    request_queue_size = MOST_CONNECTIONS

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self._open: dict[Any, float | None] = {}
        """When a connection was accepted; None once it has sent the token."""
        self._lock = threading.Lock()
        super().__init__(address, handler)

    def get_request(self) -> tuple[Any, Any]:
        """Accept a connection."""
        try:
            return super().get_request()
        except OSError as error:
            time.sleep(pause_after(_log, "queries", error))
            raise

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection on a thread, unless there are too many. The oldest one that has not shown the token makes room."""
        now = time.monotonic()
        with self._lock:
            for connection in [c for c, since in self._open.items() if since is not None and now - since > STRANGER_S]:
                _end(connection)
                del self._open[connection]
            if len(self._open) >= MOST_CONNECTIONS:
                stranger = next((each for each, since in self._open.items() if since is not None), None)
                if stranger is not None:
                    _end(stranger)
                    del self._open[stranger]
            full = len(self._open) >= MOST_CONNECTIONS
            if not full:
                self._open[request] = now
        if full:
            log_limited(
                _log, logging.WARNING, ("refused", client_address[0]),
                "queries: a connection from %s is refused, %d are open", client_address[0], MOST_CONNECTIONS,
            )  # fmt: skip
            self.shutdown_request(request)
        else:
            super().process_request(request, client_address)

    def has_shown_the_token(self, request: Any) -> None:
        """The client of this connection is no stranger."""
        with self._lock:
            self._open[request] = None

    def shutdown_request(self, request: Any) -> None:
        """Forget a connection and close it."""
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that disconnects is not an error of this process."""
        _log.debug("query from %s ended", client_address[0], exc_info=True)


def _end(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # it has ended by itself


def _lag(store: QueryableStore) -> dict[str, str]:
    """Return the header of a stale answer: the largest lag of the copies that may have answered."""
    return {LAG: str(max(store.copies().result(ANSWER_S).values(), default=0))}


def _handler(stores: RunStores, token: str) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """One request."""

        server: _Server
        timeout = _SILENT_S
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            """Another instance or the command line asks."""
            self._guarded(self._answer_instance)

        def do_GET(self) -> None:
            """A person asks."""
            self._guarded(self._answer_person)

        def _guarded(self, answer: Callable[[str, str], None]) -> None:
            given = self.headers.get("Authorization", "")
            if not hmac.compare_digest(given.encode(), f"Bearer {token}".encode()):
                self.close_connection = True
                self._send(
                    401, b"the token is missing or wrong; send it as Authorization: Bearer <token>", "text/plain"
                )
                return
            self.server.has_shown_the_token(self.request)
            path, _, query = self.path.partition("?")
            parts = [urllib.parse.unquote(part) for part in path.split("/")]
            try:
                if parts == ["", "stores"] and self.command == "GET":
                    self._send(200, json.dumps(stores.names).encode(), JSON)
                elif len(parts) == 3 and parts[1] == "stores":
                    answer(parts[2], query)
                else:
                    raise UnknownStore(f"there is nothing at {path}; ask for /stores or /stores/<name>")
            except BadRequest as error:
                self.close_connection = True
                self._send(400, str(error).encode(), "text/plain")
            except (StreamActorsError, TimeoutError) as error:
                if isinstance(error, UnknownStore) and not isinstance(error, StoreNotReady):
                    self._send(404, str(error).encode(), "text/plain")
                else:
                    self._send(503, str(error).encode(), "text/plain", {"Retry-After": str(RETRY_AFTER_S)})

        def _answer_instance(self, store: str, _: str) -> None:
            length = self.headers.get("Content-Length", "")
            if not length.isdigit() or int(length) > MOST_REQUEST_BYTES:
                raise BadRequest(f"a request has a Content-Length of at most {MOST_REQUEST_BYTES}, not {length[:20]!r}")
            request, dirty, local, stale = unpack_request(self.rfile.read(int(length)))
            asked = QueryableStore(store, stores)
            found = asked.ask(request, dirty=dirty, local=local, stale=stale).result(ANSWER_S)
            self._send(200, pack_entries(found), CONTENT, _lag(asked) if stale else {})

        def _answer_person(self, store: str, query: str) -> None:
            asked = dict(urllib.parse.parse_qsl(query, keep_blank_values=True))
            dirty, stale = (asked.pop(name, "0") in ("1", "true") for name in ("dirty", "stale"))
            request = request_of(asked)
            store_here = QueryableStore(store, stores)
            found = store_here.ask(request, dirty=dirty, stale=stale).result(ANSWER_S)
            body = json.dumps([as_json(entry) for entry in found]).encode()
            self._send(200, body, JSON, _lag(store_here) if stale else {})

        def _send(self, code: int, body: bytes, kind: str, headers: Mapping[str, str] = _NONE) -> None:
            self.send_response(code)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: Any) -> None:
            _log.debug("query from %s: %s", self.address_string(), format % arguments)

    return Handler


def request_of(asked: dict[str, str]) -> StoreRequest:
    """Return the request of parameters: key, prefix, from, to, windows; `type=int` for keys that are numbers. Raises BadRequest."""
    known = {"key", "prefix", "from", "to", "windows", "since", "until", "type"}
    if unknown := asked.keys() - known:
        raise BadRequest(f"unknown parameter {min(unknown)!r}; there are {', '.join(sorted(known))}")
    kind = asked.get("type", "str")
    if kind not in ("str", "int"):
        raise BadRequest(f"type is {kind!r}; choose str or int")

    def key(name: str) -> Any:
        text = asked.get(name)
        return text if text is None or kind == "str" else number(name)

    def number(name: str) -> int | None:
        text = asked.get(name)
        try:
            return None if text is None else int(text)
        except ValueError:
            raise BadRequest(f"{name} is {text!r}, which is not a whole number") from None

    asks = next((name for name in ("windows", "key", "prefix") if name in asked), "range")
    if alien := asked.keys() - _BELONGS[asks] - {"type"}:
        name = min(alien)
        home = next(kind for kind, names in _BELONGS.items() if name in names)
        raise BadRequest(
            f"{name} does not go with {asks}; ask with one of key, prefix or windows"
            if home == name
            else f"{name} belongs to a request of {'a range of keys' if home == 'range' else 'windows=KEY'}; leave it out, or ask for that"
        )
    if "windows" in asked:
        return StoreRequest("windows", key("windows"), None, number("since"), number("until"))
    if "key" in asked:
        return StoreRequest("get", key("key"))
    if "prefix" in asked:
        return StoreRequest("prefix", key("prefix"))
    return StoreRequest("range", key("from"), key("to"))


def as_json(entry: StoreEntry) -> dict[str, Any]:
    """Return an entry for JSON; a value that JSON cannot represent is shown as its repr."""
    shown = {name: value for name, value in entry._asdict().items() if value is not None or name == "value"}
    loaded: dict[str, Any] = json.loads(json.dumps(shown, default=repr))
    return loaded


class _ServerOfRun:
    """The server of a run."""

    def __init__(self) -> None:
        self.server: QueryServer | None = None


def serve(run: Run, settings: ConsumerSettings) -> None:
    """Start the server of a run, once, until the run ends. Raises StateError."""
    held = run.shared(_ServerOfRun, _ServerOfRun)
    if held.server is None:
        server = held.server = QueryServer(stores_of(run), settings)
        run.when_ended(server.close)
