"""A million keys on disk over Kafka: a restart after kill -9, and a task that moves to an instance with a standby copy of it.

The broker has its own process, each instance too. Each row of the topic counts one of the keys; the results are read by this process, which writes a row
every few milliseconds meanwhile. The interruption is the longest time between two results of a partition."""

from __future__ import annotations

import itertools
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer as BareConsumer
from confluent_kafka import Producer as BareProducer

from streamactors.broker import Cluster

Row = dict[str, Any]
KEYS, PATIENCE_S = 1_000_000, 600.0

INSTANCE = """
import logging, signal, sys, threading
from streamactors import ActorSystem
from streamactors.kafka import Consumer, ConsumerSettings, ProducerSettings
from streamactors.windows import State
print("imported", file=sys.stderr, flush=True)
logging.basicConfig(level=logging.INFO, stream=sys.stderr)
servers, name, folder, standbys = sys.argv[1:]
properties = {"session.timeout.ms": 6_000, "heartbeat.interval.ms": 300}
if name == "static":  # the broker knows the new process as the one that died, and does not wait for its session to end
    properties["group.instance.id"] = name
settings = ConsumerSettings(servers, "million", "earliest", properties=properties)
producer = ProducerSettings(servers, transactional_id=name, commit_interval_ms=100)
topics = Consumer.topics(settings, producer=producer, state=State.on_disk(folder, cache="256MB", standbys=int(standbys)))
topics.stream("rows").group_by_key().count(name="counts").to_stream().to("out", value="json")
over = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: over.set())
with ActorSystem(name) as system:
    control = topics.graph().run(system)
    over.wait()
    control.shutdown().result(60)
"""


class Instance:
    """One instance of the group, in a process; `log` has what it says."""

    def __init__(self, servers: str, name: str, folder: Path, standbys: int) -> None:
        self.log: list[str] = []
        self.imported = 0.0
        """When the program had its imports; before that the time is Python's."""
        command = [sys.executable, "-c", INSTANCE, servers, name, str(folder), str(standbys)]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if line == "imported\n":
                self.imported = time.perf_counter()
            self.log.append(line)

    def end(self, number: signal.Signals) -> None:
        self.process.send_signal(number)
        self.process.wait(120)

    @property
    def entries_read(self) -> int:
        """How many entries of changelogs were read at assignments."""
        found = re.findall(r"restored (\d+) entries, ", "".join(list(self.log)))
        return sum(map(int, found))


class Results:
    """Follows the results: their number, and the times at which those of each partition came."""

    def __init__(self, servers: str, partitions: int) -> None:
        self.count = 0
        self.times: dict[int, list[float]] = defaultdict(list)
        self._over = False
        settings = {"bootstrap.servers": servers, "group.id": "results", "isolation.level": "read_committed"}
        self._consumer = BareConsumer({**settings, "auto.offset.reset": "earliest"})
        self._consumer.subscribe(["out"])
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        while not self._over:
            found = self._consumer.consume(10_000, 0.01)
            now = time.perf_counter()
            self.count += len(found)
            for partition in {message.partition() for message in found}:
                self.times[partition].append(now)
        self._consumer.close()

    def wait(self, count: int) -> None:
        give_up = time.monotonic() + PATIENCE_S
        while self.count < count:
            if time.monotonic() > give_up:
                raise TimeoutError(f"{self.count} of {count} results in {PATIENCE_S:g} s")
            time.sleep(0.01)

    def longest_gap_ms(self, since: float) -> float:
        """The longest time between two results of a partition since a moment."""
        gaps = [
            after - before
            for times in self.times.values()
            for before, after in itertools.pairwise(times)
            if after > since
        ]
        return max(gaps) * 1_000

    def close(self) -> None:
        self._over = True
        self._thread.join()


class Rows:
    """Writes rows. `filled` writes each key once; `steady` writes a row every 5 ms to each partition until the block ends."""

    def __init__(self, servers: str, partitions: int) -> None:
        self._producer = BareProducer({"bootstrap.servers": servers, "linger.ms": 5, "batch.num.messages": 10_000})
        self._partitions = partitions
        self.count = 0

    def write(self, number: int) -> None:
        while True:
            try:
                self._producer.produce("rows", b"1", b"key-%d" % number, partition=number % self._partitions)
            except BufferError:
                self._producer.poll(0.1)
            else:
                self.count += 1
                return

    def fill(self) -> None:
        for number in range(KEYS):
            self.write(number)
        self._producer.flush()

    @contextmanager
    def steady(self) -> Iterator[None]:
        over = threading.Event()

        def write() -> None:
            number = 0
            while not over.wait(0.005):
                for _ in range(self._partitions):
                    self.write(number)
                    number += 1
                self._producer.poll(0)

        thread = threading.Thread(target=write, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
            self._producer.flush()


@contextmanager
def million(partitions: int) -> Iterator[tuple[str, Rows, Results, Path]]:
    """A broker whose topic has each key once."""
    with Cluster(process=True) as cluster, tempfile.TemporaryDirectory() as folder:
        servers = cluster.bootstrap_servers
        for topic in ("rows", "out"):
            cluster.create_topic(topic, partitions=partitions)
        rows, results = Rows(servers, partitions), Results(servers, partitions)
        rows.fill()
        try:
            yield servers, rows, results, Path(folder)
        finally:
            results.close()


def restart() -> list[Row]:
    """The time from the start of the new process to its first result, Python's own start included. The member has a `group.instance.id`."""
    with million(1) as (servers, rows, results, folder):
        instance = Instance(servers, "static", folder, 0)
        results.wait(KEYS)
        with rows.steady():
            results.wait(KEYS + 500)
            instance.end(signal.SIGKILL)
            time.sleep(0.5)  # what was committed has come
            before, began = results.count, time.perf_counter()
            instance = Instance(servers, "static", folder, 0)
            results.wait(before + 1)
            spent = time.perf_counter() - began
        results.wait(rows.count)
        instance.end(signal.SIGTERM)
        assert results.count == rows.count, f"{results.count} results of {rows.count} rows"
        return [
            {
                "name": f"restart after kill -9 with {KEYS:,} keys on disk, process start to first result",
                "value": round(spent * 1_000),
                "unit": "ms",
                "peer": f"{round((instance.imported - began) * 1_000):,} ms of it are imports; {instance.entries_read} entries of the changelog were read",
                "target": "<= 5,000",
            }
        ]


def handover(standbys: int) -> Row:
    """Two instances; one leaves in order, and the other takes its task over."""
    with million(2) as (servers, rows, results, folder):
        instances = [Instance(servers, name, folder / name, standbys) for name in ("one", "two")]
        results.wait(KEYS)
        time.sleep(5)  # the copies follow
        with rows.steady():
            results.wait(KEYS + 1_000)
            began = time.perf_counter()
            instances[0].end(signal.SIGTERM)
            reached = rows.count + 1_000
            results.wait(reached)
            gap = results.longest_gap_ms(began)
        results.wait(rows.count)
        read = instances[1].entries_read
        instances[1].end(signal.SIGTERM)
        assert results.count == rows.count, f"{results.count} results of {rows.count} rows"
        with_them = "with a standby" if standbys else "without a standby"
        return {
            "name": f"one of two instances with {KEYS:,} keys leaves, {with_them}: longest time without a result",
            "value": round(gap),
            "unit": "ms",
            "peer": f"{read} entries of the changelog were read",
            "target": "<= 1,000" if standbys else "",
        }


def run(only: str = "") -> list[Row]:
    """Every row of the page; with `only` = `restart` the restart alone."""
    return restart() if only == "restart" else [*restart(), handover(1), handover(0)]
