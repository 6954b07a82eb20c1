"""What works over Spark Connect: run as a program by test_connect.py, in an environment with PySpark's client of Spark Connect.

Arguments: broker, topic with 20 records, topic to write, folder. It prints a line of JSON."""

from __future__ import annotations

import json
import sys
from typing import Any

from pyspark.sql import SparkSession

from streamactors import Flow
from streamactors.errors import StreamActorsError
from streamactors.kafka import Consumer, ConsumerSettings, Subscriptions
from streamactors.spark import (
    SparkExecutors,
    SparkSink,
    SparkSource,
    on_spark,
    register_graph_format,
    register_kafka_format,
)

ROW = "id long, k string"


def doubled(row: Any) -> tuple[int, str]:
    """A function of this script: it travels by value."""
    return row[0] * 2, row[1]


def main() -> None:
    servers, topic, out, folder = sys.argv[1:]
    spark: Any = SparkSession.builder.remote("local[2]").getOrCreate()
    frame = spark.createDataFrame([(i, f"k{i}") for i in range(5)], ROW)
    rows = frame.transform(on_spark(Flow.map(doubled).filter(lambda row: row[0] > 2), ROW)).collect()

    register_kafka_format(spark)
    options = {"kafka.bootstrap.servers": servers, "subscribe": topic}
    table = spark.read.format("streamactors-kafka").options(**options).load()
    records = table.count()
    written = table.selectExpr("key", "value", f"'{out}' AS topic")
    written.write.format("streamactors-kafka").option("kafka.bootstrap.servers", servers).mode("append").save()
    options["subscribe"] = out
    copied = spark.read.format("streamactors-kafka").options(**options).load().count()

    settings = ConsumerSettings(servers, group_id=f"g-{topic}", auto_offset_reset="earliest")
    source = Consumer.source(settings, Subscriptions.topics(topic)).map(lambda record: (record.offset, "k"))
    stream = SparkSource.frame(spark, source, ROW)
    writer = stream.writeStream.format("parquet").option("checkpointLocation", f"{folder}/ck")
    query = writer.trigger(availableNow=True).start(f"{folder}/table")
    assert query.awaitTermination(200)
    streamed = spark.read.parquet(f"{folder}/table").count()

    refused = []
    for attempt in (
        lambda: SparkExecutors(spark),
        lambda: SparkSink.foreach_batch(spark, print, ROW, f"{folder}/none"),
        lambda: SparkSource.of(frame),
        lambda: SparkSource.of_stream(frame, checkpoint=f"{folder}/none"),
        lambda: on_spark(Flow.map(doubled), ROW, expressions=True)(frame),
        lambda: register_graph_format(spark),
    ):
        try:
            attempt()
            refused.append("not refused")
        except StreamActorsError as error:
            refused.append(f"{type(error).__name__}: {error}")
    print(json.dumps([[list(row) for row in rows], records, copied, streamed, refused]), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
