"""Spark at the end of a stream: rows/s into count and into Parquet, beside createDataFrame for each batch in the same session.

Rates leave out the first batch, which pays for starting Spark's Python processes. CPU seconds are those of this process, the JVM and
Spark's workers."""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterable
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any

from confluent_kafka import Producer as BareProducer

from benchmarks import _spark_kafka
from streamactors import Keep, Source
from streamactors.broker import Cluster
from streamactors.kafka import Consumer, ConsumerSettings, Subscriptions

Row = dict[str, Any]
SCHEMA = "id long, k string, v string"
ROUNDS = 3
SLICE = 10_000
ONE_ROW = "a batch of one row"


class Rate:
    """Rows per second, and per second of CPU, from the end of the first batch to the end of the last."""

    def __init__(self) -> None:
        self._ends: list[tuple[float, int]] = []
        self._cpu: list[float] = []

    @classmethod
    def of(cls, ends: list[tuple[float, int]]) -> Rate:
        """Return the rate of batches that ended at these times."""
        rate = cls()
        rate._ends = ends
        return rate

    def batch(self, rows: int) -> None:
        self._ends.append((time.perf_counter(), rows))
        self._cpu.append(cpu_seconds(os.getpid()))

    def rows(self, counts: Iterable[int]) -> None:
        """Say afterwards how many rows the batches had."""
        self._ends = [(at, rows) for (at, _), rows in zip(self._ends, counts, strict=True)]

    @property
    def rows_per_cpu_s(self) -> float:
        return sum(rows for _, rows in self._ends[1:]) / (self._cpu[-1] - self._cpu[0])

    @property
    def rows_per_s(self) -> float:
        (first, _), (last, _) = self._ends[0], self._ends[-1]
        return sum(rows for _, rows in self._ends[1:]) / (last - first)


def rows_of(n: int, size: int) -> list[tuple[int, str, str]]:
    """Return tuples of about `size` bytes."""
    values = [f"{i:06d}" + "x" * (size - 22) for i in range(64)]
    keys = [f"key-{i:04d}" for i in range(1_000)]
    return [(i, keys[i % 1_000], values[i & 63]) for i in range(n)]


def arrow_of(rows: list[tuple[int, str, str]]) -> list[Any]:
    """Return the rows as record batches."""
    import pyarrow as pa

    schema = pa.schema([("id", pa.int64()), ("k", pa.string()), ("v", pa.string())])
    found = []
    for at in range(0, len(rows), SLICE):
        columns = zip(*rows[at : at + SLICE], strict=True)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
        found.append(pa.RecordBatch.from_arrays(arrays, schema=schema))
    return found


class TimedSink:
    """A sink that counts or writes Parquet, and what it took."""

    def __init__(self, spark: Any, kind: str, batch: int, folder: Path) -> None:
        from streamactors.spark import SparkSink

        shutil.rmtree(folder, ignore_errors=True)
        self._rate = Rate()
        self._epochs: list[int] = []
        self._table = folder / "table"
        more: dict[str, Any] = {"checkpoint": folder / "checkpoint", "max_rows": batch, "target_batch_s": 60}
        if kind == "count":
            self.sink = SparkSink.foreach_batch(spark, lambda df, epoch: self._rate.batch(df.count()), SCHEMA, **more)
            return
        self.sink = SparkSink.parquet(spark, self._table, SCHEMA, **more)
        write = self.sink.module.stage.target.write  # type: ignore[attr-defined]

        def timed(frame: Any, epoch: int, query_id: str) -> None:
            write(frame, epoch, query_id)
            self._epochs.append(epoch)
            self._rate.batch(0)

        object.__setattr__(self.sink.module.stage.target, "write", timed)  # type: ignore[attr-defined]

    def run(self, source: Source[Any, Any]) -> Rate:
        """Run a stream into it; return its rate."""
        import pyarrow.parquet as pq

        query = source.to_mat(self.sink, Keep.right).run()
        assert query.await_termination(1_200)
        if self._epochs:
            written = {
                int(path.name.split("=")[1]): sum(
                    pq.ParquetFile(file).metadata.num_rows for file in path.glob("*.parquet")
                )
                for path in self._table.glob("query_id=*/epoch_id=*")
            }
            self._rate.rows(written[epoch] for epoch in self._epochs)
        return self._rate


