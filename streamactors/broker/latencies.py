"""Spans of time in buckets that grow by a fifth: counts, percentiles and the sum of what was added since the last look.

Owner: whoever makes it; `add` may be called from several threads, and may then lose a count. No library: a bucket per fifth is exact enough for a page,
needs no memory per span, and `add` costs half a microsecond."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

_SMALLEST_NS: Final = 1_000.0
_GROWTH: Final = math.log(1.2)
_BUCKETS: Final = 128  # up to 3 hours


class Spans(NamedTuple):
    """What was added since the look before. Percentiles are the upper ends of their buckets, at most the largest span."""

    n: int
    ms_p50: float
    ms_p99: float
    ms_max: float
    ms_sum: float


class Latencies:
    """Counts of spans by length."""

    __slots__ = ("_counts", "_max_ns", "_sum_ns")

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._counts = [0] * _BUCKETS
        self._max_ns = self._sum_ns = 0

    def add(self, ns: int) -> None:
        """Count a span of so many nanoseconds."""
        bucket = 0 if ns <= _SMALLEST_NS else min(_BUCKETS - 1, int(math.log(ns / _SMALLEST_NS) / _GROWTH) + 1)
        self._counts[bucket] += 1
        self._sum_ns += ns
        if ns > self._max_ns:
            self._max_ns = ns

    def take(self) -> Spans | None:
        """Return what was added since the last call, None if nothing was."""
        counts, longest, total = self._counts, self._max_ns, self._sum_ns
        self._begin()
        n = sum(counts)
        if not n:
            return None
        return Spans(n, _ms(counts, n, 0.5, longest), _ms(counts, n, 0.99, longest), longest / 1e6, total / 1e6)


def _ms(counts: list[int], n: int, share: float, longest_ns: int) -> float:
    left = math.ceil(n * share)
    for bucket, count in enumerate(counts):
        left -= count
        if left <= 0:
            return float(min(_SMALLEST_NS * math.exp(_GROWTH * bucket), longest_ns) / 1e6)
    return longest_ns / 1e6
