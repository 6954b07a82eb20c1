"""Windows that silence closes, in Spark: the rows of the single-process run, and a plan of tasks alone."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from streamactors import Keep
from streamactors.spark import SparkExecutors, SparkSink
from tests.spark.executors._plain import in_process, write_rows
from tests.spark.executors.in_spark import CLOSED, END_S, HOURS, new_topic, records_of, rows_of

pytestmark = pytest.mark.timeout(400)


def counted(records: Any, late: Any = None, idle_after: str | None = None) -> Any:
    windowed = records.group_by_key().windowed_by(HOURS, late=late, idle_after=idle_after)
    return windowed.count().suppress(CLOSED).to_stream()


def test_silence_closes_windows_as_the_end_of_the_input_does_and_nothing_is_shuffled(
    spark: Any, cluster: Any, system: Any, tmp_path: Path
) -> None:
    topic = new_topic()
    write_rows(cluster, topic, rows_of(14))
    wanted = in_process(system, counted, records_of(cluster, topic, group="here"))
    finals = {part: [(row[1], row[2], row[5]) for row in rows] for part, rows in wanted.results.items()}
    found: dict[int, list[Any]] = {0: [], 1: []}
    complete = threading.Event()

    def write(df: Any, epoch: int) -> None:
        for part, *row in df.collect():
            found[part].append(tuple(row))
        if sum(map(len, found.values())) >= sum(map(len, finals.values())):
            complete.set()

    sink = SparkSink.foreach_batch(spark, write, "part int, key string, start long, n long", tmp_path / "ck")
    rows = counted(records_of(cluster, topic, until=None), idle_after="1ms").map(
        lambda row: (row.context.partition, row.key, row.start, row.value)
    )
    control, query = rows.to_mat(sink, Keep.both).run(SparkExecutors(spark, max_rows=90))
    assert complete.wait(END_S), query.exception()
    control.stop()
    assert query.await_termination(END_S)
    assert found == finals
    assert query.spark_query.lastProgress["stateOperators"] == []
    plan = query.spark_query._jsq.explainInternal(False)
    assert "MicroBatchScan" in plan
    assert "Exchange" not in plan
    assert "EventTimeWatermark" not in plan
