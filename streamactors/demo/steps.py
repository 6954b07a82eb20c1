"""The steps of the demo, in order: each runs one graph to the end of its topic, and tells how many records passed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from streamactors.demo import alerts, flights_to_spark, hours, hours_on_executors, hours_to_spark, produce, topics
from streamactors.demo.data import PLANTED_EVERY, planned
from streamactors.demo.folder import Folder
from streamactors.demo.showing.progress import Meter, Progress
from streamactors.demo.showing.watch import watched
from streamactors.windows.metrics import LIVE_TASKS

if TYPE_CHECKING:
    import pandas as pd

    from streamactors.spark import SparkStreamQuery

QUERY_STOP_SECONDS: Final = 30.0
LOOK_SECONDS: Final = 0.2


@dataclass
class Job:
    """The shared parts of all steps. `flights` and `spark` are futures: they are prepared beside the work, and a step waits for what it uses."""

    folder: Folder
    bootstrap: str
    progress: Progress
    flights: Future[pd.DataFrame]
    spark: Future[Any]
    per_second: int | None = None


def produce_flights(job: Job) -> int:
    """Fill topic `flights`."""
    frame = job.flights.result()
    total = len(frame) + len(frame) // PLANTED_EVERY
    stored = topics.ends(job.bootstrap, topics.FLIGHTS)
    with job.progress.step("produce", total, topics.FLIGHTS) as meter:
        meter.add(sum(stored.values()))
        graph = produce.graph(topics.producer(job.bootstrap), planned(frame), stored, meter.add, job.per_second)
        graph.run().result()
    return total


def flights_into_spark(job: Job) -> int:
    """Run graph 1."""
    return _into_spark(job, flights_to_spark, topics.FLIGHTS)


def flights_into_hours(job: Job) -> int:
    """Run graph 2."""
    total = sum(topics.ends(job.bootstrap, topics.FLIGHTS).values())
    with job.progress.step(hours.NAME, total, topics.FLIGHTS) as meter:
        control, done = hours.graph(job.bootstrap).run()
        with watched(control, meter, job.folder.samples / f"{hours.NAME}.jsonl", cells=lambda _: windows_side()):
            done.result()
            control.is_shutdown.result()
    return total


def flights_into_hours_on_executors(job: Job) -> int:
    """Run graph 2 on Spark's executors."""
    name, folder = hours_on_executors.NAME, job.folder
    total = sum(topics.ends(job.bootstrap, topics.FLIGHTS).values())
    with job.progress.step(name, total, topics.FLIGHTS) as meter:
        spark = _started(job, meter)
        query = hours_on_executors.start(job.bootstrap, spark, folder.checkpoints / name)
        with _stopped_in_order(spark, query):
            while not query.await_termination(LOOK_SECONDS):
                progress = query.progress()
                meter.set(sum(progress["checkpoint"].values()), Spark=_batches(progress))
    return total


def hours_into_spark(job: Job) -> int:
    """Run graph (a)."""
    return _into_spark(job, hours_to_spark, topics.HOURS)


def _into_spark(job: Job, module: Any, topic: str) -> int:
    total = sum(topics.ends(job.bootstrap, topic).values())
    name, folder = module.NAME, job.folder
    with job.progress.step(name, total, topic) as meter:
        spark = _started(job, meter)
        control, query = module.graph(job.bootstrap, spark, folder.parquet / name, folder.checkpoints / name).run()

        samples = folder.samples / f"{name}.jsonl"
        with (
            watched(
                control,
                meter,
                samples,
                lambda: spark_side(progress := query.progress()) | {"batches": progress["batches"]},
                lambda told: {"Spark": _batches(told)},
            ),
            _stopped_in_order(spark, query),
        ):
            query.completion.result()
            control.is_shutdown.result()
    return total


def _started(job: Job, meter: Meter) -> Any:
    """Return Spark, which may have to be waited for."""
    if not job.spark.done():
        meter.set(0, Spark="starts")
    return job.spark.result()


def _batches(progress: dict[str, Any]) -> str:
    batches = progress["batches"]
    return f"{batches} batch{'' if batches == 1 else 'es'}" if batches else "first batch"


def windows_side() -> dict[str, str]:
    """Return how many windows have been emitted and how many flights were too late for theirs, in the tasks of this process."""
    tasks = [task for task in list(LIVE_TASKS) if task.suppressed]
    emitted = sum(each.emitted for task in tasks for each in task.suppressed)
    return {"windows": f"{emitted:,} closed, {sum(task.dropped_late for task in tasks):,} late"}


@contextmanager
def _stopped_in_order(spark: Any, query: SparkStreamQuery) -> Iterator[None]:
    """Stop the query if the block is interrupted."""
    try:
        yield
    except BaseException:
        with suppress(Exception):  # the first error is reported, not this one
            spark.sparkContext.setLogLevel("OFF")  # the interrupted batch is intended, and needs no log line
            # an interrupted query may hang up on this server, which would show that as an error of its own
            spark.sparkContext._accumulatorServer.shutdown()
            query.stop(QUERY_STOP_SECONDS)  # stopped under a running query, Spark tells of it at length
        raise


def spark_side(progress: dict[str, Any]) -> dict[str, int]:
    """Return the rows that Spark is writing, the rows gathered for its next batch, and the rows that it still asks for. It asks for none while
    that batch is full, before it has started, and after the end."""
    gathered = progress.get("gathered_rows", 0)
    asked = max(0, progress["batch_rows"] - gathered) if progress.get("phase") == "giving" else 0
    return {"at_spark": progress.get("given_rows", 0), "gathered": gathered, "asked": asked}


def hours_into_alerts(job: Job) -> int:
    """Run graph (b)."""
    total = sum(topics.ends(job.bootstrap, topics.HOURS).values())
    with job.progress.step(alerts.NAME, total, topics.HOURS) as meter:
        (control, switch), done = alerts.graph(job.bootstrap).run()
        with watched(control, meter, job.folder.samples / f"{alerts.NAME}.jsonl"):
            try:
                done.result()
            except BaseException:
                switch.shutdown()
                raise
            control.is_shutdown.result()
    return total


STEPS: Final[dict[str, Callable[[Job], int]]] = {
    "produce": produce_flights,
    flights_to_spark.NAME: flights_into_spark,
    hours.NAME: flights_into_hours,
    hours_on_executors.NAME: flights_into_hours_on_executors,
    hours_to_spark.NAME: hours_into_spark,
    alerts.NAME: hours_into_alerts,
}
"""Name -> step; a step returns the number of records that it has processed."""
