"""A member of a group, made of this package's own sources and sinks, to be killed at any moment.

Run as `python -m tests.faults.connector_worker BOOTSTRAP NAME WAY STRATEGY`; it drains and ends when its standard input is closed.

read: Consumer.source (read-1: partitioned_source) over map_async to a sink that says, line by line, what it has done and which partitions it was given.
copy: Transactional.source to Transactional.sink, under NAME as transactional id.
count: the records per window and value modulo 7, each new count to Transactional.sink, with the windows' state in a changelog.

A run that fails is begun again, as a service would. SIGUSR1 has every thread print where it stands."""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading
from typing import Any

from streamactors import ActorSystem, Keep, Sink
from streamactors.engine.marks.marks import Assigned, Mark
from streamactors.engine.sink import SinkLogic
from streamactors.engine.stage import SINK, GraphStage
from streamactors.kafka import (
    Consumer,
    ConsumerSettings,
    ProducerRecord,
    ProducerSettings,
    Subscriptions,
    Transactional,
)
from streamactors.windows import State, TimeWindows

SOURCE, TARGET = os.environ.get("WORKER_SOURCE", "in"), os.environ.get("WORKER_TARGET", "out")
STATE = os.environ.get("WORKER_STATE", "")
"""The folder for the state of the windows; empty: it is in memory."""
READERS, COPIERS, COUNTERS = "readers", "copiers", os.environ.get("WORKER_GROUP", "counters")
WINDOW_MS = 2_000


def say(*words: object) -> None:
    """Write a line in one piece, or nothing of it."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


class Said(GraphStage):
    """A sink whose effect is a line per record; a partition that is assigned is said in its place among them."""

    shape = SINK

    def create(self, attributes: Any) -> Any:
        logic = _SaidLogic()
        return logic, logic.future


class _SaidLogic(SinkLogic):
    def on_chunk(self, chunk: list[Any]) -> None:
        for record in chunk:
            say("done", record.partition, record.offset, record.value.decode())

    def on_mark(self, in_: Any, mark: Mark) -> None:
        if isinstance(mark, Assigned):
            say("assigned", mark.key[1].partition)
        super().on_mark(in_, mark)


def settings(bootstrap: str, group: str, strategy: str) -> ConsumerSettings:
    """Return the settings of a reader. The strategy `consumer`: the broker assigns, and has the times."""
    classic = {
        "partition.assignment.strategy": strategy,
        "session.timeout.ms": 2_000,
        "heartbeat.interval.ms": 200,
    }
    by_broker = strategy == "consumer"
    return ConsumerSettings(
        bootstrap,
        group,
        "earliest",
        commit_interval_ms=200,
        commit_timeout_ms=60_000,
        group_protocol="consumer" if by_broker else "classic",
        properties={**({} if by_broker else classic), "reconnect.backoff.max.ms": 500},
    )


def reading(bootstrap: str, strategy: str, *, apart: bool) -> Any:
    told = settings(bootstrap, READERS, strategy), Subscriptions.topics(SOURCE)
    source = Consumer.source(*told)
    if apart:
        source = Consumer.partitioned_source(*told).flat_map_merge(64, lambda pair: pair[1])
    return source.map_async(4, lambda record: record).async_boundary().to_mat(Sink.from_stage(Said()), Keep.both)


def producer(bootstrap: str, name: str) -> ProducerSettings:
    return ProducerSettings(
        bootstrap,
        transactional_id=name,
        commit_interval_ms=50,
        properties={"transaction.timeout.ms": 3_000, "reconnect.backoff.max.ms": 500},
    )


def copying(bootstrap: str, name: str, strategy: str) -> Any:
    source = Transactional.source(settings(bootstrap, COPIERS, strategy), Subscriptions.topics(SOURCE))
    copied = source.map(lambda record: ProducerRecord(TARGET, record.value, partition=record.partition))
    return copied.to_mat(Transactional.sink(producer(bootstrap, name)), Keep.both)


def counted(key: int, start_ms: int, count: int) -> bytes:
    """Return the value of the record that tells a count."""
    return b"%d@%d: %d" % (key, start_ms, count)


def counting(bootstrap: str, name: str, strategy: str) -> Any:
    committed = settings(bootstrap, COUNTERS, strategy).with_property("isolation.level", "read_committed")
    if STATE:
        committed = committed.with_state(State.on_disk(STATE))
    counts = (
        Consumer.records(committed, Subscriptions.topics(SOURCE), value=int)
        .map(lambda record: record.replace(key=record.value % 7))
        .group_by_key()
        .windowed_by(TimeWindows.of_size(f"{WINDOW_MS}ms").with_grace("1d"))
        .count(name="seen")
        .to_stream()
        .map(
            lambda row: ProducerRecord(TARGET, counted(row.key, row.start, row.value), partition=row.context.partition)
        )
    )
    return counts.to_mat(Transactional.sink(producer(bootstrap, name)), Keep.both)


GRAPHS = {
    "copy": copying,
    "count": counting,
    "read": lambda bootstrap, name, strategy: reading(bootstrap, strategy, apart=name.startswith("read-1")),
}


def main(bootstrap: str, name: str, way: str, strategy: str) -> None:
    faulthandler.register(signal.SIGUSR1)
    stop = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), stop.set()), daemon=True).start()
    graph = GRAPHS[way](bootstrap, name, strategy)
    while not stop.is_set():
        with ActorSystem(name) as system:
            control, done = graph.run(system)
            while not (done.done() or stop.wait(0.05)):
                pass
            control.stop()
            error = done.exception(60)
            control.is_shutdown.exception(60)
            if error is not None:
                say("failed", type(error).__name__, str(error).replace("\n", " "))
                stop.wait(0.3)


if __name__ == "__main__":
    main(*sys.argv[1:])
