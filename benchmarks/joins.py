"""Joins of topologies beside bare Python loops with the same results: decoded rows from memory, no changelog, CPU time.

1,000 keys, 90-byte values, rows 1 ms apart; stream-stream: window of 2 s before and after, grace 1 s, two results a row."""

from __future__ import annotations

import json
import random
import statistics
import subprocess
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path
from typing import Any

from benchmarks._kafka_peers import python_of
from benchmarks.windows import CHUNK, REPEATS, Row, cpu
from streamactors.windows import JoinWindows, Record, RecordContext
from streamactors.windows.topology.task_factory import TaskFactory
from streamactors.windows.topology.topics import TopologyTopics

ROWS, KEYS = 200_000, 1_000
REACH, GRACE = 1_000, 1_000
Build = Callable[[TopologyTopics], Any]
Bare = Callable[[list[Record]], int]


def input_rows(count: int = ROWS, *, values: Callable[[int], Any] | None = None) -> list[Record]:
    """Rows of the topics a and b in turn, of random keys."""
    rng = random.Random(7)
    names = [f"key-{number:04d}" for number in range(KEYS)]
    value = "v" * 90
    contexts = (RecordContext("a", 0, 0), RecordContext("b", 0, 0))
    return [
        Record(rng.choice(names), value if values is None else values(now), now, contexts[now % 2])
        for now in range(count)
    ]


def first(left: Any, right: Any) -> Any:
    return left


def stream_table(topics: TopologyTopics) -> Any:
    return topics.stream("a").join_table(topics.table("b"), first)


def bare_stream_table(rows: list[Record]) -> int:
    table: dict[Any, Any] = {}
    out = []
    for row in rows:
        if row.context is not None and row.context.topic == "b":
            table[row.key] = (row.value, row.timestamp)
        else:
            found = table.get(row.key)
            if found is not None:
                out.append(Record(row.key, first(row.value, found[0]), row.timestamp, row.context))
    return len(out)


def stream_stream(topics: TopologyTopics) -> Any:
    windows = JoinWindows.of(REACH).with_grace(GRACE)
    return topics.stream("a").join(topics.stream("b"), first, windows)


def bare_stream_stream(rows: list[Record]) -> int:
    sides: dict[str, dict[Any, list[Record]]] = {"a": {}, "b": {}}
    other = {"a": sides["b"], "b": sides["a"]}
    time_of = attrgetter("timestamp")
    out = []
    for row in rows:
        assert row.context is not None
        topic, time = row.context.topic, row.timestamp
        met = other[topic].get(row.key)
        if met is not None:
            begin = bisect_left(met, time - REACH, key=time_of)
            for each in met[begin : bisect_right(met, time + REACH, begin, key=time_of)]:
                value = first(row.value, each.value) if topic == "a" else first(each.value, row.value)
                out.append(Record(row.key, value, max(time, each.timestamp), row.context))
        own = sides[topic].setdefault(row.key, [])
        own.append(row)
        if len(own) > 64:
            del own[:32]
    return len(out)


def table_table(topics: TopologyTopics) -> Any:
    return topics.table("a").join(topics.table("b"), first)


def bare_table_table(rows: list[Record]) -> int:
    tables: dict[str, dict[Any, Any]] = {"a": {}, "b": {}}
    out = []
    for row in rows:
        assert row.context is not None
        topic = row.context.topic
        tables[topic][row.key] = (row.value, row.timestamp)
        met = tables["b" if topic == "a" else "a"].get(row.key)
        if met is not None:
            value = first(row.value, met[0]) if topic == "a" else first(met[0], row.value)
            out.append(Record(row.key, value, max(row.timestamp, met[1]), row.context))
    return len(out)


def foreign_key(topics: TopologyTopics) -> Any:
    return topics.table("a").join_foreign_key(topics.table("b"), lambda key, value: value, first)


def ours(build: Build, rows: list[Record]) -> int:
    topics = TopologyTopics()
    build(topics).to("out")
    task = TaskFactory(topics.topology)()
    return sum(len(task.process_chunk(rows[at : at + CHUNK])) for at in range(0, len(rows), CHUNK))


def beside(name: str, build: Build, bare: Bare | None, rows: list[Record], target: int) -> Row:
    """Return one row of the page; the bare loop must give as many results."""
    speeds, ratios, peers = [], [], []
    for _ in range(REPEATS):
        spent, count = cpu(lambda: ours(build, rows))
        speeds.append(len(rows) / spent)
        if bare is not None:
            bare_spent, wanted = cpu(lambda: bare(rows))
            assert count == wanted, f"{name}: {count} results, the bare loop gives {wanted}"
            ratios.append(bare_spent / spent)
            peers.append(len(rows) / bare_spent)
    row: Row = {
        "name": f"{name}, {len(rows):,} rows",
        "value": round(statistics.median(speeds)),
        "unit": "rows/s",
        "target": f">= {target:,} rows/s",
    }
    if bare is not None:
        row |= {
            "peer": f"bare loop {round(statistics.median(peers)):,} rows/s",
            "ratio": round(statistics.median(ratios), 2),
            "spread": f"{min(ratios):.2f}–{max(ratios):.2f}",
        }
    return row


PEERS = {"bytewax": "Bytewax join, running", "pathway": "Pathway join of upserted tables"}
"""The peers with the same join in memory, a table with a table. Quix Streams has no join of tables."""


def beside_peers(rows: list[Record]) -> list[Row]:
    """The table-table join beside other frameworks, each in an environment of its own."""
    found: list[Row] = []
    for peer, what in PEERS.items():
        try:
            command = [str(python_of(peer)), str(Path(__file__).with_name("_join_peer.py")), peer, str(len(rows))]
        except (subprocess.SubprocessError, OSError) as error:
            print(f"  {peer} is left out: it cannot be installed ({error})", file=sys.stderr, flush=True)
            continue
        speeds, theirs = [], []
        for _ in range(REPEATS):
            spent, _ = cpu(lambda: ours(table_table, rows))
            speeds.append(len(rows) / spent)
            ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
            seconds, results = json.loads(ran.stdout.splitlines()[-1])
            # a peer may leave out updates that its next batch overwrites
            assert results >= KEYS, f"{peer} has joined {results} of {len(rows)} rows"
            theirs.append(len(rows) / seconds)
        ratios = [own / other for own, other in zip(speeds, theirs, strict=True)]
        found.append(
            {
                "name": f"table-table join, inner, {len(rows):,} rows, beside {what}",
                "value": round(statistics.median(speeds)),
                "unit": "rows/s",
                "peer": f"{peer} {round(statistics.median(theirs)):,} rows/CPU-s",
                "ratio": round(statistics.median(ratios), 2),
                "spread": f"{min(ratios):.2f}–{max(ratios):.2f}",
            }
        )
    return found


def run() -> list[Row]:
    """Every row of the page."""
    rows = input_rows()
    owners = input_rows(values=lambda now: f"key-{now * 7 % KEYS:04d}")
    return [
        beside("stream-table join", stream_table, bare_stream_table, rows, 300_000),
        beside("stream-stream join, inner", stream_stream, bare_stream_stream, rows, 150_000),
        beside("table-table join, inner", table_table, bare_table_table, rows, 250_000),
        beside("foreign key join, inner", foreign_key, None, owners[: ROWS // 10], 80_000),
        *beside_peers(rows),
    ]


if __name__ == "__main__":
    for each in run():
        print(each)
