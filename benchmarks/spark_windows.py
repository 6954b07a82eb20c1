"""Windows on Spark's executors beside Spark's transformWithState, what their state costs, and the latency of a small batch.

CPU seconds are those of all processes but the broker. transformWithState runs in the same session, with RocksDB, and reads the topic by
format("streamactors-kafka"). It takes a minute for a million rows of 1,000 keys on two cores, and minutes for 200,000 rows of 100,000 keys, so both
ways get half a million rows or fewer, in one or two rounds after one that warms up."""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

from confluent_kafka import Producer as BareProducer

from benchmarks import spark_executors
from benchmarks.spark import Row
from benchmarks.spark_executors import PARTITIONS, Bench, alternately, compared, counted, fill, rows_of
from streamactors import Keep, Sink
from streamactors.broker import Cluster
from streamactors.kafka import Consumer, ConsumerSettings, Subscriptions

SCHEMA = "k string, start long, v long, n long"
RANGE = 50_000
SMALL = 40
SMALL_BATCHES = "a batch of a row per partition, windows on executors"


def beside_name(keys: int, n: int, batch: int) -> str:
    """Return the name of a row beside transformWithState."""
    return f"windows on executors, {keys:,} keys, {n:,} rows in batches of {batch:,}"


def cost_name(keys: int) -> str:
    """Return the name of a row about the state."""
    return f"the part of the state in a task, {keys:,} keys, ranges of {RANGE:,} rows"


def beside_transform_with_state(spark: Any, keys: int, n: int, batch: int, target: str, rounds: int) -> Row:
    """Run the windows of `n` rows with so many keys in both ways."""
    from benchmarks._spark_state import PROVIDER, ROCKSDB, windows_of
    from streamactors.spark import register_kafka_format

    register_kafka_format(spark)
    spark.conf.set(PROVIDER, ROCKSDB)
    before, spark_executors.N = spark_executors.N, n
    try:
        with Cluster(process=True) as cluster, tempfile.TemporaryDirectory() as folder:
            fill(cluster, n, keys)
            bench = Bench(spark, cluster, Path(folder))

            def theirs() -> None:
                stream = (
                    spark.readStream.format("streamactors-kafka")
                    .option("kafka.bootstrap.servers", cluster.bootstrap_servers)
                    .option("subscribe", "t")
                    .option("startingOffsets", "earliest")
                    .option("maxOffsetsPerTrigger", batch)
                    .load()
                )
                bench.to_nowhere(windows_of(stream))

            both = alternately(bench, lambda: bench.executors(counted, SCHEMA, batch), theirs, rounds)
            return compared(beside_name(keys, n, batch), *both, "transformWithStateInPandas, a state per key", target)
    finally:
        spark_executors.N = before
        spark.conf.unset(PROVIDER)


class NoStates:
    """Keeps no state: for a program whose tasks stay in memory."""

    def load(self, *_: Any) -> None:
        return None

    def begins_empty(self, *_: Any) -> bool:
        return True

    def write(self, *_: Any) -> Any:
        from streamactors.spark.executors.states import fresh

        return fresh()


