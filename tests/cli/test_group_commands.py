"""`streamactors groups | transactions` against a running broker, as a person or a script uses them."""

from __future__ import annotations

import socket
import uuid

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from streamactors.broker import Cluster
from streamactors.cli import bootstrap as client
from streamactors.cli.clusters.cluster_requests import ClusterRequests
from streamactors.errors import StreamActorsError
from streamactors.kafka.errors import NoBroker
from tests.broker.apis.test_group_apis import join, sync
from tests.broker.wire import WireClient
from tests.cli.ran import Run


@pytest.fixture
def topic(broker: Cluster) -> str:
    """A topic of two partitions with ten records each, a second apart from 2013-01-01 on."""
    name = f"t-{uuid.uuid4().hex[:8]}"
    broker.create_topic(name, 2)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(20):
        producer.produce(name, b"x", partition=number % 2, timestamp=1_356_998_400_000 + number // 2 * 1_000)
    producer.flush(10)
    return name


@pytest.fixture
def group(broker: Cluster, topic: str) -> str:
    """A group without members that has read 4 records of partition 0."""
    name = f"g-{uuid.uuid4().hex[:8]}"
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": name})
    consumer.commit(offsets=[TopicPartition(topic, 0, 4)], asynchronous=False)
    consumer.close()
    return name


def member_of(broker: Cluster, group: str, topic: str) -> WireClient:
    """Join a member that owns partition 1 of the topic, and stays as long as its session."""
    host, port = broker.bootstrap_servers.split(":")
    client = WireClient(host, int(port), client_id="app-1")
    client.call(10, 3, {"key": group, "key_type": 0})
    joined = join(client, group, session_timeout_ms=60_000)
    name = topic.encode()
    mine = b"\x00\x00\x00\x00\x00\x01" + len(name).to_bytes(2, "big") + name + b"\x00\x00\x00\x01\x00\x00\x00\x01"
    sync(client, group, joined, assignments=[{"member_id": joined.member_id, "assignment": mine}])
    return client


def test_list(streamactors: Run, group: str) -> None:
    assert [group, "Empty"] in streamactors("groups", "list").rows
    assert {"group": group, "state": "Empty", "protocol": ""} in streamactors("groups", "list", "--json").json


def test_describe_shows_members_offsets_and_lag(streamactors: Run, broker: Cluster, topic: str, group: str) -> None:
    with member_of(broker, group, topic):
        ran = streamactors("groups", "describe", group)
    assert ran.code == 0
    # the records of a partition without a commit were left out: 6,436 were shown, and 13,190 were left
    assert (
        f"{group}: Stable, 1 member, assignor range, 16 records behind, 10 of them in partitions without a committed offset"
    ) in ran.out
    assert [topic, "0", "4", "10", "6", "-", "-"] in ran.rows
    assert [topic, "1", "-", "10", "10", "app-1", "/127.0.0.1"] in ran.rows


def test_describe_as_json(streamactors: Run, topic: str, group: str) -> None:
    assert streamactors("groups", "describe", group, "--json").json == [
        {"topic": topic, "partition": 0, "committed": 4, "end": 10, "lag": 6, "member": None, "host": None},
        {"topic": topic, "partition": 1, "committed": None, "end": 10, "lag": 10, "member": None, "host": None},
    ]


def test_a_group_that_does_not_exist(streamactors: Run) -> None:
    for command in (["describe", "nobody"], ["delete", "nobody"]):
        ran = streamactors("groups", *command)
        assert (ran.code, ran.out) == (1, "")
        assert "there is no group 'nobody'" in ran.err


@pytest.mark.parametrize(
    ("target", "after"),
    [
        ("earliest", {0: 0, 1: 0}),
        ("latest", {0: 10, 1: 10}),
        ("7", {0: 7, 1: 7}),
        ("99", {0: 10, 1: 10}),
        ("2013-01-01T00:00:03", {0: 3, 1: 3}),
        ("2013-01-01T01:00:03+01:00", {0: 3, 1: 3}),
        ("2030-01-01", {0: 10, 1: 10}),
    ],
)
def test_reset_offsets(streamactors: Run, topic: str, group: str, target: str, after: dict[int, int]) -> None:
    reset = ("groups", "reset-offsets", group, "--topic", topic, "--to", target, "--json")
    assert {r["partition"]: r["after"] for r in streamactors(*reset, "--dry-run").json} == after
    assert [r["committed"] for r in streamactors("groups", "describe", group, "--json").json] == [4, None]
    assert {r["partition"]: (r["before"], r["after"]) for r in streamactors(*reset).json} == {
        0: (4, after[0]),
        1: (None, after[1]),
    }
    described = streamactors("groups", "describe", group, "--json").json
    assert {r["partition"]: r["committed"] for r in described} == after


@pytest.mark.parametrize(("target", "after"), [("+2", 6), ("-3", 1), ("-9", 0), ("+90", 10)])
def test_reset_offsets_by_a_number_of_records(
    streamactors: Run, topic: str, group: str, target: str, after: int
) -> None:
    ran = streamactors("groups", "reset-offsets", group, "-t", f"{topic}:0", "--to", target, "--json")
    assert [r["after"] for r in ran.json] == [after]
    whole = streamactors("groups", "reset-offsets", group, "-t", topic, "--to", target)
    assert whole.code == 1
    assert f"{topic}-1 has no committed offset to count {target} from" in whole.err


def test_offsets_of_a_group_in_use_are_not_reset(streamactors: Run, broker: Cluster, topic: str, group: str) -> None:
    with member_of(broker, group, topic):
        ran = streamactors("groups", "reset-offsets", group, "-t", topic, "--to", "earliest")
        assert ran.code == 1
        assert f"group '{group}' is Stable; stop its members" in ran.err
        deleted = streamactors("groups", "delete", group)
        assert deleted.code == 1
        assert "has members; stop them first" in deleted.err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--topic", "no-such", "--to", "earliest"], "no topic no-such at"),
        (["--topic", "{topic}:9", "--to", "earliest"], "has partitions 0 to 1"),
        (["--topic", "{topic}:x", "--to", "earliest"], "has partitions 0 to 1"),
        (["--topic", "{topic}", "--to", "yesterday"], "it is earliest, latest, an offset"),
        (["--topic", "{topic}", "--to", "+-5"], "it is earliest, latest, an offset"),
        (["--topic", "{topic}", "--to", ""], "it is earliest, latest, an offset"),
    ],
)
def test_reset_offsets_asked_wrongly(
    streamactors: Run, topic: str, group: str, arguments: list[str], says: str
) -> None:
    ran = streamactors("groups", "reset-offsets", group, *(a.replace("{topic}", topic) for a in arguments))
    assert ran.code in (1, 2)
    assert says in ran.err


