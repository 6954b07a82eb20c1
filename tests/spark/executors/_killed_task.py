"""Tasks in a process that is killed: run as a program by test_kills.py.

It reads lines of JSON: [broker, input topic, output topic, folder, number of the call at which the process dies (0: it lives)]. For each it forks
a process, before any client exists in it, and prints that process's exit code. The process runs the ranges that its log does not have yet, one
after the other, and writes each into the log when it is done, as Spark's commit log."""

from __future__ import annotations

import json
import os
import random
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from streamactors.kafka import ProducerSettings
from streamactors.kafka.client.range_writer import RangeWriter
from streamactors.kafka.producer_record import ProducerRecord
from streamactors.kafka.subscriptions import TopicPartition
from streamactors.spark.executors.folders import LocalFolder
from streamactors.spark.executors.ranges import At, Range
from streamactors.spark.executors.topic_end import TopicEnd, Writers
from streamactors.windows import BufferConfig, Suppressed, TimeWindows
from tests.spark.executors._plain import read_rows, spark_end, tasks_of

CUTS = 4


def counted(records: Any, late: Any = None) -> Any:
    """The graph: the same here and in the test."""
    windows = TimeWindows.of_size(100).with_grace(50)
    closed = Suppressed.until_window_closes(BufferConfig.unbounded())
    return records.group_by_key().windowed_by(windows, late=late).count().suppress(closed).to_stream()


def as_record(out: str) -> Callable[[Any], ProducerRecord]:
    def make(row: Any) -> ProducerRecord:
        value = json.dumps([row.key, row.start, row.value, row.timestamp])
        return ProducerRecord(out, value, partition=row.context.partition)

    return make


def ranges_of(ends: dict[int, int], topic: str) -> list[Range]:
    """The ranges of all partitions, the same in every process."""
    found = []
    dice = random.Random(topic)
    for partition, end in ends.items():
        start = At(0)
        for position in sorted({dice.randint(1, end - 1) for _ in range(CUTS)} | {end}):
            stop = At(position, ended=position == end)
            found.append(Range(TopicPartition(topic, partition), start, stop, 0))
            start = stop
    return found


def dying(after: int) -> Callable[[], None]:
    """Return a function that kills this process at its `after`-th call."""
    left = [after]

    def perhaps() -> None:
        left[0] -= 1
        if left[0] == 0:
            os._exit(9)

    return perhaps


def watched(owner: Any, name: str, perhaps: Callable[[], None]) -> None:
    """Let the process die before or after a call."""
    genuine = getattr(owner, name)

    def call(*arguments: Any) -> Any:
        perhaps()
        found = genuine(*arguments)
        perhaps()
        return found

    setattr(owner, name, call)


def run(servers: str, topic: str, out: str, given: str, after: int) -> None:
    folder = Path(given)
    log = folder / "done.log"
    done = set(log.read_text().split()) if log.exists() else set()
    perhaps = dying(after)
    for owner, name in (
        (LocalFolder, "put"),
        (os, "replace"),
        (RangeWriter, "open"),
        (RangeWriter, "write"),
        (RangeWriter, "commit"),
    ):
        watched(owner, name, perhaps)
    cluster = SimpleNamespace(bootstrap_servers=servers)
    tasks = tasks_of(cluster, topic, counted(read_rows(cluster, topic)).map(as_record(out)).to(spark_end()), folder)
    end, writers = TopicEnd(ProducerSettings(servers), f"{topic}.spark"), Writers()
    ends = json.loads((folder / "ends.json").read_text())
    for what in ranges_of({int(p): n for p, n in ends.items()}, topic):
        name = f"{what.key}@{what.end}"
        if name in done:
            continue
        outputs = tasks.program.run(what, tasks.read, tasks.states, tasks.kept)
        end.write(what, outputs, writers)
        perhaps()
        with open(log, "a") as file:
            file.write(f"{name}\n")
            file.flush()
            os.fsync(file.fileno())


def main() -> None:
    for line in sys.stdin:
        child = os.fork()
        if not child:
            code = 1
            try:
                run(*json.loads(line))
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
