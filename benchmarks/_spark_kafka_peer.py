"""The peer's own program: run by the venv of _spark_kafka.py, which has PySpark and nothing of this project.

Reads lines [kind (count, parquet, json), rows per batch, folder]; answers each with [[seconds at the end of a batch, its rows], …]."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any


def session(jars: str) -> Any:
    """Return a session set up as streamactors.spark.spark_session does it."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.jars": jars,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": "-XX:+UseSerialGC",
        "spark.driver.memory": "1g",
        "spark.log.level": "ERROR",
    }
    builder = SparkSession.builder.appName("peer").master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def read(spark: Any, servers: str, topic: str, kind: str, batch: int, folder: str) -> list[tuple[float, int]]:
    """Read the topic once, from its beginning to its end."""
    ends: list[tuple[float, int]] = []

    def write(frame: Any, epoch: int) -> None:
        if kind == "count":
            rows = frame.count()
        else:
            frame.write.parquet(f"{folder}/table/epoch_id={epoch}")
            rows = 0  # its progress tells
        ends.append((time.perf_counter(), rows))

    stream = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", batch)
        .option("kafka.fetch.max.wait.ms", 20)  # else every query waits for a second at its end
        .load()
    )
    if kind == "json":
        rows = stream.selectExpr("from_json(CAST(value AS STRING), 'k string, v long') AS r").where("r.v % 3 != 0")
        writer = rows.selectExpr("r.k AS k", "r.v * 2 AS v").writeStream.format("noop")
    else:
        columns = ("offset AS id", "CAST(key AS STRING) AS k", "CAST(value AS STRING) AS v")
        writer = stream.selectExpr(*columns).writeStream.foreachBatch(write)
    query = writer.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True).start()
    query.awaitTermination()
    if kind == "json":
        return [(time.perf_counter(), sum(progress["numInputRows"] for progress in query.recentProgress))]
    if kind == "count":
        return ends
    rows = [progress["numInputRows"] for progress in query.recentProgress][: len(ends)]
    return [(at, n) for (at, _), n in zip(ends, rows, strict=True)]


def main() -> None:
    servers, topic, jars = sys.argv[1:]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what Spark says goes where errors go
    spark = session(jars)
    for line in sys.stdin:
        kind, batch, folder = json.loads(line)
        answers.write(json.dumps(read(spark, servers, topic, kind, batch, folder)) + "\n")
        answers.flush()
    spark.stop()


if __name__ == "__main__":
    main()