def test_delete(streamactors: Run, group: str) -> None:
    assert streamactors("groups", "delete", group).out == f"group {group} deleted\n"
    assert group not in streamactors("groups", "list").out


def test_transactions(streamactors: Run, broker: Cluster, topic: str) -> None:
    name = f"tx-{uuid.uuid4().hex[:8]}"
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": name})
    producer.init_transactions(10)
    assert [name, "Empty"] == streamactors("transactions", "list").rows[-1][:2]
    producer.begin_transaction()
    producer.produce(topic, b"x", partition=1)
    producer.flush(10)
    ran = streamactors("transactions", "describe", name)
    assert "state: Ongoing" in ran.out
    assert f"partitions: {topic}-1" in ran.out
    assert [
        t["transactional_id"] for t in streamactors("transactions", "list", "--state", "Ongoing", "--json").json
    ] == [name]
    producer.abort_transaction(10)
    assert name not in streamactors("transactions", "list", "--state", "Ongoing").out


def test_transactions_asked_wrongly(streamactors: Run) -> None:
    ran = streamactors("transactions", "describe", "nobody")
    assert (ran.code, "there is no transactional id 'nobody'" in ran.err) == (1, True)
    ran = streamactors("transactions", "list", "--state", "Sleeping")
    assert (ran.code, "there is no such state" in ran.err) == (2, True)


@pytest.mark.parametrize("command", [["groups", "list"], ["groups", "describe", "g"], ["transactions", "list"]])
def test_nobody_there(streamactors: Run, command: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "CONNECT_TIMEOUT_MS", 300)
    ran = streamactors(*command, "--bootstrap", "127.0.0.1:1")
    assert ran.code == 1
    assert ran.err.startswith("streamactors: no broker at 127.0.0.1:1 (")
    assert "streamactors broker" in ran.err
    assert ran.err.count("\n") == 1


def test_every_command_has_an_example(streamactors: Run) -> None:
    for command in ("list", "describe", "reset-offsets", "delete"):
        assert "Example" in streamactors("groups", command, "--help").out
    for command in ("list", "describe"):
        assert "Example" in streamactors("transactions", command, "--help").out


@pytest.mark.parametrize(
    ("address", "asked"),
    [("localhost", None), ("a:1", ("a", 1)), ("[::1]:1", ("::1", 1)), ("a:b", None), ("a:65536", None)],
)
def test_an_address_of_the_wire_is_host_and_port(
    monkeypatch: pytest.MonkeyPatch, address: str, asked: tuple[str, int] | None
) -> None:
    seen: list[tuple[str, int]] = []

    def refuse(self: ClusterRequests, address: tuple[str, int]) -> socket.socket:
        seen.append(address)
        raise NoBroker("nobody")

    monkeypatch.setattr(ClusterRequests, "_connect", refuse)
    with pytest.raises(StreamActorsError, match="nobody" if asked else "no port"):
        ClusterRequests(address).metadata(None)
    assert seen == ([asked] if asked else [])


def test_an_offset_outside_the_partition_is_moved_to_its_end_and_said(streamactors: Run, broker: Cluster) -> None:
    broker.create_topic("short")
    streamactors("produce", "short", stdin=b"1\n2\n")
    ran = streamactors("groups", "reset-offsets", "jumper", "--topic", "short", "--to", "99", "--json")
    assert (ran.code, ran.json[0]["after"]) == (0, 2)
    assert ran.err == "streamactors: short-0 has offsets 0 to 2: 99 becomes 2\n"
