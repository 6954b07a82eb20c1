"""SchemaRegistry: serves the REST protocol of Confluent's schema registry on loopback, for tests and demos.

    with SchemaRegistry() as registry:
        orders = AvroSerde(registry.url, schema)

One lock around `subjects.py`; the requests come on threads of their own."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

from streamactors.testing.registry.subjects import RegistryError, Subjects, more_of

LARGEST_BODY: Final = 10 * 1024 * 1024
IDLE_TIMEOUT_S: Final = 30
MEDIA_TYPE: Final = "application/vnd.schemaregistry.v1+json"

Query = dict[str, str]
Answer = Callable[[Subjects, tuple[str, ...], Query, Any], Any]


def _schema_of(body: Any) -> tuple[str, str, Any]:
    if not isinstance(body, dict) or not isinstance(body.get("schema"), str):
        raise RegistryError(42201, "Invalid schema: the body must be an object with the schema as a string")
    return body.get("schemaType") or "AVRO", body["schema"], body.get("references") or ()


def _is_true(query: Query, name: str) -> bool:
    return query.get(name, "").lower() == "true"


def _by_id(subjects: Subjects, path: tuple[str, ...], query: Query, body: Any) -> Any:
    schema = subjects.schema(int(path[0]))
    return {"schema": schema.text} | more_of(schema)


def _compatible(subjects: Subjects, path: tuple[str, ...], query: Query, body: Any) -> Any:
    kind, text, _ = _schema_of(body)
    found = subjects.problems(path[0], kind, text, path[1] if len(path) > 1 else None)
    return {"is_compatible": not found} | ({"messages": found} if _is_true(query, "verbose") else {})


def _set_level(subjects: Subjects, path: tuple[str, ...], query: Query, body: Any) -> Any:
    level = body.get("compatibility") if isinstance(body, dict) else None
    subjects.set_level(path[0] if path else None, str(level))
    return {"compatibility": level}


def _level(subjects: Subjects, path: tuple[str, ...], query: Query, body: Any) -> Any:
    return {"compatibilityLevel": subjects.level_of(path[0] if path else None, _is_true(query, "defaultToGlobal"))}


def _uses(subjects: Subjects, path: tuple[str, ...], query: Query, body: Any) -> Any:
    return [{"subject": name, "version": version} for name, version in subjects.uses(int(path[0]))]


_ROUTES: Final[tuple[tuple[str, str, Answer], ...]] = (
    ("GET", "/", lambda s, p, q, b: {}),
    ("GET", "/schemas/types", lambda s, p, q, b: ["JSON", "PROTOBUF", "AVRO"]),
    ("GET", r"/schemas/ids/(\d+)", _by_id),
    ("GET", r"/schemas/ids/(\d+)/schema", lambda s, p, q, b: json.loads(s.schema(int(p[0])).text)),
    ("GET", r"/schemas/ids/(\d+)/subjects", lambda s, p, q, b: sorted({name for name, _ in s.uses(int(p[0]))})),
    ("GET", r"/schemas/ids/(\d+)/versions", _uses),
    ("GET", "/subjects", lambda s, p, q, b: s.names(_is_true(q, "deleted"))),
    ("POST", "/subjects/([^/]+)", lambda s, p, q, b: s.lookup(p[0], *_schema_of(b))),
    ("DELETE", "/subjects/([^/]+)", lambda s, p, q, b: s.delete(p[0], None, _is_true(q, "permanent"))),
    ("GET", "/subjects/([^/]+)/versions", lambda s, p, q, b: s.subject(p[0]).live()),
    ("POST", "/subjects/([^/]+)/versions", lambda s, p, q, b: {"id": s.register(p[0], *_schema_of(b))}),
    ("GET", "/subjects/([^/]+)/versions/([^/]+)", lambda s, p, q, b: s.version(p[0], p[1], _is_true(q, "deleted"))),
    ("GET", "/subjects/([^/]+)/versions/([^/]+)/schema", lambda s, p, q, b: json.loads(s.version(p[0], p[1])["schema"])),
    ("DELETE", "/subjects/([^/]+)/versions/([^/]+)", lambda s, p, q, b: s.delete(p[0], p[1], _is_true(q, "permanent"))[0]),
    ("POST", "/compatibility/subjects/([^/]+)/versions/([^/]+)", _compatible),
    ("POST", "/compatibility/subjects/([^/]+)/versions", _compatible),
    ("GET", "/config", _level),
    ("PUT", "/config", _set_level),
    ("GET", "/config/([^/]+)", _level),
    ("PUT", "/config/([^/]+)", _set_level),
    ("DELETE", "/config/([^/]+)", lambda s, p, q, b: {"compatibility": s.set_level(p[0], None)}),
    ("GET", "/mode", lambda s, p, q, b: {"mode": "READWRITE"}),
)  # fmt: skip


class SchemaRegistry:
    """A registry on 127.0.0.1; a context manager. `path`: a file that keeps the schemas, else they end with it. `port` 0: any."""

    def __init__(self, path: str | Path | None = None, *, port: int = 0) -> None:
        self._subjects = Subjects(path)
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", port), self._handler())
        self._server.daemon_threads = True
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """The address for clients."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def start(self) -> SchemaRegistry:
        """Serve requests on a thread."""
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), name="schema registry", daemon=True
        )
        self._thread.start()
        return self

    def close(self) -> None:
        """End."""
        if self._thread is not None:
            self._server.shutdown()
            self._thread.join()
            self._thread = None
        self._server.server_close()

    def __enter__(self) -> SchemaRegistry:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def answer(self, method: str, target: str, body: Any) -> tuple[int, Any]:
        """Return the HTTP status and the answer of a request."""
        split = urlsplit(target)
        query = {name: values[-1] for name, values in parse_qs(split.query).items()}
        path = split.path.rstrip("/") or "/"
        for wanted, pattern, answer in _ROUTES:
            found = re.fullmatch(pattern, path) if wanted == method else None
            if found is not None:
                try:
                    with self._lock:
                        return 200, answer(self._subjects, tuple(map(unquote, found.groups())), query, body)
                except RegistryError as error:
                    return int(str(error.code)[:3]), {"error_code": error.code, "message": str(error)}
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        registry = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = IDLE_TIMEOUT_S

            def _serve(self) -> None:
                size = self.headers.get("Content-Length") or "0"
                if not size.isdigit() or int(size) > LARGEST_BODY:
                    self.close_connection = True
                    self._reply(413, {"error_code": 413, "message": f"A body has at most {LARGEST_BODY} bytes"})
                    return
                try:
                    data = self.rfile.read(int(size))
                    body = json.loads(data) if data else None
                except ValueError as error:
                    self._reply(400, {"error_code": 400, "message": f"The body is not JSON: {error}"})
                    return
                self._reply(*registry.answer(self.command, self.path, body))

            do_GET = do_POST = do_PUT = do_DELETE = _serve  # the names of http.server

            def _reply(self, status: int, answer: Any) -> None:
                data = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", MEDIA_TYPE)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: Any) -> None:
                """Be silent."""

        return Handler
