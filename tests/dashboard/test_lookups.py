"""What a page asks for: a tap on a stage, a key of a store, and event time of a windowed stage."""

from __future__ import annotations

import asyncio
import http.client
import json
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import confluent_kafka as ck
import pytest

from streamactors import ActorSystem, Sink, Source
from streamactors.actors.futures import StreamFuture
from streamactors.broker import Cluster
from streamactors.dashboard.reading.spark import query_state
from streamactors.dashboard.reading.tap import Tap, TappedQueue
from streamactors.dashboard.redacting import Redact
from streamactors.dashboard.server.lookups import Lookups
from streamactors.dashboard.serving import Dashboard, serve
from streamactors.engine.island.run import runs_of
from streamactors.errors import UnknownStore
from streamactors.http.messages import Request
from streamactors.kafka import Consumer, ConsumerSettings, Subscriptions
from tests.actors.eventually import eventually


def ask(page: Dashboard, path: str) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", page.port, timeout=10)
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {page.token}"})
        answer = connection.getresponse()
        body = answer.read()
        return answer.status, json.loads(body) if answer.status == 200 else body.decode()
    finally:
        connection.close()


def tapped(page: Dashboard, path: str, count: int) -> Iterator[list[str]]:
    connection = http.client.HTTPConnection("127.0.0.1", page.port, timeout=10)
    connection.request("GET", path, headers={"Authorization": f"Bearer {page.token}"})
    answer = connection.getresponse()
    assert answer.status == 200
    while count:
        line = answer.readline()
        assert line
        if line.startswith(b"data: "):
            count -= 1
            yield json.loads(line[6:])["elements"]
    answer.close()
    connection.close()


