"""`streamactors groups | transactions` against a running broker, as a person or a script uses them."""

from __future__ import annotations

import io
import signal
import socket
import subprocess
import time
import uuid
from contextlib import redirect_stderr, redirect_stdout
from typing import Final

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from streamactors.broker import Cluster
from streamactors.cli import bootstrap as client
from streamactors.cli.clusters.group_follow import follow_group
from streamactors.cli.clusters.group_lag import GroupLag, GroupLags
from streamactors.errors import StreamActorsError
from streamactors.kafka.client.cluster_requests import ClusterRequests
from streamactors.kafka.errors import NoBroker
from tests.broker.apis.test_group_apis import join, sync
from tests.broker.wire import WireClient
from tests.cli.ran import Run
from tests.cli.terminal import COMMAND, on_terminal

FIRST_S: Final = 1_356_998_400
"""When the first record of `topic` was written, in seconds since 1970."""


@pytest.fixture
def topic(broker: Cluster) -> str:
    """A topic of two partitions with ten records each, a second apart from 2013-01-01 on."""
    name = f"t-{uuid.uuid4().hex[:8]}"
    broker.create_topic(name, 2)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(20):
        producer.produce(name, b"x", partition=number % 2, timestamp=FIRST_S * 1_000 + number // 2 * 1_000)
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
        f"{group}: Stable, 1 member, assignor range, 16 records behind, 10 of them in partitions without a committed offset; the oldest is "
    ) in ran.out
    left = {tuple(row[:5]): row[6:] for row in ran.rows}
    assert left[topic, "0", "4", "10", "6"] == ["-", "-"]
    assert left[topic, "1", "-", "10", "10"] == ["app-1", "/127.0.0.1"]
    assert ["app-1", "/127.0.0.1", "1"] in [[row[0], row[1], row[-1]] for row in ran.rows]  # the member


def test_describe_as_json_says_as_much_as_the_tables(
    streamactors: Run, broker: Cluster, topic: str, group: str
) -> None:
    with member_of(broker, group, topic):
        first, second = streamactors("groups", "describe", group, "--json").json
    ages = [row.pop("lag_seconds") for row in (first, second)]
    now = time.time()
    assert ages == [pytest.approx(now - FIRST_S - 4, abs=60), pytest.approx(now - FIRST_S, abs=60)]
    about = {"group": group, "state": "Stable", "assignor": "range", "topic": topic, "deleted": 0}
    nobody = dict.fromkeys(("client_id", "host", "member_id", "instance_id"))
    assert first == {**about, "partition": 0, "committed": 4, "start": 0, "end": 10, "lag": 6, **nobody}
    member = {"client_id": "app-1", "host": "/127.0.0.1", "member_id": second["member_id"], "instance_id": None}
    assert second == {**about, "partition": 1, "committed": None, "start": 0, "end": 10, "lag": 10, **member}
    assert second["member_id"].startswith("app-1-")


def commit(broker: Cluster, offsets: list[TopicPartition]) -> str:
    """Return a group that has committed these offsets."""
    name = f"g-{uuid.uuid4().hex[:8]}"
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": name})
    consumer.commit(offsets=offsets, asynchronous=False)
    consumer.close()
    return name


def test_records_that_were_deleted_before_they_were_read(streamactors: Run, broker: Cluster, topic: str) -> None:
    group = commit(broker, [TopicPartition(topic, 0, 2), TopicPartition(topic, 1, 2)])
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for future in admin.delete_records([TopicPartition(topic, 0, 5), TopicPartition(topic, 1, 10)]).values():
        future.result(10)
    ran = streamactors("groups", "describe", group)
    assert f"{topic}-0: 3 records were deleted before they were read (committed 2, the first is 5)" in ran.out
    some, none = streamactors("groups", "describe", group, "--json").json
    # the age was of nothing: an idle topic whose records had all expired seemed to be ever further behind
    assert (none["lag"], none["lag_seconds"], none["deleted"]) == (0, 0.0, 8)
    assert (some["lag"], some["deleted"]) == (5, 3)
    assert some["lag_seconds"] == pytest.approx(time.time() - FIRST_S - 5, abs=60)


def test_ends_of_transactions_are_no_records_and_an_open_transaction_has_an_age(
    streamactors: Run, broker: Cluster
) -> None:
    name = f"t-{uuid.uuid4().hex[:8]}"
    broker.create_topic(name, 3)
    address = {"bootstrap.servers": broker.bootstrap_servers}
    producer = Producer({**address, "transactional.id": name})
    producer.init_transactions(10)
    now_ms = int(time.time() * 1_000)
    for partition, ends in ((0, "commit"), (1, "abort"), (2, "")):
        producer.begin_transaction()
        producer.produce(name, b"x", partition=partition, timestamp=now_ms - 300_000)
        producer.flush(10)
        if ends:
            getattr(producer, f"{ends}_transaction")(10)
    plain = Producer(address)
    plain.produce(name, b"after the open transaction", partition=2, timestamp=now_ms - 1_000)
    plain.flush(10)
    group = commit(broker, [TopicPartition(name, 0, 1), TopicPartition(name, 1, 0), TopicPartition(name, 2, 0)])
    rows = streamactors("groups", "describe", group, "--json").json
    assert [(row["lag"], row["lag_seconds"]) for row in rows[:2]] == [(1, 0.0), (2, 0.0)]
    # no client that reads committed records gets the first record of an open transaction: its age was waited for until the timeout
    assert rows[2]["lag"] == 2
    assert rows[2]["lag_seconds"] == pytest.approx(300, abs=60)
    said = streamactors("groups", "describe", group).out
    assert f"{name}-0, {name}-1: the offsets that are left have no records" in said
    producer.abort_transaction(10)


