"""The quota of changes to the metadata (`controller_mutation_rate`, KIP-599): partitions that a client creates and deletes in a second.

The data plane makes one `MutationQuota` for each request, and the controller spends from it, on its thread, as it plans the request's topics. Source:
Kafka's ControllerMutationQuotaManager and TokenBucket."""

from __future__ import annotations

import threading
from collections.abc import Callable

from streamactors.broker.errors import ErrorCode, Refusal

Spend = Callable[[int], None]
"""Takes a number of partitions from the quota. Raises Refusal if the client may change nothing now."""


def spend_freely(_partitions: int) -> None:
    """The `Spend` of a client without a quota: nothing is taken."""


class DebtBucket:
    """A token bucket that may owe: one change may take more tokens than there are, and the next is refused, or waits, until the debt is paid.

    It is refilled at a rate up to a burst, and starts full. Thread-safe."""

    def __init__(self, burst_s: float) -> None:
        self._burst_s = burst_s
        self._rate = 0.0
        self._tokens: float | None = None
        self._at_ms = 0.0
        self._lock = threading.Lock()

    def spend(self, amount: float, rate: float, now_ms: float, *, strict: bool) -> float | None:
        """Take tokens; return the time in ms until the debt is paid, 0 if there is none.

        `strict`: while there is a debt, take nothing and return None."""
        with self._lock:
            tokens = self._refilled(rate, now_ms)
            if strict and tokens < 0:
                return None
            self._tokens = tokens - amount
            return max(-self._tokens / rate * 1_000, 0.0)

    def missing_ms(self, rate: float, now_ms: float) -> float:
        """Return the time in ms until the debt is paid."""
        with self._lock:
            return max(-self._refilled(rate, now_ms) / rate * 1_000, 0.0)

    def is_as_new(self, now_ms: float) -> bool:
        """Whether the bucket is full."""
        with self._lock:
            return self._tokens is None or self._refilled(self._rate, now_ms) == self._rate * self._burst_s

    def _refilled(self, rate: float, now_ms: float) -> float:
        self._rate = rate
        burst = rate * self._burst_s
        came = burst if self._tokens is None else self._tokens + rate * (now_ms - self._at_ms) / 1_000
        self._at_ms = now_ms
        self._tokens = min(came, burst)
        return self._tokens


class MutationQuota:
    """What one request may still change."""

    def __init__(self, bucket: DebtBucket, rate: float, now_ms: Callable[[], float], *, strict: bool) -> None:
        self._bucket = bucket
        self._rate = rate
        self._now_ms = now_ms
        self._strict = strict
        self._exceeded = False

    def spend(self, partitions: int) -> None:
        """Take the partitions of one topic. Raises Refusal THROTTLING_QUOTA_EXCEEDED for a strict request above the quota."""
        missing_ms = self._bucket.spend(partitions, self._rate, self._now_ms(), strict=self._strict)
        if missing_ms is None:
            self._exceeded = True
            raise Refusal(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        if missing_ms and not self._strict:
            self._exceeded = True

    @property
    def throttle_ms(self) -> float:
        """How long the client must be silent; 0 if the request has not exceeded the quota."""
        return self._bucket.missing_ms(self._rate, self._now_ms()) if self._exceeded else 0.0
