"""One join through another Python framework, in that framework's own environment. In memory: NAME ROWS; prints seconds of CPU and results. From topic to
topic: quixstreams BOOTSTRAP LEFT RIGHT OUT ROWS.

The rows are those of benchmarks/joins.py: topics a and b in turn, 1,000 random keys, 90-byte values, rows 1 ms apart."""

from __future__ import annotations

import json
import random
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

KEYS = 1_000
Rows = list[tuple[str, str, str]]
"""(topic, key, value)."""


def bytewax(rows: Rows) -> Callable[[], int]:
    """`join` of the last values, each time one of them comes: a table-table join."""
    import bytewax.operators as op
    from bytewax.dataflow import Dataflow
    from bytewax.testing import TestingSink, TestingSource, run_main

    sides = [[(key, value) for topic, key, value in rows if topic == side] for side in "ab"]

    def run() -> int:
        out: list[Any] = []
        flow = Dataflow("join")
        left, right = (
            op.input(name, flow, TestingSource(side, batch_size=1_000)) for name, side in zip("ab", sides, strict=True)
        )
        joined = op.join("join", left, right, emit_mode="running")
        both = op.filter_value("both", joined, lambda pair: pair[0] is not None and pair[1] is not None)
        op.output("out", both, TestingSink(out))
        run_main(flow)
        return len(out)

    return run


def pathway(rows: Rows) -> Callable[[], int]:
    """Two tables with primary keys that are upserted, and their join."""
    import pathway as pw

    class Schema(pw.Schema):
        key: str = pw.column_definition(primary_key=True)
        value: str

    class Side(pw.io.python.ConnectorSubject):
        def __init__(self, rows: list[tuple[str, str]]) -> None:
            super().__init__(session_type="upsert")
            self._rows = rows

        def run(self) -> None:
            for at, (key, value) in enumerate(self._rows):
                self.next(key=key, value=value)
                if at % 1_000 == 999:
                    self.commit()

    sides = [[(key, value) for topic, key, value in rows if topic == side] for side in "ab"]

    def run() -> int:
        count = 0

        def on_change(key: Any, row: Any, time: int, is_addition: bool) -> None:
            nonlocal count
            count += is_addition

        left, right = (pw.io.python.read(Side(side), schema=Schema, autocommit_duration_ms=None) for side in sides)
        joined = left.join(right, left.key == right.key).select(left.key, left=left.value, right=right.value)
        pw.io.subscribe(joined, on_change=on_change)
        pw.run(monitoring_level=pw.MonitoringLevel.NONE)
        return count

    return run


def quixstreams(servers: str, left: str, right: str, out: str, count: int) -> None:
    """The newest row of the right topic for each of the `count` rows of the left, exactly once, with RocksDB and a changelog.

    `run(count=)` never ends a join of two topics, so the merging function stops the application at the last row."""
    from quixstreams import Application

    merged = 0

    def merge(mine: Any, other: Any) -> Any:
        nonlocal merged
        merged += 1
        if merged == count:
            application.stop()
        return mine

    with tempfile.TemporaryDirectory() as folder:
        application = Application(
            broker_address=servers,
            consumer_group=out,
            auto_offset_reset="earliest",
            state_dir=folder,
            processing_guarantee="exactly-once",
            loglevel="ERROR",
        )
        frames = [
            application.dataframe(application.topic(topic, key_deserializer="str", value_deserializer="json"))
            for topic in (left, right)
        ]
        joined = frames[0].join_asof(frames[1], how="left", on_merge=merge)
        joined.to_topic(application.topic(out, key_serializer="str", value_serializer="json"))
        application.run(timeout=20)  # of silence, should the last row not come
    print(json.dumps(merged))


def main(name: str, count: int) -> None:
    dice = random.Random(7)
    names = [f"key-{number:04d}" for number in range(KEYS)]
    rows = [("ab"[at % 2], dice.choice(names), "v" * 80 + f"{at:010d}") for at in range(count)]
    run = {"bytewax": bytewax, "pathway": pathway}[name](rows)
    began = time.process_time()
    results = run()
    print(json.dumps([time.process_time() - began, results]))


if __name__ == "__main__":
    if sys.argv[1] == "quixstreams":
        quixstreams(*sys.argv[2:6], int(sys.argv[6]))
    else:
        main(sys.argv[1], int(sys.argv[2]))
