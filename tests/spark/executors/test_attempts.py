"""Attempts of Spark's tasks: repeated ones, two at the same moment, and ones that Spark closes early. What was written equals the single-process run."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from streamactors import Keep
from streamactors.demo.killing.standalone import Standalone
from streamactors.spark import SparkExecutors, SparkSink
from tests.spark.executors._killed_query import HINDERED
from tests.spark.executors._plain import in_process, write_rows
from tests.spark.executors.test_in_spark import (
    END_S,
    ROW,
    _plain,
    counted,
    new_topic,
    parted,
    records_of,
    rows_of,
    to_row,
)
from tests.spark.executors.test_kills import Query, check, new_topics

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
SPECULATION = (
    "spark.speculation=true",
    "spark.speculation.interval=100ms",
    "spark.speculation.quantile=0.5",
    "spark.speculation.multiplier=1.1",
    "spark.speculation.minTaskRuntime=100ms",
)


@pytest.mark.parametrize("end", ["topic", "parquet"])
def test_tasks_whose_first_attempts_fail_write_their_ranges_once(
    cluster: Any, system: Any, tmp_path: Path, end: str
) -> None:
    topic, out = new_topics(cluster, 31, 300)
    out = out if end == "topic" else ""
    Query(cluster, topic, out, tmp_path, "local[2,4]", "fail").finish()
    check(cluster, system, tmp_path, topic, out)
    assert all_repeated(tmp_path)


def test_of_two_speculative_attempts_of_a_task_one_writes_its_range(cluster: Any, system: Any, tmp_path: Path) -> None:
    """The first attempt waits for the second one. Spark runs the second one on another host only."""
    topic, out = new_topics(cluster, 32, 300)
    with Standalone(tmp_path / "spark", hosts=("127.0.0.1", "127.0.0.2")) as spark:
        Query(cluster, topic, out, tmp_path, spark.url, "slow", *SPECULATION).finish()
    check(cluster, system, tmp_path, topic, out)
    assert all_repeated(tmp_path)


def all_repeated(folder: Path) -> bool:
    """Return whether two attempts or more came to each row that is hindered."""
    found = Counter(int(path.name.partition("-")[0]) for path in (folder / "attempts").iterdir())
    return found.keys() == set(range(0, 300, HINDERED)) and min(found.values()) >= 2


def test_after_batches_of_which_only_a_row_was_taken_the_next_ones_are_complete(
    spark: Any, cluster: Any, system: Any, tmp_path: Path
) -> None:
    """A read that is closed early writes no state: the next batch computes it from an older one and the topic."""
    topic = new_topic()
    write_rows(cluster, topic, rows_of(33, 400))
    taken: list[Any] = []
    written: dict[int, list[Any]] = {}

    def write(df: Any, epoch: int) -> None:
        if epoch % 2:
            written[epoch] = df.collect()
        else:
            taken.extend(df.take(1))

    sink = SparkSink.foreach_batch(spark, write, ROW, tmp_path / "ck", max_rows=50)
    query = counted(records_of(cluster, topic)).map(to_row).to_mat(sink, Keep.right).run(SparkExecutors(spark))
    assert query.await_termination(END_S)
    assert len(written) >= 3
    wanted = in_process(system, counted, records_of(cluster, topic, group="here"))
    whole = {part: [_plain(row) for row in rows] for part, rows in wanted.results.items()}
    for rows in written.values():
        for part, found in parted(rows).items():
            place = whole[part].index(found[0])
            assert found == whole[part][place : place + len(found)]
    assert {tuple(row) for row in taken} <= {row for rows in whole.values() for row in rows}
    assert sum(map(len, written.values())) > 10
