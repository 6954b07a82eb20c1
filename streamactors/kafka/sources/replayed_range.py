"""A range of several partitions, delivered again exactly: no record beyond the range before every partition has reached its own end.

    partition a  ──────▶ end │ held
    partition b  ───▶        │            a waits for b; then both continue

Owner: the source stage. No client, clock or thread in here."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from typing import Any

from streamactors.kafka.reading.delivery import Delivery
from streamactors.kafka.reading.feed import Feed
from streamactors.kafka.subscriptions import TopicPartition


class ReplayedRange:
    """`until`: the position after the last record of each partition in the range; `starts`: where each begins."""

    def __init__(self, starts: Mapping[TopicPartition, int], until: Mapping[TopicPartition, int]) -> None:
        self._until = until
        self._behind = {key for key, end in until.items() if starts.get(key, 0) < end}
        self._held: list[Delivery] = []

    @property
    def complete(self) -> bool:
        """True when every partition has reached its end."""
        return not self._behind

    def reached(self, key: TopicPartition) -> bool:
        """True when a partition waits for others at its end."""
        return key not in self._behind

    def clipped(self, key: TopicPartition, position: int) -> int:
        """Return `position`, or the partition's end in this range if that is lower."""
        return min(position, self._until.get(key, position))

    def take(self, delivery: Delivery) -> list[Delivery]:
        """Return what may pass now that these records have come, in order. A delivery without records stands for a mark."""
        key = delivery.key
        if key not in self._behind:
            self._held.append(delivery)
            return []
        end = self._until[key]
        if delivery.end < end:
            return [delivery]
        within = bisect_left(delivery.records, end, key=_offset)
        if within < len(delivery.records):
            delivery, beyond = delivery.cut(within)
            self._held.append(beyond)
        self._behind.discard(key)
        return [delivery._replace(end=end), *self._rest()]

    def at_end(self, feed: Feed, key: TopicPartition, epoch: int) -> list[Delivery]:
        """Return what may pass now that a partition has no further record: the ones before its end were compacted away."""
        if key not in self._behind:
            return []
        self._behind.discard(key)
        return [Delivery(feed, key, epoch, [], self._until[key]), *self._rest()]

    def _rest(self) -> list[Delivery]:
        if self._behind:
            return []
        held, self._held = self._held, []
        return held


def _offset(message: Any) -> int:
    offset: int = message.offset()
    return offset
