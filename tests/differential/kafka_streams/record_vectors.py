"""Records vectors of Kafka Streams: topologies and rows that look for trouble, with what TopologyTestDriver gives for them.

    python -m tests.differential.kafka_streams.record_vectors

writes tests/windows/topology/kafka_vectors/*.jsonl, one case a line; tests/windows/topology/test_kafka_vectors.py replays them without Java. A family
has one kind of step in all its forms. Its rows are drawn with a seed from few keys and times, so that they meet: equal times, the edges of windows
and of grace, rows that come late, tombstones of keys that are and are not there, foreign keys that change, keys and values that are missing."""

from __future__ import annotations

import json
import random
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import Any

from tests.differential.kafka_streams.build import classpath
from tests.differential.kafka_streams.case_program import CaseProgram
from tests.models.processor_case import random_script
from tests.models.topology_case import Op, Row, TopologyCase

VECTORS = Path(__file__).parents[2] / "windows" / "topology" / "kafka_vectors"
HOWS = ("inner", "left", "outer")
STORED = "01"
WINDOWS = ((0, 0), (5, 5), (2, 3), (10, 0), (0, 10), (-1, 8), (8, -2))
VALUES = ("a1", "b1", "x2", "a22", "b22", "n1", "q1", "", None)
Ops = list[Op]


def _out(ops: Ops, table: bool) -> Ops:
    last = ops[-1][1]
    return [*ops, ("to_stream", "r", last), ("out", "o", "r")] if table else [*ops, ("out", "o", last)]


def _sources(left: str, right: str) -> Ops:
    """`left`, `right`: stream, table (without a store), stored (with one), or the history of a versioned table."""
    found: Ops = []
    for name, topic, kind in (("l", "a", left), ("m", "b", right)):
        if kind.isdigit():
            found.append(("versioned", name, topic, int(kind)))
        elif kind == "stream":
            found.append(("stream", name, topic))
        else:
            found.append(("table", name, topic, str(int(kind == "stored"))))
    return found


def stream_stream() -> Iterator[Ops]:
    for how, window, grace in product(HOWS, WINDOWS, (0, 4)):
        yield _out([*_sources("stream", "stream"), ("join", "j", "l", "m", how, *window, grace)], table=False)
    for how, window in product(HOWS, WINDOWS[:3]):  # a stream joined with itself, and with what was made of it
        yield _out([("stream", "l", "a"), ("join", "j", "l", "l", how, *window, 0)], table=False)
        ops: Ops = [("stream", "l", "a"), ("map", "m", "l"), ("join", "j", "l", "m", how, *window, 4)]
        yield _out(ops, table=False)


def stream_table() -> Iterator[Ops]:
    for how, kind in product(("inner", "left"), ("table", "stored", "5", "20")):
        yield _out([*_sources("stream", kind), ("join_table", "j", "l", "m", how)], table=False)
        ops: Ops = [*_sources("stream", kind), ("filter_table", "f", "m", "0"), ("join_table", "j", "l", "f", how)]
        yield _out(ops, table=False)
    for how, history, grace in product(("inner", "left"), ("5", "20"), (0, 3, 5)):
        yield _out([*_sources("stream", history), ("join_table", "j", "l", "m", how, grace)], table=False)
    for how in ("inner", "left"):
        ops = [("stream", "l", "a"), ("count", "m", "l"), ("join_table", "j", "l", "m", how)]
        yield _out(ops, table=False)
        ops = [("stream", "l", "a"), ("global", "m", "b"), ("join_global", "j", "l", "m", how)]
        yield _out(ops, table=False)


def table_table() -> Iterator[Ops]:
    for how, left, right, stored in product(HOWS, ("table", "stored"), ("table", "20"), STORED):
        yield _out([*_sources(left, right), ("join_tables", "j", "l", "m", how, stored)], table=True)
    for how, view in product(HOWS, ("filter_table", "not_table", "known_table", "map_table")):
        ops: Ops = [*_sources("table", "table"), (view, "v", "l", "0"), ("join_tables", "j", "v", "m", how, "0")]
        yield _out(ops, table=True)
        ops = [("table", "l", "a", "1"), (view, "v", "l", "0"), ("join_tables", "j", "l", "v", how, "1")]
        yield _out(ops, table=True)  # two views of one table
    for how in HOWS:
        yield _out([("table", "l", "a", "1"), ("join_tables", "j", "l", "l", how, "0")], table=True)
        ops = [
            *_sources("table", "table"),
            ("join_tables", "j", "l", "m", how, "0"),
            ("join_tables", "k", "j", "l", how, "0"),
        ]
        yield _out(ops, table=True)


def foreign_key() -> Iterator[Ops]:
    for kind, how, left, right in product(
        ("foreign", "foreign_named"), HOWS[:2], ("table", "stored", "20"), ("table", "20")
    ):
        yield _out([*_sources(left, right), (kind, "j", "l", "m", how)], table=True)
    for how in HOWS[:2]:
        yield _out([("table", "l", "a", "1"), ("foreign", "j", "l", "l", how)], table=True)
        ops: Ops = [*_sources("table", "table"), ("foreign", "j", "l", "m", how), ("group", "g", "j")]
        yield _out(ops, table=True)
        ops = [*_sources("table", "table"), ("foreign", "j", "l", "m", how), ("foreign", "k", "j", "m", how)]
        yield _out(ops, table=True)


