"""What a benchmark of streams is made of: a row of the table, CPU seconds in pairs, and the functions that everything calls."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

REPEAT = 7
Row = dict[str, Any]


def first(x: int) -> int:
    return x + 1


def second(x: int) -> bool:
    return x % 2 == 0


def third(x: int) -> int:
    return x * 3


def cpu(fn: Callable[[], Any]) -> float:
    began = time.process_time()
    fn()
    return time.process_time() - began


def pairs(ours: Callable[[], Any], peer: Callable[[], Any], repeat: int = REPEAT) -> tuple[float, float, list[float]]:
    """Return (best of ours, best of the peer, ratios peer/ours), measured alternately, in CPU seconds."""
    mine, theirs = [], []
    for _ in range(repeat):
        theirs.append(cpu(peer))
        mine.append(cpu(ours))
    return min(mine), min(theirs), [b / a for a, b in zip(mine, theirs, strict=True)]


def row(name: str, value: float | str, unit: str, peer: str, ratios: list[float] | None, target: str) -> Row:
    return {
        "name": name,
        "value": round(value, 1) if isinstance(value, float) else value,
        "unit": unit,
        "peer": peer,
        "ratio": round(statistics.median(ratios), 2) if ratios else None,
        "spread": f"{min(ratios):.2f}-{max(ratios):.2f}" if ratios else "",
        "target": target,
    }


def share_row(name: str, shares: list[float], unit: str, peer: str, target: str, value: float | None = None) -> Row:
    """Return the row of a cost as a share; its value is the median of the shares, unless another is given."""
    shown = statistics.median(shares) if value is None else value
    spread = f"{min(shares):.2%} to {max(shares):.2%}"
    return {**row(name, f"{shown:.2%}", unit, peer, None, target), "spread": spread}


ELEMENTS_OF_STREAM = 12_000_000


def plain_stream(system: Any) -> None:
    """Run a stream of two islands to its end: what the live page and the metrics are measured beside."""
    from streamactors import Keep, Sink, Source

    graph = Source.range(ELEMENTS_OF_STREAM).map(first).filter(second).async_boundary().map(third)
    assert graph.to_mat(Sink.count(), Keep.right).run(system).result(300) == ELEMENTS_OF_STREAM // 2
