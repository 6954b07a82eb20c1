"""TokenBucket: how long an element must wait so that a rate is kept. Pure: the caller passes the time.

The bucket gets one token every `interval_ms`, holds at most `capacity` and begins full."""

from __future__ import annotations

from math import inf

_ROUNDING = 1e-9


class TokenBucket:
    """Times are in ms, tokens may be fractions."""

    __slots__ = ("_at_ms", "_tokens", "capacity", "interval_ms")

    def __init__(self, capacity: float, interval_ms: float, now_ms: float) -> None:
        self.capacity = capacity
        self.interval_ms = interval_ms
        self._tokens = float(capacity)
        self._at_ms = now_ms

    def available(self, now_ms: float) -> float:
        """Return the number of tokens in the bucket."""
        gained = (now_ms - self._at_ms) / self.interval_ms
        if gained > 0:
            self._tokens = min(self.capacity, self._tokens + gained)
            self._at_ms = now_ms
        return self._tokens + _ROUNDING

    def offer(self, cost: float, now_ms: float) -> float:
        """Take the tokens for an element; return for how many ms it must wait. 0: it may pass now.

        While the element waits the bucket collects its whole cost, which may exceed the capacity; offer no other element meanwhile."""
        if not 0 <= cost < inf:
            raise ValueError(f"the cost of an element must be a finite number of at least 0, got {cost!r}")
        missing = cost - self.available(now_ms)
        if missing <= 0:
            self._tokens = max(0.0, self._tokens - cost)
            return 0.0
        delay_ms = missing * self.interval_ms
        self._tokens = 0.0
        self._at_ms = now_ms + delay_ms
        return delay_ms
