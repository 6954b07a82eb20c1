"""How long a stream takes to begin and an element to arrive: wall time, in rounds, since the system moves threads about."""

from __future__ import annotations

import itertools
import queue
import statistics
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from benchmarks._rows import Row, first, row
from streamactors import ActorSystem, Keep, Sink, Source


def _quantiles(times: list[float]) -> str:
    ordered = sorted(times)
    return f"p50 {ordered[len(ordered) // 2] * 1e6:.0f} µs, p99 {ordered[int(len(ordered) * 0.99)] * 1e6:.0f} µs"


def _hand_overs(count: int) -> float:
    """Return how often a second a thread can hand a future to another and wait for its result: the floor of `run().result()`."""
    to_do: queue.SimpleQueue[Future[int]] = queue.SimpleQueue()

    def serve() -> None:
        for _ in range(count):
            to_do.get().set_result(1)

    threading.Thread(target=serve, daemon=True).start()
    began = time.perf_counter()
    for _ in range(count):
        future: Future[int] = Future()
        to_do.put(future)
        future.result(10)
    return count / (time.perf_counter() - began)


def _per_second(count: int, do: Callable[[int], object]) -> float:
    began = time.perf_counter()
    do(count)
    return count / (time.perf_counter() - began)


def latency(system: ActorSystem) -> list[Row]:
    one = Source.single(1).async_boundary().to_mat(Sink.head(), Keep.right)
    times = []
    for _ in range(2_000):
        began = time.perf_counter()
        one.run(system).result(10)
        times.append(time.perf_counter() - began)
    small = Source.range(0, 1).map(first).to_mat(Sink.count(), Keep.right)
    # In rounds, and not alternately: the system keeps two threads on one core or on two for a while, and a new thread changes that,
    # which changes either figure several-fold.
    one_by_one = [_per_second(1_000, lambda n: [small.run(system).result(10) for _ in range(n)]) for _ in range(5)]
    floor = [_hand_overs(1_000) for _ in range(5)]

    def all_at_once(count: int) -> None:
        for future in [small.run(system) for _ in range(count)]:
            future.result(60)

    together = [_per_second(2_000, all_at_once) for _ in range(5)]
    ratios = [ours / bare for ours, bare in zip(one_by_one, floor, strict=True)]
    return [
        row("one element: source, boundary, sink, future", _quantiles(times), "", "", None, "p50 <= 100 µs"),
        row(
            "streams of one element, run and awaited one by one",
            round(statistics.median(one_by_one)),
            "per second",
            f"a future handed to a bare thread and awaited: {statistics.median(floor):,.0f}",
            ratios,
            ">= 20,000",
        ),
        row("the same, started together", round(statistics.median(together)), "per second", "", None, ">= 20,000"),
        row(
            "an element through a boundary beside a computing map",
            _beside_a_computing_map(system),
            "",
            "",
            None,
            "reported",
        ),
    ]


def _beside_a_computing_map(system: ActorSystem) -> str:
    stop = threading.Event()

    def compute(x: int) -> int:
        return sum(i * i for i in range(2_000))

    busy = Source.repeat(1).map(compute).take_while(lambda _: not stop.is_set()).run_with(Sink.ignore(), system)
    sent: dict[int, float] = {}
    times: list[float] = []

    def stamp(i: int) -> int:
        sent[i] = time.perf_counter()
        return i

    def arrived(i: int) -> None:
        times.append(time.perf_counter() - sent[i])

    done = (
        Source.tick(0, "2ms", None)
        .zip_with_index()
        .take(800)
        .map(lambda pair: stamp(pair[1]))
        .async_boundary()
        .run_with(Sink.foreach(arrived), system)
    )
    done.result(60)
    stop.set()
    busy.result(10)
    return _quantiles(times)


def slices(system: ActorSystem) -> list[Row]:
    def run(fn: Callable[[int], Any], n: int) -> list[float]:
        arrivals: list[float] = []
        began = time.perf_counter()
        graph = Source.from_iterable(list(range(n))).map(fn).map(lambda x: x)
        graph.run_with(Sink.foreach(lambda _: arrivals.append(time.perf_counter())), system).result(120)
        return [arrivals[0] - began, *(b - a for a, b in itertools.pairwise(arrivals))]

    import random

    chance = random.Random(3)
    steady = run(lambda _: time.sleep(0.01), 200)
    slow_now = [chance.random() < 0.05 for _ in range(1_000)]
    done_at: dict[int, float] = {}

    def sometimes(i: int) -> int:
        if slow_now[i]:
            time.sleep(0.01)
        done_at[i] = time.perf_counter()
        return i

    waits: list[float] = []
    Source.from_iterable(list(range(1_000))).map(sometimes).map(lambda x: x).run_with(
        Sink.foreach(lambda i: waits.append(time.perf_counter() - done_at[i])), system
    ).result(60)
    late: list[float] = []

    def fast_then_slow(i: int) -> int:
        if i >= 20_000:
            time.sleep(0.01)
        done_at[i] = time.perf_counter()
        return i

    Source.from_iterable(list(range(20_100))).map(fast_then_slow).map(lambda x: x).run_with(
        Sink.foreach(lambda i: late.append(time.perf_counter() - done_at[i])), system
    ).result(60)
    return [
        row(
            "10 ms calls on a list: first, and longest gap",
            f"{steady[0] * 1e3:.1f}, {max(steady[1:]) * 1e3:.1f} ms",
            "",
            "",
            None,
            "<= 25 ms",
        ),
        row(
            "one call in 20 takes 10 ms: longest wait after one's own call",
            max(waits) * 1e3,
            "ms",
            "",
            None,
            "<= 30 ms",
        ),
        row("10 ms calls after 20,000 fast ones: longest wait", max(late) * 1e3, "ms", "", None, "<= 50 ms"),
    ]
