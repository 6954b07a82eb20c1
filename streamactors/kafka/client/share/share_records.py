"""Reads the records of a ShareFetch answer: the locked offsets of a partition, each with its record.

Bounded by the bytes that have come: locked ranges are counted before they are expanded, and a batch is decompressed into at most 128 MiB.
A locked offset without a record within the batches is a gap. An offset after the last whole batch, or in a damaged one, is released."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from streamactors.broker.errors import CorruptMessage, UnsupportedCompressionType
from streamactors.broker.records.batch import RecordBatch, iter_batches
from streamactors.broker.records.record import Record
from streamactors.kafka.client.share.protocol import Ack, Acquired, RecordData
from streamactors.kafka.errors import KafkaError

MAX_ACQUIRED: Final = 100_000
"""The most locked offsets of one answer. A broker locks 2,000 of a partition by default, and at most 4,000 and a batch."""


class TooManyAcquired(KafkaError):
    """An answer claims more locked records than a broker locks."""


class Range(NamedTuple):
    """Locked offsets from `first` to `last`, both included."""

    first: int
    last: int
    delivery_count: int


def count_acquired(topics: Sequence[Any]) -> int:
    """Return how many offsets a decoded answer says are locked. Raises TooManyAcquired above MAX_ACQUIRED, or for a range that is none."""
    total = 0
    for topic in topics:
        for partition in topic.partitions:
            for each in partition.acquired_records:
                if each.last_offset < each.first_offset or each.first_offset < 0:
                    raise TooManyAcquired(f"the broker locks offsets {each.first_offset} to {each.last_offset}")
                total += each.last_offset - each.first_offset + 1
    if total > MAX_ACQUIRED:
        raise TooManyAcquired(f"the broker says that it has locked {total} records; {MAX_ACQUIRED} are the limit")
    return total


def read_acquired(where: str, data: bytes | None, ranges: Sequence[Range]) -> tuple[list[Acquired], str]:
    """Return the locked offsets in order, and a sentence on what could not be read (empty: nothing). `where` names the partition."""
    if not ranges:
        return [], ""
    wanted = {offset for first, last, _ in ranges for offset in range(first, last + 1)}
    highest = max(wanted)
    found: dict[int, Record] = {}
    unread: list[tuple[int, int]] = []  # offsets of damaged batches
    problem, end = "", -1
    try:
        for batch in iter_batches(data or b""):
            end = max(end, batch.last_offset)
            if batch.is_control or not _overlaps(batch, ranges):
                continue
            try:
                batch.ensure_valid()
                for record in batch.records():
                    if record.offset in wanted:
                        found[record.offset] = record
                    elif record.offset > highest:  # a broker locks a part of a batch
                        break
            except (CorruptMessage, UnsupportedCompressionType) as error:
                problem = f"{where}: records {batch.base_offset} to {batch.last_offset} are released: {error}"
                unread.append((batch.base_offset, batch.last_offset))
    except CorruptMessage as error:  # no batch can be found after this one
        problem = f"{where}: records after offset {end} are released: {error}"
    acquired = []
    for first, last, count in ranges:
        for offset in range(first, last + 1):
            read = found.get(offset)
            if read is not None:
                fields = RecordData(read.timestamp, read.key, read.value, read.headers)
                acquired.append(Acquired(offset, count, fields))
                continue
            lost = offset > end or any(low <= offset <= high for low, high in unread)
            acquired.append(Acquired(offset, count, None, Ack.RELEASE if lost else Ack.GAP))
            if lost and not problem:
                problem = f"{where}: offset {offset} is released: the broker has locked it and not sent it"
    return acquired, problem


def _overlaps(batch: RecordBatch, ranges: Sequence[Range]) -> bool:
    return any(each.first <= batch.last_offset and batch.base_offset <= each.last for each in ranges)