def test_a_commit_after_the_end_is_no_negative_lag(streamactors: Run, broker: Cluster, topic: str) -> None:
    group = commit(broker, [TopicPartition(topic, 0, 50)])
    assert f"{topic}-0: the committed offset 50 is after the end 10" in streamactors("groups", "describe", group).out
    row = streamactors("groups", "describe", group, "--json").json[0]
    assert (row["lag"], row["lag_seconds"]) == (0, 0.0)


def test_a_member_without_partitions_and_the_partitions_nobody_owns_are_shown(
    streamactors: Run, broker: Cluster, topic: str
) -> None:
    group = f"g-{uuid.uuid4().hex[:8]}"
    host, port = broker.bootstrap_servers.split(":")
    with WireClient(host, int(port), client_id="idle \x1b[31m") as client:
        client.call(10, 3, {"key": group, "key_type": 0})
        joined = join(client, group, session_timeout_ms=60_000)
        sync(client, group, joined, assignments=[{"member_id": joined.member_id, "assignment": b""}])
        (row,) = streamactors("groups", "describe", group, "--json").json
        assert (row["state"], row["topic"], row["client_id"]) == ("Stable", None, "idle \x1b[31m")
        said = streamactors("groups", "describe", group).out
    assert "\x1b" not in said  # a client id that a terminal would obey
    assert "idle \\x1b[31m" in said


def test_follow_prints_a_block_for_each_look_and_ends_with_130(broker: Cluster, topic: str, group: str) -> None:
    command = [*COMMAND, "groups", "describe", group, "-b", broker.bootstrap_servers, "--follow", "--every", "0.1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = []
        while sum(line.startswith(f"{topic} ") for line in lines) < 6:
            lines.append(process.stdout.readline())
            assert lines[-1], process.stderr and process.stderr.read()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    assert sum(line.startswith(f"{group}: Empty") for line in lines) >= 3
    assert not any("\x1b" in line for line in lines)


def test_follow_refreshes_a_table_on_a_terminal(broker: Cluster, topic: str, group: str) -> None:
    command = [*COMMAND, "groups", "describe", group, "-b", broker.bootstrap_servers, "--follow", "--every", "0.1"]
    with on_terminal(command) as terminal:
        terminal.until(lambda text: text.count(f"{group}: Empty") >= 3)
        consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group})
        consumer.commit(offsets=[TopicPartition(topic, 0, 9)], asynchronous=False)
        consumer.close()
        terminal.until(lambda text: "11 records behind" in text)
        code = terminal.interrupt()
    assert code == 130
    assert "\x1b[?25h" in terminal.text  # the cursor is there again
    assert "Traceback" not in terminal.text


def test_follow_goes_on_when_the_broker_comes_back(broker: Cluster, topic: str, group: str) -> None:
    looks = [NoBroker("no broker at x:1"), None]

    class Flaky(GroupLags):
        def look(self, name: str) -> GroupLag:
            error = looks.pop(0) if self.begun and looks else None
            self.begun = True
            if error is not None:
                raise error
            return super().look(name)

        begun = False

    out, err = io.StringIO(), io.StringIO()
    with Flaky(
        client.admin_client(broker.bootstrap_servers), client.consumer_settings(broker.bootstrap_servers)
    ) as lags:
        with redirect_stdout(Ends(out, f"{group}: Empty", 2)), redirect_stderr(err), pytest.raises(KeyboardInterrupt):
            follow_group(lags, group, 0.01, as_json=False)
    assert "streamactors: no broker at x:1; trying again" in err.getvalue()


class Ends(io.TextIOBase):
    """Interrupts who writes once a text has been written so often."""

    def __init__(self, to: io.StringIO, text: str, times: int) -> None:
        self._to, self._text, self._times = to, text, times

    def write(self, text: str) -> int:
        self._to.write(text)
        if self._to.getvalue().count(self._text) >= self._times:
            raise KeyboardInterrupt
        return len(text)


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
        (["--topic", "{topic}", "--to", "yesterday"], "is no place in a topic; give beginning (earliest), end"),
        (["--topic", "{topic}", "--to", "+-5"], "is no place in a topic; give beginning (earliest), end"),
        (["--topic", "{topic}", "--to", ""], "is no place in a topic; give beginning (earliest), end"),
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
    with pytest.raises(StreamActorsError, match="nobody" if asked else "no port|not a port"):
        ClusterRequests(address).metadata(None)
    assert seen == ([asked] if asked else [])


def test_an_offset_outside_the_partition_is_moved_to_its_end_and_said(streamactors: Run, broker: Cluster) -> None:
    broker.create_topic("short")
    streamactors("produce", "short", stdin=b"1\n2\n")
    ran = streamactors("groups", "reset-offsets", "jumper", "--topic", "short", "--to", "99", "--json")
    assert (ran.code, ran.json[0]["after"]) == (0, 2)
    assert ran.err == "streamactors: short-0 has offsets 0 to 2: 99 becomes 2\n"
