"""A program with a session of its own, made without spark_session: what runs in it, what its listener hears, and what its pages show.

Prints one line of JSON. Arguments: the servers of a broker with a topic "numbers" of six records in two partitions, and "out"; a folder."""

from __future__ import annotations

import json
import sys
import urllib.request
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQueryListener

from streamactors import Keep, Sink
from streamactors.kafka import (
    Consumer,
    ConsumerSettings,
    ProducerRecord,
    ProducerSettings,
    Subscriptions,
    Transactional,
)
from streamactors.spark import SparkExecutors, SparkSink, SparkSource, register_kafka_format

END_S = 300.0


class Number(BaseModel):
    """A row."""

    n: int


class Listener(StreamingQueryListener):
    """Keeps the last progress of each query by its name."""

    def __init__(self) -> None:
        self.progress: dict[str, Any] = {}

    def onQueryStarted(self, event: Any) -> None:
        """Nothing to keep."""

    def onQueryProgress(self, event: Any) -> None:
        """Keep progress that has rows."""
        progress = json.loads(event.progress.json)
        if progress["numInputRows"]:
            self.progress[progress["name"]] = progress

    def onQueryTerminated(self, event: Any) -> None:
        """Nothing to keep."""


def main(servers: str, folder: Path) -> dict[str, Any]:
    """Return what was found."""
    spark = SparkSession.builder.master("local[2]").getOrCreate()
    listener = Listener()
    spark.streams.addListener(listener)

    def numbers(group: str) -> Any:
        settings = ConsumerSettings(servers, group_id=group, auto_offset_reset="earliest")
        return Consumer.source(settings, Subscriptions.topics("numbers"), until="end")

    found: dict[str, Any] = {}
    table = SparkSink.parquet(spark, folder / "table", Number, folder / "ck-table")
    query = numbers("table").map(lambda record: Number(n=int(record.value))).to_mat(table, Keep.right).run()
    assert query.await_termination(END_S)
    found["name"] = query.name
    frame = spark.read.parquet(str(folder / "table"))
    found["parquet"] = sorted(row.n for row in frame.collect())
    found["of"] = sorted(row[0] for row in SparkSource.of(frame.select("n")).run_with(Sink.to_list()).result(END_S))

    out = Transactional.sink(ProducerSettings(servers, transactional_id="out"))
    graph = numbers("executors").map(lambda record: ProducerRecord("out", record.value)).to_mat(out, Keep.right)
    assert graph.run(SparkExecutors(spark, checkpoint=folder / "ck-topic")).await_termination(END_S)

    register_kafka_format(spark)
    topic = (
        spark.read.format("streamactors-kafka").option("kafka.bootstrap.servers", servers).option("subscribe", "out")
    )
    found["topic"] = sorted(int(row.value) for row in topic.load().collect())

    frames = SparkSource.frame(spark, numbers("frame").map(lambda record: (int(record.value),)), "n long")
    frames.writeStream.format("memory").queryName("frame").trigger(availableNow=True).start().awaitTermination(END_S)
    found["frame"] = spark.table("frame").count()

    url = f"{spark.sparkContext.uiWebUrl}/api/v1/applications/{spark.sparkContext.applicationId}/jobs"
    with urllib.request.urlopen(url, timeout=60) as answer:
        found["jobs"] = sorted(
            {(job.get("description") or "").split("<br/>")[0].split("\n")[0] for job in json.load(answer)}
        )
    found["progress"] = listener.progress
    spark.stop()
    return found


if __name__ == "__main__":
    print("FOUND " + json.dumps(main(sys.argv[1], Path(sys.argv[2]))))
