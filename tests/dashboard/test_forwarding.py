"""A page of several processes asks the process that has the answer: taps, searches, keys of stores; and the search of a page that was given no cluster."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import confluent_kafka as ck
import pytest

from streamactors import ActorSystem, Sink, Source
from streamactors.broker import Cluster
from streamactors.dashboard.combining import Combiner, Remote
from streamactors.dashboard.serving import Dashboard, serve
from streamactors.kafka import Consumer, ConsumerSettings, Subscriptions

COUNT = 200


def ask(page: Dashboard, path: str, method: str = "GET") -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", page.port, timeout=30)
    try:
        connection.request(method, path, headers={"Authorization": f"Bearer {page.token}"})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def events(text: str) -> list[tuple[str, Any]]:
    parts = [part.split("\n") for part in text.split("\n\n") if part.startswith("event: ")]
    return [(lines[0].removeprefix("event: "), json.loads(lines[1].removeprefix("data: "))) for lines in parts]


def looks(page: Dashboard, path: str, count: int) -> list[str]:
    connection = http.client.HTTPConnection("127.0.0.1", page.port, timeout=30)
    connection.request("GET", path, headers={"Authorization": f"Bearer {page.token}"})
    answer = connection.getresponse()
    assert answer.status == 200, answer.read()
    found: list[str] = []
    while len(found) < count:
        line = answer.readline()
        assert line
        if line.startswith(b"data: "):
            found += json.loads(line[6:])["elements"]
    answer.close()
    connection.close()
    return found


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        cluster.create_topic("flights", 2)
        producer = ck.Producer({"bootstrap.servers": cluster.bootstrap_servers})
        for n in range(COUNT):
            producer.produce("flights", f"v{n}", f"k{n}", partition=n % 2)
        assert not producer.flush(30)
        yield cluster


def reading(cluster: Cluster, system: ActorSystem) -> Any:
    settings = ConsumerSettings(cluster.bootstrap_servers, "g", "earliest")
    words = Consumer.records(settings, Subscriptions.topics("flights"), key="string")
    return words.group_by_key().count(name="counts").to_stream().to(Sink.ignore()).named("count").run(system)


@pytest.mark.timeout(120)
def test_a_page_without_a_cluster_searches_that_of_its_running_graphs(cluster: Cluster) -> None:
    with ActorSystem("reads") as system, system.serve_dashboard() as page:
        status, why = ask(page, "/api/records?topic=flights")
        assert (status, "nothing that runs here reads or writes" in why) == (404, True)
        control = reading(cluster, system)
        deadline = time.monotonic() + 60
        while (found := ask(page, "/api/records?topic=flights&value=v42"))[0] == 404 and time.monotonic() < deadline:
            time.sleep(0.1)
        status, text = found
        assert status == 200
        assert [value["key"] for kind, value in events(text) if kind == "hit"] == ["k42"]
        assert events(text)[-1][0] == "end"
        control.shutdown().result(30)


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_questions_to_a_combined_page_reach_the_process_that_has_the_answer(cluster: Cluster) -> None:
    with ExitStack() as undo:
        systems = [undo.enter_context(ActorSystem(f"process {n}")) for n in range(2)]
        pages = [undo.enter_context(serve(system, redact=lambda each: f"<{each}>")) for system in systems]
        Source.range(10**9).throttle(300, "1s").map(lambda n: f"one {n}").named("one").to(Sink.ignore()).run(systems[0])
        Source.range(10**9).throttle(300, "1s").map(lambda n: f"two {n}").named("two").to(Sink.ignore()).run(systems[1])
        control = reading(cluster, systems[1])
        silent = Remote("http://127.0.0.1:9/#token=x")
        both = undo.enter_context(Dashboard(Combiner([silent, *(Remote(page.url) for page in pages)])))
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            state = both.state()
            stages = {
                stage["name"]: (graph["id"], stage["id"]) for graph in state["graphs"] for stage in graph["stages"]
            }
            if {"one", "two"} <= stages.keys() and state["stores"]:
                break
            time.sleep(0.2)
        for name in ("one", "two"):
            run, stage = stages[name]
            assert all(text.startswith(f"'<{name} ") for text in looks(both, f"/api/tap?run={run}&stage={stage}", 5))
        status, text = ask(both, "/api/records?topic=flights&key=k7&limit=5")
        assert status == 200
        assert {value["key"] for kind, value in events(text) if kind == "hit"} <= {
            "k7",
            "k70",
            "k71",
            "k72",
            "k73",
            "k74",
            "k75",
            "k76",
            "k77",
            "k78",
            "k79",
        }
        deadline = time.monotonic() + 30
        entries: list[Any] = []
        while not entries and time.monotonic() < deadline:
            status, text = ask(both, "/api/store?name=counts&key=k1")
            entries = json.loads(text)["entries"] if status == 200 else []
        assert [entry["value"] for entry in entries] == ["'<1>'"]
        for path in (
            "/api/tap?run=7:0&stage=1",
            "/api/tap?run=1&stage=1",
            "/api/tap?run=%0d%0aX:1&stage=1",
            "/api/store?name=none&key=1",
        ):
            assert ask(both, path)[0] == 404, path
        assert ask(both, "/api/tap?run=0:0&stage=1")[0] == 503, "the process that does not answer"
        assert ask(both, "/api/records?topic=")[0] == 400
        control.shutdown().result(30)


class Evil:
    """A process that answers with something else than a dashboard does."""

    def __init__(self, answer: bytes) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._answer = answer
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/#token=x"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            with client:
                client.recv(65536)
                try:
                    client.sendall(self._answer)
                except OSError:
                    pass

    def close(self) -> None:
        self._socket.close()


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 999 x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: " + b"a" * 70_000,
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n" + b"a" * (5 << 20),
    ],
)
def test_a_process_that_answers_with_nonsense_is_refused_within_bounds(answer: bytes) -> None:
    evil = Evil(answer)
    try:
        with Dashboard(Combiner([Remote(evil.url), Remote(evil.url)])) as page:
            status, text = ask(page, "/api/store?name=a&key=b")
            assert status == 502
            assert len(text) < 200
    finally:
        evil.close()


def test_html_of_another_process_is_passed_on_as_plain_text() -> None:
    evil = Evil(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nSet-Cookie: a=b\r\n\r\n<script>alert(1)</script>")
    try:
        with Dashboard(Combiner([Remote(evil.url)])) as page:
            connection = http.client.HTTPConnection("127.0.0.1", page.port, timeout=10)
            connection.request("GET", "/api/records?topic=a", headers={"Authorization": f"Bearer {page.token}"})
            answer = connection.getresponse()
            assert answer.getheader("Content-Type", "").startswith("text/plain")
            assert answer.getheader("Set-Cookie") is None
            assert answer.getheader("X-Content-Type-Options") == "nosniff"
            connection.close()
    finally:
        evil.close()


def test_a_key_is_looked_for_in_every_process_and_copies_are_shown_once() -> None:
    # Each process has the keys of its own partitions. The first answer counted, and said that there is no such key.
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"
    entry = b'{"key":"\'k1\'","start_ms":"","value":"7"}'
    answers = (b'{"entries":[]}', b'{"entries":[%s]}' % entry, b'{"entries":[%s]}' % entry, b"nonsense")
    processes = [Evil(head + answer) for answer in answers]
    try:
        with Dashboard(Combiner([Remote(each.url) for each in processes])) as page:
            status, text = ask(page, "/api/store?name=counts&key=k1")
            assert (status, json.loads(text)) == (200, {"entries": [json.loads(entry)]})
    finally:
        for each in processes:
            each.close()


class Answering:
    """A process whose page answers with these states in turn."""

    name = "other"
    page = None

    def __init__(self, *states: Any) -> None:
        self._states = iter(states)

    def state(self) -> Any:
        return next(self._states)

    def close(self) -> None:
        """Nothing is open."""


def test_a_page_of_another_version_is_named_and_the_others_are_shown() -> None:
    """Its state lacked a field: the thread that reads the states ended, and the page showed the last one forever."""
    with ActorSystem("mine") as system, serve(system, name="mine") as page:
        mine = json.loads(ask(page, "/api/state")[1])
        combiner = Combiner([Answering({"version": 2}), Answering(mine)])
        state = json.loads(combiner.last[1])
        combiner.stop()
    assert [process["name"] for process in state["processes"]] == ["mine"]
    assert state["stalls"] == list(combiner.silent.values())
    assert "other: its page is of another version" in state["stalls"][0]
