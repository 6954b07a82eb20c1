"""server_sent_events, from a server over HTTP: connections that are lost, refused, cancelled."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from streamactors import (
    BuildError,
    ConnectionFailed,
    RestartSettings,
    Sink,
    Source,
)
from tests.stages.test_framing import run


class EventServer:
    """An HTTP server; each connection is answered by the next of `answers`: (status, type, bytes)."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, str, bytes]] = []
        self.asked: list[str | None] = []
        self.release = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append(self.headers.get("Last-Event-ID"))
                status, kind, data = outer.answers.pop(0)
                self.send_response(status)
                if kind:
                    self.send_header("Content-Type", kind)
                self.end_headers()
                self.wfile.write(data)
                self.wfile.flush()
                if data.endswith(b": wait\n"):
                    outer.release.wait(20)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/events"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self.release.set()
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def server():
    made = EventServer()
    yield made
    made.close()


KIND = "text/event-stream; charset=utf-8"
QUICK = RestartSettings("1ms", "2ms", max_restarts=2)


@pytest.mark.expects_log("; again in")
def test_events_come_from_a_server_and_a_lost_connection_is_made_again_behind_the_last_event(server):
    server.answers = [
        (200, KIND, b"retry: 1\nid: 1\ndata: a\n\nid: 2\ndata: b\n\ndata: half"),
        (503, "", b""),
        (200, KIND, b"id: 3\ndata: c\n\n"),
        (204, "", b""),
    ]
    found = run(Source.server_sent_events(server.url, reconnect=QUICK))
    assert [(e.data, e.id) for e in found] == [("a", "1"), ("b", "2"), ("c", "3")]
    assert server.asked == [None, "2", "2", "3"]


def test_a_server_that_cannot_be_reached_is_told_of_in_the_log(server, caplog):
    # the stream tried again and again, and a program with the usual logging said nothing
    server.answers = [(503, "", b""), (200, KIND, b"data: a\n\n"), (204, "", b"")]
    run(Source.server_sent_events(server.url, reconnect=QUICK))
    logged = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]  # not of the orderly end
    (ours,) = [
        each for each in logged if each.startswith("server_sent_events")
    ]  # a busy machine may have lines of its own
    assert ours.startswith(f"server_sent_events {server.url}: the server answered 503 Service Unavailable; again in ")


def test_the_id_of_the_last_event_may_hold_any_character(server):
    server.answers = [(200, KIND, "id: Zürich-№1\ndata: a\n\n".encode()), (204, "", b"")]
    found = run(Source.server_sent_events(server.url, reconnect=QUICK))
    assert [(e.data, e.id) for e in found] == [("a", "Zürich-№1")]
    assert server.asked[1].encode("latin-1").decode() == "Zürich-№1"  # the server reads headers as Latin-1


def test_an_event_is_emitted_while_the_connection_stays_open_and_cancel_closes_it(server):
    server.answers = [(200, KIND, b"data: now\n\n: wait\n")]
    assert Source.server_sent_events(server.url).run_with(Sink.head()).result(10).data == "now"


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ((404, KIND, b""), "the server answered 404 Not Found"),
        ((200, "text/html", b"<html>"), "the server sent text/html, not text/event-stream"),
    ],
)
def test_an_answer_that_is_no_stream_of_events_is_named(server, answer, message):
    server.answers = [answer]
    with pytest.raises(ConnectionFailed, match=message) as raised:
        run(Source.server_sent_events(server.url))
    assert server.url in str(raised.value)


@pytest.mark.expects_log("; again in")
def test_attempts_end_as_reconnect_says(server):
    server.answers = [(500, "", b"")] * 5
    with pytest.raises(
        ConnectionFailed, match="the server answered 500 Internal Server Error; gave up after 3 attempts"
    ):
        run(Source.server_sent_events(server.url, reconnect=QUICK))
    server.close()
    with pytest.raises(ConnectionFailed, match="ConnectError"):
        run(Source.server_sent_events(server.url, reconnect=None))


def test_without_reconnect_the_end_of_the_connection_is_the_end(server):
    server.answers = [(200, KIND, b"data: a\n\n")]
    assert [e.data for e in run(Source.server_sent_events(server.url, reconnect=None))] == ["a"]
    with pytest.raises(BuildError, match="expects a URL with http:// or https://, got 'x'"):
        Source.server_sent_events("x")
