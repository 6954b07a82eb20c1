"""A sketch of durations: count, sum, maximum, and quantiles within one percent, in at most 1,600 counters however many durations it has seen.

Counters of logarithmic width, as in DDSketch. The packages `ddsketch` and `hdrhistogram` do the same, but the first brings `six` and the second a
compiled extension; the engine has no dependency, and this needs forty lines."""

from __future__ import annotations

import math
from collections import Counter
from typing import Final

GROWTH: Final = 1.02
"""Each counter is two percent wider than the one before: its middle is at most one percent from every duration in it."""
LEAST_MS: Final = 0.000_5
"""Shorter durations count as zero: the clock resolves no less."""
MOST_MS: Final = 1e10
"""Longer durations (115 days) share one counter; `max_ms` is exact all the same."""
_LOG: Final = math.log(GROWTH)


class Sketch:
    """Durations in ms. Owner: one ledger, under its lock."""

    __slots__ = ("_counters", "max_ms", "n", "total_ms", "waited_ms")

    def __init__(self) -> None:
        self.n = 0
        self.total_ms = 0.0
        self.waited_ms = 0.0
        """The part of `total_ms` that was waiting."""
        self.max_ms = 0.0
        self._counters: Counter[int | None] = Counter()  # by the logarithm; None: zero

    def add(self, ms: float, waited_ms: float = 0.0) -> None:
        """Add a duration, of which `waited_ms` were waiting."""
        self.n += 1
        self.total_ms += ms
        self.waited_ms += waited_ms
        if ms > self.max_ms:
            self.max_ms = ms
        self._counters[None if ms < LEAST_MS else math.ceil(math.log(min(ms, MOST_MS)) / _LOG)] += 1

    def merge(self, other: Sketch) -> None:
        """Add all durations of another sketch."""
        self.n += other.n
        self.total_ms += other.total_ms
        self.waited_ms += other.waited_ms
        self.max_ms = max(self.max_ms, other.max_ms)
        self._counters.update(other._counters)

    def quantile(self, share: float) -> float | None:
        """Return the duration that `share` (0 to 1) of the durations do not exceed, within one percent; None if it is empty."""
        if not self.n:
            return None
        rank = max(1, math.ceil(share * self.n))
        seen = self._counters[None]
        if seen >= rank:
            return 0.0
        for counter in sorted(each for each in self._counters if each is not None):
            seen += self._counters[counter]
            if seen >= rank:
                middle = 2.0 * GROWTH**counter / (1.0 + GROWTH)
                return min(middle, self.max_ms)
        return self.max_ms
