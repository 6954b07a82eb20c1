"""Dead letters on the page: listed, and sent again where changes are allowed, by a request that no other page can make."""

from __future__ import annotations

import http.client
import json
import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

import confluent_kafka as ck
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamactors import ActorSystem, Sink
from streamactors.broker import Cluster
from streamactors.dashboard.combining import Combiner, Remote
from streamactors.dashboard.server.letters import MOST_LETTERS, chosen
from streamactors.dashboard.serving import Dashboard, serve
from streamactors.kafka import Consumer, ConsumerSettings, Subscriptions

REPLAY = "/api/dead-letters/replay"
JSON = {"Content-Type": "application/json"}
HOSTILE = "<img src=x onerror=alert(1)>\r\nWARNING forged \x1b[31m\u2028"

Served = Callable[..., Dashboard]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


@pytest.fixture
def topic(cluster: Cluster, request: pytest.FixtureRequest) -> str:
    """Six dead letters of a topic of two partitions: the last two were of a partition, and of a topic, that is not there."""
    name = f"flights{abs(hash(request.node.name))}"
    cluster.create_topic(name, 2)
    cluster.create_topic(f"{name}-dead", 2)
    sources = [(name, n % 2) for n in range(4)] + [(name, 9), ("__consumer_offsets", 0)]
    for n, (source, partition) in enumerate(sources):
        bury(cluster, f"{name}-dead", n % 2, source, partition, n)
    return name


def bury(cluster: Cluster, dead: str, at: int, source: str, partition: int, n: int, **more: str) -> None:
    headers: dict[str, Any] = {
        "dead-letter.topic": source,
        "dead-letter.partition": str(partition),
        "trace": b"t%d" % n,
    }
    headers |= {
        "dead-letter.offset": str(n),
        "dead-letter.error": f"ValueError: {HOSTILE}",
        "dead-letter.stage": "decode",
    }
    headers |= {f"dead-letter.{name}": value for name, value in more.items()}
    producer = ck.Producer({"bootstrap.servers": cluster.bootstrap_servers})
    producer.produce(dead, b"value %d" % n, b"key %d" % n, at, headers=headers)
    assert not producer.flush(20)


@pytest.fixture
def served(cluster: Cluster) -> Iterator[Served]:
    pages: list[Dashboard] = []

    def make(**options: Any) -> Dashboard:
        pages.append(serve(broker={"bootstrap.servers": cluster.bootstrap_servers}, token="secret", **options))
        return pages[-1]

    yield make
    for page in pages:
        page.close()