def shown(page: Dashboard, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the graph on the page, and its stage of this name, once it is there."""

    def found() -> list[tuple[dict[str, Any], dict[str, Any]]]:
        graphs = page.state()["graphs"]
        return [(graph, stage) for graph in graphs for stage in graph["stages"] if name in stage["name"]]

    eventually(found)
    return found()[0]


def logics(system: ActorSystem) -> Iterator[Any]:
    return (logic for run in runs_of(system) for each in run.interpreters() for logic in each.logics if logic.outlets)


def queues(system: ActorSystem) -> list[type]:
    return [
        type(c.items)
        for run in runs_of(system)
        for interpreter in run.interpreters()
        for logic in interpreter.logics
        for c in [*logic.inlets, *logic.outlets]
    ]


def test_a_tap_shows_shortened_and_redacted_elements_and_leaves_nothing_behind() -> None:
    def redact(element: dict[str, Any]) -> dict[str, Any]:
        return {**element, "password": "***"}

    taken: list[int] = []
    with ActorSystem("tap") as system:
        (
            Source.range(10**9)
            .throttle(500, "1s")
            .map(lambda n: {"n": n, "password": "hunter2", "text": "x" * 5_000})
            .named("records")
            .to(Sink.foreach(lambda element: taken.append(element["n"])))
            .run(system)
        )
        with serve(system, redact=redact) as page:
            graph, stage = shown(page, "records")
            assert TappedQueue not in queues(system), "nobody taps"
            looks = list(tapped(page, f"/api/tap?run={graph['id']}&stage={stage['id']}", 4))
            eventually(lambda: set(queues(system)) == {deque})  # as they were
            before = len(taken)
            eventually(lambda: len(taken) > before)  # the stream continues
            assert ask(page, "/api/tap?run=0&stage=999")[0] == 404
            assert ask(page, "/api/tap?run=&stage=x")[0] == 404
    texts = [text for look in looks for text in look]
    assert texts
    assert all("hunter2" not in text and "***" in text and len(text) <= 200 for text in texts)
    assert all(len(look) <= 5 for look in looks)
    assert taken == list(range(len(taken))), "no element was lost or moved"


def test_a_redact_that_raises_shows_nothing_of_the_element() -> None:
    def redact(element: object) -> object:
        raise KeyError(element)

    with ActorSystem("tap") as system:
        Source.range(10**9).throttle(500, "1s").map(str).named("secrets").to(Sink.ignore()).run(system)
        with serve(system, redact=redact) as page:
            graph, stage = shown(page, "secrets")
            (look,) = tapped(page, f"/api/tap?run={graph['id']}&stage={stage['id']}", 1)
    assert set(look) == {"not shown: KeyError"}


def test_pages_that_tap_the_same_stage_do_not_disturb_each_other() -> None:
    """The first tap that was closed took the queue of the others away; and taps took each other's chunks."""
    with ActorSystem("taps") as system:
        Source.range(10**9).throttle(500, "1s").named("numbers").to(Sink.ignore()).run(system)
        eventually(lambda: any(logics(system)))
        one, other = (Tap(next(iter(logics(system)))) for _ in range(2))
        eventually(lambda: TappedQueue in queues(system))
        eventually(lambda: set(one.look()) & set(other.look()))
        one.close()
        for _ in range(3):
            eventually(other.look)
        assert TappedQueue in queues(system)
        other.close()
        eventually(lambda: TappedQueue not in queues(system))


class Store:
    """A store of one consumer: the keys of its own partitions."""

    def __init__(self, **entries: int) -> None:
        self._entries = entries

    def range(self, first: str, last: str, *, dirty: bool) -> StreamFuture[list[Entry]]:
        reply: StreamFuture[list[Entry]] = StreamFuture("range")
        reply.try_complete([Entry(key, value) for key, value in self._entries.items() if first <= key <= last])
        return reply


class Owner:
    """A consumer with stores."""

    def __init__(self, **stores: Store) -> None:
        self._stores = stores

    def store(self, name: str) -> Store:
        if name not in self._stores:
            raise UnknownStore(f"no store {name!r}")
        return self._stores[name]


@dataclass
class Entry:
    """A key of a store with its value."""

    key: str
    value: object
    start: int | None = None


def entries(consumers: list[Owner], redact: Redact | None = None, **query: str) -> Any:
    (_, answer) = Lookups(lambda graph, stage: [], redact, consumers).routes()["/api/store"]
    response = asyncio.run(answer(Request("GET", "/api/store", query, {})))
    return json.loads(response.body)["entries"] if response.status == 200 else response.body.decode()


def test_a_key_is_looked_for_at_each_consumer_of_the_process() -> None:
    """Only the first consumer with such a store was asked, which has the keys of its own partitions."""
    consumers = [Owner(), Owner(words=Store(ada=1)), Owner(words=Store(bob=2))]
    assert [entry["value"] for entry in entries(consumers, name="words", key="bob")] == ["2"]
    assert [entry["value"] for entry in entries(consumers, name="words", key="ada")] == ["1"]
    assert entries(consumers, name="words", key="eve") == []
    assert "other" in entries(consumers, name="other", key="ada")


def test_a_redact_that_raises_shows_nothing_of_a_value_in_a_store() -> None:
    """The message of a ValueError, which holds the value, was the answer."""
    consumers = [Owner(cards=Store(ada=4711))]
    (entry,) = entries(consumers, lambda value: int(f"card {value}"), name="cards", key="ada")
    assert entry["value"] == "not shown: ValueError"


@pytest.mark.timeout(120)
def test_a_store_is_shown_and_answers_for_a_key() -> None:
    with Cluster() as cluster, ActorSystem("stores") as system:
        cluster.create_topic("words")
        producer = ck.Producer({"bootstrap.servers": cluster.bootstrap_servers})
        for number, word in enumerate(["ada", "bob", "ada", "</script>"]):
            producer.produce("words", str(number), word, timestamp=1_000 + number)
        assert not producer.flush(20)
        settings = ConsumerSettings(cluster.bootstrap_servers, "words", "earliest")
        words = Consumer.records(settings, Subscriptions.topics("words"), key="string")
        control = words.group_by_key().count(name="words").to_stream().to(Sink.ignore()).run(system)
        with serve(system) as page:
            deadline = time.monotonic() + 60
            entries: Any = []
            while not entries and time.monotonic() < deadline:
                status, found = ask(page, "/api/store?name=words&key=ada")
                entries = found["entries"] if status == 200 else []
                time.sleep(0.3)
            assert [(entry["key"], entry["value"]) for entry in entries] == [("'ada'", "2")]
            assert ask(page, f"/api/store?name=words&key={quote('</script>')}")[1]["entries"][0]["value"] == "1"
            assert ask(page, "/api/store?name=words&key=nobody")[1] == {"entries": []}
            status, why = ask(page, "/api/store?name=other&key=ada")
            assert status == 404
            assert "other" in why
            assert ask(page, "/api/store?name=words")[0] == 400
            state = page.state()
            while not (state["stores"] and state["windows"]) and time.monotonic() < deadline:
                time.sleep(0.1)
                state = page.state()
            assert [(store["name"], store["kind"]) for store in state["stores"]] == [("words-store", "memory")]
            assert [window["dropped"] for window in state["windows"]] == [0]
        control.shutdown().result(30)


def test_the_state_of_a_query_comes_from_the_counts_of_its_stage_and_of_spark() -> None:
    counts = {
        "batches": 3,
        "rows": 900,
        "batch_rows": 50_000,
        "spark": {"name": "q", "numInputRows": 100, "durationMs": {"triggerExecution": 800}},
    }
    found = query_state("spark_sink", counts)
    assert (found.query, found.batch, found.rows, found.duration_ms, found.demand) == ("q", 3, 100, 800.0, 50_000)
    early = query_state("spark_sink", {"batches": 0, "batch_rows": 1, "spark": None})
    assert (early.query, early.rows, early.duration_ms) == ("spark_sink", None, None)
