"""The same graph here and on Spark's executors, and flows on DataFrames: rows per CPU second of all processes but the broker.

Each pair runs alternately in one process and one session. A run's first batch, which starts Spark's Python processes, is part of it."""

from __future__ import annotations

import json
import os
import random
import shutil
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import Producer as BareProducer

from benchmarks.spark import Row, cpu_seconds
from streamactors import Flow, Keep, Sink
from streamactors.broker import Cluster
from streamactors.kafka import Consumer, ConsumerSettings, Subscriptions
from streamactors.windows import BufferConfig, Suppressed, TimeWindows

ROUNDS = 3
N = 2_000_000
PARTITIONS = 4
BATCH = 1_000_000
SMALL_BATCH = 200_000
TEN_SECONDS = TimeWindows.of_size(10_000).with_grace(2_000)
CLOSED = Suppressed.until_window_closes(BufferConfig.unbounded())


def fill(cluster: Cluster, n: int, keys: int) -> None:
    """Fill topic t with JSON of 93 bytes; 5 % of the rows are up to 6 s late."""
    cluster.create_topic("t", partitions=PARTITIONS)
    producer = BareProducer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 20, "batch.size": 1 << 19})
    dice = random.Random(1)
    for i in range(n):
        at = i // 2 - (dice.randrange(6_000) if dice.random() < 0.05 else 0)
        value = json.dumps({"k": f"k{i % keys}", "v": i % 97, "at": max(0, at), "pad": "x" * 40})
        while True:
            try:
                producer.produce("t", value, f"k{i % keys}", partition=i % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()


def rows_of(cluster: Cluster, group: str) -> Any:
    """The source of both ways, read to its end."""
    settings = ConsumerSettings(cluster.bootstrap_servers, group_id=group, auto_offset_reset="earliest")
    topic = Subscriptions.topics("t")
    return Consumer.records(settings, topic, key="string", value="json", timestamp=lambda r: r.value["at"], until="end")


def counted(records: Any) -> Any:
    """Windows of 10 s with two sums, suppressed until they close."""
    windows = records.group_by_key(changelog=False).windowed_by(TEN_SECONDS)
    sums = windows.aggregate(lambda: (0, 0), lambda s, value: (s[0] + value["v"], s[1] + 1))
    return sums.suppress(CLOSED).to_stream().map(lambda row: (row.key, row.start, row.value[0], row.value[1]))


STEPS = Flow.map(json.loads).filter(lambda v: v["v"] % 3).map(lambda v: (v["k"], v["v"] * 2))


def by_hand(batches: Iterator[Any]) -> Iterator[Any]:
    """The flow of `frames` as a Spark user writes it for mapInArrow."""
    import pyarrow as pa

    for batch in batches:
        rows = zip(*(column.to_pylist() for column in batch.columns), strict=True)
        found = [(n, k, (v + 1) * 2) for n, k, v in rows if n % 3]
        if found:
            columns = [pa.array(column) for column in zip(*found, strict=True)]
            yield pa.RecordBatch.from_arrays(columns, names=["id", "k", "v"])


class Bench:
    """One session and one broker."""

    def __init__(self, spark: Any, cluster: Cluster, folder: Path) -> None:
        self.spark = spark
        self.cluster = cluster
        self.folder = folder
        self._runs = 0

    def cpu(self, fn: Callable[[], object]) -> float:
        """Return the rows per CPU second of a call that works through all rows."""
        broker = self.cluster.pid
        before = cpu_seconds(os.getpid()) - cpu_seconds(broker)
        fn()
        return N / (cpu_seconds(os.getpid()) - cpu_seconds(broker) - before)

    def group(self) -> str:
        self._runs += 1
        return f"g{self._runs}"

    def executors(self, make: Callable[[Any], Any], schema: str, batch: int = BATCH) -> None:
        from streamactors.spark import SparkExecutors, SparkSink

        folder = self.folder / self.group()
        sink = SparkSink.foreach_batch(
            self.spark, lambda df, epoch: df.write.format("noop").mode("append").save(), schema, folder, max_rows=batch
        )
        query = make(rows_of(self.cluster, folder.name)).to_mat(sink, Keep.right).run(SparkExecutors(self.spark))
        assert query.await_termination(900)
        shutil.rmtree(folder)

    def here(self, make: Callable[[Any], Any]) -> None:
        make(rows_of(self.cluster, self.group())).run_with(Sink.ignore()).result(900)

    def read_with(self, steps: Flow[Any, Any, Any], schema: str) -> Any:
        """The topic through a flow as a streaming DataFrame, read by the executors."""
        from streamactors.spark import SparkSource

        settings = ConsumerSettings(self.cluster.bootstrap_servers, self.group(), "earliest")
        source = Consumer.source(settings, Subscriptions.topics("t"), until="end")
        return SparkSource.frame(self.spark, source.via(steps), schema, max_rows=BATCH)

    def to_nowhere(self, frame: Any) -> None:
        writer = frame.writeStream.format("noop").option("checkpointLocation", str(self.folder / self.group()))
        assert writer.trigger(availableNow=True).start().awaitTermination(900)

    def within_read(self) -> None:
        self.to_nowhere(self.read_with(Flow.map(lambda record: record.value).via(STEPS), "k string, v long"))

    def behind_read(self) -> None:
        from streamactors.spark import on_spark

        raw = self.read_with(Flow.map(lambda record: (record.value,)), "value binary")
        self.to_nowhere(raw.transform(on_spark(Flow.map(lambda row: row[0]).via(STEPS), "k string, v long")))


def compared(name: str, ours: list[float], theirs: list[float], peer: str, target: str) -> Row:
    """Return the row of two ways that ran alternately."""
    ratios = [mine / other for mine, other in zip(ours, theirs, strict=True)]
    return {
        "name": name,
        "value": round(statistics.median(ours)),
        "unit": "rows per CPU second",
        "peer": f"{peer}: {round(statistics.median(theirs))}",
        "ratio": f"{statistics.median(ratios):.2f}",
        "spread": f"{min(ratios):.2f}-{max(ratios):.2f}",
        "target": target,
    }


def alternately(
    bench: Bench, one: Callable[[], object], two: Callable[[], object], rounds: int = ROUNDS
) -> tuple[list[float], list[float]]:
    """Run two ways in turn, so many rounds after a first one that warms up and does not count."""
    found: tuple[list[float], list[float]] = ([], [])
    for i in range(rounds + 1):
        rates = bench.cpu(one), bench.cpu(two)
        if i:
            found[0].append(rates[0])
            found[1].append(rates[1])
    return found


def frames(bench: Bench, only: str) -> list[Row]:
    """Flows on DataFrames, and DataFrames as sources."""
    from streamactors.spark import SparkSource, on_spark

    made = (
        bench.spark.range(0, N, 1, 2).selectExpr("id", "concat('k', id % 1000) AS k", "id % 97 * 1.5D AS v").persist()
    )
    made.count()
    flow = Flow.map(lambda r: (r[0], r[1], r[2] + 1)).filter(lambda r: r[0] % 3).map(lambda r: (r[0], r[1], r[2] * 2))
    schema = "id long, k string, v double"
    ours = made.transform(on_spark(flow, schema))
    theirs = made.selectExpr("id", "k", "v + 1 AS v").where("id % 3 != 0").selectExpr("id", "k", "v * 2 AS v")
    source = SparkSource.of(made)

    def noop(frame: Any) -> Callable[[], object]:
        return lambda: frame.write.format("noop").mode("append").save()

    def iterated() -> object:
        return source.run_with(Sink.fold(0, lambda n, _: n + 1)).result(600)

    def by_iterator() -> object:
        return sum(1 for _ in made.toLocalIterator(prefetchPartitions=True))

    as_expressions = noop(made.transform(on_spark(flow, schema, expressions=True)))
    by_hand_too = noop(made.mapInArrow(by_hand, schema))
    # first the pair without Python workers: a worker that ends between two readings takes its CPU seconds with it
    pairs = [
        ("SparkSource.of into fold", iterated, by_iterator, "toLocalIterator", "4"),
        ("on_spark(…, expressions=True): map, filter, map", as_expressions, noop(theirs), "Spark's expressions", "0.6"),
        ("on_spark: map, filter, map", noop(ours), noop(theirs), "Spark's expressions", "0.6"),
        ("on_spark: map, filter, map, again", noop(ours), by_hand_too, "mapInArrow by hand", ""),
    ]
    try:
        return rows_of_pairs(bench, pairs, only)
    finally:
        made.unpersist()


Pair = tuple[str, Callable[[], object], Callable[[], object], str, str]


def rows_of_pairs(bench: Bench, pairs: Sequence[Pair], only: str) -> list[Row]:
    """Measure the pairs whose names have this text: (name, one way, the other way, name of the other way, target)."""
    return [
        compared(name, *alternately(bench, one, two), peer, target)
        for name, one, two, peer, target in pairs
        if only in name
    ]


def run(only: str = "") -> list[Row]:
    """Return the rows; `only`: those whose names have this text."""
    from streamactors.spark import spark_session

    spark = spark_session("benchmarks")
    try:
        with Cluster(process=True) as cluster, tempfile.TemporaryDirectory() as folder:
            fill(cluster, N, 1_000)
            bench = Bench(spark, cluster, Path(folder))
            schema = "k string, start long, v long, n long"
            windows = "windows on executors, 1,000 keys"
            one = "the same graph in one process"

            def here() -> None:
                bench.here(counted)

            pairs: list[Pair] = [
                (
                    f"{windows}, batches of 1,000,000 rows",
                    lambda: bench.executors(counted, schema),
                    here,
                    one,
                    "0.9",
                ),
                (
                    f"{windows}, batches of 200,000 rows",
                    lambda: bench.executors(counted, schema, SMALL_BATCH),
                    here,
                    one,
                    "",
                ),
                (
                    "JSON, filter, map within the read",
                    bench.within_read,
                    bench.behind_read,
                    "the same steps in mapInArrow behind the read",
                    "1.2",
                ),
            ]
            return [*rows_of_pairs(bench, pairs, only), *frames(bench, only)]
    finally:
        spark.stop()