def grouped_tables() -> Iterator[Ops]:
    for kind, table in product(("group", "group_reduce", "group_count"), ("table", "stored", "20")):
        source = _sources(table, "table")[:1]
        yield _out([*source, (kind, "g", "l")], table=True)
        yield _out([*source, ("filter_table", "f", "l", "0"), (kind, "g", "f")], table=True)
        yield _out([("stream", "l", "a"), ("count", "c", "l"), (kind, "g", "c")], table=True)
        yield _out([*source, (kind, "g", "l"), ("group_count", "h", "g")], table=True)


def streams_to_tables() -> Iterator[Ops]:
    for kind in ("aggregate", "reduce", "count", "to_table"):
        args = ("0",) if kind == "to_table" else ()
        yield _out([("stream", "l", "a"), (kind, "t", "l", *args)], table=True)
        yield _out([("stream", "l", "a"), ("select", "s", "l"), (kind, "t", "s", *args)], table=True)
        ops: Ops = [
            *_sources("stream", "stream"),
            ("select", "s", "l"),
            ("merge", "u", "s", "m"),
            (kind, "t", "u", *args),
        ]
        yield _out(ops, table=True)
    yield _out([*_sources("stream", "stream"), ("cogroup", "t", "l", "m")], table=True)
    for size, grace in ((5, 0), (10, 4)):
        yield _out([*_sources("stream", "stream"), ("cogroup_windows", "t", "l", "m", size, grace)], table=True)
        for kind in ("windows", "hopping", "sessions", "sliding"):
            yield _out(
                [*_sources("stream", "stream"), ("merge", "u", "l", "m"), (kind, "t", "u", size, grace)], table=True
            )


def suppressed() -> Iterator[Ops]:
    for how, limit in product(HOWS, (0, 5)):
        tables: Ops = [*_sources("table", "table"), ("join_tables", "j", "l", "m", how, "0")]
        yield _out([*tables, ("limit", "s", "j", limit)], table=True)
        yield _out([*tables, ("bounded", "s", "j", limit, 1)], table=True)
    for limit in (0, 5):
        ops: Ops = [*_sources("table", "table"), ("foreign", "j", "l", "m", "left"), ("limit", "s", "j", limit)]
        yield _out(ops, table=True)
        yield _out([("table", "l", "a", "1"), ("group", "g", "l"), ("limit", "s", "g", limit)], table=True)
        counts: Ops = [*_sources("stream", "stream"), ("count", "c", "l"), ("count", "d", "m")]
        counts += [("limit", "s", "c", limit), ("limit", "t", "d", limit)]
        yield _out([*counts, ("join_tables", "j", "s", "t", "inner", "0")], table=True)
    for kind, how in product(("windows", "hopping", "sessions", "sliding"), HOWS):
        ops = [*_sources("stream", "stream"), (kind, "c", "l", 5, 4), (kind, "d", "m", 5, 0)]
        yield _out([*ops, ("join_tables", "j", "c", "d", how, "0"), ("final", "s", "j")], table=True)


FAMILIES = (stream_stream, stream_table, table_table, foreign_key, grouped_tables, streams_to_tables, suppressed)


def rows(dice: random.Random, topics: list[str], style: str, count: int) -> list[Row]:
    """`style`: mixed: times in any order; late: times rise, and every third row is late; slow: many equal times; far: times are days apart."""
    keys = ("a", "a", "b", "x", None) if style != "slow" else ("a", "b")
    found: list[Row] = []
    now = 0
    for number in range(count):
        now += dice.choice((0, 1, 2, 5)) if style != "slow" else dice.choice((0, 0, 0, 10))
        time = dice.randrange(31) if style == "mixed" else now
        if style == "late" and dice.random() < 0.35:
            time = max(0, now - dice.choice((1, 4, 5, 6, 9, 10, 11, 20)))
        if style == "far":
            time *= 40_000
        found.append((dice.choice(topics), dice.choice(keys), dice.choice(VALUES), time, str(number % 3)))
    return found


def cases(family: Any) -> Iterator[TopologyCase]:
    dice = random.Random(family.__name__)
    for ops in family():
        topics = sorted({str(op[2]) for op in ops if op[0] in ("stream", "table", "versioned", "global")})
        for style in ("mixed", "late", "late", "slow", "far"):
            yield TopologyCase(ops, rows(dice, topics, style, 16))


def record(program: CaseProgram, name: str, found: Iterator[TopologyCase]) -> None:
    lines = []
    for case in found:
        outcome = program.run(case)
        if outcome.refused is not None:
            raise SystemExit(f"{name}: Kafka Streams refuses {case.ops}: {outcome.refused}")
        told = {"given": outcome.given, "dropped": outcome.dropped, "died": outcome.died}
        lines.append(json.dumps({**asdict(case), **told}, separators=(",", ":")))
    (VECTORS / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    sys.stdout.write(f"{name}: {len(lines)} cases\n")


def main() -> None:
    VECTORS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as out, tempfile.TemporaryDirectory(dir="/dev/shm") as states:
        classes = classpath(Path(out))
        topologies = CaseProgram("Topologies", classes, states)
        for family in FAMILIES:
            record(topologies, family.__name__, cases(family))
        topologies.close()
        processors = CaseProgram("Processors", classes, states)
        dice = random.Random("processors")
        record(processors, "processors", (random_script(dice, 24) for _ in range(250)))
        processors.close()


if __name__ == "__main__":
    main()
