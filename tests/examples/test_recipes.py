"""Every recipe runs on a broker of its own and prints what its page says; the page shows the program as it is."""

from __future__ import annotations

import contextlib
import json
import re
import runpy
import sqlite3
import threading
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import pytest

from docs.programs import ROOT, programs, shown
from streamactors.broker import Cluster
from streamactors.engine.island.run import all_runs
from streamactors.kafka.client.connection import ClientConnection
from streamactors.kafka.controls.control import RUNNING
from tests.actors.eventually import eventually
from tests.loopback import OF_THIS_PROCESS
from tests.postgres_server import postgres as postgres
from tools.prose import Prose

RECIPES = {page.stem: (page, program) for page, program in programs().items()}
NEED_A_SERVICE = ("postgres", "clickhouse", "enrich-over-http")
SLOW = {
    "slow-handler": "it waits for longer than max.poll.interval.ms",
    "one-graph-on-spark": "it starts Spark",
    "blue-green": "it waits for rebalances",
    "stop-in-kubernetes": "it starts a process",
    "tests-without-docker": "it starts pytest",
}
LOGS = {"one-graph-on-spark": "Spark has not started after"}
"""What the product may log at WARNING or above."""
LONGEST_PAGE = 110
"""Lines of a page: the program and a few sentences."""


def marked(name: str) -> Any:
    marks = [pytest.mark.expects_log(LOGS[name])] if name in LOGS else []
    if name in SLOW:
        marks += [pytest.mark.slow, pytest.mark.timeout(900)]
    return pytest.param(name, marks=marks)


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """On a busy machine the first answer of a broker may take longer than a user would like to wait."""
    monkeypatch.setattr(ClientConnection, "silence_ms", 60_000)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A broker that ends after its clients: a program has its results while the last commit is on its way."""
    with Cluster() as one:
        yield one
        with contextlib.suppress(AssertionError):  # the watch names a stream that runs on
            eventually(lambda: not all_runs())
        for control in list(RUNNING):
            control.is_shutdown.exception(60)


class ClickHouse(BaseHTTPRequestHandler):
    """Takes the requests of the recipe as ClickHouse does: inserts of JSON lines, and rows with one key count once. The first insert fails."""

    rows: ClassVar[dict[tuple[int, int], Any]] = {}
    inserts: ClassVar[list[int]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        status, answer = 200, ""
        if "INSERT" in self.path:
            lines = [json.loads(line) for line in body.splitlines()]
            self.inserts.append(len(lines))
            if len(self.inserts) == 1:
                status = 500
            else:
                self.rows.update({(line["part"], line["pos"]): line for line in lines})
        elif body.startswith("SELECT count() FROM orders FINAL"):
            answer = f"{len(self.rows)}\n"
        else:
            assert body.startswith("CREATE TABLE")
        self.send_response(status)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer.encode())

    def log_message(self, *_: Any) -> None:
        pass


class Prices(BaseHTTPRequestHandler):
    """A service of prices, which is down for its first seven requests and knows no yak."""

    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.asked.append(self.path)
        price = {"tea": 3, "jam": 5, "rye": 2}.get(self.path.removeprefix("/prices/"))
        answer = json.dumps({"price": price})
        self.send_response(503 if len(self.asked) <= 7 else 404 if price is None else 200)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer.encode())

    def log_message(self, *_: Any) -> None:
        pass


@contextlib.contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    with ThreadingHTTPServer((OF_THIS_PROCESS, 0), handler) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"http://{OF_THIS_PROCESS}:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize("name", [marked(name) for name in RECIPES if name not in NEED_A_SERVICE])
def test_a_recipe_prints_what_its_page_says(name, cluster, capsys):
    page, program = RECIPES[name]
    runpy.run_path(str(program))["main"](cluster)
    assert capsys.readouterr().out == shown(page)[1]


@pytest.mark.parametrize("database", ["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def test_batches_are_upserted_into_a_database(database, cluster, request, tmp_path, capsys):
    if database == "sqlite":
        connect = partial(sqlite3.connect, tmp_path / "orders.db")
    else:
        address = request.getfixturevalue("postgres")
        connect = partial(pytest.importorskip("psycopg").connect, address)
    page, program = RECIPES["postgres"]
    runpy.run_path(str(program))["main"](cluster, connect)
    assert capsys.readouterr().out == shown(page)[1]


@pytest.mark.expects_log("failed (attempt")
def test_batches_are_inserted_into_clickhouse_again_where_an_insert_failed(cluster, capsys):
    page, program = RECIPES["clickhouse"]
    with serving(ClickHouse) as address:
        runpy.run_path(str(program))["main"](cluster, address)
    assert capsys.readouterr().out == shown(page)[1]
    assert len(ClickHouse.inserts) > 1


@pytest.mark.expects_log("prices")
def test_a_service_that_is_down_gets_time_and_is_asked_again(cluster, capsys):
    page, program = RECIPES["enrich-over-http"]
    with serving(Prices) as address:
        runpy.run_path(str(program))["main"](cluster, address)
    assert capsys.readouterr().out == shown(page)[1]
    assert len(Prices.asked) == 11


@pytest.mark.parametrize("page", programs(), ids=lambda page: page.stem)
def test_a_page_shows_its_program_as_it_is(page):
    assert shown(page)[0] == programs()[page].read_text(), "run: python -m docs.programs"


def test_every_program_has_a_page_and_every_page_is_in_the_index():
    for folder in {page.parent.name for page in programs()}:
        written = {program for program in programs().values() if program.parent.name == folder}
        assert written == set((ROOT / "examples" / folder).glob("*.py"))
        index = (ROOT / "docs" / folder / "index.md").read_text()
        listed = re.findall(r"\]\(([\w-]+)\.md\)", index)
        pages = [page.stem for page in (ROOT / "docs" / folder).glob("*.md") if page.stem != "index"]
        assert sorted(listed) == sorted(pages)


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_is_a_question_an_answer_and_links(name):
    text = RECIPES[name][0].read_text()
    assert re.match(r"# [^\n]+\?\n", text), "the heading is the reader's question"
    assert text.count("\n") <= LONGEST_PAGE + 1
    assert Prose(text).words_a_sentence <= 16, "python tools/prose.py PAGE prints the longest sentences first"
    assert "](../" in text.rpartition("```\n")[2], "below the program, links lead on"
