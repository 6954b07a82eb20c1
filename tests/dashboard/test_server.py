"""The page's server under attack and under load: tokens, origins, names, hostile strings, readers that stop reading."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

from streamactors import ActorSystem, Sink, Source
from streamactors.dashboard import schema
from streamactors.dashboard.serving import Dashboard, DashboardNotServed, serve
from streamactors.http import connections
from streamactors.http.messages import BadRequest, parsed
from tests.actors.eventually import eventually

HOSTILE = ["<script>alert(1)</script>", "\r\nX-Evil: 1", '"}]}', "\u2028\u202e", "\ud800", "a" * 5_000, "\x00\x1b[31m"]


@pytest.fixture
def system() -> Iterator[ActorSystem]:
    with ActorSystem("page") as system:
        yield system


@pytest.fixture
def page(system: ActorSystem) -> Iterator[Dashboard]:
    with serve(system, token="secret") as page:
        yield page


def ask(
    page: Dashboard, path: str, method: str = "GET", body: bytes | None = None, **headers: str
) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", page.port, timeout=10)
    try:
        connection.putrequest(method, path, skip_host="Host" in headers, skip_accept_encoding=True)
        for name, value in headers.items():
            connection.putheader(name.replace("_", "-"), value)
        if body is not None:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        answer = connection.getresponse()
        return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
    finally:
        connection.close()


BEARER = {"Authorization": "Bearer secret"}
PATHS = [
    "/api/state",
    "/api/events",
    "/api/history",
    "/api/history?at_ms=1",
    "/api/schema",
    "/api/anything",
    "/api/../api/state",
]


def login(page: Dashboard, token: str = "secret", **headers: str) -> tuple[int, dict[str, str], bytes]:
    body = json.dumps({"token": token}).encode()
    return ask(page, "/session", "POST", body, **{"Content_Type": "application/json", **headers})


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": "Basic secret"},
        {"Authorization": "Bearer "},
        {"Cookie": "streamactors=secret"},
        {"Authorization": "Bearer sécret".encode().decode("latin-1")},
    ],
)
def test_no_endpoint_answers_without_its_token(page: Dashboard, path: str, headers: dict[str, str]) -> None:
    for method in ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"):
        status, _, body = ask(page, path, method, b"" if method == "POST" else None, **headers)
        assert status == 401
        assert b"graphs" not in body


def test_the_token_is_exchanged_for_a_cookie_that_opens_the_api(page: Dashboard) -> None:
    status, headers, _ = login(page)
    assert status == 200
    cookie = headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert "secret" not in cookie
    status, _, body = ask(page, "/api/state", Cookie=cookie.partition(";")[0])
    assert status == 200
    jsonschema.validate(json.loads(body), json.loads(schema.FILE.read_bytes()))


def test_a_wrong_token_gets_no_cookie(page: Dashboard) -> None:
    for token in ("", "secre", "secrets", "Secret"):
        status, headers, _ = login(page, token)
        assert (status, "set-cookie" in headers) == (401, False)
    for body in (b"", b"null", b"[]", b'{"token":1}', b"[" * 60_000, b"\xff"):
        assert ask(page, "/session", "POST", body, Content_Type="application/json")[0] == 401
    assert ask(page, "/session", "POST", b'{"token":"secret"}', Content_Type="text/plain")[0] == 415


@pytest.mark.parametrize(
    "name", ["evil.example", "evil.example:80", "localhost.evil.example", "127.0.0.1.evil.example", "", "[::1"]
)
def test_a_name_that_was_pointed_to_this_machine_is_refused(page: Dashboard, name: str) -> None:
    for path in ("/", "/api/state", "/session"):
        assert ask(page, path, **BEARER, Host=name)[0] == 421


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1:8080", "[::1]:80", "LOCALHOST"])
def test_names_of_this_machine_are_allowed(page: Dashboard, name: str) -> None:
    assert ask(page, "/api/state", **BEARER, Host=name)[0] == 200


def test_other_pages_can_neither_read_nor_log_in(page: Dashboard) -> None:
    cookie = login(page)[1]["set-cookie"].partition(";")[0]
    for foreign in ("http://evil.example", "null", f"https://127.0.0.1:{page.port + 1}", "http://localhost"):
        assert ask(page, "/api/state", Cookie=cookie, Origin=foreign)[0] == 403
        assert login(page, Origin=foreign)[0] == 403
    for site in ("cross-site", "same-site"):
        assert ask(page, "/api/state", Cookie=cookie, Sec_Fetch_Site=site)[0] == 403
    assert ask(page, "/api/state", Cookie=cookie, Origin=page.address, Sec_Fetch_Site="same-origin")[0] == 200


def test_a_proxy_is_named(system: ActorSystem) -> None:
    with serve(system, token="secret", hosts=["hub.example"]) as page:
        assert ask(page, "/api/state", **BEARER, Host="hub.example")[0] == 200
        assert ask(page, "/api/state", **BEARER, Host="hub.example", Origin="https://hub.example")[0] == 200
        assert ask(page, "/api/state", **BEARER, Host="other.example")[0] == 421


def test_every_answer_forbids_what_a_page_must_not_do(page: Dashboard) -> None:
    for path in ("/", "/api/state", "/nothing"):
        headers = ask(page, path, **BEARER)[1]
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in headers


@pytest.mark.parametrize(
    "path", ["/../model.py", "/%2e%2e/model.py", "/..%2fmodel.py", "//etc/passwd", "/page/index.html"]
)
def test_no_path_leads_out_of_the_page(page: Dashboard, path: str) -> None:
    assert ask(page, path, **BEARER)[0] == 404


def raw(page: Dashboard, data: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", page.port), 10) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        found = b""
        while piece := connection.recv(65536):
            found += piece
        return found


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"GET / HTTP/2.0\r\n\r\n", b"400"),
        (b"GET  / HTTP/1.1\r\n\r\n", b"400"),
        (b"GET http://evil/ HTTP/1.1\r\n\r\n", b"400"),
        (b"GET /?" + b"a=1&" * 60 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nA b: c\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nA: " + b"x" * 20_000 + b"\r\n\r\n", b"431"),
        (b"POST /session HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\n", b"413"),
        (b"POST /session HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n", b"400"),
        (b"POST /session HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n", b"501"),
        (b"\x16\x03\x01\x02\x00\r\n\r\n", b"400"),
    ],
)
def test_what_is_no_request_is_refused(page: Dashboard, data: bytes, status: bytes) -> None:
    answer = raw(page, data)
    assert answer.startswith(b"HTTP/1.1 " + status)
    assert b"GET" not in answer.partition(b"\r\n\r\n")[2], "nothing of a request comes back"


def test_any_bytes_are_a_request_or_refused() -> None:
    from hypothesis import given
    from hypothesis import strategies as st

    @given(st.binary(max_size=200))
    def any_bytes(data: bytes) -> None:
        try:
            request = parsed(b"GET /" + data + b"\r\n\r\n")
        except BadRequest:
            return
        assert not any("\n" in value or "\r" in value for value in request.headers.values())

    any_bytes()


def test_hostile_strings_come_through_as_data(system: ActorSystem) -> None:
    names = [name for name in HOSTILE if name]
    for name in names:
        Source.never().map(lambda x: x).named(name).to(Sink.ignore()).named(name).run(system)
    with serve(system, token="secret", name=HOSTILE[0]) as page:
        eventually(lambda: len(page.state()["graphs"]) == len(names))
        status, headers, body = ask(page, "/api/state", **BEARER)
        assert (status, headers["content-type"]) == (200, "application/json")
        state = json.loads(body)
        jsonschema.validate(state, json.loads(schema.FILE.read_bytes()))
        assert b"\r" not in body
        assert len(state["graphs"]) == len(names)
        assert max(len(graph["name"]) for graph in state["graphs"]) <= 200


class Events:
    """An open page."""

    def __init__(self, page: Dashboard) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", page.port, timeout=10)
        self.connection.request("GET", "/api/events", headers=BEARER)
        self.answer = self.connection.getresponse()
        assert self.answer.getheader("content-type") == "text/event-stream"

    def next(self) -> Any:
        while True:
            line = self.answer.readline()
            assert line
            if line.startswith(b"data: "):
                return json.loads(line[6:])

    def close(self) -> None:
        self.answer.close()
        self.connection.close()


def test_an_open_page_gets_a_state_each_second(system: ActorSystem, page: Dashboard) -> None:
    Source.range(10**9).throttle(100, "1s").to(Sink.ignore()).run(system)
    events = Events(page)
    states = [events.next() for _ in range(4)]
    events.close()
    moments = [state["at_ms"] for state in states]
    assert moments == sorted(set(moments))
    assert 1_500 < moments[-1] - moments[0] < 6_000
    frames = json.loads(ask(page, "/api/history", **BEARER)[2])["frames"]
    assert set(moments[1:]) <= set(frames)
    again = json.loads(ask(page, f"/api/history?at_ms={moments[-1]}", **BEARER)[2])
    assert again == states[-1]
    assert ask(page, "/api/history?at_ms=x", **BEARER)[0] == 400


def test_the_sampler_rests_when_the_last_page_has_closed(page: Dashboard) -> None:
    events = Events(page)
    events.next()
    assert page._sampler.watched
    events.close()
    eventually(lambda: not page._sampler.watched)


def test_a_reader_that_stops_reading_loses_states_and_holds_no_memory(page: Dashboard) -> None:
    frame = json.dumps({"x": "y" * 1_000_000}).encode()
    silent = [Events(page) for _ in range(3)]
    for number in range(200):  # 200 MB, if they were kept
        published = threading.Event()
        page._server.call(page._feed.publish, (number + 1, frame))
        page._server.call(published.set)
        assert published.wait(10)
    held = [w.transport.get_write_buffer_size() for w in list(page._server.connections._open)]
    assert len(held) >= 3
    assert max(held) <= 1_100_000, "at most the event that is being sent"
    for each in silent:
        each.close()


def test_a_hundred_open_pages_share_one_encoding(page: Dashboard, monkeypatch: pytest.MonkeyPatch) -> None:
    from streamactors.dashboard import sampling

    made = []
    encode = sampling.encoded
    monkeypatch.setattr(sampling, "encoded", lambda state: made.append(1) or encode(state))
    pages = [Events(page) for _ in range(100)]
    for each in pages:
        each.next()
    made.clear()
    began = time.monotonic()
    for each in pages:
        each.next()
        each.next()
    took = time.monotonic() - began
    for each in pages:
        each.close()
    assert len(made) <= took + 3, "one for each second, not for each page"


def test_connections_that_ask_nothing_make_room(page: Dashboard) -> None:
    silent = [socket.create_connection(("127.0.0.1", page.port)) for _ in range(300)]
    try:
        assert ask(page, "/api/state", **BEARER)[0] == 200
        assert page._server.connections.count <= 256
    finally:
        for each in silent:
            each.close()


def test_connections_that_were_refused_make_room_too(page: Dashboard) -> None:
    """Each of them had sent a request, so that none was closed, and for 30 s nobody else was answered."""
    refused = []
    try:
        for _ in range(256):
            connection = http.client.HTTPConnection("127.0.0.1", page.port, timeout=10)
            connection.request("GET", "/api/state")
            answer = connection.getresponse()
            answer.read()
            assert answer.status == 401
            refused.append(connection)
        assert ask(page, "/api/state", **BEARER)[0] == 200
    finally:
        for connection in refused:
            connection.close()


def test_a_request_that_trickles_in_is_given_up(page: Dashboard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "REQUEST_S", 0.3)
    for begin in (b"GET / HTTP/1.1\r\n", b"POST /session HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60000\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", page.port), 10) as slow:
            slow.sendall(begin)
            with pytest.raises(OSError):  # reset, or a broken pipe
                for _ in range(2_000):
                    slow.sendall(b"A: b\r\n")
                    time.sleep(0.01)
    assert ask(page, "/api/state", **BEARER)[0] == 200


OTHER = """
import sys, urllib.request, urllib.error
for line in sys.stdin:
    method, path = line.split()
    request = urllib.request.Request(sys.argv[1] + path, method=method, data=b"{}" if method == "POST" else None)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            print(answer.status, path)
    except urllib.error.HTTPError as error:
        print(error.code, path)
