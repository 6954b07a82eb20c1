"""`streamactors produce`: what `consume --json` prints, tombstones, headers, timestamps and progress."""

from __future__ import annotations

import json
import os
import re
import uuid

import pytest

from streamactors.broker import Cluster
from streamactors.testing import SchemaRegistry
from tests.cli.ran import Run
from tests.cli.terminal import COMMAND, on_terminal


@pytest.fixture
def two(broker: Cluster) -> tuple[str, str]:
    names = f"p-{uuid.uuid4().hex[:8]}", f"q-{uuid.uuid4().hex[:8]}"
    for name in names:
        broker.create_topic(name, 2)
    return names


def without_topic(lines: str) -> list[dict[str, object]]:
    found = [json.loads(line) for line in lines.splitlines()]
    for each in found:
        del each["topic"]
    return sorted(found, key=lambda each: (each["partition"], each["offset"]))


def test_what_consume_prints_can_be_produced(streamactors: Run, two: tuple[str, str]) -> None:
    source, copy = two
    records = [
        {"key": "a", "value": "one\ntwo", "timestamp_ms": 1_000_000_000_000},
        {"key": "a", "value": None},
        {"key_base64": "//4=", "value_base64": "AP8=", "headers": [{"name": "h", "value_base64": "/w=="}]},
        {"key": None, "value": "", "headers": [{"name": "n", "value": None}, {"name": "n", "value": "ü"}]},
    ]
    lines = "".join(json.dumps(record) + "\n" for record in records).encode()
    assert streamactors("produce", source, "--json", stdin=lines) == (0, f"4 records produced to {source}\n", "")
    printed = streamactors("consume", source, "--json").out
    assert '"timestamp_ms":1000000000000,"key":"a","value":"one\\ntwo","headers":[]' in printed
    assert '"key":"a","value":null' in printed
    made = streamactors("produce", copy, "--json", "--keep-partitions", stdin=printed.encode())
    assert (made.code, made.err) == (0, "")
    assert without_topic(streamactors("consume", copy, "--json").out) == without_topic(printed)
    again = streamactors("produce", copy, "--json", "-p", "1", "-n", "x", stdin=printed.encode())
    assert again.code == 2  # there is no -n
    streamactors(
        "produce", copy, "--json", "--key", "k", "-H", "more=1", "--timestamp", "2001-01-01", stdin=printed.encode()
    )
    changed = streamactors("consume", copy, "--json", "--key", "k").json
    assert len(changed) == 4
    assert {each["timestamp_ms"] for each in changed} == {978_307_200_000}
    assert all(each["headers"][-1] == {"name": "more", "value": "1"} for each in changed)


def test_values_with_a_schema_make_the_round_trip(streamactors: Run, two: tuple[str, str]) -> None:
    schema = {"type": "record", "name": "Order", "fields": [{"name": "n", "type": "int"}]}
    with SchemaRegistry() as registry:
        for topic in two:
            registry.answer("POST", f"/subjects/{topic}-value/versions", {"schema": json.dumps(schema)})
        options = ("--json", "--value", "avro", "--registry", registry.url)
        lines = b'{"key": "a", "value": "{\\"n\\": 1}"}\n{"key": "a", "value": null}\n'
        assert streamactors("produce", two[0], *options, stdin=lines).code == 0
        printed = streamactors("consume", two[0], *options).out
        assert streamactors("produce", two[1], *options, "--keep-partitions", stdin=printed.encode()).code == 0
        assert without_topic(streamactors("consume", two[1], *options).out) == without_topic(printed)


def test_a_marker_makes_tombstones(streamactors: Run, two: tuple[str, str]) -> None:
    streamactors("produce", two[0], "-k", ":", "-p", "0", "--null-marker", "NULL", stdin=b"a:NULL\nNULL:b\n:\n")
    assert [(each["key"], each["value"]) for each in streamactors("consume", two[0], "--json").json] == [
        ("a", None),
        (None, "b"),
        ("", ""),
    ]
    streamactors("produce", two[1], "-k", ":", "-p", "0", "--null-marker", "", stdin=b"a:\n")
    assert [(each["key"], each["value"]) for each in streamactors("consume", two[1], "--json").json] == [("a", None)]


def test_a_key_and_a_time_for_all_records(streamactors: Run, two: tuple[str, str]) -> None:
    topic = two[0]
    streamactors("produce", topic, "--key", "k", "--timestamp", "1970-01-02", stdin=b"x\ny\n")
    found = streamactors("consume", topic, "--json").json
    assert [(each["key"], each["timestamp_ms"]) for each in found] == [("k", 86_400_000)] * 2


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--json", "-k", ":"], 2, "--json has the key and null of each record"),
        (["--keep-partitions"], 2, "--keep-partitions goes with --json"),
        (["--key", "a", "-k", ":"], 2, "leave out --key-separator"),
        (["--timestamp", "noon"], 2, "'noon' is no time; give now, ms since 1970, a time ago such as -1h"),
        (["--json"], 1, "line 2 is not JSON"),
    ],
)
def test_a_mistake_is_one_line(
    streamactors: Run, two: tuple[str, str], arguments: list[str], code: int, said: str
) -> None:
    ran = streamactors("produce", two[0], *arguments, stdin=b'{"value": "x"}\nline\n')
    assert (ran.code, ran.err.count("\n")) == (code, 1)
    assert said in ran.err
    if code == 1:
        assert ran.err.endswith("(1 record was delivered before)\n")


def test_progress_is_shown_at_a_terminal_also_if_the_output_is_piped(broker: Cluster, two: tuple[str, str]) -> None:
    reader, writer = os.pipe()
    command = " ".join(
        [COMMAND[0], "-c", f"'{COMMAND[2]}'", "produce", two[0], "-b", broker.bootstrap_servers, "| cat"]
    )
    with on_terminal(["sh", "-c", command], stdin=reader) as terminal:
        os.close(reader)
        os.write(writer, b"one\n")
        terminal.until(lambda text: "1 record acknowledged" in re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text))
        os.close(writer)
        assert terminal.ended() == 0
    assert f"1 record produced to {two[0]}" in terminal.text
