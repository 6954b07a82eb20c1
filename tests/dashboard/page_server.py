"""A small server for tests of the page: it serves the files with the headers of the real one and states that a test chooses."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

from streamactors.dashboard.server.pages import page_files
from streamactors.http.connections import SAFE
from tests.dashboard.page_states import HOSTILE, START_MS, letters


class PageServer:
    """`make(at_ms, second)` makes each state; there are `past` older ones. `silent`: no state is sent any more."""

    def __init__(
        self,
        make: Callable[[int, int], dict[str, Any]],
        past: int = 20,
        every_s: float = 0.5,
        port: int = 0,
        token: str = "secret",
        prefix: str = "",
    ) -> None:
        self.make = make
        self.past = past
        self.every_s = every_s
        self.silent = threading.Event()
        self.allow_changes = True
        self.pages = 0
        """Open event streams so far."""
        self.away = threading.Event()
        """The server is away, and a proxy before it says so."""
        self.asked: list[dict[str, Any]] = []
        """What was asked to be changed."""
        self.closed = threading.Event()
        self.second = past
        self.files = page_files()
        answers = type("Answers", (_Answers,), {"page": self})
        self.cookie = f"page={id(self)}"
        self.server = ThreadingHTTPServer(("127.0.0.1", port), answers)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}{prefix}/#token={token}"
        self.prefix = prefix
        self.token = token
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True)
        self.thread.start()

    def at(self, second: int) -> dict[str, Any]:
        return self.make(START_MS + 1000 * second, second)

    def close(self) -> None:
        self.closed.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join(5)


class _Answers(BaseHTTPRequestHandler):
    page: ClassVar[PageServer]

    def log_message(self, format: str, *args: Any) -> None:
        return

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        page = self.page
        if self.path == "/api/dead-letters/replay" and page.cookie in self.headers.get("Cookie", ""):
            page.asked.append(body)
            results = [
                {"letter": each, "to": f"flights-1@{n}", "error": None} for n, each in enumerate(body["letters"])
            ]
            results[-1] |= {"to": None, "error": f"RecordError: {HOSTILE[0]}"}
            self._send(200, "application/json", json.dumps({"results": results}).encode())
            return
        right = self.path == f"{page.prefix}/session" and body == {"token": page.token}
        cookie = ("Set-Cookie", f"{page.cookie}; HttpOnly; SameSite=Strict; Path=/")
        self._send(200 if right else 401, "application/json", b"{}", *([cookie] if right else []))

    def do_GET(self) -> None:
        page = self.page
        asked = urlsplit(self.path.removeprefix(page.prefix))
        if page.away.is_set():
            self._send(502, "text/html", b"<h1>Bad Gateway</h1>")
        elif asked.path in page.files:
            self._send(200, *page.files[asked.path])
        elif page.cookie not in self.headers.get("Cookie", ""):
            self._send(401, "text/plain", b"no session")
        elif asked.path == "/api/events":
            self._events()
        elif asked.path == "/api/page":
            paths = [f"/api/{name}" for name in ("tap", "records", "store", "dead-letters", "dead-letters/replay")]
            found = {"allow_changes": page.allow_changes, "paths": paths}
            self._send(200, "application/json", json.dumps(found).encode())
        elif asked.path == "/api/dead-letters":
            self._send(
                200, "application/json", json.dumps({"letters": letters(parse_qs(asked.query)["topic"][0])}).encode()
            )
        elif asked.path == "/api/tap":
            query = parse_qs(asked.query)
            elements = {"elements": [f"{HOSTILE[0]} of run {query['run'][0]}, stage {query['stage'][0]}"]}
            sent = f"event: elements\ndata: {json.dumps(elements)}\n\nevent: end\ndata: {{}}\n\n"
            self._send(200, "text/event-stream", sent.encode())
        elif asked.path == "/api/records":
            query = parse_qs(asked.query)
            value = f"{HOSTILE[1]} of {query['topic'][0]} from {query['from'][0]}"
            hit = {"partition": 1, "offset": 7, "timestamp_ms": 5000, "key": None, "value": value}
            count, total = (1_000, 3_001) if query["topic"][0] == "many" else (1, 1)
            parts = (*[("hit", hit)] * count, ("progress", {"read": count, "total": total}), ("end", {}))
            sent = "".join(f"event: {name}\ndata: {json.dumps(data)}\n\n" for name, data in parts)
            self._send(200, "text/event-stream", sent.encode())
        elif asked.path == "/api/store":
            query = parse_qs(asked.query)
            entry = {"key": repr(query["key"][0]), "start_ms": "5", "value": query["name"][0]}
            self._send(200, "application/json", json.dumps({"entries": [entry]}).encode())
        elif asked.path == "/api/history":
            at = parse_qs(asked.query).get("at_ms")
            moments = [START_MS + 1000 * second for second in range(page.second + 1)]
            found = page.at((int(at[0]) - START_MS) // 1000) if at else {"frames": moments}
            self._send(200, "application/json", json.dumps(found).encode())
        else:
            self._send(404, "text/plain", b"not found")

    def _events(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        page = self.page
        page.pages += 1
        try:
            while not page.closed.is_set() and not page.away.is_set():
                if not page.silent.is_set():
                    page.second += 1
                    self.wfile.write(f"event: state\ndata: {json.dumps(page.at(page.second))}\n\n".encode())
                    self.wfile.flush()
                time.sleep(page.every_s)
        except OSError:
            return  # the browser has left

    def _send(self, status: int, kind: str, body: bytes, *more: tuple[str, str]) -> None:
        self.send_response(status)
        for name, value in (("Content-Type", kind), ("Content-Length", str(len(body))), *SAFE, *more):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
