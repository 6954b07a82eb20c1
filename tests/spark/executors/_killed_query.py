"""A windowed graph on executors that a test kills: run as a program by test_kills.py.

Arguments: broker, input topic, output topic ("" for Parquet), folder, master. It prints the JVM's process id, and "finished" at the end."""

from __future__ import annotations

import os
import sys
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


def main() -> None:
    servers, topic, out, folder, master = sys.argv[1:6]
    spark = spark_session("killed", master=master, **SETTINGS)
    print(spark.sparkContext._gateway.proc.pid, flush=True)
    results = counted(records_of(servers, topic))
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