"""


def test_another_process_without_the_token_gets_an_answer_from_no_endpoint(page: Dashboard) -> None:
    with serve(
        page._sampler._system, token="secret", allow_changes=True, broker={"bootstrap.servers": "127.0.0.1:1"}
    ) as whole:
        paths = json.loads(ask(whole, "/api/page", **BEARER)[2])["paths"]
        assert {
            "/api/state",
            "/api/tap",
            "/api/store",
            "/api/records",
            "/api/dead-letters",
            "/api/dead-letters/replay",
        } <= set(paths)
        asked = "".join(
            f"{method} {path}?topic=t&name=n&key=1&run=0&stage=0\n"
            for path in paths
            for method in ("GET", "POST", "HEAD")
        )
        answers = subprocess.run(
            [sys.executable, "-c", OTHER, whole.address], input=asked, capture_output=True, text=True, timeout=60
        )
    found = [line.split()[0] for line in answers.stdout.splitlines()]
    assert found == ["401"] * 3 * len(paths), answers


def test_a_taken_port_is_named(page: Dashboard, system: ActorSystem) -> None:
    with pytest.raises(DashboardNotServed, match=f"{page.port}"):
        serve(system, port=page.port)


def test_the_page_ends_with_its_system_and_leaves_no_thread() -> None:
    before = set(threading.enumerate())
    with ActorSystem("ends") as system:
        page = serve(system, token="secret")
        events = Events(page)
        events.next()
    events.close()
    page.close()
    names = [thread.name for thread in set(threading.enumerate()) - before]
    assert not any(name.startswith("dashboard") for name in names), names


def test_a_client_of_http_1_0_sees_the_end_of_the_answer(page: Dashboard) -> None:
    # It waited until the connection had been idle for 30 s: a client of 1.0 reads to the end of the connection.
    with socket.create_connection(("127.0.0.1", page.port), 10) as connection:
        connection.sendall(b"GET / HTTP/1.0\r\nHost: localhost\r\n\r\n")
        found = b""
        while piece := connection.recv(65536):
            found += piece
    assert found.startswith(b"HTTP/1.1 200 OK")
