"""A pipeline like the demo's, of which one part can be made slow: what a stranger has to find on the page.

    with pipeline(tmp_path, spark) as running:
        running.slow("disk")          # one of SLOWDOWNS; running.slow(None) ends it
        running.page.url

Three graphs run in one system, with a broker in this process: `feed` writes flights to a topic of four partitions at a steady rate; `flights to spark`
decodes them into a Spark query; `flights to store` looks each flight up, partition by partition, and stores it. `python -m tests.dashboard.slowdowns disk`
runs it at a terminal, and prints the address of the page."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from streamactors import ActorSystem, Keep, Sink, Source
from streamactors.broker import Cluster
from streamactors.dashboard.serving import Dashboard, serve
from streamactors.kafka import Consumer, ConsumerSettings, Producer, ProducerRecord, ProducerSettings, Subscriptions

SLOWDOWNS: Final = ("spark", "decode", "sink", "partition", "disk")
TOPIC: Final = "flights"
PARTITIONS: Final = 4
SLOW_PARTITION: Final = 2
PER_SECOND: Final = 200
DELAYS_S: Final = {"spark": 8.0, "decode": 0.02, "sink": 0.02, "partition": 0.2, "disk": 0.15}
"""Of a batch, a record, a record, a record of one partition, a write to a log of the topic."""
WITHIN_S: Final = 10.0
"""How long a reader may need to find the cause."""
CAUSE: Final = {
    "spark": "Spark is slow",
    "decode": "decode",
    "sink": "store",
    "partition": f"{TOPIC}-{SLOW_PARTITION}",
    "disk": "disk",
}
"""What a sentence on top of the page has to name."""


class Pipeline:
    """The running pipeline. `page` is its Dashboard, `system` its ActorSystem."""

    def __init__(self, page: Dashboard, system: ActorSystem, bootstrap: str) -> None:
        self.page = page
        self.bootstrap = bootstrap
        self.system = system
        self._slow: str | None = None

    def slow(self, what: str | None) -> None:
        """Make one of SLOWDOWNS slow from now on, and everything else quick; None: everything."""
        assert what is None or what in SLOWDOWNS, what
        self._slow = what

    def delay_s(self, what: str) -> float:
        """Return how long a part waits now."""
        return DELAYS_S[what] if self._slow == what else 0.0

    def brake(self, what: str) -> None:
        """Wait as long as a part does now."""
        delay_s = self.delay_s(what)
        if delay_s:
            time.sleep(delay_s)


def until(running: Pipeline, holds: Callable[[dict[str, Any]], object], seconds: float = 30.0) -> dict[str, Any]:
    """Return the first state for which `holds` is true, or the last one after so many seconds."""
    deadline = time.monotonic() + seconds
    while True:
        state = running.page.state()
        if holds(state) or time.monotonic() > deadline:
            return state
        time.sleep(0.2)


def held(state: dict[str, Any]) -> list[str]:
    """Return the sentences on top of the page about what holds a stream back."""
    return [each["sentence"] for each in state["banners"] if each["holds"]]


@contextmanager
def pipeline(folder: Path, spark: Any) -> Iterator[Pipeline]:
    """Run the pipeline in a folder; `spark`: a session, None leaves Spark's graph out."""
    with ExitStack() as undo:
        cluster = undo.enter_context(Cluster())
        cluster.create_topic(TOPIC, PARTITIONS)
        system = undo.enter_context(ActorSystem("flights"))
        page = undo.enter_context(serve(system, broker=cluster))
        page.watch()
        running = Pipeline(page, system, cluster.bootstrap_servers)
        undo.enter_context(_brakes_of_the_disk(running))
        bootstrap = cluster.bootstrap_servers
        _feed(bootstrap).run(system)
        stops = [_store(bootstrap, running).run(system)]
        if spark is not None:
            control, query = _spark(bootstrap, running, spark, folder).run(system)
            undo.callback(query.stop, 60.0)
            stops.append(control)
        for control in stops:
            undo.callback(control.stop)
        undo.callback(running.slow, None)
        yield running


def _feed(bootstrap: str) -> Any:
    """Flights at a steady rate, evenly over the partitions."""

    def record(n: int) -> ProducerRecord:
        return ProducerRecord(TOPIC, json.dumps({"n": n, "carrier": "UA"}).encode(), partition=n % PARTITIONS)

    sink = Producer.plain_sink(ProducerSettings(bootstrap)).named("write flights")
    return Source.range(10**9).throttle(PER_SECOND, "1s").map(record).named("flights").to(sink).named("feed")


def _settings(bootstrap: str, group: str) -> ConsumerSettings:
    return ConsumerSettings(bootstrap, group_id=group, auto_offset_reset="earliest")


def _spark(bootstrap: str, running: Pipeline, spark: Any, folder: Path) -> Any:
    from streamactors.spark import SparkSink

    def decode(record: Any) -> tuple[int, str]:
        running.brake("decode")
        flight = json.loads(record.value)
        return flight["n"], flight["carrier"]

    def write(frame: Any, epoch_id: int) -> None:
        running.brake("spark")
        frame.count()

    sink = SparkSink.foreach_batch(spark, write, "n long, carrier string", folder / "checkpoint", max_rows=5_000)
    read = Consumer.source(_settings(bootstrap, "spark"), Subscriptions.topics(TOPIC)).named("read flights")
    decoded = read.async_boundary().map(decode).named("decode")
    return decoded.async_boundary().to_mat(sink, Keep.both).named("flights to spark")


def _store(bootstrap: str, running: Pipeline) -> Any:
    async def look_up(record: Any) -> Any:
        if record.partition == SLOW_PARTITION and (delay_s := running.delay_s("partition")):
            await asyncio.sleep(delay_s)
        return record

    def store(record: Any) -> None:
        running.brake("sink")

    read = Consumer.partitioned_source(_settings(bootstrap, "store"), Subscriptions.topics(TOPIC)).named(
        "read partitions"
    )
    looked_up = read.flat_map_merge(PARTITIONS, lambda pair: pair[1].map_async(1, look_up).named("look up"))
    return looked_up.to(Sink.foreach(store).named("store")).named("flights to store")


@contextmanager
def _brakes_of_the_disk(running: Pipeline) -> Iterator[None]:
    """Every write to a log of the topic waits in the call of the operating system while the disk is slow, as on a drive that is broken or shared."""
    pwrite = os.pwrite

    def slow_pwrite(descriptor: int, data: Any, position: int) -> int:
        if running.delay_s("disk") and f"/{TOPIC}-" in os.readlink(f"/proc/self/fd/{descriptor}"):
            running.brake("disk")
        return pwrite(descriptor, data, position)

    with patch.object(os, "pwrite", slow_pwrite):
        yield


def _main() -> None:
    from streamactors.spark import spark_session

    what = sys.argv[1] if len(sys.argv) > 1 else None
    with tempfile.TemporaryDirectory() as folder, pipeline(Path(folder), spark_session("slowdowns")) as running:
        running.slow(what)
        print(running.page.url, flush=True)
        while True:
            time.sleep(1)


if __name__ == "__main__":
    _main()
