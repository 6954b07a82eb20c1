"""Graph (a): every final hour into a Parquet table, beside the weather of that hour."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from streamactors import Keep, RunnableGraph
from streamactors.demo.data import data_file
from streamactors.demo.hours import Hour
from streamactors.demo.topics import HOURS, consumer
from streamactors.kafka import Consumer, Control, Subscriptions
from streamactors.spark import SparkSink, SparkStreamQuery

NAME: Final = "hours-to-spark"
MAX_ROWS: Final = 10_000
SPARK_SCHEMA: Final = "origin string, hour_ms long, flights int, cancelled int, mean_delay double"
WEATHER: Final = ("temp", "wind_speed", "precip", "visib", "pressure")


def graph(bootstrap: str, spark: Any, table: Path, checkpoint: Path) -> RunnableGraph[tuple[Control, SparkStreamQuery]]:
    """Read to the end of `departures-by-hour`."""
    return (
        Consumer.source(consumer(bootstrap, NAME), Subscriptions.topics(HOURS), until="end")
        .map(lambda record: Hour.from_json(record.value or b""))
        .to_mat(
            SparkSink.parquet(
                spark, table, schema=SPARK_SCHEMA, checkpoint=checkpoint, transform=with_weather, max_rows=MAX_ROWS
            ).named("write hours"),
            Keep.both,
        )
        .named(NAME)
    )


def with_weather(df: Any, epoch_id: int) -> Any:
    """Join what the weather was like at the origin in that hour."""
    from pyspark.sql import functions as f

    weather = (
        df.sparkSession.read.csv(str(data_file("weather.csv")), header=True, nullValue="NA")
        .withColumn("hour_ms", f.unix_timestamp("time_hour", "yyyy-MM-dd'T'HH:mm:ssX") * 1000)
        .select("origin", "hour_ms", *(f.col(name).cast("double") for name in WEATHER))
        .dropDuplicates(["origin", "hour_ms"])
    )
    return df.join(f.broadcast(weather), ["origin", "hour_ms"], "left")
