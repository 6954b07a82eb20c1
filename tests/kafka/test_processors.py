"""Processors over Kafka: stores on disk and in memory, timers across a restart, the wall clock, and reading them from outside."""

from __future__ import annotations

import queue
from typing import Any

import pytest

from streamactors import Keep, Sink
from streamactors.kafka import Consumer
from streamactors.windows import KeyValueStore, Processor, Record, State
from tests.kafka._windows import produce, windows_settings  # noqa: F401  # fixtures


class Silence(Processor):
    """Tells of keys that were silent for 100 ms of stream time; counts the rows of each key."""

    def init(self, context: Any) -> None:
        self.context, self.seen = context, context.store("seen")

    def process(self, record: Record) -> None:
        count, _ = self.seen.get(record.key) or (0, 0)
        self.seen.put(record.key, (count + 1, record.timestamp))
        self.context.timer(record.key, record.timestamp + 100)
        self.context.forward(record.replace(value=count + 1))

    def on_timer(self, key: Any, at: int) -> None:
        count, last = self.seen.get(key)
        if last + 100 <= at:
            self.context.forward(Record(key, f"silent after {count}", at))


def running(settings, system, topic, place, make=Silence):
    topics = Consumer.topics(settings, state=place)
    results: queue.Queue[Any] = queue.Queue()
    told = topics.stream(topic, value="bytes").process(make, stores=[KeyValueStore("seen")], name="silence")
    control, done = topics.source(told).to_mat(Sink.foreach(results.put), Keep.both).run(system)

    def take(count):
        return [(row.key, row.value) for row in (results.get(timeout=30) for _ in range(count))]

    def stop():
        control.drain_and_shutdown(done, timeout=30)

    return control, take, stop


@pytest.mark.parametrize("kind", ["memory", "disk"])
def test_stores_and_timers_of_a_processor_survive_a_restart(cluster, settings, system, tmp_path, kind):
    place = State.in_memory() if kind == "memory" else State.on_disk(tmp_path, cache="16MB")
    topic = f"pings-{kind}"
    produce(cluster, topic, [(0, "a", 1_000), (0, "b", 1_010), (0, "a", 1_020)], 1)
    control, take, stop = running(settings, system, topic, place)
    assert take(3) == [("a", 1), ("b", 1), ("a", 2)]
    store = control.store("seen")
    assert [(entry.key, entry.value) for entry in store.items().result(30)] == [("a", (2, 1_020)), ("b", (1, 1_010))]
    stop()
    produce(cluster, topic, [(0, "c", 1_115), (0, "c", 1_130)], 1)
    control, take, stop = running(settings, system, topic, place)
    assert take(4) == [("c", 1), ("b", "silent after 1"), ("c", 2), ("a", "silent after 2")]
    assert control.store("seen").get("a").result(30) == (2, 1_020)
    stop()


class Ticking(Processor):
    """Forwards a row when the wall clock says so."""

    def init(self, context: Any) -> None:
        self.context = context
        context.schedule("20ms", lambda now: context.forward(Record("tick", "wall", 5)), clock="wall")

    def process(self, record: Record) -> None:
        """Rows give nothing."""


def test_the_wall_clock_calls_a_processor_that_has_no_rows(cluster, settings, system):
    cluster.create_topic("silent")
    _, take, stop = running(settings, system, "silent", None, Ticking)
    assert take(2) == [("tick", "wall")] * 2
    stop()
