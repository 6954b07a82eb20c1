"""The same graph in this process and on Spark's executors. python examples/recipes/one_graph_on_spark.py"""

import tempfile
from typing import Any

from streamactors import Keep, RunnableGraph, Source
from streamactors.broker import Cluster
from streamactors.kafka import (
    Consumer,
    ConsumerSettings,
    Producer,
    ProducerRecord,
    ProducerSettings,
    Subscriptions,
)
from streamactors.spark import SparkExecutors, SparkSink, spark_session
from streamactors.windows import Suppressed, TimeWindows

HOUR = 3_600_000


def graph(bootstrap: str, spark: Any, folder: str) -> RunnableGraph[Any]:
    settings = ConsumerSettings(bootstrap, group_id="hours", auto_offset_reset="earliest")
    flights = Consumer.records(settings, Subscriptions.topics("flights"), key="string", until="end")
    hours = flights.group_by_key().windowed_by(TimeWindows.of_size("1h").with_grace("10m")).count()
    final = hours.suppress(Suppressed.until_window_closes()).to_stream()
    rows = final.map(lambda hour: (hour.key, hour.start // HOUR, hour.value))
    schema = "origin string, hour long, flights long"
    return rows.to_mat(SparkSink.parquet(spark, f"{folder}/hours", schema, f"{folder}/checkpoint"), Keep.right)


def main(cluster: Cluster) -> None:
    cluster.create_topic("flights", partitions=2)
    minutes = [("JFK", 5), ("EWR", 17), ("JFK", 40), ("JFK", 65), ("EWR", 130)]
    flights = [ProducerRecord("flights", b"", key, timestamp=minute * 60_000 + HOUR) for key, minute in minutes]
    Source.from_iterable(flights).run_with(
        Producer.plain_sink(ProducerSettings(cluster.bootstrap_servers))
    ).result(30)

    spark, folder = spark_session(), tempfile.mkdtemp()  # master="spark://host:7077" for a cluster
    hours = graph(cluster.bootstrap_servers, spark, folder)
    hours.run(SparkExecutors(spark)).await_termination(300)  # hours.run() runs it in this process
    found = spark.read.parquet(f"{folder}/hours").select("origin", "hour", "flights")
    print(*sorted(map(tuple, found.collect())), sep="\n")


if __name__ == "__main__":
    with Cluster() as demo:
        main(demo)
