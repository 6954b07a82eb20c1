"""Actors: messages, creation and blocking, beside Thespian's own system bases with the same actor classes in the same
run.

Ping-pong: two actors, one message under way, so every hop is paid in full. Wall time is what a user sees; on a busy
machine the ratio to the peer is the figure to trust.
"""

from __future__ import annotations

import socket
import threading
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

from thespian.actors import Actor, ActorExitRequest, ActorSystem, ActorTypeDispatcher

from streamactors.actors.local_system import LocalSystemBase
from streamactors.actors.pool.elastic_pool import ElasticPool

ROUNDS = 3
Row = dict[str, object]


class Pong(Actor):
    """Answers with what it gets."""

    def receiveMessage(self, message: Any, sender: Any) -> None:
        if not isinstance(message, ActorExitRequest):
            self.send(sender, message)


class TypedPong(ActorTypeDispatcher):
    """The same, its handler found by type."""

    def receiveMsg_int(self, message: int, sender: Any) -> None:
        self.send(sender, message)


class Ping(Actor):
    """Told (pong, n) it exchanges n messages each way and then answers."""

    def receiveMessage(self, message: Any, sender: Any) -> None:
        if isinstance(message, int):
            if message:
                self.send(sender, message - 1)
            else:
                self.send(self.asker, "done")
        elif isinstance(message, tuple):
            self.asker = sender
            self.send(message[0], message[1])


def ping_pong_per_s(system: Any, pong_class: type[Actor], exchanges: int) -> float:
    """Messages per second of wall time, the best of the rounds."""
    ping, pong = system.createActor(Ping), system.createActor(pong_class)
    system.ask(ping, (pong, 10), 60)
    best = 0.0
    for _ in range(ROUNDS):
        started = time.perf_counter()
        assert system.ask(ping, (pong, exchanges), 120) == "done"
        best = max(best, 2 * exchanges / (time.perf_counter() - started))
    return best


def create_per_s(system: Any, count: int) -> float:
    """Actors created per second."""
    started = time.perf_counter()
    for _ in range(count):
        system.createActor(Pong)
    return count / (time.perf_counter() - started)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def message_rows() -> list[Row]:
    ours = ActorSystem(LocalSystemBase("bench"), transientUnique=True)
    simple = ActorSystem("simpleSystemBase", logDefs={"version": 1}, transientUnique=True)
    tcp = ActorSystem("multiprocTCPBase", {"Admin Port": free_port()}, logDefs={"version": 1}, transientUnique=True)
    try:
        rate = ping_pong_per_s(ours, Pong, 100_000)
        typed = ping_pong_per_s(ours, TypedPong, 100_000)
        simple_rate = ping_pong_per_s(simple, Pong, 10_000)
        simple_typed = ping_pong_per_s(simple, TypedPong, 10_000)
        tcp_rate = ping_pong_per_s(tcp, Pong, 300)
        made, simple_made, tcp_made = create_per_s(ours, 5_000), create_per_s(simple, 500), create_per_s(tcp, 20)
    finally:
        for system in (ours, simple, tcp):
            system.shutdown()
    return [
        row("ping-pong between actors", rate, "messages/s", "simpleSystemBase", simple_rate, ">= 300,000"),
        row("ping-pong between actors", rate, "messages/s", "multiprocTCPBase", tcp_rate, ">= 300,000"),
        row("ping-pong, handler by type", typed, "messages/s", "simpleSystemBase", simple_typed, ">= 300,000"),
        row("create an actor", made, "actors/s", "simpleSystemBase", simple_made, ""),
        row("create an actor", made, "actors/s", "multiprocTCPBase", tcp_made, ""),
    ]


def spawn_and_rest_row() -> Row:
    """Cells at rest: time and memory of each, and threads."""
    pool = ElasticPool("bench")
    started = time.process_time()
    cells = [pool.spawn(print, "cell") for _ in range(100_000)]
    per_cell_us = (time.process_time() - started) * 10.0
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    more = [pool.spawn(print, "cell") for _ in range(10_000)]
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    threads = pool.threads
    del cells, more
    return {
        "name": "an idle cell of the pool (the mailbox of a stream island)",
        "value": round(per_cell_us, 2),
        "unit": f"µs to make; {(after - before) // 10_000} bytes; {threads} threads for 110,000",
        "peer": "",
        "ratio": None,
        "target": "<= 3 µs, < 1 kB, no thread",
    }


