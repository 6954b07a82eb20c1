"""A stream from a topic into Parquet (or a plain function) that a test kills: run as a program.

Arguments: broker, folder, kind (parquet or plain), window, after. It kills itself, or its JVM, at the `after`-th pass of a window:
before_fn, after_fn (before the commit file), after_commit (before Kafka hears of it), in_graph; "" runs to the end."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from streamactors import Keep
from streamactors.kafka import Consumer, ConsumerSettings, Subscriptions
from streamactors.spark import SparkSink, spark_session
from streamactors.spark.batches import Batches


def main() -> None:
    broker, folder, kind, window, after, victim = sys.argv[1:7]
    passes = {"left": int(after or 0)}
    spark = spark_session(
        **{
            "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
            "spark.driver.memory": "512m",
            "spark.sql.shuffle.partitions": "1",
        }
    )
    jvm = spark.sparkContext._gateway.proc.pid

    def perhaps_die(where: str) -> None:
        if where == window:
            passes["left"] -= 1
            if passes["left"] == 0:
                if victim in ("both", "jvm"):
                    os.kill(jvm, signal.SIGKILL)
                if victim != "jvm":
                    os.kill(os.getpid(), signal.SIGKILL)

    acknowledged = Batches.latest

    def latest(self: Batches, start: dict[str, int]) -> Any:
        if self.state.given is not None and start == self.state.given.end:
            perhaps_die("after_commit")
        return acknowledged(self, start)

    Batches.latest = latest  # type: ignore[method-assign]

    def to_row(record: Any) -> tuple[str, int]:
        found = json.loads(record.value)
        perhaps_die("in_graph")
        return found["k"], found["n"]

    def plain(df: Any, epoch: int) -> None:
        perhaps_die("before_fn")
        rows = [[row.k, row.n] for row in df.collect()]
        with open(Path(folder) / "plain.jsonl", "a") as out:
            out.write(json.dumps([epoch, rows]) + "\n")
            out.flush()
            os.fsync(out.fileno())
        perhaps_die("after_fn")

    settings = {"schema": "k string, n long", "checkpoint": f"{folder}/ck", "max_rows": 300}
    if kind == "parquet":
        sink = SparkSink.parquet(
            spark, f"{folder}/table", transform=lambda df, epoch: (perhaps_die("before_fn"), df)[1], **settings
        )
        write = sink.module.stage.settings.write

        def wrapped(frame: Any, epoch: int, query_id: str) -> None:
            write(frame, epoch, query_id)
            perhaps_die("after_fn")

        object.__setattr__(sink.module.stage.settings, "write", wrapped)
    else:
        sink = SparkSink.foreach_batch(spark, plain, **settings)
    control, query = (
        Consumer.source(
            ConsumerSettings(broker, group_id="g", auto_offset_reset="earliest"), Subscriptions.topics("t"), until="end"
        )
        .map(to_row)
        .to_mat(sink, Keep.both)
        .run()
    )
    query.await_termination()
    control.is_shutdown.result(60)
    print("finished")


main()
