"""Records as a poll returns them, for tests of the consumer's state."""

from __future__ import annotations

from dataclasses import dataclass

from streamactors.kafka.reading.pausing import Limits
from streamactors.kafka.subscriptions import TopicPartition

KEYS = [TopicPartition("t", n) for n in range(4)]


LIMITS = Limits(high=400_000, low=150_000, total=1_600_000, dwell_ms=100)


@dataclass(frozen=True)
class Rec:
    """A message of librdkafka's, as far as the state looks at it."""

    key: TopicPartition
    at: int

    def offset(self) -> int:
        return self.at
