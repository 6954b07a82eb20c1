"""Timers: the timing wheel beside heapq with lazy deletion, the same load in the same process.

A request every 1/density seconds sets a timer of 200 ms and cancels it when it completes, after a log-normal time with
a median of 50 or 200 ms; one slower than 200 ms lets it fire. Time is virtual, so only the structures cost.
"""

from __future__ import annotations

import random
import time
from array import array
from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from typing import Any

from streamactors.actors.dispatching.timing_wheel import TimingWheel

TIMEOUT_MS = 200.0
REQUESTS = 300_000


class LazyHeap:
    """heapq whose cancelled entries stay until they reach the top."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, list[Callable[[], object] | None]]] = []
        self._sequence = 0

    def schedule(self, deadline_ms: float, callback: Callable[[], object]) -> LazyEntry:
        entry = LazyEntry(callback)
        self._sequence += 1
        heappush(self._heap, (deadline_ms, self._sequence, entry))  # type: ignore[arg-type]
        return entry

    def advance(self, now_ms: float) -> int:
        fired, heap = 0, self._heap
        while heap and heap[0][0] <= now_ms:
            callback = heappop(heap)[2].callback  # type: ignore[attr-defined]
            if callback is not None:
                fired += 1
                callback()
        return fired


class LazyEntry:
    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], object]) -> None:
        self.callback: Callable[[], object] | None = callback

    def cancel(self) -> None:
        self.callback = None


def events(density_per_s: int, median_ms: float, requests: int) -> tuple[array[float], array[int]]:
    """Times and requests in order of time: k = request k starts, ~k = it completes."""
    rng = random.Random(7)
    step_ms = 1_000.0 / density_per_s
    todo: list[tuple[float, int]] = []
    for k in range(requests):
        start = k * step_ms
        todo.append((start, k))
        todo.append((start + median_ms * rng.lognormvariate(0, 1), ~k))
    todo.sort()
    return array("d", (when for when, _ in todo)), array("q", (what for _, what in todo))


def drive(make: Callable[[], TimingWheel | LazyHeap], todo: tuple[array[float], array[int]]) -> tuple[float, int]:
    """CPU seconds (driver included) and number of timers fired."""
    timers = make()
    schedule, advance = timers.schedule, timers.advance
    pending: list[Any] = [None] * REQUESTS
    next_tick, fired = 1.0, 0
    nothing = int
    started = time.process_time()
    for now_ms, request in zip(*todo, strict=True):
        if now_ms >= next_tick:
            fired += advance(now_ms)
            next_tick = now_ms + 1.0
        if request >= 0:
            pending[request] = schedule(now_ms + TIMEOUT_MS, nothing)
        else:
            pending[~request].cancel()
            pending[~request] = None
    return time.process_time() - started, fired


def rows() -> Iterator[dict[str, object]]:
    yield bare_row()
    for density in (50_000, 1_000_000):
        for label, median_ms in (("8 % expire", 50.0), ("50 % expire", 200.0)):
            todo = events(density, median_ms, REQUESTS)
            wheel_best = heap_best = float("inf")
            ratios = []
            for _ in range(3):
                heap_cpu, heap_fired = drive(LazyHeap, todo)
                wheel_cpu, wheel_fired = drive(lambda: TimingWheel(lambda: 0.0), todo)
                assert abs(wheel_fired - heap_fired) < 100, "both fire the same timers"
                wheel_best, heap_best = min(wheel_best, wheel_cpu), min(heap_best, heap_cpu)
                ratios.append(heap_cpu / wheel_cpu)
            yield {
                "name": f"timer set + cancelled or fired, {density:,}/s, {label}",
                "value": round(REQUESTS / wheel_best),
                "unit": "timers/CPU-s",
                "peer": f"heapq with lazy deletion: {REQUESTS / heap_best:,.0f}",
                "ratio": round(sorted(ratios)[1], 2),
                "spread": f"{min(ratios):.2f}-{max(ratios):.2f}",
                "target": ">= 1,000,000 and ratio > 1" if density == 50_000 else "ratio > 1",
            }


def bare_row() -> dict[str, object]:
    """Insert and cancel at once, nothing else: the most that the structure itself can do."""
    cpu = []
    for make in (LazyHeap, lambda: TimingWheel(lambda: 0.0)):
        best = float("inf")
        for _ in range(3):
            timers = make()
            deadlines = [k / 50.0 + TIMEOUT_MS for k in range(REQUESTS)]
            started = time.process_time()
            for k, deadline in enumerate(deadlines):
                timers.schedule(deadline, int).cancel()
                if not k % 50:
                    timers.advance(k / 50.0)
            best = min(best, time.process_time() - started)
        cpu.append(best)
    return {
        "name": "timer set and cancelled at once, 50,000/s",
        "value": round(REQUESTS / cpu[1]),
        "unit": "timers/CPU-s",
        "peer": f"heapq with lazy deletion: {REQUESTS / cpu[0]:,.0f}",
        "ratio": round(cpu[0] / cpu[1], 2),
        "target": ">= 1,000,000 and ratio > 1",
    }


def run() -> list[dict[str, object]]:
    return list(rows())


if __name__ == "__main__":
    for row in run():
        print(row)
