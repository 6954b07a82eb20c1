"""A windowed graph on executors that a test kills or hinders: run as a program by test_kills.py and test_attempts.py.

Arguments: broker, input topic, output topic ("" for Parquet), folder, master, hindrance, settings as name=value. It prints the JVM's process id,
and "finished" at the end."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from streamactors import Keep
from streamactors.kafka import Consumer, ConsumerSettings, ProducerSettings, Subscriptions, Transactional
from streamactors.spark import SparkExecutors, SparkSink, spark_session
from tests.spark.executors._killed_task import as_record, counted

SETTINGS = {
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.sql.shuffle.partitions": "1",
    "spark.executorEnv.PYTHONPATH": os.pathsep.join(sys.path),
}
ROWS = 60
HINDERED = 50
"""Each row whose value is a multiple of this is hindered at the first attempt of its task."""
PATIENCE_S = 200.0


def records_of(servers: str, topic: str) -> Any:
    settings = ConsumerSettings(servers, group_id=f"g-{topic}", auto_offset_reset="earliest")
    found = Consumer.records(
        settings,
        Subscriptions.topics(topic),
        key="string",
        value="json",
        timestamp=lambda record: record.value[1],
        until="end",
    )
    return found.map(lambda record: record.replace(value=record.value[0]))


def hindered(how: str, folder: Path) -> Callable[[Any], Any]:
    """Return a step of the graph: "fail" raises at the first attempt of some rows; "slow" waits there until another attempt has come."""
    folder.mkdir(exist_ok=True)

    def pass_or_not(record: Any) -> Any:
        if how and record.value % HINDERED == 0:
            mine = folder / f"{record.value}-{os.getpid()}-{time.monotonic_ns()}"
            before = list(folder.glob(f"{record.value}-*"))
            mine.touch()
            if before:
                return record
            if how == "fail":
                raise OSError("the first attempt fails")
            until = time.monotonic() + PATIENCE_S
            while len(list(folder.glob(f"{record.value}-*"))) < 2:
                assert time.monotonic() < until, "no other attempt came"
                threading.Event().wait(0.02)
        return record

    return pass_or_not


def main() -> None:
    servers, topic, out, folder, master, how, *more = sys.argv[1:]
    settings = dict(each.split("=", 1) for each in more)
    spark = spark_session("killed", master=master, **SETTINGS, **settings)
    print(spark.sparkContext._gateway.proc.pid, flush=True)
    results = counted(records_of(servers, topic).map(hindered(how, Path(folder) / "attempts")))
    if out:
        producer = ProducerSettings(servers, transactional_id=f"x-{topic}")
        graph: Any = results.map(as_record(out)).to(Transactional.sink(producer))
        query = graph.run(SparkExecutors(spark, checkpoint=f"{folder}/ck", max_rows=ROWS))
    else:
        rows = results.map(lambda row: (row.context.partition, row.key, row.start, row.value, row.context.offset))
        schema = "part int, key string, start long, n long, offset long"
        sink = SparkSink.parquet(spark, f"{folder}/table", schema, f"{folder}/ck", max_rows=ROWS)
        query = rows.to_mat(sink, Keep.right).run(SparkExecutors(spark))
    assert query.await_termination(500)
    print("finished", flush=True)


if __name__ == "__main__":
    main()
