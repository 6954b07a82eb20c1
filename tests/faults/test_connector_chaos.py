"""Groups of this package's own consumers that join, leave and are killed, over a broker that is killed and restarted.

Readers (`Consumer.source`, commits by marks) are judged by the history checker: nothing acknowledged is lost, no partition goes back or
passes over a record while it is assigned, and a process that has just started reads nothing that was committed before it. Copiers
(`Transactional.source` to `Transactional.sink`) must have written everything exactly once and in order."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from streamactors.broker.wire_request import create_topic
from tests.faults.broker_process import BrokerProcess
from tests.faults.connector_worker import READERS, SOURCE, TARGET
from tests.faults.test_exactly_once import CONFIG, PARTITIONS, copied
from tests.history import Event, Outcome, Poll, Read, Repositioned, Send, Write, check

QUIET = {"log_level": 0, "error_cb": lambda error: None, "reconnect.backoff.max.ms": 500}


@dataclass
class Worker:
    """One process; what it says is read as it says it. `floor` is what was committed before it was started."""

    name: str
    process: subprocess.Popen[str]
    floor: dict[int, int]
    lines: list[list[str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.endswith("\n"):
                self.lines.append(line.split(maxsplit=3))
        self.process.stdout.close()

    def end(self, *, kill: bool) -> None:
        assert self.process.stdin is not None
        if kill:
            self.process.kill()
        else:
            self.process.stdin.close()
        self.process.wait(90)
        self.reader.join(30)
        if not self.process.stdin.closed:
            self.process.stdin.close()

    def events(self) -> list[Event]:
        """Return what it did; a record below the floor would be one that had been committed before the process was there."""
        found: list[Event] = []
        for kind, *words in self.lines:
            if kind == "assigned":
                found.append(Repositioned(self.name, frozenset({(SOURCE, int(words[0]))})))
            elif kind == "done":
                partition, offset = int(words[0]), int(words[1])
                assert offset >= self.floor.get(partition, 0), f"{self.name}: {partition}@{offset} was committed"
                found.append(Poll(self.name, (Read((SOURCE, partition), offset, int(words[2])),)))
        return found


class Chaos:
    """One run: a producer, two groups of workers, and what happens to them."""

    def __init__(self, broker: BrokerProcess, seed: int) -> None:
        self.broker = broker
        self.dice = random.Random(seed)
        self.strategy = ["range", "cooperative-sticky"][seed % 2]
        self.past: list[Worker] = []
        self.now: dict[str, Worker] = {}
        self.number = 0
        self.sent: list[Event] = []
        self.values: dict[int, list[int]] = {n: [] for n in range(PARTITIONS)}
        self.calm = threading.Event()
        self.done_by: dict[str, int] = {}
        self.producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True, **QUIET})

    # ── workers ───────────────────────────────────────────────────────────────────────────────────────────────────

    def committed(self) -> dict[int, int]:
        """Return what the readers have committed; nothing if the broker does not say."""
        consumer = Consumer({"bootstrap.servers": self.broker.bootstrap_servers, "group.id": READERS, **QUIET})
        try:
            found = consumer.committed([TopicPartition(SOURCE, n) for n in range(PARTITIONS)], timeout=5)
            return {p.partition: p.offset for p in found if p.error is None}
        except Exception:
            return {}
        finally:
            consumer.close()

    def start(self, slot: str) -> None:
        self.number += 1
        way = slot.split("-")[0]
        name = slot if way == "copy" else f"{slot}#{self.number}"
        command = [sys.executable, "-m", "tests.faults.connector_worker", self.broker.bootstrap_servers, name, way]
        floor = self.committed() if way == "read" else {}
        process = subprocess.Popen(
            [*command, self.strategy],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.now[slot] = Worker(name, process, floor)

    def end(self, slot: str, *, kill: bool) -> None:
        worker = self.now.pop(slot)
        worker.end(kill=kill)
        self.past.append(worker)

    def workers(self) -> list[Worker]:
        return [*self.past, *self.now.values()]

    def read_values(self) -> set[int]:
        return {int(line[3]) for w in self.workers() for line in list(w.lines) if line[0] == "done"}

    # ── what happens ──────────────────────────────────────────────────────────────────────────────────────────────

    def produce(self, n: int) -> None:
        def delivered(error: object, message: object, value: int, partition: int) -> None:
            offset = message.offset() if error is None else None
            outcome = Outcome.OK if error is None else Outcome.UNKNOWN
            self.sent.append(Send("producer", outcome, (Write((SOURCE, partition), value, offset),)))

        for _ in range(n):
            partition = self.dice.randrange(PARTITIONS)
            value = PARTITIONS * len(self.values[partition]) + partition
            self.values[partition].append(value)
            self.producer.produce(
                SOURCE,
                str(value),
                partition=partition,
                on_delivery=lambda error, message, v=value, p=partition: delivered(error, message, v, p),
            )

    def trouble(self) -> None:
        slot = self.dice.choice(sorted(self.now))
        what = self.dice.choice(["kill", "kill", "leave", "join", "freeze", "broker killed", "broker restarted"])
        if what in ("kill", "leave"):
            self.end(slot, kill=what == "kill")
            if self.dice.random() < 0.7 or len(self.now) < 3:
                self.start(slot)
        elif what == "join":
            for missing in sorted({"read-0", "read-1", "read-2", "copy-0", "copy-1"} - set(self.now)):
                self.start(missing)
        elif what == "freeze":
            self.now[slot].process.send_signal(signal.SIGSTOP)
            self.pass_time(self.dice.choice([0.5, 3.0]))  # shorter and longer than its session
            self.now[slot].process.send_signal(signal.SIGCONT)
        elif what == "broker killed":
            self.broker.kill()
            self.pass_time(self.dice.choice([0.0, 0.5]))
            self.broker.start()
        else:
            self.broker.stop()
            self.broker.start()

    def pass_time(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.producer.poll(0.05)

    def go(self, records: int, seconds: float) -> None:
        for slot in ("read-0", "read-1", "read-2", "copy-0", "copy-1"):
            self.start(slot)
        begin, made, trouble_at = time.monotonic(), 0, time.monotonic() + 2
        while (elapsed := time.monotonic() - begin) < seconds:
            due = int(records * elapsed / seconds)
            self.produce(due - made)
            made = due
            self.producer.poll(0.05)
            if time.monotonic() > trouble_at:
                self.trouble()
                trouble_at = time.monotonic() + self.dice.uniform(0.3, 2.5)
        assert self.producer.flush(60) == 0
        for slot in ("read-0", "copy-0"):
            if slot not in self.now:
                self.start(slot)
        self.wait(lambda: len(self.read_values()) == made, 90, "not everything was read")
        self.wait(lambda: copied(self.broker.bootstrap_servers) == self.values, 90, "the copy is not what was written")
        for slot in sorted(self.now):
            self.end(slot, kill=False)

    def wait(self, condition: object, seconds: float, otherwise: str) -> None:
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                failed = [(w.name, w.lines[-3:]) for w in self.workers()]
                raise AssertionError(f"{otherwise}; last words: {failed}")
            self.pass_time(0.1)

    def judge(self) -> None:
        history = [*self.sent, *(event for worker in self.past for event in worker.events())]
        anomalies = check(history)
        assert anomalies == []
        assert copied(self.broker.bootstrap_servers) == self.values

    def close(self) -> None:
        for slot in sorted(self.now):
            self.end(slot, kill=True)


def run(data: Path, seed: int, records: int, seconds: float) -> Chaos:
    with BrokerProcess(data, CONFIG) as broker:
        for topic in (SOURCE, TARGET):
            create_topic(broker.bootstrap_servers, topic, PARTITIONS, {})
        chaos = Chaos(broker, seed)
        try:
            chaos.go(records, seconds)
            chaos.judge()
        finally:
            chaos.close()
    return chaos


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("seed", [0, 1])
def test_consumers_that_come_and_go_lose_nothing_and_copy_exactly_once(tmp_path: Path, seed: int) -> None:
    run(tmp_path / "data", seed, records=3_000, seconds=20)


@pytest.mark.slow
@pytest.mark.timeout(1_200)
def test_five_minutes_of_consumers_that_come_and_go(tmp_path: Path) -> None:
    run(tmp_path / "data", random.randrange(10**6), records=60_000, seconds=300)
