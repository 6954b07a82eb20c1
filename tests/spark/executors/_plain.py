"""Graphs on executors without Spark: the same graph in this process, and as a task's program range by range, over a real topic."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from confluent_kafka import Producer as BareProducer

from streamactors import ActorSystem, Keep, Sink, StreamFuture
from streamactors.engine.blueprint.modules import StageModule
from streamactors.kafka import Consumer, ConsumerSettings, Subscriptions
from streamactors.kafka.client.ranges import RangeReader
from streamactors.kafka.record_source import records
from streamactors.kafka.subscriptions import TopicPartition
from streamactors.spark.executors.folders import LocalFolder
from streamactors.spark.executors.program import KeptTasks, Output, Program
from streamactors.spark.executors.ranges import At, Range
from streamactors.spark.executors.states import States
from streamactors.spark.executors.translate import translate
from streamactors.spark.sink.settings import SinkTarget
from streamactors.spark.sink.spark_sink import SparkSinkStage
from tests.bare_clients import IN_ORDER

END_S = 60.0
Row = tuple[Any, ...]


def spark_end() -> Sink[Any, Any]:
    """The sink's stage, without a session: nothing here runs in Spark."""
    target = SinkTarget(None, print, None, "nowhere", 100)  # type: ignore[arg-type]
    return Sink(StageModule(SparkSinkStage("SparkSink.foreach_batch", target)))


def write_rows(cluster: Any, topic: str, rows: Iterable[tuple[int, Any, Any, int]], partitions: int = 2) -> None:
    """Write (partition, key, value, timestamp); the timestamp is in the value, for librdkafka cannot write 0."""
    cluster.create_topic(topic, partitions=partitions)
    producer = BareProducer({"bootstrap.servers": cluster.bootstrap_servers, **IN_ORDER})
    for partition, key, value, at in rows:
        producer.produce(topic, json.dumps([value, at]), key, partition=partition)
    assert producer.flush(30) == 0


def read_rows(
    cluster: Any, topics: str | tuple[str, ...], partitions: int = 2, until: Literal["end"] | None = "end"
) -> Any:
    """The source of Records that both ways begin with."""
    names = (topics,) if isinstance(topics, str) else topics
    settings = ConsumerSettings(
        cluster.bootstrap_servers, auto_offset_reset="earliest", poll_timeout_ms=5, poll_interval_ms=5
    )
    assigned = Subscriptions.assignment(*((topic, i) for topic in names for i in range(partitions)))
    source = Consumer.plain_source(settings, assigned, until=until)
    found = records(
        "rows",
        source,
        settings,
        key="string",
        value="json",
        timestamp=lambda record: record.value[1],
        dead_letters=None,
    )
    return found.map(lambda record: record.replace(value=record.value[0]))


def shown(element: Any) -> Row:
    """All of an element: Record and WindowedRecord compare less than that."""
    if hasattr(element, "record"):  # a LateRecord
        return "late", *shown(element.record), element.start, element.end, element.stream_time, element.limit
    kind = type(element).__name__
    window = (element.start, element.end, element.is_final) if kind == "WindowedRecord" else ()
    return kind, element.key, *window, element.value, element.timestamp, element.context


def by_partition(elements: Iterable[Any]) -> dict[int, list[Row]]:
    found: dict[int, list[Row]] = {}
    for element in elements:
        found.setdefault(element.context.partition, []).append(shown(element))
    return found


@dataclass
class Outcome:
    """Results and late rows by partition, in order; or the type of the error."""

    results: dict[int, list[Row]] = field(default_factory=dict)
    late: dict[int, list[Row]] = field(default_factory=dict)
    error: str | None = None


def in_process(system: ActorSystem, build: Callable[[Any, Any], Any], source: Any) -> Outcome:
    """`build(records, late sink)`: run the graph as it always runs."""
    late: list[StreamFuture[list[Any]]] = []  # none if `build` leaves the sink of the late rows out
    stream = build(source, Sink.to_list().map_materialized_value(late.append))
    _, done = stream.to_mat(Sink.to_list(), Keep.both).run(system)
    try:
        results = done.result(END_S)
    except Exception as error:
        return Outcome(error=type(error).__name__)
    return Outcome(by_partition(results), by_partition(row for rows in late for row in rows.result(END_S)))


@dataclass
class Tasks:
    """The tasks of one program, in "executors" that come and go."""

    program: Program
    read: Any
    states: States
    topic: str
    kept: KeptTasks = field(default_factory=KeptTasks)
    close: Any = None
    """Closes the consumers that read the ranges; without it they end with their last reference."""

    def run(self, partition: int, start: At, end: At, event: At | None = None) -> list[Output]:
        return list(self.begin(partition, start, end, event))

    def begin(self, partition: int, start: At, end: At, event: At | None = None) -> Any:
        return self.begin_range(Range(TopicPartition(self.topic, partition), start, end, 0, event))

    def begin_range(self, what: Range) -> Any:
        return self.program.run(what, self.read, self.states, self.kept)


def tasks_of(cluster: Any, topic: str, graph: Any, folder: Path, partitions: int = 2) -> Tasks:
    program = translate(graph.module).program
    if program.windows is not None:
        program.windows.partitions = partitions
    reader = RangeReader(ConsumerSettings(cluster.bootstrap_servers))
    return Tasks(program, reader.read, States(LocalFolder(folder)), topic, close=reader.close)


def on_tasks(
    tasks: Tasks, ends: dict[int, int], dice: random.Random, *, cuts: int = 3, flush: bool = True, trouble: float = 0.4
) -> Outcome:
    """Run all ranges of all partitions, cut anywhere, with attempts that fail, lost caches and lost states on the way."""
    outcome = Outcome()
    for partition, end in ends.items():
        places = sorted({dice.randint(0, end) for _ in range(cuts)} | {end})
        start = At(0)
        for position in places:
            stop = At(position, ended=flush and position == end)
            if start == stop:
                continue
            if dice.random() < trouble:
                attempt = tasks.begin(partition, start, stop)
                with suppress(Exception):  # the attempt that counts raises it, too
                    for _ in range(dice.randint(0, 2)):
                        next(attempt, None)
                attempt.close()
            if dice.random() < trouble:
                tasks.kept = KeptTasks()  # another executor
            if dice.random() < trouble / 2:
                lose_a_state(tasks, partition, dice)
            try:
                outputs = tasks.run(partition, start, stop)
                if dice.random() < trouble / 2:
                    outputs = tasks.run(partition, start, stop)
            except Exception as error:
                outcome.error = type(error).__name__
                return outcome
            for output in outputs:
                into = outcome.late if output.late else outcome.results
                into.setdefault(partition, []).extend(map(shown, output.rows))
            start = stop
    return outcome


def lose_a_state(tasks: Tasks, partition: int, dice: random.Random) -> None:
    folder = tasks.states._folder
    names = folder.names(f"{tasks.topic}-{partition}")
    if names:
        folder.delete(f"{tasks.topic}-{partition}/{dice.choice(sorted(names))}")
