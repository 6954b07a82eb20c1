"""SparkSource.frame in queries of Spark's own: a watermark, a join, transformWithState; into files, a topic and foreachBatch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from streamactors.spark import SparkSource, register_kafka_format
from tests.spark.executors._plain import write_rows
from tests.spark.executors.in_spark import new_topic, records_of, rows_of
from tests.spark.own_queries import finished

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
SIZE_S = 100
LATE_S = 600


@pytest.fixture
def frame(spark: Any, cluster: Any) -> Any:
    """A topic as a streaming DataFrame, several batches long; the time of a row is in seconds."""
    topic = new_topic()  # one for each query: its group's offsets say where the next query begins
    write_rows(cluster, topic, rows_of(12))
    rows = records_of(cluster, topic, until=None).map(
        lambda record: (record.key, record.value, datetime.fromtimestamp(record.timestamp, UTC))
    )
    return SparkSource.frame(spark, rows, "k string, n long, at timestamp", max_rows=60)


def run(writer: Any, checkpoint: Path) -> None:
    query = finished(writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start)
    assert len([each for each in query.recentProgress if each["numInputRows"]]) > 1


def test_a_watermark_closes_windows_whose_rows_go_into_files(spark: Any, frame: Any, tmp_path: Path) -> None:
    from pyspark.sql import functions as f

    hours = frame.withWatermark("at", f"{LATE_S} seconds").groupBy(f.window("at", f"{SIZE_S} seconds"), "k").count()
    rows = hours.select("k", f.col("window.start").cast("long").alias("start"), "count")
    table = tmp_path / "table"
    run(rows.writeStream.format("parquet").option("path", str(table)), tmp_path / "ck")
    found = {(row.k, row.start): row["count"] for row in spark.read.parquet(str(table)).collect()}
    counts = Counter((key, at // SIZE_S * SIZE_S) for _, key, _, at in rows_of(12))
    closed = max(at for *_, at in rows_of(12)) - LATE_S
    assert found == {(key, start): n for (key, start), n in counts.items() if start + SIZE_S <= closed}
    assert len(found) > 5


def test_a_join_goes_into_a_topic(spark: Any, cluster: Any, frame: Any, tmp_path: Path, system: Any) -> None:
    register_kafka_format(spark)
    out = new_topic()
    cluster.create_topic(out, partitions=2)
    names = spark.createDataFrame([("a", "Anna"), ("b", "Bert")], "k string, name string")
    rows = frame.join(names, "k").selectExpr("CAST(k AS BINARY) AS key", "CAST(concat(name, n) AS BINARY) AS value")
    writer = rows.writeStream.format("streamactors-kafka").option("kafka.bootstrap.servers", cluster.bootstrap_servers)
    run(writer.option("topic", out), tmp_path / "ck")
    read = spark.read.format("streamactors-kafka").option("kafka.bootstrap.servers", cluster.bootstrap_servers)
    found = Counter((bytes(row.key), bytes(row.value)) for row in read.option("subscribe", out).load().collect())
    called = {"a": "Anna", "b": "Bert"}
    joined = [(key.encode(), f"{called[key]}{n}".encode()) for _, key, n, _ in rows_of(12) if key in called]
    assert found == Counter(joined)


def test_transform_with_state_counts_into_foreach_batch(spark: Any, frame: Any, tmp_path: Path) -> None:
    pytest.importorskip("google.protobuf", reason="Spark's own client of transformWithState needs protobuf")
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    class Counts(StatefulProcessor):  # within the test: it travels to the workers by value
        def init(self, handle: Any) -> None:
            self._seen = handle.getValueState("seen", "n long")

        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
            import pandas

            seen = self._seen.get()[0] if self._seen.exists() else 0
            seen += sum(len(each) for each in rows)
            self._seen.update((seen,))
            yield pandas.DataFrame({"k": [key[0]], "n": [seen]})

        def close(self) -> None:
            pass

    last: dict[str, int] = {}

    def write(df: Any, epoch: int) -> None:
        last.update({row.k: row.n for row in df.collect()})

    spark.conf.set(PROVIDER, ROCKSDB)
    try:
        counts = frame.groupBy("k").transformWithStateInPandas(Counts(), "k string, n long", "Append", "None")
        run(counts.writeStream.foreachBatch(write), tmp_path / "ck")
    finally:
        spark.conf.unset(PROVIDER)
    assert last == dict(Counter(key for _, key, _, _ in rows_of(12)))
