"""A range of several partitions, given again exactly: nothing beyond a partition's end before every partition has reached its own.

    partition a  ──────▶ end │ held
    partition b  ───▶        │            a waits for b; then both go on

Owner: the source stage. No client, clock or thread in here."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from typing import Any

from streamactors.kafka.consumer_state import Delivery
from streamactors.kafka.subscriptions import TopicPartition


class ReplayedRange:
    """`until`: the position behind the last record of each partition in the range; `starts`: where each begins."""

    def __init__(self, starts: Mapping[TopicPartition, int], until: Mapping[TopicPartition, int]) -> None:
        self._until = until
        self._behind = {key for key, end in until.items() if starts.get(key, 0) < end}
        self._held: list[Delivery] = []

    @property
    def complete(self) -> bool:
        """True when every partition has reached its end: what follows needs no such care."""
        return not self._behind

    def reached(self, key: TopicPartition) -> bool:
        """True when a partition has to wait for others."""
        return key not in self._behind

    def clipped(self, key: TopicPartition, position: int) -> int:
        """Return `position`, but not beyond the partition's end in this range."""
        return min(position, self._until.get(key, position))

    def take(self, delivery: Delivery) -> list[Delivery]:
        """Records have come: return what may go on now, in order. One without records stands for a mark."""
        key = delivery.key
        if key not in self._behind:
            self._held.append(delivery)
            return []
        end = self._until[key]
        if delivery.end < end:
            return [delivery]
        records = delivery.records
        cut = bisect_left(records, end, key=_offset)
        if cut < len(records):
            self._held.append(Delivery(delivery.stage, key, delivery.epoch, records[cut:], delivery.end))
        self._behind.discard(key)
        return [Delivery(delivery.stage, key, delivery.epoch, records[:cut], end), *self._rest()]

    def at_end(self, stage: Any, key: TopicPartition, epoch: int) -> list[Delivery]:
        """A partition has nothing further: what was there before its end has been compacted away, or was no record."""
        if key not in self._behind:
            return []
        self._behind.discard(key)
        return [Delivery(stage, key, epoch, [], self._until[key]), *self._rest()]

    def _rest(self) -> list[Delivery]:
        if self._behind:
            return []
        held, self._held = self._held, []
        return held


def _offset(record: Any) -> int:
    offset: int = record.offset
    return offset
