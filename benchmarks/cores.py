"""Worker processes: elements to another process beside multiprocessing.Pipe, and a CPU-bound map on two processes.

CPU seconds are those of this process and its children, less what a run with hardly an element costs (the start of the processes)."""

from __future__ import annotations

import multiprocessing
import resource
import time
from collections.abc import Callable
from typing import Any

from benchmarks._rows import Row, row
from streamactors import ActorSystem, Sink, Source

REPEAT = 5
BLOCK = b"x" * 65_536
FEW = 10


def never(_: Any) -> bool:
    return False


def spends_a_millisecond(n: int) -> int:
    total = 0
    for i in range(20_000):
        total += i * n
    return total


def cpu_s() -> float:
    """The CPU seconds of this process and of those of its children that have ended."""
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(used.ru_utime + used.ru_stime for used in both)


def measured(run: Callable[[int], Any], n: int) -> tuple[float, float]:
    """Return (CPU, wall) seconds for n elements, less what `FEW` cost."""
    spent = []
    for count in (FEW, n):
        cpu, wall = cpu_s(), time.perf_counter()
        run(count)
        spent.append((cpu_s() - cpu, time.perf_counter() - wall))
    return max(1e-9, spent[1][0] - spent[0][0]), max(1e-9, spent[1][1] - spent[0][1])


def receive(pipe: Any, n: int) -> None:
    for _ in range(n):
        never(pipe.recv())
    pipe.send(n)


def receive_bytes(pipe: Any, n: int) -> None:
    for _ in range(n):
        never(pipe.recv_bytes())
    pipe.send(n)


def through_a_pipe(element: Any, n: int) -> None:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    raw = isinstance(element, bytes)
    child = context.Process(target=receive_bytes if raw else receive, args=(theirs, n))
    child.start()
    send = ours.send_bytes if raw else ours.send
    for _ in range(n):
        send(element)
    ours.recv()
    child.join()


def boundaries(system: ActorSystem) -> list[Row]:
    rows = []
    for name, element, n, target in (
        ("64 KB of bytes to another process", BLOCK, 20_000, "ratio >= 2"),
        ("a tuple of 3 numbers to another process", (1, 2.5, 3), 400_000, "ratio >= 5"),
    ):

        def ours(count: int, element: Any = element) -> None:
            elements = Source.repeat(element).take(count).async_boundary(process=True).filter(never)
            elements.run_with(Sink.ignore(), system).result(120)

        def peer(count: int, element: Any = element) -> None:
            through_a_pipe(element, count)

        mine, theirs = [], []
        for _ in range(REPEAT):
            theirs.append(measured(peer, n))
            mine.append(measured(ours, n))
        best, pipe = min(each[0] for each in mine), min(each[0] for each in theirs)
        ratios = [b[0] / a[0] for a, b in zip(mine, theirs, strict=True)]
        other = f"multiprocessing.Pipe {n / pipe / 1e3:.1f} k"
        rows.append(row(f"{name}, CPU", n / best / 1e3, "k elements/CPU-s", other, ratios, target))
    return rows


def parallel(system: ActorSystem) -> list[Row]:
    n = 1_500
    elements = list(range(n))

    def alone(count: int) -> None:
        Source.from_iterable(elements[:count]).map(spends_a_millisecond).run_with(Sink.ignore(), system).result(120)

    def both(count: int) -> None:
        source = Source.from_iterable(elements[:count]).map_parallel(spends_a_millisecond, processes=2)
        source.run_with(Sink.ignore(), system).result(120)

    mine, theirs = [], []
    for _ in range(REPEAT):
        theirs.append(measured(alone, n))
        mine.append(measured(both, n))
    rows = []
    for what, which, target in (("wall", 1, "ratio >= 1.8 on two idle cores"), ("CPU", 0, "")):
        best, one = min(each[which] for each in mine), min(each[which] for each in theirs)
        ratios = [b[which] / a[which] for a, b in zip(mine, theirs, strict=True)]
        name = f"map of about 1 ms, map_parallel on 2 processes, {what}"
        rows.append(row(name, n / best, f"elements/{what}-s", f"map in one process {n / one:.0f}", ratios, target))
    return rows


def run() -> list[Row]:
    with ActorSystem("cores") as system:
        return [*boundaries(system), *parallel(system)]