def hop_rate(hops: int) -> float:
    """Messages per second between two cells of a pool."""
    pool, done = ElasticPool("hops"), threading.Event()

    def count_down(left: int) -> None:
        if left:
            other.tell(left - 1)
        else:
            done.set()

    one = pool.spawn(count_down, "one")
    other = pool.spawn(lambda left: one.tell(left), "other")
    started = time.process_time()
    one.tell(hops // 2)
    done.wait()
    rate = hops / (time.process_time() - started)
    pool.stop()
    return rate


def queue_hop_rate(hops: int) -> float:
    """The same between two threads with queues: what one would write without a pool."""
    import queue

    to_one: queue.SimpleQueue[int] = queue.SimpleQueue()
    to_other: queue.SimpleQueue[int] = queue.SimpleQueue()

    def other() -> None:
        while True:
            left = to_other.get()
            to_one.put(left)
            if left == 0:
                return

    thread = threading.Thread(target=other)
    thread.start()
    started = time.process_time()
    for left in range(hops // 2 - 1, -1, -1):
        to_other.put(left)
        to_one.get()
    cpu = time.process_time() - started
    thread.join()
    return hops / cpu


def blocked_row() -> Row:
    """How fast a cell runs while fifty others sleep."""

    def turns_in(seconds: float, sleepers: int) -> float:
        pool, stop = ElasticPool("blocked"), threading.Event()
        asleep = threading.Semaphore(0)
        for k in range(sleepers):
            pool.spawn(lambda _: (asleep.release(), stop.wait()), f"sleeper-{k}").tell(None)
        for _ in range(sleepers):
            asleep.acquire()
        turns = 0

        def receive(_: object) -> None:
            nonlocal turns
            turns += 1
            if not stop.is_set():
                cell.tell(None)

        cell = pool.spawn(receive, "free")
        cell.tell(None)
        cpu = time.process_time()
        stop.wait(seconds)
        rate = turns / (time.process_time() - cpu)
        stop.set()
        pool.stop(5)
        return rate

    turns_in(0.1, 0)
    alone, among = turns_in(0.5, 0), turns_in(0.5, 50)
    return row("turns of a cell while 50 others are blocked", among, "turns/CPU-s", "alone", alone, "ratio about 1")


def latency_row() -> Row:
    """From a thread outside to the beginning of the turn."""
    pool, delays = ElasticPool("latency"), []
    woken = threading.Event()

    def receive(sent: float) -> None:
        delays.append(time.perf_counter() - sent)
        woken.set()

    cell = pool.spawn(receive, "latency")
    for _ in range(1_000):
        woken.clear()
        cell.tell(time.perf_counter())
        woken.wait()
    pool.stop()
    delays.sort()
    return {
        "name": "tell from another thread until the turn begins",
        "value": round(delays[500] * 1e6, 1),
        "unit": f"µs p50, {delays[990] * 1e6:.0f} µs p99",
        "peer": "",
        "ratio": None,
        "target": "",
    }


def row(name: str, value: float, unit: str, peer: str, peer_value: float, target: str) -> Row:
    return {
        "name": name,
        "value": round(value),
        "unit": unit,
        "peer": f"{peer}: {peer_value:,.0f}",
        "ratio": round(value / peer_value, 2),
        "target": target,
    }


def run() -> list[Row]:
    """Return the rows."""
    quick: list[Callable[[], Row]] = [spawn_and_rest_row, blocked_row, latency_row]
    rows = message_rows()
    rows.append(
        row(
            "hop between two busy cells", hop_rate(200_000), "hops/CPU-s", "two threads and queues", queue_hop_rate(20_000),
            ">= 670,000 (1.5 µs)",
        )
    )  # fmt: skip
    return rows + [make() for make in quick]


if __name__ == "__main__":
    for line in run():
        print(line)
