"""Reads the latency of each hop of the runs. While there is a reader, the runs measure it.

Owner: the sampler, one thread."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from streamactors.dashboard.model import HopState
from streamactors.engine.hops.ledger import HopLedger
from streamactors.engine.hops.rows import ShownRow, Spread
from streamactors.engine.island.run import Meter, Run, measure_no_more, measure_runs

if TYPE_CHECKING:
    from streamactors.actors.system import ActorSystem

EVERY_MS: Final = 50.0
"""A source sends at most twenty stamps a second."""


class LatencyReader:
    """Reads the ledgers of the runs that it is asked about."""

    def __init__(self) -> None:
        self._meters: weakref.WeakKeyDictionary[ActorSystem, Meter] = weakref.WeakKeyDictionary()

    def read(self, now_s: float, runs: Iterable[Run]) -> dict[str, Any]:
        """Return `latency`."""
        rows: list[HopState] = []
        for run in runs:
            if run.system not in self._meters:
                meter = self._meters[run.system] = Meter(EVERY_MS, 1)
                measure_runs(run.system, meter)
            if run.hops is not None:
                rows += hop_states(run.hops, recent=True)
        return {"latency": tuple(rows)}

    def close(self) -> None:
        """Measure no more."""
        for system, meter in list(self._meters.items()):
            measure_no_more(system, meter)


def hop_states(ledger: HopLedger, *, recent: bool = False) -> Iterator[HopState]:
    """Yield the rows of a ledger: its hops in their order, then the whole journeys. `recent`: of the last minutes only."""
    found = ledger.read()
    for whole, rows in ((False, found.hops), (True, found.ends)):
        for place, row in enumerate(rows):
            yield _state(ledger.name, row, row.recent if recent else row.whole, place, whole)


def _state(graph: str, row: ShownRow, spread: Spread, place: int, whole: bool) -> HopState:
    worked, waited = (None, None) if whole else (spread.worked_ms, spread.waited_ms)
    return HopState(
        graph,
        row.label,
        spread.n,
        place,
        whole,
        _rounded(spread.p50_ms),
        _rounded(spread.p99_ms),
        _rounded(spread.max_ms),
        _rounded(spread.mean_ms),
        _rounded(worked),
        _rounded(waited),
        bool(row.skewed),
    )


def _rounded(ms: float | None) -> float | None:
    return None if ms is None else round(ms, 4)
