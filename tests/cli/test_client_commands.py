"""`streamactors topics | produce | consume` against a running broker, as a person or a script uses them."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
import uuid

import pytest

from streamactors.broker import Cluster
from streamactors.broker.cluster.reserved_ports import free_port
from streamactors.cli import bootstrap as client
from streamactors.cli.main import COMMANDS, run
from streamactors.cli.texts import as_time
from streamactors.kafka.client import cluster_requests
from streamactors.kafka.client.admin import Admin
from streamactors.kafka.client.connection import ClientConnection
from tests.cli.ran import Run


@pytest.fixture
def topic(broker: Cluster) -> str:
    name = f"t-{uuid.uuid4().hex[:8]}"
    broker.create_topic(name, 2)
    return name


def test_a_topic_is_created_listed_described_changed_and_deleted(streamactors: Run) -> None:
    assert streamactors("topics", "create", "flights", "-p", "3", "--set", "retention.ms=77") == (
        0,
        "topic flights created\n",
        "",
    )
    assert ["flights", "3", "1"] in streamactors("topics", "list").rows
    assert {"name": "flights", "partitions": 3, "replicas": 1} in streamactors("topics", "list", "--json").json
    described = streamactors("topics", "describe", "flights")
    assert described.rows[:3] == [[str(number), "1", "1", "1", "0", "0"] for number in range(3)]
    assert "retention.ms = 77" in described.out
    changed = streamactors("topics", "alter", "flights", "--set", "segment.ms=88", "--unset", "retention.ms", "-p", "4")
    assert changed == (0, "topic flights changed\n", "")
    described = streamactors("topics", "describe", "flights")
    assert len([row for row in described.rows if row[0].isdecimal()]) == 4
    assert "segment.ms = 88" in described.out
    assert "retention.ms" not in described.out
    assert streamactors("topics", "delete", "flights") == (0, "topic flights deleted\n", "")
    assert "flights" not in streamactors("topics", "list").out


def test_lines_become_records_with_keys_and_headers(streamactors: Run, topic: str) -> None:
    produced = streamactors(
        "produce", topic, "-k", ":", "-H", "from=test", "-p", "1", stdin="a:1\nb:zwölf\nc:\n".encode()
    )
    assert produced == (0, f"3 records produced to {topic}\n", "")
    consumed = streamactors("consume", topic, "--json").json
    assert [(r["partition"], r["offset"], r["key"], r["value"]) for r in consumed] == [
        (1, 0, "a", "1"),
        (1, 1, "b", "zwölf"),
        (1, 2, "c", ""),
    ]
    assert consumed[0]["headers"] == [{"name": "from", "value": "test"}]
    assert abs(consumed[0]["timestamp_ms"] / 1000 - time.time()) < 600


def test_a_table_has_a_row_per_record(streamactors: Run, topic: str) -> None:
    streamactors("produce", topic, "-k", ":", stdin=b"key:value\n")
    (row,) = streamactors("consume", topic, "--table").rows
    assert row[1] == "0"
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}Z", f"{row[2]} {row[3]}")
    assert row[4:] == ["key", "value"]


def test_bytes_that_are_no_text_are_marked_as_base64(streamactors: Run, topic: str) -> None:
    streamactors("produce", topic, stdin=b"\xff\xfe\n")
    (record,) = streamactors("consume", topic, "--json").json
    assert (record["key"], record["value_base64"]) == (None, "//4=")
    assert "value" not in record


def test_a_table_does_not_make_the_terminal_obey_a_record(streamactors: Run, topic: str) -> None:
    streamactors("produce", topic, stdin=b"\x1b[2Jgone\x07\tand \xff \xc3\xbc\n")
    assert "\\x1b[2Jgone\\x07" in streamactors("consume", topic, "--table").out
    assert "\\xff \u00fc" in streamactors("consume", topic, "--table").out


def test_on_a_pipe_no_cell_is_cut(streamactors: Run, topic: str) -> None:
    streamactors("produce", topic, stdin=b"x" * 300_000 + b"\n")
    assert "x" * 300_000 in streamactors("consume", topic, "--table").out


def test_what_the_terminal_cannot_show_is_escaped(streamactors: Run, broker: Cluster, topic: str) -> None:
    streamactors("produce", topic, stdin="\u65e5\u672c\n".encode())
    patient = "from streamactors.cli import bootstrap; bootstrap.CONNECT_TIMEOUT_MS = 30_000"
    program = f"{patient}; from streamactors.cli.main import main; main()"
    command = [sys.executable, "-c", program, "consume", topic, "--table", "-b", broker.bootstrap_servers]
    env = {**os.environ, "PYTHONIOENCODING": "ascii"}
    ran = subprocess.run(command, capture_output=True, env=env, timeout=60, check=False)
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert b"\\u65e5\\u672c" in ran.stdout


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_every_codec_goes_through(streamactors: Run, topic: str, codec: str) -> None:
    lines = [f"line {number}" for number in range(500)]
    streamactors("produce", topic, "--compression", codec, "-p", "0", stdin="\n".join(lines).encode())
    assert [record["value"] for record in streamactors("consume", topic, "--json").json] == lines


def test_reading_begins_where_it_is_told(streamactors: Run, topic: str) -> None:
    streamactors("produce", topic, "-p", "0", stdin=b"".join(b"%d\n" % number for number in range(10)))

    def read(*arguments: str) -> list[str]:
        return [record["value"] for record in streamactors("consume", topic, "--json", *arguments).json]

    assert read("--from", "7") == ["7", "8", "9"]
    assert read("--from", "-2") == ["8", "9"]
    assert read("--from", "100") == []
    assert read("-n", "2") == ["0", "1"]
    assert read("-p", "1") == []
    assert read("--from", "2020-01-01") == [str(number) for number in range(10)]
    assert read("--from", "2999-01-01") == []
    for early in (
        "0001-01-01",
        "1969-12-31T23:59:59.999",
        "1969-12-31T23:59:59.998",
    ):  # -1 and -2 ms mean latest and earliest
        assert read("--from", early) == [str(number) for number in range(10)]
    assert read("--from", "9999-12-31T23:59") == []


@pytest.mark.parametrize("zone", ["Asia/Tokyo", "America/New_York"])
def test_a_time_is_meant_in_utc_as_it_is_printed(
    streamactors: Run, topic: str, zone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    try:
        with monkeypatch.context() as patch:
            patch.setenv("TZ", zone)
            time.tzset()
            streamactors("produce", topic, "-p", "0", stdin=b"now\n")
            (record,) = streamactors("consume", topic, "--json").json
            for shift_ms, found in ((0, 1), (1, 0)):
                printed = as_time(record["timestamp_ms"] + shift_ms)
                assert printed is not None
                for text in (printed, printed.removesuffix("Z")):
                    assert len(streamactors("consume", topic, "--json", "--from", text).json) == found
    finally:
        time.tzset()


def test_offsets_count_what_lies_between(streamactors: Run, topic: str) -> None:
    streamactors("produce", topic, "-p", "0", stdin=b"1\n2\n3\n")
    assert streamactors("topics", "offsets", topic, "--json").json == [
        {"partition": 0, "earliest": 0, "latest": 3, "records": 3},
        {"partition": 1, "earliest": 0, "latest": 0, "records": 0},
    ]


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (["topics", "describe", "none"], 1, "no topic none at"),
        (["topics", "delete", "none"], 1, "see: streamactors topics list"),
        (["topics", "list", "-b", ""], 2, "no address; its form is host:port"),
        (["topics", "list", "-b", "http://localhost:9092"], 2, "leave out http://"),
        (["consume", "TOPIC", "-X", "fetch.min.byte=1"], 1, "did you mean fetch.min.bytes?"),
        (["topics", "list", "-X", "fetch.min.byte=1"], 1, "did you mean fetch.min.bytes?"),
        (["topics", "create", "a b"], 1, "topic a b: Topic name is invalid"),
        (["topics", "create", "x", "--set", "zz=1"], 1, "Unknown topic config name: zz"),
        (["topics", "create", "x", "--set", "zz"], 2, "its form is key=value"),
        (["topics", "create", "x", "-p", "0"], 2, "-p"),
        (["topics", "create", "x", "-p", "4294967296"], 2, "-p"),
        (["topics", "create", "x", "-r", "32768"], 2, "-r"),
        (["produce", "TOPIC", "-p", "2147483648"], 2, "-p"),
        (["topics", "alter", "x"], 2, "nothing to change"),
        (["topics", "alter", "x", "--set", "retention.ms=5", "--unset", "retention.ms"], 2, "both set and unset"),
        (
            ["topics", "alter", "TOPIC", "--unset", "retention.mss"],
            1,
            "has no setting retention.mss of its own to unset",
        ),
        (
            ["query", "store", "k", "--token", "t", "--at", "localhost:1"],
            1,
            "nothing answers at localhost:1 (connection refused)",
        ),
        (["query", "store", "k", "--token", "t", "--at", "localhost:1", "--since", "5"], 2, "give --windows, too"),
        (["run", "no_module:graph", "--stall-after", "0"], 2, "--stall-after: it must be more than 0"),
        (["consume", "none"], 1, "no topic none at"),
        (["consume", "TOPIC", "-p", "9"], 1, "has no partition 9; it has 0 to 1"),
        (
            ["consume", "TOPIC", "--from", "noon"],
            2,
            "'noon' is no place in a topic; give beginning (earliest), end (latest), an",
        ),
        (["produce", "TOPIC", "-k", ":"], 1, "line 1 has no ':' between key and value"),
        (["produce", "TOPIC", "-p", "9"], 1, "Unknown partition"),
        (["produce", "no-such-topic", "--no-create"], 1, "no topic no-such-topic at"),
        (["nonsense"], 2, "No such command 'nonsense'"),
        (["groups", "reset-offsets", "", "--topic", "TOPIC", "--to", "earliest"], 2, "GROUP is empty"),
        (["certificates", "/proc/no"], 1, "cannot write certificates there"),
        (["acls", "add", "ann", "read", "topic"], 2, "name the topic, as in: streamactors acls add"),
        (["acls", "add", "", "read", "topic", "x"], 2, "PRINCIPAL and NAME must not be empty"),
        (["consume", "TOPIC", "--from", "99"], 1, "--from 99 is after the last record"),
        (["produce", "a b"], 1, "'a b' is not a valid name: a topic's name has letters"),
        (["query", "store", "k", "--token", "t", "--at", "http://localhost:1"], 2, "leave out http://"),
        (["query", "store", "k", "--token", "t", "--at", "localhost"], 2, "has no port"),
        (["query", "store", "k", "--token", "t", "--at", "localhost:99999"], 2, "is not a port (1 to 65535)"),
    ],
)
def test_a_mistake_is_one_line_and_an_exit_code(
    streamactors: Run, topic: str, arguments: list[str], code: int, complaint: str
) -> None:
    ran = streamactors(*(topic if part == "TOPIC" else part for part in arguments), stdin=b"no separator\n")
    assert ran.code == code
    assert complaint in ran.err
    assert ran.err.startswith("streamactors: ")
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize(
    ("bad", "arguments"), [(b"no separator", ["-k", ":"]), (b"k:" + b"x" * 2_000_000, ["-k", ":"])]
)
def test_lines_before_a_bad_one_are_delivered_and_counted(
    streamactors: Run, topic: str, bad: bytes, arguments: list[str]
) -> None:
    ran = streamactors("produce", topic, *arguments, stdin=b"a:1\nb:2\n" + bad + b"\nc:3\n")
    assert ran.code == 1
    assert ran.err.endswith("(2 records were delivered before)\n")
    assert len(streamactors("consume", topic, "--json").out.splitlines()) == 2


def test_a_header_without_a_value_is_told_and_nothing_is_sent(streamactors: Run, topic: str) -> None:
    ran = streamactors("produce", topic, "-H", "source", stdin=b"x\n")
    assert (ran.code, ran.out) == (2, "")
    assert "--header source: its form is NAME=VALUE" in ran.err
    assert streamactors("consume", topic, "--json").out == ""


PROGRAM = [sys.executable, "-c", "from streamactors.cli.main import main; main()"]


@pytest.mark.parametrize("arguments", [["--help"], ["topics", "--help"], ["topics", "list"]])
def test_a_full_disk_is_one_line(broker: Cluster, topic: str, arguments: list[str]) -> None:
    env = os.environ | {"STREAMACTORS_BOOTSTRAP": broker.bootstrap_servers}
    with open("/dev/full", "w") as full:
        ran = subprocess.run(
            [*PROGRAM, *arguments], stdout=full, stderr=subprocess.PIPE, env=env, timeout=60, check=False
        )
    assert (ran.returncode, ran.stderr) == (1, b"streamactors: cannot print (No space left on device)\n")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_standard_streams_may_be_closed(broker: Cluster, topic: str, closed: str) -> None:
    env = os.environ | {"STREAMACTORS_BOOTSTRAP": broker.bootstrap_servers}
    for arguments in (["topics", "list"], ["produce", topic]):
        command = ["sh", "-c", f'exec "$@" {closed}', "sh", *PROGRAM, *arguments]
        ran = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, env=env, timeout=60, check=False)
        assert (ran.returncode, ran.stderr) == (0, b"")
        assert bool(ran.stdout) == (">&-" not in closed.replace("2>&-", ""))


@pytest.mark.parametrize("form", [[], ["--table"], ["--json"], ["--format", "%o\\n"]])
def test_a_reader_who_has_seen_enough_is_no_failure(
    streamactors: Run, broker: Cluster, topic: str, form: list[str]
) -> None:
    streamactors("produce", topic, stdin=b"line\n" * 10_000)  # more than a pipe holds
    patient = "from streamactors.cli import bootstrap; bootstrap.CONNECT_TIMEOUT_MS = 30_000"
    program = f"{patient}; from streamactors.cli.main import main; main()"
    command = [sys.executable, "-c", program, "consume", topic, "-b", broker.bootstrap_servers, *form]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""
    assert process.returncode == 0


def test_where_there_are_no_dead_letters_a_list_says_so(streamactors: Run, topic: str) -> None:
    assert streamactors("dead-letters", "list", topic).out == f"no dead letters in {topic}\n"


def test_a_time_beyond_the_calendar_is_a_number() -> None:
    assert as_time(0) == "1970-01-01 00:00:00.000Z"
    assert as_time(1_700_000_000_000_000) == "1700000000000000 ms"


def test_a_group_of_commands_alone_shows_what_there_is(streamactors: Run) -> None:
    ran = streamactors("topics")
    assert ran.code == 2
    assert "Usage: streamactors topics" in ran.err
    assert "  create" in ran.err


@pytest.mark.parametrize("arguments", [["topics", "create", "x"], ["consume", "x"], ["produce", "x"]])
def test_a_broker_that_is_not_there_is_one_line(
    streamactors: Run, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    # consume asked for the user's rights first: that request waits 10 s, and then the error spoke of 2 s
    monkeypatch.setattr(Admin, "missing_rights", lambda *_: pytest.fail("rights were asked of no broker"))
    monkeypatch.setattr(client, "CONNECT_TIMEOUT_MS", 300)
    address = f"127.0.0.1:{free_port()}"
    ran = streamactors(*arguments, "-b", address)
    assert (ran.code, ran.out) == (1, "")
    said = rf"streamactors: no broker at {address} \(connection refused for \d+\.\d s\); start one with: streamactors broker\n"
    assert re.fullmatch(said, ran.err)


def test_a_port_that_takes_connections_and_says_nothing_is_no_broker_either(
    streamactors: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "CONNECT_TIMEOUT_MS", 300)
    monkeypatch.setattr(ClientConnection, "silence_ms", 300)
    monkeypatch.setattr(cluster_requests, "FIRST_ANSWER_TIMEOUT_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        ran = [streamactors(command, "list", "-b", address) for command in ("topics", "transactions")]
    assert [each.code for each in ran] == [1, 1]
    said = f"streamactors: something listens at {address} but has not answered as a Kafka broker for "
    assert all(each.err.startswith(said) for each in ran)


@pytest.mark.parametrize(
    "command",
    [[name] for name in COMMANDS]
    + [["topics", name] for name in ("list", "create", "describe", "offsets", "alter", "delete")],
)
def test_every_command_has_help_with_an_example(streamactors: Run, command: list[str]) -> None:
    ran = streamactors(*command, "--help")
    assert ran.code == 0
    assert "Example" in ran.out
    assert f"streamactors {' '.join(command)}" in ran.out.partition("Example")[2]


def test_a_wrong_start_is_told_before_any_broker_is_asked(capsys):
    assert run(["consume", "t", "--bootstrap", "127.0.0.1:1", "--from", "yesterday"]) == 2
    assert (
        "'--from': 'yesterday' is no place in a topic; give beginning (earliest), end (latest), an offset"
        in capsys.readouterr().err
    )


def test_a_topic_that_exists_is_left_as_it_is_if_the_command_says_so(streamactors: Run) -> None:
    # A container that makes the topics of a pipeline starts with each of its pods.
    create = ("topics", "create", "shared", "-p", "3", "--if-not-exists")
    assert streamactors(*create) == (0, "topic shared created\n", "")
    assert streamactors(*create[:4], "5", "--if-not-exists") == (0, "topic shared exists\n", "")
    assert ["shared", "3", "1"] in streamactors("topics", "list").rows
    assert streamactors(*create[:5]).code == 1
