"""Latency of each hop: what a LatencyMeter costs beside the same stream without one, by CPU seconds of the process, in pairs.

In ordinary use the meter costs less than repeated measurements differ by. So one row puts a stamp after every chunk, hundreds of times more often,
and divides the extra CPU time by the number of stamps. From that follows the share of a core at 20 stamps a second."""

from __future__ import annotations

import statistics
import threading
from typing import Any

from benchmarks._rows import Row, cpu, first, row, second, share_row, third
from streamactors import ActorSystem, LatencyMeter, RunnableGraph, Sink, Source
from streamactors.engine.island.run import when_idle

ELEMENTS = 1_000_000
PAIRS = 15
PER_S = 20
CHUNK = 64
"""Short chunks: the more marks there are, the more a connection has to look for stamps."""


def stream() -> RunnableGraph[Any]:
    """A source whose marks are read, two islands, seven hops."""
    source = Source.range(ELEMENTS).with_replay(on_done=lambda _: None).map(first).max_chunk(CHUNK)
    return source.async_boundary().filter(second).buffer(4_096).map(third).to(Sink.foreach(lambda _: None))


def measured(every_s: float | None) -> int:
    """Run the stream to its end; return how many stamps went all the way. None: it is not measured."""
    with ActorSystem("latency") as system:
        meter = None if every_s is None else LatencyMeter(system, every_s)
        source = stream()
        over = threading.Event()
        when_idle(system, over.set)
        source.run(system)
        assert over.wait(300)
        return sum(end.n for graph in meter.graphs() for end in graph.whole) if meter is not None else 0


def run() -> list[Row]:
    """Return the rows."""
    stamps: list[int] = []
    spent: dict[float | None, list[float]] = {None: [], 1 / PER_S: [], 0.0: []}
    for pair in range(PAIRS):
        for every in sorted(spent, key=lambda case: hash((case, pair))):  # interleaved, in an order that changes
            spent[every].append(cpu(lambda every=every: stamps.append(measured(every))))
    alone = statistics.median(spent[None])
    peer = f"not measured {ELEMENTS / alone / 1e6:.2f} M elements/CPU-s"
    least = min(spent[1 / PER_S]) / min(spent[None]) - 1  # the least disturbed run of each
    ordinary = [b / a - 1 for a, b in zip(spent[None], spent[1 / PER_S], strict=True)]
    most = max(stamps)
    each = [(b - a) / most for a, b in zip(spent[None], spent[0.0], strict=True)]
    at_20 = [cost * PER_S for cost in each]
    return [
        share_row(
            f"a stamp after every chunk of {CHUNK}, by stamps: share of a core at {PER_S} a second",
            at_20,
            "more CPU",
            peer,
            "< 1 %",
        ),
        share_row(
            f"{PER_S} stamps a second, beside the same stream: the least of each",
            ordinary,
            "more CPU",
            peer,
            "< 1 %",
            least,
        ),
        {
            **row("one stamp, seven hops", statistics.median(each) * 1e6, "µs of CPU", f"{most:,} stamps", None, ""),
            "spread": f"{min(each) * 1e6:.1f}-{max(each) * 1e6:.1f}",
        },
    ]
