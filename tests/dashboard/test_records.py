"""Search in a topic by key, value, place in a JSON value, and time."""

from __future__ import annotations

import asyncio
import http.client
import json
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlencode

import confluent_kafka as ck
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamactors.broker import Cluster
from streamactors.dashboard.reading.record_query import RecordQuery
from streamactors.dashboard.server.records import MOST_SEARCHES, Records, query_of
from streamactors.dashboard.serving import Dashboard, serve
from streamactors.http.messages import Request

COUNT = 3_000


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with Cluster() as cluster:
        cluster.create_topic("flights", 3)
        producer = ck.Producer({"bootstrap.servers": cluster.bootstrap_servers})
        for n in range(COUNT):
            value = json.dumps({"n": n, "at": {"places": ["JFK", f"p{n % 10}"]}, "text": "</script>" if n == 7 else ""})
            producer.produce("flights", key=f"k{n}", value=value, timestamp=1_000 + n, partition=n % 3)
        assert not producer.flush(30)
        yield cluster.bootstrap_servers


@pytest.fixture(scope="module")
def page(bootstrap: str) -> Iterator[Dashboard]:
    with serve(broker={"bootstrap.servers": bootstrap}, name="search") as page:
        yield page


def found(page: Dashboard, **query: Any) -> list[tuple[str, Any]]:
    connection = http.client.HTTPConnection("127.0.0.1", page.port, timeout=30)
    connection.request("GET", f"/api/records?{urlencode(query)}", headers={"Authorization": f"Bearer {page.token}"})
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    assert answer.status == 200, body
    events = [part.split("\n") for part in body.split("\n\n") if part.startswith("event: ")]
    return [(lines[0].removeprefix("event: "), json.loads(lines[1].removeprefix("data: "))) for lines in events]


def hits(page: Dashboard, **query: Any) -> list[str]:
    return sorted(value["key"] for kind, value in found(page, topic="flights", **query) if kind == "hit")


def test_hits_are_found_by_key_value_path_and_time(page: Dashboard) -> None:
    assert hits(page, key="k2999") == ["k2999"]
    assert hits(page, value="</script>") == ["k7"]
    assert hits(page, path="n", value="42") == ["k42"]
    assert len(hits(page, path="$.at.places[1]", value="p3", limit=1_000)) == COUNT // 10
    assert hits(page, path="at.places[2]") == []
    assert hits(page, **{"from": 1_010, "to": 1_013}) == ["k10", "k11", "k12"]
    assert len(hits(page, limit=17)) == 17


def test_a_search_does_not_find_what_redact_hides(bootstrap: str) -> None:
    """Whoever may search could have guessed a hidden value, digit by digit."""

    def redact(text: str) -> str:
        value = json.loads(text)
        return json.dumps({"n": "hidden", "at": value["at"]})

    with serve(broker={"bootstrap.servers": bootstrap}, redact=redact, name="redacted") as other:
        assert hits(other, path="n", value="2942") == []
        assert hits(other, value='"n": 2942') == []
        assert hits(other, key="k2942") == ["k2942"]
        assert len(hits(other, path="n", value="hidden", limit=1_000)) == 1_000
        shown = [value["value"] for kind, value in found(other, topic="flights", key="k2942") if kind == "hit"]
        assert shown == [redact(json.dumps({"n": 2942, "at": {"places": ["JFK", "p2"]}}))]


def test_a_search_says_how_far_it_is_and_ends(page: Dashboard) -> None:
    events = found(page, topic="flights", key="nothing has this key")
    assert events[-1] == ("end", {})
    assert events[-2][1] == {"read": COUNT, "total": COUNT}


def test_a_topic_that_is_missing_is_named(page: Dashboard) -> None:
    ((kind, value),) = found(page, topic="no-such")
    assert kind == "failed"
    assert "no-such" in value["error"]


def test_at_most_four_searches_run_even_if_more_were_asked_for_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each request was admitted before any search had begun."""
    running = []

    def search(properties: object, query: RecordQuery, shown: object = None) -> Iterator[Any]:
        running.append(query)
        yield SimpleNamespace(hits=(), read=0, total=1)

    monkeypatch.setattr("streamactors.dashboard.reading.record_search.search", search)
    (_, answer) = Records(dict, None).routes()["/api/records"]

    async def ask() -> list[bytes]:
        responses = [await answer(Request("GET", "/api/records", {"topic": "t"}, {})) for _ in range(6)]
        streams = [each.events for each in responses if each.events is not None]
        first = [await anext(each) for each in streams]
        second = [await anext(each, first[0]) for each in streams]
        for each in streams:
            await each.aclose()  # type: ignore[attr-defined]  # a generator
        return first + second

    events = asyncio.run(ask())
    assert len(running) == MOST_SEARCHES
    assert sum(b"4 searches run already" in each for each in events) == 2


@pytest.mark.parametrize("given_", [{}, {"topic": ""}, {"topic": "t", "limit": "x"}, {"topic": "t", "from": "-1"}])
def test_a_wrong_question_is_refused(given_: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"give topic=|is a number"):
        query_of(given_)


@given(st.binary(max_size=60), st.text(max_size=20), st.text(max_size=10))
def test_any_bytes_and_any_path_are_compared_without_an_error(value: bytes, path: str, wanted: str) -> None:
    RecordQuery("t", path=path, value=wanted).matches(None, value, 0)
    RecordQuery("t", value=wanted, key=wanted).matches(value, value, 0)


def test_an_index_that_no_list_has_is_a_place_without_a_value() -> None:
    """int() refuses so many digits: the search failed."""
    assert not RecordQuery("t", path=f"a[{'9' * 5_000}]").matches(None, b'{"a": [1]}', 0)
    assert RecordQuery("t", path="a[0]", value="1").matches(None, b'{"a": [1]}', 0)


@pytest.mark.slow
def test_a_topic_of_dead_letters_is_shown_with_the_newest_reasons() -> None:
    with Cluster() as cluster:
        cluster.create_topic("flights-dead", 2)
        cluster.create_topic("flights", 1)
        producer = ck.Producer({"bootstrap.servers": cluster.bootstrap_servers})
        producer.produce("flights", b"x")
        for n in range(20):
            headers = {"dead-letter.topic": "flights", "dead-letter.partition": "0", "dead-letter.offset": str(n)}
            headers |= {"dead-letter.error": f"ValueError: <b>{n}</b>", "dead-letter.stage": "decode"}
            producer.produce("flights-dead", b"x", headers=headers, partition=n % 2)
        assert not producer.flush(20)
        with serve(broker={"bootstrap.servers": cluster.bootstrap_servers}) as page:
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline:
                if [len(each["samples"]) for each in page.state()["dead_letters"]] == [6]:
                    break
                time.sleep(0.2)
            (found_,) = page.state()["dead_letters"]
    assert (found_["topic"], found_["count"]) == ("flights-dead", 20)
    assert {"reason": "ValueError: <b>19</b>", "stage": "decode"} in found_["samples"]
    assert len(found_["samples"]) == 6