def cost_of_state(keys: int, n: int = 1_000_000) -> Row:
    """Run the tasks of a query in this process, with and without their states; the difference is the state's part."""
    from dataclasses import replace

    from streamactors.engine.blueprint.modules import StageModule
    from streamactors.kafka.client.ranges import RangeReader
    from streamactors.kafka.subscriptions import TopicPartition
    from streamactors.spark.executors.folders import LocalFolder
    from streamactors.spark.executors.program import KeptTasks, Program, Windows
    from streamactors.spark.executors.ranges import At, Range
    from streamactors.spark.executors.states import States
    from streamactors.spark.executors.translate import translate
    from streamactors.spark.sink.settings import SinkTarget
    from streamactors.spark.sink.spark_sink import SparkSinkStage
    from streamactors.windows.state.store_log import TaskIdentity

    class Bare(Windows):
        def task(self, partition: int, entries: Any) -> Any:
            identity = TaskIdentity(self.application, partition, self.partitions)
            return replace(self.factory, on_failure=self._skips).restored(identity, entries)

    target = SinkTarget(None, print, None, "nowhere", 1)  # type: ignore[arg-type]
    end: Sink[Any, Any] = Sink(StageModule(SparkSinkStage("SparkSink.foreach_batch", target)))

    def run(cluster: Cluster, folder: str | None) -> float:
        program: Program = translate(counted(rows_of(cluster, "g")).to(end).module).program
        assert program.windows is not None
        windows = program.windows
        windows.partitions = PARTITIONS
        states: Any = NoStates() if folder is None else States(LocalFolder(Path(folder)))
        if folder is None:
            program.windows = Bare(windows.factory, windows.decider, windows.application, PARTITIONS, windows.name)
        reader, kept = RangeReader(ConsumerSettings(cluster.bootstrap_servers)), KeptTasks()
        begun = time.process_time()
        for start in range(0, n // PARTITIONS, RANGE):
            for partition in range(PARTITIONS):
                what = Range(TopicPartition("t", partition), At(start), At(min(start + RANGE, n // PARTITIONS)), 0)
                for _ in program.run(what, reader.read, states, kept):
                    pass
        return time.process_time() - begun

    parts, costs = [], []
    with Cluster(process=True) as cluster:
        fill(cluster, n, keys)
        for i in range(spark_executors.ROUNDS + 1):
            with tempfile.TemporaryDirectory() as folder:
                with_state, without = run(cluster, folder), run(cluster, None)
            if i:
                parts.append(1 - without / with_state)
                costs.append((with_state - without) / n * 1e6)
    return {
        "name": cost_name(keys),
        "value": f"{statistics.median(parts):.1%}",
        "unit": "of the CPU time",
        "peer": f"{statistics.median(costs):.2f} us a row",
        "spread": f"{min(parts):.1%}-{max(parts):.1%}",
        "target": "15 % at 1,000 keys",
    }


def small_batches(spark: Any) -> Row:
    """Batches of a row per partition, on executors with windows beside SparkSink in this process."""
    from streamactors.spark import SparkExecutors, SparkSink

    with Cluster(process=True) as cluster, tempfile.TemporaryDirectory() as folder:
        cluster.create_topic("t", partitions=PARTITIONS)
        producer = BareProducer({"bootstrap.servers": cluster.bootstrap_servers})
        for i in range(SMALL * PARTITIONS):
            producer.produce("t", json.dumps({"k": f"k{i}", "v": i, "at": i}), f"k{i}", partition=i % PARTITIONS)
        producer.flush()

        def took(make: Callable[[Any, Any], Any], schema: str, name: str) -> float:
            at: list[float] = []
            sink = SparkSink.foreach_batch(
                spark,
                lambda df, epoch: (df.count(), at.append(time.perf_counter())),
                schema,
                Path(folder) / name,
                max_rows=PARTITIONS,
            )
            query = make(name, sink)
            assert query.await_termination(600)
            return statistics.median(later - earlier for earlier, later in pairwise(at[5:]))

        def on_executors(name: str, sink: Any) -> Any:
            return counted(rows_of(cluster, name)).to_mat(sink, Keep.right).run(SparkExecutors(spark))

        def through_sink(name: str, sink: Any) -> Any:
            settings = ConsumerSettings(cluster.bootstrap_servers, name, "earliest")
            source = Consumer.source(settings, Subscriptions.topics("t"), until="end").max_chunk(1)
            return source.map(lambda record: (record.offset,)).to_mat(sink, Keep.right).run()

        ratios, ours, theirs = [], [], []
        for i in range(spark_executors.ROUNDS + 1):
            pair = took(on_executors, SCHEMA, f"e{i}"), took(through_sink, "n long", f"s{i}")
            if i:
                ours.append(pair[0])
                theirs.append(pair[1])
                ratios.append(pair[0] / pair[1])
    return {
        "name": SMALL_BATCHES,
        "value": round(statistics.median(ours) * 1_000),
        "unit": "ms, median",
        "peer": f"SparkSink: {statistics.median(theirs) * 1_000:.0f} ms",
        "ratio": f"{statistics.median(ratios):.2f}",
        "spread": f"{min(ratios):.2f}-{max(ratios):.2f}",
        "target": "<= 2.5",
    }


def run(only: str = "") -> list[Row]:
    """Return the rows; `only`: those whose names have this text."""
    from streamactors.spark import spark_session

    spark = spark_session("benchmarks", **{"spark.driver.memory": "2g"})

    def beside(keys: int, n: int, batch: int, *more: Any) -> tuple[str, Callable[[], Row]]:
        return beside_name(keys, n, batch), lambda: beside_transform_with_state(spark, keys, n, batch, *more)

    rows: dict[str, Callable[[], Row]] = {
        **dict([beside(1_000, 500_000, 125_000, ">= 2", 2), beside(100_000, 100_000, 50_000, ">= 1.2", 1)]),
        SMALL_BATCHES: lambda: small_batches(spark),
        cost_name(1_000): lambda: cost_of_state(1_000),
        cost_name(100_000): lambda: cost_of_state(100_000, 300_000),
    }
    try:
        return [measure() for name, measure in rows.items() if only in name]
    finally:
        spark.stop()
