"""The rows of a ledger: one sketch per hop, and one per way from the first hop to the end of a sink."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from streamactors.engine.hops.sketch import Sketch

RECENT_MS: Final = 60_000.0
"""The recent sketches cover the last one to two minutes."""


@dataclass(frozen=True, slots=True)
class Spread:
    """A sketch as it is shown, in ms. `waited_ms` and `worked_ms` are the two parts of the mean. None: no journey."""

    n: int
    p50_ms: float | None
    p99_ms: float | None
    max_ms: float | None
    mean_ms: float | None
    waited_ms: float | None
    worked_ms: float | None

    @staticmethod
    def of(sketch: Sketch) -> Spread:
        """Return what a sketch says."""
        n, waited = sketch.n, sketch.waited_ms
        if not n:
            return Spread(0, None, None, None, None, None, None)
        mean, worked = sketch.total_ms / n, max(0.0, sketch.total_ms - waited) / n
        return Spread(n, sketch.quantile(0.5), sketch.quantile(0.99), sketch.max_ms, mean, waited / n, worked)


@dataclass(frozen=True, slots=True)
class ShownRow:
    """A row at one moment. `skewed`: journeys whose first hop is not known, because two clocks disagree."""

    label: str
    whole: Spread
    recent: Spread
    skewed: int


class HopRow:
    """One hop. `order`: its place in the longest journey. The recent past is kept apart, for a page that is open for days."""

    __slots__ = ("_newer", "_older", "_turned_ms", "label", "order", "skewed", "whole")

    def __init__(self, label: str, now_ms: float) -> None:
        self.label = label
        self.order = 0
        self.whole = Sketch()
        self.skewed = 0
        self._turned_ms = now_ms
        self._newer = Sketch()
        self._older = Sketch()

    def add(self, waited_ms: float, worked_ms: float, now_ms: float) -> None:
        """Add the time of one journey."""
        self._turn(now_ms)
        for sketch in (self.whole, self._newer):
            sketch.add(waited_ms + worked_ms, waited_ms)

    def _turn(self, now_ms: float) -> None:
        """Forget what is older than the recent past."""
        past_ms = now_ms - self._turned_ms
        if past_ms >= RECENT_MS:
            self._older = self._newer if past_ms < 2 * RECENT_MS else Sketch()
            self._newer = Sketch()
            self._turned_ms = now_ms

    def shown(self, now_ms: float) -> ShownRow:
        """Return the row as it is now."""
        self._turn(now_ms)
        recent = Sketch()
        recent.merge(self._older)
        recent.merge(self._newer)
        return ShownRow(self.label, Spread.of(self.whole), Spread.of(recent), self.skewed)
