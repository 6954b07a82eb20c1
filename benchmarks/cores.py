"""Worker processes: elements to another process beside multiprocessing.Pipe, and a CPU-bound map on two processes.

CPU seconds are those of this process and its children, less what a run with hardly an element costs (the start of the processes). A run lasts
seconds, because the cost of a start varies by some 50 ms."""

from __future__ import annotations

import multiprocessing
import resource
import time
from collections.abc import Callable
from multiprocessing import resource_tracker
from pathlib import Path
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


def children() -> set[str]:
    """The ids of the processes that this one has started and not yet waited for."""
    return {child for task in Path("/proc/self/task").iterdir() for child in (task / "children").read_text().split()}


def measured(run: Callable[[int], Any], n: int) -> tuple[float, float]:
    """Return (CPU, wall) seconds for n elements, less what `FEW` cost.

    The CPU of a child counts when it has been waited for, which may be after the stream has completed."""
    spent = []
    for count in (FEW, n):
        before = children()
        cpu, wall = cpu_s(), time.perf_counter()
        run(count)
        took = time.perf_counter() - wall
        while children() - before:
            time.sleep(0.005)
        spent.append((cpu_s() - cpu, took))
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
    for name, element, n, peer_n, target in (
        ("64 KB of bytes to another process", BLOCK, 150_000, 150_000, "ratio >= 2"),
        ("a tuple of 3 numbers to another process", (1, 2.5, 3), 5_000_000, 300_000, "ratio >= 5"),
    ):

        def ours(count: int, element: Any = element) -> None:
            elements = Source.repeat(element).take(count).async_boundary(process=True).filter(never)
            elements.run_with(Sink.ignore(), system).result(120)

        def peer(count: int, element: Any = element) -> None:
            through_a_pipe(element, count)

        mine, theirs = [], []
        for _ in range(REPEAT):
            theirs.append(peer_n / measured(peer, peer_n)[0])
            mine.append(n / measured(ours, n)[0])
        ratios = [a / b for a, b in zip(mine, theirs, strict=True)]
        other = f"multiprocessing.Pipe {max(theirs) / 1e3:.1f} k"
        rows.append(row(f"{name}, CPU", max(mine) / 1e3, "k elements/CPU-s", other, ratios, target))
    return rows


def parallel(system: ActorSystem) -> list[Row]:
    n = 4_000
    elements = list(range(n))
    context = multiprocessing.get_context("spawn")

    def alone(count: int) -> None:
        Source.from_iterable(elements[:count]).map(spends_a_millisecond).run_with(Sink.ignore(), system).result(120)

    def both(count: int) -> None:
        source = Source.from_iterable(elements[:count]).map_parallel(spends_a_millisecond, processes=2)
        source.run_with(Sink.ignore(), system).result(120)

    def pool(count: int) -> None:
        with context.Pool(2) as workers:
            for _ in workers.imap(spends_a_millisecond, elements[:count], chunksize=5):
                pass
            workers.close()
            workers.join()

    runs: dict[Callable[[int], None], list[tuple[float, float]]] = {alone: [], both: [], pool: []}
    for _ in range(REPEAT):
        for run, found in runs.items():
            found.append(measured(run, n))
    rows = []
    for peer, called, which, target in (
        (alone, "map in one process", "wall", "ratio >= 1.8 on two idle cores"),
        (alone, "map in one process", "CPU", ""),
        (pool, "multiprocessing.Pool(2).imap", "wall", "ratio >= 1"),
        (pool, "multiprocessing.Pool(2).imap", "CPU", "ratio >= 1"),
    ):
        index = 1 if which == "wall" else 0
        mine, theirs = ([n / each[index] for each in runs[run]] for run in (both, peer))
        ratios = [a / b for a, b in zip(mine, theirs, strict=True)]
        name = f"map of about 1 ms, map_parallel on 2 processes, beside {called}, {which}"
        rows.append(row(name, max(mine), f"elements/{which}-s", f"{max(theirs):.0f}", ratios, target))
    return rows


def run() -> list[Row]:
    resource_tracker.ensure_running()  # a child that stays
    with ActorSystem("cores") as system:
        return [*boundaries(system), *parallel(system)]
