"""A graph whose workers run another Python than the driver: run as a program by test_shipping.py, in a folder of its own.

Arguments: broker, input topic, how streamactors comes to the workers ("not", "zip", "archive"). It prints the rows, or the error."""

from __future__ import annotations

import json
import sys
from typing import Any

from streamactors import Keep
from streamactors.kafka import Consumer, ConsumerSettings, Subscriptions
from streamactors.spark import SparkExecutors, SparkSink, spark_session

WORKERS = "local-cluster[1,1,512]"


def to_row(record: Any) -> tuple[str, str]:
    """A function of this script: it travels by value."""
    import streamactors

    return record.value.decode(), str(streamactors.__file__)


def main() -> None:
    servers, topic, way = sys.argv[1:]
    more = {"spark.archives": "env.tar.gz#env"} if way == "archive" else {}
    memory = {"spark.driver.memory": "512m", "spark.executor.memory": "512m"}
    spark = spark_session("shipped", master=WORKERS, **memory, **more)
    if way == "zip":
        spark.sparkContext.addPyFile("package.zip")
    rows: list[Any] = []
    settings = ConsumerSettings(servers, group_id=topic, auto_offset_reset="earliest")
    source = Consumer.source(settings, Subscriptions.topics(topic), until="end").map(to_row)
    sink = SparkSink.foreach_batch(
        spark, lambda df, epoch: rows.extend(df.collect()), "v string, f string", f"ck-{way}"
    )
    query = source.to_mat(sink, Keep.right).run(SparkExecutors(spark))
    query.completion.exception(300)
    error = query.exception()
    print(json.dumps([None if error is None else f"{type(error).__name__}: {error}", [list(row) for row in rows]]))


if __name__ == "__main__":
    main()