def through_sink(spark: Any, elements: list[Any], kind: str, batch: int, folder: Path) -> Rate:
    """Return the rate of a stream of these elements into Spark."""
    return TimedSink(spark, kind, batch, folder).run(Source.from_iterable(elements))


def through_frames(spark: Any, elements: list[Any], kind: str, batch: int, folder: Path) -> Rate:
    """Return the rate of a loop that makes a DataFrame of each batch."""
    import pyarrow as pa

    rate = Rate()
    shutil.rmtree(folder, ignore_errors=True)
    is_arrow = isinstance(elements[0], pa.RecordBatch)
    step = batch // SLICE if is_arrow else batch
    for epoch, at in enumerate(range(0, len(elements), step)):
        part = elements[at : at + step]
        if is_arrow:
            frame = spark.createDataFrame(pa.Table.from_batches(part), schema=SCHEMA)
            n = sum(one.num_rows for one in part)
        else:
            frame = spark.createDataFrame(part, schema=SCHEMA)
            n = len(part)
        if kind == "count":
            assert frame.count() == n
        else:
            frame.write.parquet(str(folder / f"epoch_id={epoch}"))
        rate.batch(n)
    return rate


def compared(spark: Any, name: str, elements: list[Any], kind: str, batch: int, folder: Path) -> Row:
    """Run both, alternating."""
    ours, ratios, cpu = [], [], []
    for _ in range(ROUNDS):
        peer = through_frames(spark, elements, kind, batch, folder / "peer")
        mine = through_sink(spark, elements, kind, batch, folder / "ours")
        ours.append(mine.rows_per_s)
        ratios.append(mine.rows_per_s / peer.rows_per_s)
        cpu.append(mine.rows_per_cpu_s / peer.rows_per_cpu_s)
    return {
        "name": f"{name} into {kind}",
        "value": round(statistics.median(ours)),
        "unit": "rows/s",
        "peer": "createDataFrame for each batch",
        "ratio": f"{statistics.median(ratios):.2f} wall, {statistics.median(cpu):.2f} CPU",
        "spread": f"{min(ratios):.2f}-{max(ratios):.2f}",
        "target": "1.3",
    }


def one_row_latency(spark: Any, folder: Path) -> Row:
    """Batches of one row: what a batch costs, whatever is in it."""
    from streamactors.spark import SparkSink

    shutil.rmtree(folder, ignore_errors=True)
    at: list[float] = []
    sink = SparkSink.foreach_batch(
        spark, lambda df, epoch: (df.count(), at.append(time.perf_counter())), SCHEMA, folder, max_rows=1
    )
    elements = rows_of(60, 100)
    query = Source.from_iterable(elements).max_chunk(1).to_mat(sink, Keep.right).run()
    assert query.await_termination(600)
    took = sorted((later - earlier) * 1_000 for earlier, later in pairwise(at[10:]))
    return {
        "name": ONE_ROW,
        "value": round(statistics.median(took)),
        "unit": "ms, median",
        "peer": "Spark's own Kafka source elsewhere: 129 ms",
        "spread": f"{took[0]:.0f}-{took[-1]:.0f}",
        "target": "250 ms",
    }


def cpu_seconds(*pids: int) -> float:
    """Return the CPU seconds of processes and all that they have started."""
    ticks = os.sysconf("SC_CLK_TCK")
    parents, used = {}, {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                fields = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(name)] = int(fields[1])
            used[int(name)] = sum(map(int, fields[11:15])) / ticks
    total = 0.0
    for pid in used:
        above = pid
        while above and above not in pids:
            above = parents.get(above, 0)
        total += used[pid] if above else 0
    return total


def produce(cluster: Cluster, n: int, size: int) -> None:
    """Fill topic t with records of as many bytes as the rows of `rows_of` have."""
    cluster.create_topic("t", partitions=3)
    producer = BareProducer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 20})
    for i, key, value in rows_of(n, size):
        while True:
            try:
                producer.produce("t", value, key, partition=i % 3)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()


