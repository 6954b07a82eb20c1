"""`capture` and `replay` as a user types them: a group of a real cluster into a file, and the file into a graph, without a cluster."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from streamactors.broker import Cluster
from streamactors.cli import byte_sizes
from streamactors.kafka import TopicPartition
from streamactors.kafka.client.admin import Admin
from streamactors.kafka.settings import ClientSettings
from tests.cli.ran import Run

GRAPHS = """
from streamactors.kafka import *
import json
READER = ConsumerSettings("nowhere:1", "shop", "earliest")
def made(fn):
    return (Consumer.records(READER, Subscriptions.topics("orders"), key="string", value="string")
        .map(lambda row: row.replace(value=json.loads(row.value))).named("parse")
        .filter(lambda row: row.value["amount"]).named("is paid")
        .map(lambda row: ProducerRecord("paid", fn(row.value["amount"]), row.key)).named("as record")
        .to(Transactional.sink(ProducerSettings("nowhere:1").with_transactional_id("t"))))
graph = made(str)
rounded = made(lambda amount: str(amount // 10 * 10))
calm = (Consumer.plain_source(READER, Subscriptions.topics("orders")).filter(lambda each: each.key == b"bob")
    .map(lambda each: ProducerRecord("paid", each.value, each.key)).to(Producer.plain_sink(ProducerSettings("nowhere:1"))))
others = Consumer.plain_source(ConsumerSettings("nowhere:1", "others"), Subscriptions.topics("orders")).to(Sink.ignore())
def hide(record):
    return record._replace(key=b"hidden")
def broken(record):
    raise ValueError(record.value)
"""


@pytest.fixture
def shop(broker: Cluster, streamactors: Run, module: Callable[[str], str]) -> str:
    """Three orders of a group that has read the first one; the third is no JSON."""
    with Admin(ClientSettings(broker.bootstrap_servers)) as admin:
        if "orders" not in {topic.name for topic in admin.topics()}:
            broker.create_topic("orders", partitions=1)
            for ago, line in (
                ("-90s", b'ann:{"amount": 17}'),
                ("-60s", b'bob:{"amount": 0}'),
                ("-30s", b'ann:{"amount": '),
            ):
                assert (
                    streamactors("produce", "orders", "--key-separator", ":", "--timestamp", ago, stdin=line).code == 0
                )
            admin.commit("shop", {TopicPartition("orders", 0): 1})
    return module(GRAPHS)


def test_a_group_is_captured_and_its_graph_replayed(streamactors: Run, shop: str) -> None:
    ran = streamactors("capture", "--group", "shop", "shop.capsule")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("shop.capsule: 3 records of group shop, ")
    assert ["orders", "input", "1", "3", "0:", "0–3"] in ran.rows
    assert ran.out.endswith("next: streamactors replay shop.capsule MODULE:GRAPH\n")

    ran = streamactors("replay", "shop.capsule", f"{shop}:graph")
    lines = [line.split(maxsplit=3) for line in ran.out.splitlines()]
    assert ran.code == 1
    assert ran.err == ""
    shown = [line for line in lines if line and line[0] in ("1", "2", "3")]
    assert [line[2] for line in shown[:3]] == ["orders-0@0", "orders-0@1", "orders-0@2"]
    assert "as record to paid 'ann' = '17'" in " ".join(ran.out.split())
    assert "✗ parse failed: JSONDecodeError" in ran.out
    assert f"{shop}.py:" in ran.out
    assert "3 of 3 records; sent 1 to paid" in ran.out
    assert "committed orders-0@2" in ran.out


def test_only_the_wanted_records_and_all_failures_are_shown(streamactors: Run, shop: str) -> None:
    streamactors("capture", "--group", "shop", "shop.capsule")
    out = streamactors("replay", "shop.capsule", f"{shop}:graph", "--only", "bob").out
    assert "orders-0@1" in out
    assert "orders-0@0 " not in out
    assert "✗ parse failed" in out
    assert "3 of 3 records" in out


def test_steps_are_json_objects(streamactors: Run, shop: str) -> None:
    streamactors("capture", "--group", "shop", "shop.capsule")
    steps = streamactors("replay", "shop.capsule", f"{shop}:graph", "--json", "--from", "committed").json
    first = next(step for step in steps if step["record"])
    assert first["record"] | {"timestamp_ms": 0} == {"topic": "orders", "partition": 0, "offset": 1, "timestamp_ms": 0, "key": "bob", "value": '{"amount": 0}', "headers": []}  # fmt: skip
    assert [each["stage"] for each in first["emitted"]][-1] == "parse"
    assert [failure["stage"] for step in steps for failure in step["failures"]] == ["parse"]


def test_two_versions_are_compared_by_key(streamactors: Run, shop: str) -> None:
    streamactors("capture", "--graph", f"{shop}:graph", "shop.capsule")
    ran = streamactors("replay", "shop.capsule", f"{shop}:graph", "--settle", "1s", "--compare", f"{shop}:rounded")
    assert ran.code == 1
    assert ["changed", "paid", "'ann'", "'17'", "'10'"] in ran.rows
    assert "1 difference in 1 key and window: 1 changed" in ran.out
    told = streamactors(
        "replay", "shop.capsule", f"{shop}:graph", "--settle", "1s", "--compare", f"{shop}:rounded", "--json"
    )
    assert told.code == 1
    assert told.json == [{"change": "changed", "place": "paid", "key": "'ann'", "window": None, "before": ["'17'"], "after": ["'10'"]}]  # fmt: skip


def test_equal_versions_that_end_well_have_exit_code_0(streamactors: Run, shop: str) -> None:
    streamactors("capture", "--group", "shop", "shop.capsule")
    same = streamactors("replay", "shop.capsule", f"{shop}:calm", "--settle", "1s", "--compare", f"{shop}:calm")
    assert (same.code, same.out.splitlines()[-1]) == (0, "the results are equal, for 1 key and window")
    assert streamactors("replay", "shop.capsule", f"{shop}:calm").code == 0


def test_what_the_limits_leave_out_is_told_and_the_rest_is_replayed(streamactors: Run, shop: str) -> None:
    ran = streamactors("capture", "--group", "shop", "--max-records", "2", "shop.capsule")
    assert "note: orders-0: the first 1 records are left out" in ran.out
    ran = streamactors("replay", "shop.capsule", f"{shop}:calm", "--from", "committed")
    assert "note: orders-0: the first 1 records are left out" in ran.out
    assert "2 of 2 records" in ran.out


def test_a_capture_tells_its_contents_as_json(streamactors: Run, shop: str) -> None:
    (told,) = streamactors("capture", "--graph", f"{shop}:graph", "shop.capsule", "--json").json
    assert (told["group"], told["records"], told["notes"]) == ("shop", 3, [])
    assert told["partitions"] == [
        {"topic": "orders", "partition": 0, "begin": 0, "end": 3, "committed": 1, "records": 3}
    ]


def test_redaction_hides_or_writes_nothing(streamactors: Run, shop: str) -> None:
    ran = streamactors("capture", "--group", "shop", "--redact", f"{shop}:broken", "shop.capsule")
    assert ran.code == 1
    assert f"{shop}:broken raised ValueError at orders-0@0; nothing was written" in ran.err
    assert not Path("shop.capsule").exists()
    ran = streamactors("capture", "--group", "shop", "--redact", f"{shop}:hide", "shop.capsule")
    assert f"note: {shop}:hide has changed the records" in ran.out
    assert b"ann" not in Path("shop.capsule").read_bytes()
    assert "'hidden' = '{\"amount\": 17}'" in streamactors("replay", "shop.capsule", f"{shop}:graph").out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["capture", "x.capsule"], "which group? give --group, or --graph"),
        (["capture", "-g", "shop", "there.capsule"], "there.capsule is there already; give --force"),
        (["capture", "-g", "shop", "no/x.capsule"], "there is no folder"),
        (["capture", "-g", "shop", "--max-bytes", "lots", "x.capsule"], "is no size; write 64MB"),
        (["replay", "there.capsule", "json:loads"], "there.capsule is no capsule"),
        (["replay", "nothing.capsule", "json:loads"], "does not exist"),
    ],
)
def test_mistakes_are_named_with_the_way_out(streamactors: Run, shop: str, arguments: list[str], told: str) -> None:
    Path("there.capsule").write_bytes(b"hello")
    ran = streamactors(*arguments)
    assert ran.code == 2
    assert told in ran.err


def test_a_graph_of_another_group_is_refused(streamactors: Run, shop: str) -> None:
    streamactors("capture", "--group", "shop", "shop.capsule")
    ran = streamactors("replay", "shop.capsule", f"{shop}:others")
    assert ran.code == 1
    assert "the capsule is of group shop, and the graph reads in others" in ran.err


@pytest.mark.slow
def test_without_greenlet_the_extra_is_named(streamactors: Run, shop: str) -> None:
    streamactors("capture", "--group", "shop", "shop.capsule")
    program = (
        "import sys; sys.modules['greenlet'] = None; from streamactors.cli.main import run; sys.exit(run(sys.argv[1:]))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program, "replay", "shop.capsule", f"{shop}:graph"],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert ran.returncode == 1
    assert "pip install 'streamactors[simulation]'" in ran.stderr


@pytest.mark.parametrize(
    ("text", "size"), [("1", 1), ("64MB", 64_000_000), ("512 KiB", 524_288), ("2g", 2_000_000_000)]
)
def test_sizes_are_written_as_people_do(text: str, size: int) -> None:
    assert byte_sizes.BYTES.convert(text, None, None) == size


@pytest.mark.parametrize(("size", "text"), [(0, "0 B"), (999, "999 B"), (1_400, "1.4 kB"), (64_000_000, "64 MB"), (5_000_000_000_000, "5000 GB")])  # fmt: skip
def test_sizes_are_shown_as_people_read_them(size: int, text: str) -> None:
    assert byte_sizes.size_text(size) == text


def test_steps_stay_json_when_bytes_are_no_text() -> None:
    from streamactors.cli.captures.showing import step_json
    from streamactors.simulation.capture.replaying import Step
    from tests.simulation.capture.capsules import record

    told = json.loads(step_json(Step(1, 5, record(0, b"\xff"), (), 0, (), ())))
    assert told["record"]["value_base64"] == "/w=="
