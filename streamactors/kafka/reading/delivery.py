"""Delivery: consecutive records of one partition on their way from the consumer actor to a source; and the partition that buffers them.

A delivery is cut here and nowhere else: by the consumer where demand is smaller, by a feed where downstream asks for less, by a source
whose fused steps stop early, and at the end of a repeated range."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from streamactors.kafka.subscriptions import TopicPartition


class Delivery(NamedTuple):
    """Records of one assignment. The records are librdkafka's messages; the source wraps them once, when it pushes them."""

    feed: Any
    """The feed that gets the records."""
    key: TopicPartition
    epoch: int
    records: list[Any]
    """Empty when the partition's end was reached, and only offsets without records lay before it."""
    end: int
    """The position after the last record; offsets that are missing in the log are included."""
    size: int = 0
    """Estimated bytes."""
    after: int | None = None
    """The position after the last record that was delivered, where `records` is empty; None if none was delivered."""
    polled_ms: float = 0.0
    """When the poll returned that brought the records; of the system's monotonic clock."""

    def cut(self, n: int) -> tuple[Delivery, Delivery]:
        """Return the first n records and the rest, which must not be empty."""
        records = self.records
        rest = records[n:]
        share = self.size * n // len(records)
        return (
            self._replace(records=records[:n], end=rest[0].offset(), size=share),
            self._replace(records=rest, size=self.size - share),
        )


@dataclass(slots=True)
class AssignedPartition:
    """One assignment of a partition."""

    key: TopicPartition
    epoch: int
    feed: Any  # gets the records
    chunks: deque[Delivery] = field(default_factory=deque)  # read and not delivered
    buffered: int = 0  # records in chunks
    size: int = 0  # bytes in chunks
    position: int | None = None  # after the last record delivered
    fetched: int | None = None  # after the last record read
    paused: bool = False  # as told to the client
    over_since: float | None = None  # above the limit of its buffer since
    at_end: bool = False  # the broker has no further record
    silent_since: float | None = None  # at its end, with demand, since
    idle_said: float | None = None  # when the source heard last that the partition is idle
    stop_at: int | None = None  # a bounded read ends here

    @property
    def has_come(self) -> bool:
        """True when something of the partition was read: a record, or its end."""
        return self.position is not None or bool(self.chunks) or self.at_end
