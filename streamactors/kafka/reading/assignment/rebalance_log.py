"""What has happened to a consumer's partitions: the last fifty times that some came or went, with the reason as far as the consumer knows it.

Owner: the consumer actor writes, anybody reads. A member of a group does not hear why its group rebalances; it knows only whether it caused that itself."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from streamactors.kafka.subscriptions import TopicPartition

KEPT: Final = 50
MOST_NAMES: Final = 20

JOINED: Final = "the consumer has joined its group"
CHOSEN: Final = "the program has chosen these partitions"
GROUP: Final = "the group gives its partitions out again: a member has come or gone, or a topic has changed"
STOPS: Final = "the consumer stops"
LOST: Final = "the group continues without this consumer: it was silent for session.timeout.ms, or did not poll for max.poll.interval.ms"


@dataclass(frozen=True, slots=True)
class Rebalance:
    """`kind`: assigned, revoked or lost. `partitions`: the names of the first ones of `count`. `took_ms`: how long the consumer was busy with it."""

    at_ms: int
    kind: str
    partitions: tuple[str, ...]
    count: int
    why: str
    took_ms: int


class RebalanceLog:
    """The last rebalances, the oldest first."""

    def __init__(self) -> None:
        self._kept: deque[Rebalance] = deque(maxlen=KEPT)
        self.total = 0
        """Rebalances since the start, the forgotten ones included."""

    def note(self, kind: str, keys: Sequence[TopicPartition], why: str, began_s: float) -> None:
        """Keep a rebalance that began at `began_s` of the monotonic clock, unless it was of no partition."""
        if keys:
            self.total += 1
            took_ms = max(0, int((time.monotonic() - began_s) * 1000))
            names = tuple(str(key) for key in sorted(keys)[:MOST_NAMES])
            self._kept.append(Rebalance(int(time.time() * 1000) - took_ms, kind, names, len(keys), why, took_ms))

    def __call__(self) -> tuple[Rebalance, ...]:
        """Return what is kept. Any thread."""
        return tuple(self._kept.copy())
