"""Records that must not be delivered before their due time. Their partition is paused meanwhile; all other partitions continue.

The records stay in the consumer's buffer: they are not in flight, so a rebalance does not wait for them. Pure: no client, no thread; the
wall clock is given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from streamactors.kafka.subscriptions import TopicPartition


@dataclass(frozen=True)
class DelayedTopics:
    """Topics whose records have a due time: `due_of(message)` returns it in ms since 1970, None for a record that is due at once."""

    topics: frozenset[str]
    due_of: Callable[[Any], int | None]


class Delays:
    """`until` holds the partitions that wait, each with the due time of its next record."""

    def __init__(self, delayed: DelayedTopics, wall_ms: Callable[[], float]) -> None:
        self._delayed = delayed
        self._wall_ms = wall_ms
        self.until: dict[TopicPartition, int] = {}

    def look(self) -> None:
        """Release the partitions whose next record is due now."""
        now = self._wall_ms()
        for key in [key for key, due_ms in self.until.items() if due_ms <= now]:
            del self.until[key]

    def ready(self, key: TopicPartition, messages: Sequence[Any], most: int) -> int:
        """Return how many of the next messages are due, at most `most`; the partition waits for the first that is not."""
        if key.topic not in self._delayed.topics:
            return most
        now = self._wall_ms()
        for n, message in enumerate(messages[:most]):
            due_ms = self._delayed.due_of(message)
            if due_ms is not None and due_ms > now:
                if n == 0:
                    self.until[key] = due_ms
                return n
        return most
