"""One batch of a simulated log.

Owner: the log; a batch is not changed after it was appended, except that compaction replaces it."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Final, NamedTuple

NO_PRODUCER: Final = -1
_RECORD_OVERHEAD: Final = 12
_BATCH_OVERHEAD: Final = 61

Headers = Sequence[tuple[str, bytes | None]]


Row = tuple["bytes | None", "bytes | None", int, "Headers | None"]
"""A record: key, value, timestamp in ms since 1970, and headers. A plain tuple: there are many."""


def size_of(key: bytes | None, value: bytes | None, headers: Headers | None) -> int:
    """Return the bytes that a record takes, about."""
    size = _RECORD_OVERHEAD
    if key is not None:
        size += len(key)
    if value is not None:
        size += len(value)
    for name, text in headers or ():
        size += len(name) + len(text or b"") + 2
    return size


_timestamp = itemgetter(2)


class Batch:
    """Records that were appended together. `offsets` is None while no record was compacted away: the offsets are contiguous."""

    __slots__ = (
        "append_time",
        "base_offset",
        "first_sequence",
        "last_offset",
        "leader_epoch",
        "max_timestamp",
        "offsets",
        "producer_epoch",
        "producer_id",
        "rows",
        "size",
        "transactional",
    )

    def __init__(
        self,
        rows: Sequence[Row],
        *,
        producer_id: int = NO_PRODUCER,
        producer_epoch: int = -1,
        first_sequence: int = -1,
        transactional: bool = False,
        size: int | None = None,
    ) -> None:
        """`size`: that of the records, in bytes, if the caller knows it."""
        self.rows = rows
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.first_sequence = first_sequence
        self.transactional = transactional
        self.base_offset = self.last_offset = -1
        self.leader_epoch = 0
        self.offsets: Sequence[int] | None = None
        self.append_time = False
        self.max_timestamp = max(map(_timestamp, rows), default=-1)
        if size is None:
            size = sum(size_of(key, value, headers) for key, value, _, headers in rows)
        self.size = _BATCH_OVERHEAD + size

    def at(self, base_offset: int, leader_epoch: int) -> None:
        """Give the batch its place in the log."""
        self.base_offset, self.leader_epoch = base_offset, leader_epoch
        self.last_offset = base_offset + len(self.rows) - 1

    def copy(self) -> Batch:
        """Return a batch with the same records that has no place yet: the same request may be applied twice."""
        return Batch(
            self.rows,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            first_sequence=self.first_sequence,
            transactional=self.transactional,
            size=self.size - _BATCH_OVERHEAD,
        )

    def copy_of(self, rows: Sequence[Row]) -> Batch:
        """Return this batch, at its place, with some of its records."""
        made = Batch(
            rows,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            first_sequence=self.first_sequence,
            transactional=self.transactional,
        )
        made.base_offset, made.last_offset, made.leader_epoch = self.base_offset, self.last_offset, self.leader_epoch
        made.append_time, made.max_timestamp = self.append_time, self.max_timestamp
        return made

    def numbered(self) -> Sequence[int]:
        """Return the offset of each record."""
        return range(self.base_offset, self.last_offset + 1) if self.offsets is None else self.offsets


class Marker(NamedTuple):
    """The end of a transaction in a partition."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    committed: bool


class MarkerBatch(Batch):
    """A control batch. It takes one offset and has no records for consumers."""

    __slots__ = ("marker",)

    def __init__(self, marker: Marker, wall_ms: int) -> None:
        super().__init__((), producer_id=marker.producer_id, producer_epoch=marker.producer_epoch, transactional=True)
        self.marker = marker
        self.max_timestamp = wall_ms

    def at(self, base_offset: int, leader_epoch: int) -> None:
        self.base_offset = self.last_offset = base_offset
        self.leader_epoch = leader_epoch
