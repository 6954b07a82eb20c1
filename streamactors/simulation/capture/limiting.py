"""Keeping what is captured within its limits: when there is too much, the oldest records of the span are left out.

Owner: one capture. Memory is bounded by the limits, however much is read."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Final, NamedTuple

from streamactors.kafka.subscriptions import TopicPartition
from streamactors.simulation.capture.capsule import CapturedRecord

_OVERHEAD: Final = 64
"""Bytes that a record takes beside its key, value and headers."""


class Limits(NamedTuple):
    """The most that a capsule takes: bytes of keys, values and headers, and records. State counts for itself, with the same limits."""

    bytes: int = 64 << 20
    records: int = 1_000_000


def weight(record: CapturedRecord) -> int:
    """Return the bytes that a record counts."""
    return record.size + _OVERHEAD


class Spans:
    """The records of the span, by partition."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._kept: dict[TopicPartition, deque[CapturedRecord]] = {}
        self._heads: list[
            tuple[int, TopicPartition]
        ] = []  # the time of the oldest record of each partition that has one
        self._bytes = self._records = 0
        self.cut: dict[TopicPartition, int] = {}
        """How many records were left out."""

    def add(self, key: TopicPartition, record: CapturedRecord) -> None:
        """Keep a record; leave out the oldest one while there is too much."""
        kept = self._kept.setdefault(key, deque())
        if not kept:
            heappush(self._heads, (record.timestamp_ms, key))
        kept.append(record)
        self._bytes += weight(record)
        self._records += 1
        while self._records > self._limits.records or self._bytes > self._limits.bytes:
            self._cut_oldest()

    def _cut_oldest(self) -> None:
        _, key = heappop(self._heads)
        kept = self._kept[key]
        self._bytes -= weight(kept.popleft())
        self._records -= 1
        self.cut[key] = self.cut.get(key, 0) + 1
        if kept:
            heappush(self._heads, (kept[0].timestamp_ms, key))

    def of(self, key: TopicPartition) -> tuple[CapturedRecord, ...]:
        """Return the records of a partition that are kept."""
        return tuple(self._kept.get(key, ()))


@dataclass
class NewestByKey:
    """The newest record of each key of a partition: before an offset, and, if `after` is set, from it on."""

    begin: int
    after: bool
    before: dict[bytes | None, CapturedRecord] = field(default_factory=dict)
    since: dict[bytes | None, CapturedRecord] = field(default_factory=dict)

    def add(self, record: CapturedRecord) -> int:
        """Keep a record. Returns the bytes that it adds."""
        newest = self.before if record.offset < self.begin else self.since
        if record.offset >= self.begin and not self.after:
            return 0
        old = newest.pop(record.key, None)
        newest[record.key] = record
        return weight(record) - (0 if old is None else weight(old))

    @property
    def records(self) -> list[CapturedRecord]:
        """The records in the order of their offsets."""
        return sorted([*self.before.values(), *self.since.values()], key=lambda record: record.offset)
