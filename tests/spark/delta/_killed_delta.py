"""Streams that end in Delta tables, and that a test kills: run as a program by test_delta.py, in the environment of _environment.py.

Arguments: broker, topic, folder, where (sink, executors), window, after. The program kills its JVM and itself at the `after`-th pass of a
window: before_write, after_write (the commit is in the table's log, and Spark has not written its commit file); "" runs to the end."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

import pyspark

from streamactors import Flow, Keep
from streamactors.spark import SparkExecutors, SparkSink, spark_session
from tests.spark.delta._environment import PYSPARK, settings
from tests.spark.executors._killed_query import SETTINGS, records_of
from tests.spark.executors._killed_task import counted

ROWS = 60
ROW = "part int, key string, start long, n long, offset long"


def main() -> None:
    servers, topic, folder, where, window, after = sys.argv[1:7]
    assert pyspark.__version__ == PYSPARK, pyspark.__file__
    spark = spark_session("delta", master="local[2,4]", **SETTINGS, **settings())
    left = [int(after or 0)]

    def passing(name: str) -> None:
        if name == window:
            left[0] -= 1
            if left[0] == 0:
                for pid in (spark.sparkContext._gateway.proc.pid, os.getpid()):
                    os.kill(pid, signal.SIGKILL)

    def delta(name: str, schema: str) -> Any:
        sink = SparkSink.delta(
            spark, f"{folder}/{name}", schema, f"{folder}/ck-{where}", partition_by="part", max_rows=ROWS
        )
        kept = sink.module.stage.target  # type: ignore[attr-defined]
        write = kept.write

        def watched(frame: Any, epoch: int, query_id: str) -> None:
            passing("before_write")
            write(frame, epoch, query_id)
            passing("after_write")

        object.__setattr__(kept, "write", watched)
        return sink

    records = records_of(servers, topic)
    if where == "sink":
        rows = records.map(lambda row: (row.context.partition, row.key, row.timestamp, row.value, row.context.offset))
        query = rows.to_mat(delta("rows", ROW), Keep.right).run()
    else:
        late = delta("late", "part int, key string, start long, offset long")
        late_rows = Flow.map(lambda row: (row.context.partition, row.record.key, row.start, row.context.offset)).to(
            late
        )
        results = counted(records, late_rows)
        rows = results.map(lambda row: (row.context.partition, row.key, row.start, row.value, row.context.offset))
        query = rows.to_mat(delta("finals", ROW), Keep.right).run(SparkExecutors(spark))
    assert query.await_termination(500)
    print("finished", flush=True)


if __name__ == "__main__":
    main()
