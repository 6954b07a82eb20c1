"""Tells a torn tail from damage to records that were on the disk, in a log of which each batch is synced before the next one is written.

Owner: the loader, for the metadata log. Only the last batch of such a log can be torn: it is incomplete, or its end was never written and is
zero. Everything else is damage to committed records, which recovery must not remove in silence."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from streamactors.broker.records.batch import RecordBatch
from streamactors.broker.records.checksum import crc32c
from streamactors.broker.records.header import ATTRIBUTES_AT, HEADER_SIZE, MAGIC, MAGIC_AT, MIN_LENGTH

UNWRITTEN: Final = bytes(8)
"""A batch that ends so has blocks that were not written. Complete batches of the metadata end with fewer zeros."""


class KnownEnd(NamedTuple):
    """The end of a log as its epoch and offset."""

    epoch: int
    end_offset: int


def damaged_end(data: bytes, expected_offset: int, high_watermark: int, epoch: int) -> KnownEnd | None:
    """Return the former end of a log whose rest, from a bad batch on, is `data`; None if only its last batch is torn.

    The bad batch should begin at `expected_offset`. `high_watermark` is the known committed offset, `epoch` the latest one on the disk.
    Cost: reads every byte once; a start with a damaged log only."""
    later = list(_valid_batches(data, expected_offset))
    end = max([high_watermark, *(each.next_offset for each in later)])
    if later or high_watermark > expected_offset:
        return KnownEnd(max([epoch, *(each.leader_epoch for each in later)]), end)
    return KnownEnd(epoch, expected_offset + 1) if _was_whole(data) else None


def _valid_batches(data: bytes, expected_offset: int) -> Iterator[RecordBatch]:
    """Yield the batches with a right CRC, wherever they begin, the first one included: fields before the CRC can be wrong."""
    at = 0
    while (at := data.find(b"\0\0\0\0", at)) >= 0 and at + HEADER_SIZE <= len(data):  # an offset below 2**32 begins so
        batch = RecordBatch(data, at)
        if (
            data[at + MAGIC_AT] == MAGIC
            and batch.length >= MIN_LENGTH
            and batch.size <= len(data) - at
            and expected_offset <= batch.base_offset <= expected_offset + len(data)
            and crc32c(batch.view()[ATTRIBUTES_AT:]) == batch.crc
        ):
            yield batch
            at += batch.size
        else:
            at += 1


def _was_whole(data: bytes) -> bool:
    """Whether a last batch was written as a whole, and was damaged later."""
    if len(data) < HEADER_SIZE:
        return False
    batch = RecordBatch(data, 0)
    if crc32c(memoryview(data)[ATTRIBUTES_AT:]) == batch.crc:
        return True  # its length, magic or offset is wrong
    return batch.length >= MIN_LENGTH and batch.size <= len(data) and not data.endswith(UNWRITTEN)
