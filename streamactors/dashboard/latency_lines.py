"""The latency table as lines of text: each hop in its order, the sum of the hops, and the whole journeys beside it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any, Final

from streamactors.dashboard.plain_text import plain
from streamactors.engine.hops.ledger import COMMIT, COMMITTED

Json = dict[str, Any]
_HEAD: Final = ("hop", "n", "p50 ms", "p99 ms", "max ms", "mean ms", "working", "waiting")
_WIDTH: Final = 44


def latency_lines(rows: Iterable[Json]) -> Iterator[str]:
    """Yield the table of each graph. `rows`: the `latency` of a state."""
    for graph, of_graph in groupby(rows, key=lambda row: row["graph"]):
        listed = list(of_graph)
        hops = [row for row in listed if not row["whole"]]
        ends = [row for row in listed if row["whole"] and row["hop"] != COMMITTED]
        yield f"latency of {plain(graph)}"
        yield _line(_HEAD)
        for row in hops:
            yield _line((plain(row["hop"], _WIDTH), *_cells(row)))
        if hops and ends:
            yield _line(("sum of the hops of a journey", "", "", "", "", *map(_ms, sums(hops, ends))))
        for row in listed:
            if row["whole"]:
                to = "the commit" if row["hop"] == COMMITTED else f"sink {plain(row['hop'], _WIDTH - 14)}"
                yield _line((f"end to end: {to}", *_cells(row)[:5]))
        if any(row["clock_skew"] for row in listed):
            yield "  * the clock of a machine that writes records is ahead of this one: the first hop of those records is not counted"


def _cells(row: Json) -> tuple[str, ...]:
    skew = "*" if row["clock_skew"] else ""
    return (
        f"{row['n']:,}{skew}",
        *(_ms(row[name]) for name in ("p50_ms", "p99_ms", "max_ms", "mean_ms", "working_ms", "waiting_ms")),
    )


def sums(hops: list[Json], ends: list[Json]) -> tuple[float, float, float]:
    """Return the mean of all hops of a journey to a sink, and its parts: work and waiting."""
    journeys = sum(row["n"] for row in ends)
    of_sinks = [row for row in hops if row["hop"] != COMMIT]
    mean, worked, waited = (
        sum((row[name] or 0.0) * row["n"] for row in of_sinks) / journeys if journeys else 0.0
        for name in ("mean_ms", "working_ms", "waiting_ms")
    )
    return mean, worked, waited


def _ms(value: float | None) -> str:
    return "" if value is None else f"{value:,.3f}" if value < 10 else f"{value:,.1f}"


def _line(cells: tuple[str, ...]) -> str:
    first, *rest = cells
    return f"  {first:<{_WIDTH}}" + "".join(f"{cell:>12}" for cell in rest)
