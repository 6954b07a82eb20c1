"""The same work as in `_kafka_bare.py`, through streams; and sub-streams whose demand is opened and shut at random."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable
from typing import Any

from benchmarks._kafka_bare import COMMIT_S
from streamactors import ActorSystem, Keep, Sink, Source
from streamactors.engine.island.connection import Connection
from streamactors.engine.logic import Logic
from streamactors.engine.sink import SinkLogic
from streamactors.engine.stage import SINK, GraphStage
from streamactors.kafka import (
    Committer,
    CommitterSettings,
    Consumer,
    ConsumerSettings,
    Producer,
    ProducerMessage,
    ProducerRecord,
    ProducerSettings,
    Subscriptions,
    Transactional,
)


def settings_for(servers: str, group: str, **more: Any) -> ConsumerSettings:
    """Return the settings every row uses."""
    return ConsumerSettings(servers, group, "earliest", commit_interval_ms=int(COMMIT_S * 1_000), **more)


def from_start(topic: str, partitions: int = 1) -> Any:
    """Return a subscription to all of a topic."""
    return Subscriptions.assignment_with_offset({(topic, partition): 0 for partition in range(partitions)})


def read(system: ActorSystem, servers: str, topic: str, kind: str, partitions: int = 1) -> int:
    """plain, marks, committable or partitioned source -> map -> filter -> count."""
    settings, of = settings_for(servers, "ours"), from_start(topic, partitions)
    if kind == "committable":
        committer = Committer.sink(CommitterSettings(max_batch=1_000_000, max_interval_ms=int(COMMIT_S * 1_000)))
        kept = Consumer.committable_source(settings, of, until="end").filter(lambda m: len(m.record.value) % 2 == 0)
        control, done = kept.to_mat(committer, Keep.both).run(system)
        done.result(600)
        control.is_shutdown.result(60)
        return -1
    sized: Any
    if kind == "partitioned":
        sources = Consumer.plain_partitioned_source(settings, of, until="end")
        sized = sources.flat_map_merge(partitions, lambda pair: pair[1].map(lambda r: len(r.value)))
    else:
        make = Consumer.plain_source if kind == "plain" else Consumer.source
        sized = make(settings, of, until="end").map(lambda r: len(r.value))
    control, count = sized.filter(lambda size: size % 2 == 0).to_mat(Sink.count(), Keep.both).run(system)
    found: int = count.result(600)
    control.is_shutdown.result(60)
    return found


def write(system: ActorSystem, servers: str, topic: str, n: int) -> None:
    """Producer.flexi_flow with ready envelopes."""
    envelope = ProducerMessage.message(ProducerRecord(topic, b"0" * 100))
    flow = Producer.flexi_flow(ProducerSettings(servers))
    assert Source.repeat(envelope).take(n).via(flow).run_with(Sink.count(), system).result(600) == n


def copy(system: ActorSystem, servers: str, source: str, target: str, name: str) -> None:
    """Transactional.source -> Transactional.sink, 100 ms commits."""
    records = Transactional.source(settings_for(servers, name), from_start(source), until="end")
    sink = Transactional.sink(ProducerSettings(servers, transactional_id=name, commit_interval_ms=100))
    control, done = records.map(lambda r: ProducerRecord(target, r.value)).to_mat(sink, Keep.both).run(system)
    done.result(600)
    control.is_shutdown.result(60)


def latencies(system: ActorSystem, servers: str, topic: str, n: int, send: Callable[[int], None]) -> list[float]:
    """plain source -> foreach while `send` writes moments; return the ms from each to its arrival."""
    found: list[float] = []
    there = threading.Event()

    def arrived(record: Any) -> None:
        found.append((time.perf_counter() - float(record.value)) * 1_000)
        if len(found) == n:
            there.set()

    settings = ConsumerSettings(servers, "ours", "latest")
    control = (
        Consumer.plain_source(settings, Subscriptions.assignment((topic, 0))).to(Sink.foreach(arrived)).run(system)
    )
    while control.snapshot()["partitions"].get(f"{topic}-0", {}).get("at_end") is not True:
        time.sleep(0.01)
    send(n)
    there.wait(120)
    control.shutdown().result(60)
    return found


class Gate(GraphStage):
    """A sink that takes what it is allowed to, and counts. Materializes its logic: `allow(n)`."""

    shape = SINK
    name = "gate"

    def __init__(self, taken: Callable[[int], None]) -> None:
        self.taken = taken

    def create(self, attributes: Any) -> tuple[Logic, Any]:
        logic = _GateLogic(self.taken)
        return logic, logic


class _GateLogic(SinkLogic):
    def __init__(self, taken: Callable[[int], None]) -> None:
        super().__init__()
        self._taken = taken
        self._left = 0
        self._started = threading.Event()

    def on_start(self) -> None:
        self._tell = self.async_callback(self._allow).invoke
        self._started.set()

    def allow(self, n: int) -> None:
        """Take n more records instead of what was allowed before; any thread."""
        assert self._started.wait(60)
        self._tell(n)

    def _allow(self, n: int) -> None:
        self._left = n
        self.in_.want(n)

    def on_push(self, in_: Connection) -> None:
        chunk = in_.grab(self._left)
        self._left -= len(chunk)
        self._taken(len(chunk))
        if self._left:
            in_.want(self._left)


def gated(
    system: ActorSystem, servers: str, topic: str, partitions: int, n: int, size: int, open_at_once: int, step: int
) -> dict[str, float]:
    """Take n records of `size` bytes while only so many partitions, drawn anew after every `step` records, have demand."""
    stats: dict[str, Any] = {}
    properties = {"statistics.interval.ms": 100, "stats_cb": lambda text: stats.update(json.loads(text))}
    settings = settings_for(servers, "gated", properties=properties)
    gates: list[Any] = []
    ready, stepped, count, goal = threading.Event(), threading.Event(), [0], [0]

    def taken(size: int) -> None:
        count[0] += size
        if count[0] >= goal[0]:
            stepped.set()

    def opened(pair: Any) -> None:
        gates.append(pair[1].run_with(Sink.from_stage(Gate(taken)), system))
        if len(gates) == partitions:
            ready.set()

    sources = Consumer.plain_partitioned_source(settings, from_start(topic, partitions))
    control = sources.to(Sink.foreach(opened)).run(system)
    assert ready.wait(60)
    draw = random.Random(7)
    started, cpu, held = time.perf_counter(), time.process_time(), 0
    while count[0] < n:
        stepped.clear()
        goal[0] = count[0] + step
        for i, gate in enumerate(draw.sample(gates, partitions)):
            gate.allow(step // open_at_once if i < open_at_once else 0)
        stepped.wait(0.5)  # longer only where a partition has run out
        held = max(held, _held_bytes(control.snapshot(), stats, count[0], size))
    wall, cpu = time.perf_counter() - started, time.process_time() - cpu
    time.sleep(0.15)  # for the last statistics
    found = control.snapshot()
    waiting = _held_bytes(found, stats, count[0], size)
    control.shutdown().result(60)
    return {
        "rate": count[0] / wall,
        "cpu_each": cpu / count[0],
        "fetched": float(stats.get("rx_bytes", 0)) - waiting,  # read ahead is not read twice
        "requests": float(sum(b["req"].get("Fetch", 0) for b in stats.get("brokers", {}).values())),
        "pauses": float(found["pauses"]),
        "held": float(held),
        "taken": float(count[0]),
    }


def _held_bytes(found: dict[str, Any], stats: dict[str, Any], taken: int, size: int) -> int:
    """What was read ahead: by librdkafka, by the consumer, and by the sub-sources. Librdkafka has one queue for all partitions, and
    each of them tells the size of the whole."""
    topics = stats.get("topics", {}).values()
    queued = max((int(p["fetchq_size"]) for topic in topics for p in topic["partitions"].values()), default=0)
    buffered = sum(p["buffered_records"] for p in found["partitions"].values())
    return queued + (buffered + found["delivered"] - taken) * size
