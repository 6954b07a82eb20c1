"""Graph 1: every flight into a Parquet table, with the airline's name, exactly once. Spark's demand pauses the partitions."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from streamactors import Flow, Keep, RunnableGraph
from streamactors.demo.data import data_file
from streamactors.demo.flight import SPARK_SCHEMA, BadFlight, Flight
from streamactors.demo.topics import FLIGHTS, FLIGHTS_DEAD, consumer, producer
from streamactors.kafka import Consumer, ConsumerRecord, Control, DeadLetter, Producer, Subscriptions
from streamactors.spark import SparkSink, SparkStreamQuery

NAME: Final = "flights-to-spark"
MAX_ROWS: Final = 20_000


def graph(bootstrap: str, spark: Any, table: Path, checkpoint: Path) -> RunnableGraph[tuple[Control, SparkStreamQuery]]:
    """Read to the end of `flights`; records that are no flights go to `flights-dead`."""
    dead = (
        Flow.of(DeadLetter)
        .map(lambda letter: letter.to_record(FLIGHTS_DEAD))
        .to(Producer.plain_sink(producer(bootstrap)))
    )
    return (
        Consumer.source(consumer(bootstrap, NAME), Subscriptions.topics(FLIGHTS), until="end")
        .map(decode)
        .named("decode")
        .divert_to(dead, lambda decoded: isinstance(decoded, DeadLetter))
        .to_mat(
            SparkSink.parquet(
                spark,
                table,
                schema=SPARK_SCHEMA,
                checkpoint=checkpoint,
                transform=with_airlines,
                partition_by=["month"],
                max_rows=MAX_ROWS,
            ).named("write flights"),
            Keep.both,
        )
        .named(NAME)
    )


def decode(record: ConsumerRecord) -> Flight | DeadLetter:
    """Return the flight in a record, or the record as a dead letter of this graph."""
    try:
        return Flight.from_json(record.value)
    except BadFlight as error:
        return DeadLetter(record, error, NAME)


def with_airlines(df: Any, epoch_id: int) -> Any:
    """Join the airlines' names: 16 rows, so every executor has them all."""
    from pyspark.sql.functions import broadcast

    airlines = df.sparkSession.read.csv(
        str(data_file("airlines.csv")), header=True, schema="carrier string, name string"
    )
    return df.join(broadcast(airlines.withColumnRenamed("name", "airline")), "carrier", "left")