def ask(page: Dashboard, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", page.port, timeout=60)
    sent = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    connection.request(method, path, sent, {name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    found = answer.status, answer.read().decode()
    connection.close()
    return found


BEARER = {"Authorization": "Bearer secret"}


def stored(cluster: Cluster, topic: str) -> list[tuple[int, bytes, bytes, Any]]:
    consumer = ck.Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "look", "enable.partition.eof": True}
    )
    consumer.assign([ck.TopicPartition(topic, n, 0) for n in range(2)])
    found, ends = [], 0
    while ends < 2:
        message = consumer.poll(10)
        assert message is not None
        if message.error() is None:
            found.append((message.partition(), message.key(), message.value(), message.headers()))
        else:
            ends += 1
    consumer.close()
    return sorted(found)


def test_letters_are_listed_newest_first_with_what_was_redacted(served: Served, topic: str) -> None:
    page = served(redact=lambda text: text.replace("value", "•"))
    status, body = ask(page, "GET", f"/api/dead-letters?topic={topic}-dead&limit=5", **BEARER)
    assert status == 200
    letters = json.loads(body)["letters"]
    assert [each["letter"] for each in letters] == ["1@2", "0@2", "1@1", "0@1", "1@0"]
    assert letters[-1]["source"] == f"{topic}-1@1"
    assert letters[-1]["reason"] == f"ValueError: {HOSTILE}"
    assert (letters[-1]["key"], letters[-1]["value"]) == ("key 1", "• 1")
    assert letters[-1]["headers"] == [{"name": "trace", "value": "t1"}]


def test_a_failing_redact_shows_nothing_of_the_record(served: Served, topic: str) -> None:
    page = served(redact=lambda element: element["card"])
    body = ask(page, "GET", f"/api/dead-letters?topic={topic}-dead", **BEARER)[1]
    assert "value 1" not in body
    assert {each["value"] for each in json.loads(body)["letters"]} == {"not shown: TypeError"}


@pytest.mark.expects_log("sent 2 of 4 dead letters")
def test_chosen_letters_go_to_where_they_came_from_and_each_has_its_result(
    served: Served, topic: str, cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    page = served(allow_changes=True)
    wanted = {"topic": f"{topic}-dead", "letters": ["1@0", "0@1", "0@2", "1@0", "1@2"]}
    with caplog.at_level(logging.WARNING, "streamactors.dashboard"):
        status, body = ask(page, "POST", REPLAY, wanted, **BEARER, **JSON)
    assert status == 200, body
    results = json.loads(body)["results"]
    assert [each["letter"] for each in results] == ["1@0", "0@1", "0@2", "1@2"], "each once"
    assert [each["to"] for each in results] == [f"{topic}-1@0", f"{topic}-0@0", None, None]
    assert "partition" in results[2]["error"].lower()
    assert "__consumer_offsets" in results[3]["error"]
    assert stored(cluster, topic) == [
        (0, b"key 2", b"value 2", [("trace", b"t2")]),
        (1, b"key 1", b"value 1", [("trace", b"t1")]),
    ]
    (line,) = [record.getMessage() for record in caplog.records if record.name == "streamactors.dashboard"]
    assert line.startswith(
        f"the page, asked from 127.0.0.1, sent 2 of 4 dead letters of {topic}-dead again: 1@0 to {topic}-1@0; "
    )
    assert "\n" not in line
    assert "\x1b" not in line


def test_a_page_that_only_reads_refuses(served: Served, topic: str, cluster: Cluster) -> None:
    page = served()
    wanted = {"topic": f"{topic}-dead", "letters": ["1@0"]}
    status, body = ask(page, "POST", REPLAY, wanted, **BEARER, **JSON)
    assert (status, body) == (403, "this page is read-only; start it with allow_changes=True or --allow-changes\n")
    assert json.loads(ask(page, "GET", "/api/page", **BEARER)[1])["allow_changes"] is False
    assert stored(cluster, topic) == []


@pytest.mark.expects_log("sent 1 of 1 dead letters")
def test_only_our_own_page_and_programs_with_the_token_can_send(served: Served, topic: str, cluster: Cluster) -> None:
    page = served(allow_changes=True)
    connection = http.client.HTTPConnection("127.0.0.1", page.port, timeout=30)
    connection.request("POST", "/session", b'{"token":"secret"}', JSON)
    cookie = {"Cookie": str(connection.getresponse().getheader("Set-Cookie")).partition(";")[0]}
    connection.close()
    wanted = {"topic": f"{topic}-dead", "letters": ["1@0"]}
    own = {"Origin": page.address}

    def status(**headers: str) -> int:
        return ask(page, "POST", REPLAY, wanted, **headers)[0]

    assert status(**JSON) == 401
    assert status(**JSON, **own) == 401
    assert status(**JSON, **cookie) == 403, "a browser names the origin of each change"
    assert status(**JSON, **cookie, Origin="http://evil.example") == 403
    assert status(**JSON, **cookie, Origin="null") == 403
    assert status(**JSON, **cookie, Origin=f"http://127.0.0.1:{page.port + 1}") == 403, "another port is the same site"
    assert status(**JSON, **cookie, **own, Sec_Fetch_Site="cross-site") == 403
    assert status(**JSON, **cookie, **own, Host="evil.example") == 421
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""):
        assert status(**cookie, **own, Content_Type=kind) == 415, "what a form of another page can send"
    for method in ("GET", "PUT", "DELETE", "OPTIONS", "HEAD"):
        assert ask(page, method, REPLAY, wanted, **JSON, **cookie, **own)[0] == 405
    assert stored(cluster, topic) == []
    assert status(**JSON, **cookie, **own, Sec_Fetch_Site="same-origin") == 200
    assert len(stored(cluster, topic)) == 1


def test_what_cannot_be_sent_is_named(served: Served, topic: str, cluster: Cluster) -> None:
    page = served(allow_changes=True)
    bury(cluster, f"{topic}-dead", 0, topic, 0, 7, due="5", attempts="2")
    for wanted, status, words in (
        ({"topic": f"{topic}-dead", "letters": ["0@99"]}, 404, "no dead letter at"),
        ({"topic": f"{topic}-dead", "letters": ["7@0"]}, 404, "no dead letter at"),
        ({"topic": "no-such", "letters": ["0@0"]}, 404, "no-such"),
        ({"topic": f"{topic}-dead", "letters": ["0@3"]}, 404, "retry topic"),
        ({"topic": f"{topic}-dead", "letters": []}, 400, "partition@offset"),
        (b"[" * 60_000, 400, "partition@offset"),
        (b"\xff", 400, "partition@offset"),
    ):
        found = ask(page, "POST", REPLAY, wanted, **BEARER, **JSON)
        assert found[0] == status, found
        assert words in found[1]
    assert stored(cluster, topic) == []


@pytest.mark.expects_log("sent 1 of 1 dead letters", "127.0.0.1:9")
def test_a_page_of_several_processes_asks_those_that_allow_it(served: Served, topic: str, cluster: Cluster) -> None:
    reading, changing = served(), served(allow_changes=True)
    remotes = ["http://127.0.0.1:9/#token=x", reading.url, changing.url]
    wanted = {"topic": f"{topic}-dead", "letters": ["1@0"]}
    with Dashboard(Combiner([Remote(url) for url in remotes]), token="secret") as page:
        assert ask(page, "POST", REPLAY, wanted, **BEARER, **JSON)[0] == 403
    with Dashboard(Combiner([Remote(url) for url in remotes]), token="secret", allow_changes=True) as page:
        assert len(json.loads(ask(page, "GET", f"/api/dead-letters?topic={topic}-dead", **BEARER)[1])["letters"]) == 6
        assert stored(cluster, topic) == []
        status, body = ask(page, "POST", REPLAY, wanted, **BEARER, **JSON)
        assert (status, json.loads(body)["results"][0]["to"]) == (200, f"{topic}-1@0")
    with Dashboard(Combiner([Remote(reading.url)]), token="secret", allow_changes=True) as page:
        status, body = ask(page, "POST", REPLAY, wanted, **BEARER, **JSON)
        assert (status, "read-only" in body) == (403, True)
    assert len(stored(cluster, topic)) == 1


def test_a_page_knows_the_cluster_of_a_graph_that_runs(topic: str, cluster: Cluster) -> None:
    with ActorSystem("reads") as system, serve(system, token="secret") as page:
        path = f"/api/dead-letters?topic={topic}-dead"
        assert ask(page, "GET", path, **BEARER) == (404, "nothing that runs here reads or writes Kafka topics\n")
        settings = ConsumerSettings(cluster.bootstrap_servers, group_id=topic)
        Consumer.source(settings, Subscriptions.topics(topic)).to(Sink.ignore()).run(system)
        deadline = time.monotonic() + 30
        while (found := ask(page, "GET", path, **BEARER))[0] == 404 and time.monotonic() < deadline:
            time.sleep(0.1)
        assert len(json.loads(found[1])["letters"]) == 6


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9) | st.from_regex(r"[0-9]{1,20}@[0-9]{1,20}", fullmatch=True),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.sampled_from(["topic", "letters", "x"]), inner, max_size=3),
)  # fmt: skip


@given(st.dictionaries(st.sampled_from(["topic", "letters"]), anything))
def test_any_json_is_a_choice_or_refused(wanted: dict[str, Any]) -> None:
    try:
        topic, places = chosen(wanted)
    except ValueError:
        return
    assert topic
    assert 0 < len(places) <= MOST_LETTERS
    assert all(offset < 2**63 for _, offset in places)


def test_more_letters_than_a_page_shows_are_refused() -> None:
    with pytest.raises(ValueError, match="at most 200"):
        chosen({"topic": "t", "letters": [f"0@{n}" for n in range(201)]})
