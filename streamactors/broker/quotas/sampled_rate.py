"""A rate over the last windows of time, as Kafka's `Rate` measures it. Pure: the caller brings the time.

Source: org.apache.kafka.common.metrics.stats.Rate and SampledStat; the throttle time is that of QuotaUtils."""

from __future__ import annotations

from collections import deque


class SampledRate:
    """Units per second over `windows` windows of `window_ms`. A rate that has just begun is measured as if the earlier windows were empty."""

    __slots__ = ("_last_ms", "_samples", "_window_ms", "_windows")

    def __init__(self, windows: int, window_ms: float) -> None:
        self._windows = windows
        self._window_ms = window_ms
        self._samples: deque[list[float]] = deque()  # each: its start in ms, its total
        self._last_ms = 0.0

    def record(self, value: float, now_ms: float) -> None:
        """Add a value. A negative value takes an earlier one back."""
        self._last_ms = now_ms
        samples = self._samples
        if not samples or now_ms - samples[-1][0] >= self._window_ms:
            samples.append([now_ms, 0.0])
        samples[-1][1] += value
        self._forget(now_ms)

    def per_second(self, now_ms: float) -> float:
        """Return the rate."""
        self._forget(now_ms)
        return sum(total for _, total in self._samples) / (self.span_ms(now_ms) / 1_000)

    def span_ms(self, now_ms: float) -> float:
        """Return the time that the rate covers: at least all windows but one."""
        elapsed_ms = now_ms - self._samples[0][0] if self._samples else 0.0
        full = int(elapsed_ms // self._window_ms)
        least = self._windows - 1
        if full < least:
            elapsed_ms += (least - full) * self._window_ms
        return max(elapsed_ms, self._window_ms)

    def throttle_ms(self, limit: float, now_ms: float) -> float:
        """Return how long the client must be silent so that the rate falls to the limit; 0 if it is not above the limit."""
        rate = self.per_second(now_ms)
        return (rate - limit) / limit * self.span_ms(now_ms) if rate > limit else 0.0

    def is_as_new(self, now_ms: float) -> bool:
        """Whether no window that counts has a value."""
        return now_ms - self._last_ms >= self._windows * self._window_ms

    def _forget(self, now_ms: float) -> None:
        samples = self._samples
        while samples and now_ms - samples[0][0] >= self._windows * self._window_ms:
            samples.popleft()
