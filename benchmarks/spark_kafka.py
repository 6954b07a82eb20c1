"""Topics into Spark beside Spark's own Kafka source: rows per CPU second of all processes but the broker.

Spark's own source runs in a session of its own (PySpark 4.0.0, the newest whose connector Maven Central has). Each pair runs alternately on one
topic of JSON of 93 bytes. A run's first batch, which starts Spark's Python processes, is part of it. These starts and the JVM's compiler cost about
3 CPU seconds a query however many rows there are: at 400,000 rows that is half of our part, so the topic has 2,000,000."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import _spark_kafka, spark_executors
from benchmarks.spark import Row
from benchmarks.spark_executors import BATCH, Bench, alternately, compared, fill
from streamactors import Keep
from streamactors.broker import Cluster
from streamactors.kafka import Consumer, ConsumerSettings, Subscriptions

COLUMNS = ("offset AS id", "CAST(key AS STRING) AS k", "CAST(value AS STRING) AS v")
SCHEMA = "id long, k string, v string"


class Ways:
    """What reads the topic `t` of a bench, in ways that Spark's own source is compared with."""

    def __init__(self, bench: Bench, peer: Any) -> None:
        from streamactors.spark import register_kafka_format

        register_kafka_format(bench.spark)
        self._bench = bench
        self._peer = peer

    def own(self, kind: str) -> Callable[[], None]:
        """Return Spark's own source into a count, Parquet, or from_json with a filter and a product."""
        folder = self._bench.folder / "own"

        def run() -> None:
            ends = self._peer.run(kind, BATCH, folder)
            assert sum(rows for _, rows in ends) == spark_executors.N
            shutil.rmtree(folder, ignore_errors=True)

        return run

    def format_into_count(self) -> None:
        """Run the same query as Spark's own source does, with format("streamactors-kafka")."""
        bench = self._bench
        rows = []
        stream = (
            bench.spark.readStream.format("streamactors-kafka")
            .option("kafka.bootstrap.servers", bench.cluster.bootstrap_servers)
            .option("subscribe", "t")
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", BATCH)
            .load()
            .selectExpr(*COLUMNS)
        )
        writer = stream.writeStream.foreachBatch(lambda frame, epoch: rows.append(frame.count()))
        checkpoint = str(bench.folder / bench.group())
        assert writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination(900)
        assert sum(rows) == spark_executors.N

    def graph(self, kind: str, *, arrow: bool, executors: bool) -> Callable[[], None]:
        """Return a graph from the topic into a count or Parquet: here or on executors, record by record or as record batches."""

        def run() -> None:
            from streamactors.spark import SparkExecutors, SparkSink

            bench = self._bench
            settings = ConsumerSettings(bench.cluster.bootstrap_servers, bench.group(), "earliest")
            topic = Subscriptions.topics("t")
            if arrow:
                rows = Consumer.arrow_batches(settings, topic, until="end").map(columns_of)
            else:
                rows = Consumer.source(settings, topic, until="end").map(
                    lambda record: (record.offset, record.key.decode(), record.value.decode())
                )
            folder = bench.folder / str(settings.group_id)
            counts: list[int] = []
            more: dict[str, Any] = {"checkpoint": folder / "checkpoint", "max_rows": BATCH, "target_batch_s": 60}
            if kind == "count":
                sink = SparkSink.foreach_batch(bench.spark, lambda df, epoch: counts.append(df.count()), SCHEMA, **more)
            else:
                sink = SparkSink.parquet(bench.spark, folder / "table", SCHEMA, **more)
            graph = rows.to_mat(sink, Keep.right)
            query = graph.run(SparkExecutors(bench.spark)) if executors else graph.run()
            assert query.await_termination(900)
            assert kind != "count" or sum(counts) == spark_executors.N
            shutil.rmtree(folder)

        return run


def columns_of(batch: Any) -> Any:
    """Return a record batch of a topic with the columns of SCHEMA."""
    import pyarrow as pa

    text = pa.string()
    return pa.RecordBatch.from_arrays(
        [batch["offset"], batch["key"].cast(text), batch["value"].cast(text)], ["id", "k", "v"]
    )


def rows_beside(bench: Bench, peer: Any) -> dict[str, Callable[[], Row]]:
    """Return what measures each row, by its name."""
    ways = Ways(bench, peer)

    def row(name: str, ours: Callable[[], object], kind: str, target: str) -> Callable[[], Row]:
        own = f"Spark {_spark_kafka.VERSION}'s own source" + (" and from_json" if kind == "json" else "")
        return lambda: compared(name, *alternately(bench, ours, ways.own(kind)), own, target)

    found = [
        ("raw topic to count, format streamactors-kafka", ways.format_into_count, "count", "0.6"),
        ("arrow_batches to count, on executors", ways.graph("count", arrow=True, executors=True), "count", ""),
        ("JSON, filter, map within the read", bench.within_read, "json", "0.8"),
        ("arrow_batches to count, SparkSink", ways.graph("count", arrow=True, executors=False), "count", ""),
        ("records to count, SparkSink", ways.graph("count", arrow=False, executors=False), "count", ""),
        ("arrow_batches to Parquet, SparkSink", ways.graph("parquet", arrow=True, executors=False), "parquet", "0.8"),
        ("records to Parquet, SparkSink", ways.graph("parquet", arrow=False, executors=False), "parquet", "0.8"),
    ]
    return {name: row(name, *more) for name, *more in found}


def run(only: str = "", n: int = 2_000_000) -> list[Row]:
    """Return the rows; `only`: those whose names have this text."""
    from streamactors.spark import spark_session

    if not _spark_kafka.available():
        raise ImportError("Java or Maven is missing, which Spark's own Kafka source needs")
    spark = spark_session("benchmarks", **{"spark.driver.memory": "2g"})
    before, spark_executors.N = spark_executors.N, n
    try:
        with (
            Cluster(process=True) as cluster,
            tempfile.TemporaryDirectory() as folder,
            _spark_kafka.SparkKafka(cluster.bootstrap_servers, "t") as peer,
        ):
            fill(cluster, n, 1_000)
            bench = Bench(spark, cluster, Path(folder))
            return [measure() for name, measure in rows_beside(bench, peer).items() if only in name]
    finally:
        spark_executors.N = before
        spark.stop()
