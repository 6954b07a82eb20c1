"""A stream from a topic into Parquet (or a plain function) that a test kills: run as a program.

Arguments: broker, folder, kind (parquet or plain), window, after, victim. It kills itself, its JVM, or both, at the `after`-th pass of a
window: in_graph, before_fn, after_fn (before the commit file), after_commit (before Kafka hears of it); "" runs to the end."""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from streamactors import Keep, RunnableGraph
from streamactors.kafka import Consumer, ConsumerSettings, Subscriptions
from streamactors.spark import SparkSink, spark_session
from streamactors.spark.sink.batches import MicroBatches

MAX_ROWS = 300
STUCK_S = 540.0


def graph(
    spark: Any, broker: str, folder: Path, kind: str, passing: Callable[[str], None] = lambda where: None
) -> RunnableGraph[Any]:
    """Return the graph under test; `passing(window)` is called whenever one is passed. Materializes (control, query)."""

    def to_row(record: Any) -> tuple[str, int]:
        found = json.loads(record.value)
        passing("in_graph")
        return found["k"], found["n"]

    def plain(df: Any, epoch: int) -> None:
        passing("before_fn")
        rows = [[row.k, row.n] for row in df.collect()]
        with open(folder / "plain.jsonl", "a") as out:
            out.write(json.dumps([epoch, rows]) + "\n")
            out.flush()
            os.fsync(out.fileno())
        passing("after_fn")

    settings = {"schema": "k string, n long", "checkpoint": f"{folder}/ck", "max_rows": MAX_ROWS}
    if kind == "parquet":
        sink = SparkSink.parquet(
            spark, f"{folder}/table", transform=lambda df, epoch: (passing("before_fn"), df)[1], **settings
        )
        write = sink.module.stage.target.write

        def wrapped(frame: Any, epoch: int, query_id: str) -> None:
            write(frame, epoch, query_id)
            passing("after_fn")

        object.__setattr__(sink.module.stage.target, "write", wrapped)
    else:
        sink = SparkSink.foreach_batch(spark, plain, **settings)
    consumer = ConsumerSettings(broker, group_id="g", auto_offset_reset="earliest")
    return Consumer.source(consumer, Subscriptions.topics("t"), until="end").map(to_row).to_mat(sink, Keep.both)


def to_the_end(made: RunnableGraph[Any], timeout_s: float | None = None) -> None:
    """Run a graph until the group has heard of the last position."""
    control, query = made.run()
    assert query.await_termination(timeout_s)
    control.is_shutdown.result(60)


def main() -> None:
    broker, folder, kind, window, after, victim = sys.argv[1:7]
    faulthandler.dump_traceback_later(STUCK_S)
    left = int(after or 0)
    spark = spark_session(
        **{
            "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
            "spark.driver.memory": "512m",
            "spark.sql.shuffle.partitions": "1",
        }
    )
    jvm = spark.sparkContext._gateway.proc.pid

    def perhaps_die(where: str) -> None:
        nonlocal left
        if where == window:
            left -= 1
            if left == 0:
                if victim in ("both", "jvm"):
                    os.kill(jvm, signal.SIGKILL)
                if victim != "jvm":
                    os.kill(os.getpid(), signal.SIGKILL)

    acknowledged = MicroBatches.latest

    def latest(self: MicroBatches, start: dict[str, int]) -> Any:
        if self.state.given is not None and start == self.state.given.end:
            perhaps_die("after_commit")
        return acknowledged(self, start)

    MicroBatches.latest = latest  # type: ignore[method-assign]
    to_the_end(graph(spark, broker, Path(folder), kind, perhaps_die))
    print("finished")


if __name__ == "__main__":
    main()
