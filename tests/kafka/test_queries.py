"""Reading stores of a running graph: by its control, over HTTP, from another instance of the group, and on the command line."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import urllib.error
import urllib.request

import pytest
from click.testing import CliRunner
from confluent_kafka import Producer as BareProducer

from streamactors import ActorSystem, Keep, Sink
from streamactors.broker.cluster.reserved_ports import free_port
from streamactors.cli.main import LazyGroup
from streamactors.errors import BuildError
from streamactors.kafka import Consumer, Subscriptions, Transactional
from streamactors.kafka.state.queries.query_peers import PeerFailed, Peers, ask
from streamactors.kafka.state.queries.query_wire import pack_request
from streamactors.windows import State, UnknownStore
from streamactors.windows.state.disk.errors import StateError
from streamactors.windows.state.reads import StoreRequest
from tests.kafka._windows import (  # noqa: F401  # fixtures
    SECOND,
    produce,
    to_records,
    windows_producer,
    windows_settings,
)

TOKEN = "a-token"


def counts(settings, topic, until=None):
    source = Consumer.records(settings, Subscriptions.topics(topic), key="string", until=until)
    return source.group_by_key().count(name="counts").to_stream()


GIVEN = [(0, "a", 5_000), (1, "b", 5_500), (0, "a", 9_000), (1, "bb", 9_100)]


@pytest.fixture
def running(cluster, settings, system, wait_for, tmp_path, request):
    """A run that has processed GIVEN, with its settings."""
    topic = f"queries-{request.node.name}".translate({ord("["): "-", ord("]"): None})
    produce(cluster, topic, GIVEN, 2)
    place = {"memory": State.in_memory(), "disk": State.on_disk(tmp_path, cache="16MB")}[
        getattr(request, "param", "memory")
    ]
    seen = []
    control, done = counts(settings.with_state(place), topic).to_mat(Sink.foreach(seen.append), Keep.both).run(system)
    wait_for(lambda: len(seen) == len(GIVEN))
    yield control
    control.shutdown().result(30)
    done.result(30)


@pytest.mark.parametrize("running", ["memory", "disk"], indirect=True)
def test_a_store_is_read_by_key_range_and_prefix_across_its_partitions(running):
    store = running.store("counts")

    async def read():
        return await store.get("a"), await store.get("nobody")

    assert asyncio.run(read()) == (2, None)
    assert [(e.key, e.value, e.timestamp) for e in store.items().result(10)] == [
        ("a", 2, 9_000),
        ("b", 1, 5_500),
        ("bb", 1, 9_100),
    ]
    assert [e.key for e in store.range("b", "bb").result(10)] == ["b", "bb"]
    assert [e.key for e in store.range(last="b").result(10)] == ["a", "b"]
    assert [e.key for e in store.prefix("b").result(10)] == ["b", "bb"]
    assert store.lag == 0
    assert running.store("counts-store").get("b").result(10) == 1


def test_a_store_that_is_not_there_is_refused_with_those_there_are(running):
    with pytest.raises(UnknownStore, match=r"no store 'people' in this run; there are \['counts', 'counts-store'\]"):
        running.store("people")


def test_windows_of_a_key_are_read(cluster, settings, system, wait_for):
    produce(cluster, "query-windows", GIVEN, 2)
    seen = []
    source = Consumer.records(settings, Subscriptions.topics("query-windows"), key="string")
    table = source.group_by_key().windowed_by(SECOND).count(name="seconds").to_stream()
    control, done = table.to_mat(Sink.foreach(seen.append), Keep.both).run(system)
    wait_for(lambda: len(seen) == len(GIVEN))
    store = control.store("seconds")
    assert [(e.start, e.end, e.value) for e in store.windows("a").result(10)] == [(9_000, 10_000, 1)]
    assert [e.start for e in store.windows("bb", 9_000, 9_000).result(10)] == [9_000]
    assert store.windows("bb", 9_001).result(10) == []
    control.shutdown().result(30)
    done.result(30)
    with pytest.raises(UnknownStore, match="its run has ended"):
        store.get("a").result(10)


def test_a_committed_read_waits_for_the_commit_and_a_dirty_one_does_not(
    cluster, settings, transactional, system, wait_for
):
    produce(cluster, "query-dirty", GIVEN[:1], 1)
    cluster.create_topic("query-dirty-out")
    passed, go = threading.Event(), threading.Event()

    def hold(row):
        passed.set()
        go.wait(30)
        return to_records("query-dirty-out")(row._replace() if hasattr(row, "_replace") else row)

    source = Consumer.records(settings, Subscriptions.topics("query-dirty"), key="string")
    table = source.group_by_key().windowed_by(SECOND).count(name="seconds").to_stream()
    control, done = table.async_boundary().map(hold).to_mat(Transactional.sink(transactional), Keep.both).run(system)
    assert passed.wait(30)
    store = control.store("seconds")
    committed = store.windows("a")
    assert [e.value for e in store.windows("a", dirty=True).result(10)] == [1]
    assert not committed.done(), "the transaction cannot commit while a result is on its way"
    go.set()
    assert [e.value for e in committed.result(30)] == [1]
    control.shutdown().result(30)
    done.result(30)


@pytest.fixture
def two_instances(cluster, settings, wait_for, tmp_path):
    """Two members of one group with a partition each: [(control, address)]."""
    topic = f"query-two-{settings.group_id}"
    produce(cluster, topic, GIVEN, 2)
    found, seen, dones, systems = [], [], [], []
    for n in range(2):
        address = f"127.0.0.1:{free_port()}"
        system = ActorSystem(f"instance-{n}")
        systems.append(system)
        place = settings.with_state(State.in_memory(advertise=address, token=TOKEN))
        control, done = counts(place, topic).to_mat(Sink.foreach(seen.append), Keep.both).run(system)
        found.append((control, address))
        dones.append(done)

    def split():
        return all(len(control.snapshot()["partitions"]) == 1 for control, _ in found)

    wait_for(split)
    wait_for(lambda: {(row.key, row.value) for row in seen} >= {("a", 2), ("b", 1), ("bb", 1)})

    def answered(control):
        try:
            return [control.store("counts").get(key).result(20) for key in ("a", "b")] == [2, 1]
        except UnknownStore:  # the second instance is reading the state that it has taken over
            return False

    for control, _ in found:
        wait_for(lambda control=control: answered(control))
    yield found
    for (control, _), done in zip(found, dones, strict=True):
        control.shutdown().result(30)
        done.result(30)
    for system in systems:
        system.shutdown()


def test_an_instance_asks_the_other_for_what_it_does_not_have(two_instances):
    for control, address in two_instances:
        store = control.store("counts")
        assert [store.get(key).result(20) for key in ("a", "b", "bb", "none")] == [2, 1, 1, None]
        assert [e.key for e in store.items().result(20)] == ["a", "b", "bb"]
        assert [
            e.key for e in ask(address, TOKEN, "counts", StoreRequest("prefix", "b"), dirty=False, local=False)
        ] == ["b", "bb"]
        here = ask(address, TOKEN, "counts", StoreRequest("range"), dirty=False, local=True)
        assert {e.key for e in here} in ({"a"}, {"b", "bb"})
    _, address = two_instances[0]
    command = ["query", "counts", "b", "--at", address, "--token", TOKEN, "--json"]
    answer = CliRunner().invoke(LazyGroup("streamactors"), command)
    assert json.loads(answer.output) == {"key": "b", "value": 1, "timestamp": 5_500}
    assert http(address, "/stores/counts?prefix=b")[1] == [
        {"key": "b", "value": 1, "timestamp": 5_500},
        {"key": "bb", "value": 1, "timestamp": 9_100},
    ]
    assert http(address, "/stores")[1] == ["counts", "counts-store"]
    assert http(address, "/stores/counts?key=a", token="wrong")[0] == 401
    assert http(address, "/stores/people?key=a")[0] == 404
    assert http(address, "/stores/counts?keys=a")[0] == 400
    assert http(address, "/other")[0] == 404
    for wrong in ("since=abc", "since=5", "key=a&since=5", "key=a&prefix=b", "windows=a&from=b", "windows=a&since=abc"):
        assert http(address, f"/stores/counts?{wrong}")[0] == 400, wrong
    assert http(address, "/stores/counts", body=b"\xc1")[0] == 400
    assert http(address, "/stores/counts", body=b"x" * 100_000)[0] == 400
    assert http(address, "/stores/counts", body=pack_request(StoreRequest("drop"), dirty=False, local=True))[0] == 400


def test_what_cannot_be_answered_now_is_503_and_says_when_to_ask_again(two_instances, monkeypatch):
    # it was 404, as for an unknown store, and a load balancer cannot tell the two
    gone = f"127.0.0.1:{free_port()}"
    monkeypatch.setattr(Peers, "addresses", lambda _: [gone])
    _, address = two_instances[0]
    asked = urllib.request.Request(f"http://{address}/stores/counts", headers={"Authorization": f"Bearer {TOKEN}"})
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(asked, timeout=10)
    with refused.value as answer:
        assert (answer.code, answer.headers["Retry-After"]) == (503, "1")
        assert f"nothing answers at {gone}" in answer.read().decode()
    assert http(address, "/stores/people")[0] == 404


@pytest.mark.parametrize("state", ["memory", "disk"])
def test_every_named_table_of_a_topology_is_read_by_its_control_and_over_http(
    cluster, settings, system, wait_for, tmp_path, state
):
    # joins, views and tables with history could not be read: the store None of known
    address, at = f"127.0.0.1:{free_port()}", f"named-{state}"
    for topic in ("l", "r", "o"):
        cluster.create_topic(f"{at}-{topic}", 1)
    place = {"advertise": address, "token": TOKEN}
    kept = State.in_memory(**place) if state == "memory" else State.on_disk(tmp_path, cache="16MB", **place)
    topics = Consumer.topics(settings.with_group_id(at).with_state(kept))
    left = topics.table(f"{at}-l", name="left", value="json")
    right = topics.table(f"{at}-r", name="right", value="json", history="1h")
    known = left.join(right, lambda a, b: a, how="left", name="known")
    known.filter(lambda value: value > 0, name="seen").to(f"{at}-o", value="json")
    topics.stream(f"{at}-l", value="json").group_by_key().max(name="most")
    control = topics.graph().run(system)
    producer = BareProducer({"bootstrap.servers": cluster.bootstrap_servers})
    for topic in ("l", "r"):
        for key, value in (("a", 1), ("b", 2)):
            producer.produce(f"{at}-{topic}", key=key, value=str(value), timestamp=5_000)
    producer.flush()
    names = ["left", "right", "known", "seen", "most"]
    wanted = [{"key": "a", "value": 1, "timestamp": 5_000}, {"key": "b", "value": 2, "timestamp": 5_000}]

    def answered():
        try:
            return all(len(control.store(name).items().result(20)) == 2 for name in names)
        except UnknownStore:  # no partition is assigned yet
            return False

    wait_for(answered)
    for name in names:
        store = control.store(name)
        assert (name, store.get("b").result(20)) == (name, 2)
        assert [(each.key, each.value) for each in store.range("b").result(20)] == [("b", 2)]
        assert http(address, f"/stores/{name}") == (200, wanted)
        assert http(address, f"/stores/{name}?key=a") == (200, wanted[:1])
    control.shutdown().result(30)


def http(address, path, *, token=TOKEN, body=None):
    request = urllib.request.Request(f"http://{address}{path}", body, {"Authorization": f"Bearer {token}"})
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except ConnectionError:  # a body that is too long is not read to its end
        return 400, ""


def test_an_address_that_nobody_answers_at_and_one_that_is_taken_are_named(cluster, settings, system):
    address = f"127.0.0.1:{free_port()}"
    with pytest.raises(PeerFailed, match=rf"nothing answers at {address}"):
        ask(address, TOKEN, "counts", StoreRequest("range"), dirty=False, local=True)
    produce(cluster, "taken", [(0, "a", 5_000)], 1)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        place = settings.with_state(State.in_memory(advertise=f"127.0.0.1:{port}", token=TOKEN))
        with pytest.raises(
            StateError, match=r"give an address of this machine that is free; .* STREAMACTORS_MEMBER is its number"
        ):
            counts(place, "taken", "end").run_with(Sink.ignore(), system).result(30)


def test_an_address_without_a_token_is_refused(monkeypatch):
    monkeypatch.delenv("STREAMACTORS_QUERY_TOKEN", raising=False)
    with pytest.raises(BuildError, match="give token=…, or set STREAMACTORS_QUERY_TOKEN"):
        State.in_memory(advertise="127.0.0.1:8080")
    monkeypatch.setenv("STREAMACTORS_QUERY_TOKEN", TOKEN)
    state = State.in_memory(advertise="127.0.0.1:8080")
    assert state.token == TOKEN
    assert TOKEN not in repr(state)