def from_topic(cluster: Cluster, group: str) -> Source[Any, Any]:
    """Return the graph from the topic to rows."""
    settings = ConsumerSettings(cluster.bootstrap_servers, group_id=group, auto_offset_reset="earliest")
    return Consumer.source(settings, Subscriptions.topics("t"), until="end").map(
        lambda record: (record.offset, record.key.decode(), record.value.decode())
    )


def from_the_broker(spark: Any, n: int, size: int, batch: int, folder: Path, only: str) -> list[Row]:
    """Broker, graph, Spark; beside Spark's own Kafka source on the same topic where Java and Maven are found, and from ready Arrow."""
    names = {
        kind: (f"{size} B from Arrow into {kind}", f"{size} B from the broker through a graph into {kind}")
        for kind in ("count", "parquet")
    }
    per_cpu = f"{size} B, broker, graph, Parquet"
    if not any(only in name for name in (per_cpu, *names["count"], *names["parquet"])):
        return []
    ready = arrow_of(rows_of(n, size))
    found = []
    with Cluster(process=True) as cluster, ExitStack() as stack:
        produce(cluster, n, size)
        peer = None
        if _spark_kafka.available():
            peer = stack.enter_context(_spark_kafka.SparkKafka(cluster.bootstrap_servers, "t"))
            peer.run("count", batch, folder)  # the first query in a JVM is half as fast
        for kind, target in (("count", "0.9"), ("parquet", "0.75")):
            arrow, graph, own = [], [], []
            for i in range(ROUNDS):
                if peer is not None:
                    own.append(Rate.of(peer.run(kind, batch, folder)).rows_per_s)
                arrow.append(TimedSink(spark, kind, batch, folder).run(Source.from_iterable(ready)).rows_per_s)
                rate = TimedSink(spark, kind, batch, folder).run(from_topic(cluster, f"{kind}-{i}"))
                graph.append(rate)
            from_arrow, from_graph = names[kind]
            found += [
                beside(from_arrow, arrow, own, target),
                beside(from_graph, [r.rows_per_s for r in graph], own, "0.6"),
            ]
        per_cpu_s = statistics.median(rate.rows_per_cpu_s for rate in graph)
        found.append({"name": per_cpu, "value": round(per_cpu_s), "unit": "rows per CPU second"})
    return [row for row in found if only in row["name"]]


def beside(name: str, ours: list[float], own: list[float], target: str) -> Row:
    """Return the row of rates that alternated with those of Spark's own Kafka source; without these, of ours alone."""
    row: Row = {"name": name, "value": round(statistics.median(ours)), "unit": "rows/s"}
    if not own:
        return row | {"peer": "Spark's own Kafka source: not run, Java or Maven is missing"}
    ratios = [mine / other for mine, other in zip(ours, own, strict=True)]
    return row | {
        "peer": f"Spark {_spark_kafka.VERSION}'s own Kafka source: {statistics.median(own):,.0f}",
        "ratio": round(statistics.median(ratios), 2),
        "spread": f"{min(ratios):.2f}-{max(ratios):.2f}",
        "target": target,
    }


def run(n: int = 2_000_000, large: int = 100_000, only: str = "") -> list[Row]:
    """Return the rows; `only`: those whose names have this text."""
    from streamactors.spark import spark_session

    spark = spark_session(
        "benchmark", **{"spark.driver.memory": "2g", "spark.sql.execution.arrow.pyspark.enabled": "true"}
    )
    folder = Path(tempfile.mkdtemp(prefix="streamactors-bench-"))
    rows = []
    try:
        for count, size, batch in ((n, 100, 200_000), (large, 5_000, 20_000)):
            for form in ("tuples", "Arrow"):
                name = f"{size} B from {form}"
                kinds = [kind for kind in ("count", "parquet") if only in f"{name} into {kind}"]
                if kinds:
                    tuples = rows_of(count, size)
                    elements = tuples if form == "tuples" else arrow_of(tuples)
                    rows += [compared(spark, name, elements, kind, batch, folder) for kind in kinds]
        if only in ONE_ROW:
            rows.append(one_row_latency(spark, folder / "latency"))
        rows += from_the_broker(spark, n, 100, 200_000, folder / "broker", only)
    finally:
        spark.stop()
        shutil.rmtree(folder, ignore_errors=True)
    return rows
