"""A program whose JVM is killed while it works, by a function that the work calls: it prints the error that its caller gets.

Arguments: kind of the work, folder. `executors` and `frame` kill the JVM from a worker of Spark, the others from this process."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from streamactors import Keep, Sink, Source
from streamactors.broker import Cluster
from streamactors.kafka import (
    Consumer,
    ConsumerSettings,
    Producer,
    ProducerRecord,
    ProducerSettings,
    Subscriptions,
    Transactional,
)
from streamactors.spark import SparkExecutors, SparkSink, SparkSource, spark_session
from tests.spark.conftest import SETTINGS

END_S = 300.0


def into_a_topic(spark: Any, jvm: int, folder: str) -> None:
    """A graph on executors, whose tasks write a topic."""

    def kills(record: Any) -> Any:
        os.kill(jvm, signal.SIGKILL)
        return ProducerRecord("out", record.value)

    with Cluster() as cluster:
        servers = cluster.bootstrap_servers
        for topic in ("in", "out"):
            cluster.create_topic(topic, 1)
        Source.from_iterable([ProducerRecord("in", "1")]).run_with(
            Producer.plain_sink(ProducerSettings(servers))
        ).result(60)
        settings = ConsumerSettings(servers, group_id="g", auto_offset_reset="earliest")
        rows = Consumer.source(settings, Subscriptions.topics("in"), until="end").map(kills)
        graph = rows.to_mat(Transactional.sink(ProducerSettings(servers, transactional_id="t")), Keep.right)
        graph.run(SparkExecutors(spark, checkpoint=f"{folder}/ck")).await_termination(END_S)


def foreach_batch(spark: Any, jvm: int, folder: str) -> None:
    """A function that calls Spark after its JVM has died."""

    def write(df: Any, epoch: int) -> None:
        os.kill(jvm, signal.SIGKILL)
        df.count()

    sink = SparkSink.foreach_batch(spark, write, "n long", f"{folder}/ck")
    query = Source.from_iterable([(1,)]).to_mat(sink, Keep.right).run()
    try:
        query.await_termination(END_S)
    finally:
        assert query.id is not None
        assert query.progress()["spark"] is None if query.is_active else query.progress()


def of(spark: Any, jvm: int, folder: str) -> None:
    """A DataFrame as the source of a stream."""

    def kills(row: Any) -> None:
        os.kill(jvm, signal.SIGKILL)

    SparkSource.of(spark.range(0, 2_000_000, numPartitions=200)).run_with(Sink.foreach(kills)).result(END_S)


def of_stream(spark: Any, jvm: int, folder: str) -> None:
    """A streaming DataFrame as the source of a stream."""

    def kills(row: Any) -> None:
        os.kill(jvm, signal.SIGKILL)

    frame = spark.readStream.format("rate").load()
    SparkSource.of_stream(frame, checkpoint=f"{folder}/ck").run_with(Sink.foreach(kills)).result(END_S)


def afterwards(spark: Any, jvm: int, folder: str) -> None:
    """A sink, and other sessions, that are made when the JVM has died; the last one after the session was stopped."""
    gateway = spark.sparkContext._gateway
    gateway.proc.kill()
    gateway.proc.wait()

    def stopped() -> None:
        with suppress(Exception):
            spark.stop()
        spark_session()

    for make in (
        lambda: SparkSink.foreach_batch(spark, lambda df, epoch: None, "n long", f"{folder}/ck"),
        spark_session,
        stopped,
    ):
        try:
            make()
        except Exception as error:  # the test looks at it
            print(f"{type(error).__name__}: {error}", flush=True)


WORK: dict[str, Callable[[Any, int, str], None]] = {
    work.__name__: work for work in (into_a_topic, foreach_batch, of, of_stream, afterwards)
}


def main() -> None:
    kind, folder = sys.argv[1:]
    spark = spark_session(**SETTINGS)
    try:
        WORK[kind](spark, spark.sparkContext._gateway.proc.pid, folder)
    except Exception as error:  # the test looks at it
        print(f"{type(error).__name__}: {error}", flush=True)
    os._exit(0)  # PySpark's own work at exit calls the JVM


if __name__ == "__main__":
    main()
