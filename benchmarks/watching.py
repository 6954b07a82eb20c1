"""Watching a running stream: watchdog, snapshots and metrics, beside the same stream unwatched, by CPU seconds of the process.

In ordinary use watching costs less than repeated measurements differ by. So here the watchdog looks, and the metrics are scraped, many times more often.
The rows divide the extra CPU time by the number of looks: each look costs the same. A watchdog looks four times per `stall_after`, which
is 30 s by default."""

from __future__ import annotations

import statistics
import threading
from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType
from typing import Any

from prometheus_client.exposition import generate_latest

from benchmarks._rows import Row, cpu, first, second, share_row, third
from streamactors import Keep, RunnableGraph, Sink, Source, Watchdog
from streamactors.engine.snapshot import snapshots
from streamactors.kafka.controls.supervised import SupervisedRun
from streamactors.metrics.registry import SystemCollector, registry_of

ELEMENTS = 4_000_000
REPEAT = 15
LOOKS_PER_S = 100
SCRAPES_PER_S = 10
STALL_AFTER_S = 1
"""The watchdog of the rows; a thirtieth of the default, so that even this one is cheap."""


class Scraping:
    """A thread that takes a snapshot and scrapes the metrics of a run at a steady rate, for the length of a `with` block."""

    def __init__(self, running: SupervisedRun) -> None:
        self._running = running
        self._registry = registry_of(SystemCollector(running.system))
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.taken = 0

    def _run(self) -> None:
        while not self._over.wait(1 / SCRAPES_PER_S):
            snapshots(self._running.system)
            generate_latest(self._registry)
            self.taken += 1

    def __enter__(self) -> Scraping:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()


def stream() -> RunnableGraph[Any]:
    return Source.range(ELEMENTS).map(first).filter(second).async_boundary().map(third).to_mat(Sink.count(), Keep.right)


def unwatched() -> None:
    with SupervisedRun(stream()) as running:
        assert running.wait(120)


def with_watchdog() -> None:
    with SupervisedRun(stream()) as running, Watchdog(running.system, 4 / LOOKS_PER_S):
        assert running.wait(120)


def with_everything() -> None:
    with ExitStack() as block:
        running = block.enter_context(SupervisedRun(stream()))
        block.enter_context(Watchdog(running.system, 4 / LOOKS_PER_S))
        scraping = block.enter_context(Scraping(running))
        assert running.wait(120)
        assert scraping.taken


def run() -> list[Row]:
    """Return a row for the watchdog alone, and one for all of it."""
    spent: dict[Callable[[], None], list[float]] = {unwatched: [], with_watchdog: [], with_everything: []}
    for _ in range(REPEAT):
        for case, found in spent.items():
            found.append(cpu(case))
    peer = f"unwatched {ELEMENTS / statistics.median(spent[unwatched]) / 1e6:.1f} M elements/CPU-s"
    watchdog = [b / a - 1 for a, b in zip(spent[unwatched], spent[with_watchdog], strict=True)]
    scraping = [b / a - 1 for a, b in zip(spent[with_watchdog], spent[with_everything], strict=True)]
    looks = LOOKS_PER_S * STALL_AFTER_S / 4
    both = [a / looks + b / SCRAPES_PER_S for a, b in zip(watchdog, scraping, strict=True)]
    return [
        share_row(
            f"watchdog, stall_after={STALL_AFTER_S} s", [found / looks for found in watchdog], "more CPU", peer, "< 1 %"
        ),
        share_row("the same, with a snapshot and a scrape of the metrics each second", both, "more CPU", peer, "< 3 %"),
    ]
