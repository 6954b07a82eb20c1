"""Graph 2 once more, on Spark's executors: the same graph, into topics of its own. Its hours and late flights equal those of the first run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from streamactors.demo import hours
from streamactors.demo.topics import HOURS, HOURS_THERE, LATE, LATE_THERE
from streamactors.kafka import ConsumerRecord
from streamactors.spark import SparkExecutors, SparkStreamQuery

NAME: Final = "hours-on-executors"
MAX_ROWS: Final = 100_000
BOTH_WAYS: Final = ((HOURS, HOURS_THERE), (LATE, LATE_THERE))
"""What the run in one process wrote, and what the executors wrote."""


def start(bootstrap: str, spark: Any, checkpoint: Path, max_rows: int = MAX_ROWS) -> SparkStreamQuery:
    """Start the graph of `hours.py` on executors. It reads to the end of `flights`."""
    graph: Any = hours.graph(bootstrap, NAME, HOURS_THERE, LATE_THERE)
    query: SparkStreamQuery = graph.run(SparkExecutors(spark, checkpoint=checkpoint, max_rows=max_rows))
    return query


def first_difference(
    read: Callable[[str, Callable[[ConsumerRecord], tuple[Any, ...]]], list[tuple[Any, ...]]],
) -> dict[str, tuple[int, str | None]]:
    """Compare the topics of both runs, row for row in each partition. `read(topic, parse)` gives the records of a topic.

    Return for each topic its number of rows, and the first difference; None if there is none."""
    found: dict[str, tuple[int, str | None]] = {}
    for here, there in BOTH_WAYS:
        one, other = (
            sorted(read(topic, lambda r: (r.partition, r.offset, r.key, r.value, r.timestamp)), key=lambda row: row[:2])
            for topic in (here, there)
        )
        left, right = ([(row[0], *row[2:]) for row in rows] for rows in (one, other))
        differs = next((n for n, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), None)
        if differs is not None:
            found[here] = len(left), f"row {differs}: {left[differs]} here, {right[differs]} on executors"
        else:
            found[here] = (
                len(left),
                None if len(left) == len(right) else f"{len(right):,} rows instead of {len(left):,}",
            )
    return found
