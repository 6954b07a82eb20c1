"""Walks over the batches of a segment's file with few reads; headers alone are read where records are not needed.

Owner: the log, under its lock, or the holder of the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from streamactors.broker.errors import CorruptMessage
from streamactors.broker.log.disk import LogFile
from streamactors.broker.records.batch import RecordBatch
from streamactors.broker.records.header import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_AT,
    MIN_LENGTH,
    SIZE_AND_LAST_OFFSET,
)

LOOK_BYTES: Final = 4096 + HEADER_SIZE
"""Size of one read of a search: the distance of two index entries plus one header."""

WALK_BYTES: Final = 1 << 20

BIG_BATCH: Final = 16 << 20
"""A batch above this size is not read at once: its size may come from a damaged header."""


def find_batch(file: LogFile, offset: int, position: int, known: int, end: int) -> tuple[int, int, int]:
    """Return (position, size, base offset) of the first batch at or after `position` that ends at or after `offset`.

    (end, 0, -1) if there is none. `known` is the last offset of the batch at `position` according to an index, -1 without
    one. Raises CorruptMessage for an impossible size, and if the first batch does not end with `known`.
    """
    chunk, chunk_at, chunk_end = b"", position, position
    while end - position >= HEADER_SIZE:
        if position + HEADER_SIZE > chunk_end:
            chunk = file.read_at(min(LOOK_BYTES, end - position), position)
            chunk_at, chunk_end = position, position + len(chunk)
            if len(chunk) < HEADER_SIZE:
                break
        base_offset, length, last_offset_delta = SIZE_AND_LAST_OFFSET.unpack_from(chunk, position - chunk_at)
        if length < MIN_LENGTH:
            raise CorruptMessage(f"{file.path}: a batch at byte {position} says it has {length} bytes")
        if known >= 0:
            if base_offset + last_offset_delta != known or chunk[position - chunk_at + MAGIC_AT] != MAGIC:
                raise CorruptMessage(f"{file.path}: no batch at byte {position} ends with offset {known}")
            known = -1
        if base_offset + last_offset_delta >= offset:
            return position, length + LOG_OVERHEAD, base_offset
        position += length + LOG_OVERHEAD
    return end, 0, -1


def walk_headers(file: LogFile, position: int, end: int) -> Iterator[tuple[int, RecordBatch]]:
    """Yield (position, header) of each batch. The records may not be in memory (see `read_batch`).

    Raises CorruptMessage for an impossible size. Stops at an incomplete batch.
    """
    chunk, chunk_at, chunk_end = b"", position, position
    while end - position >= HEADER_SIZE:
        if position + HEADER_SIZE > chunk_end:
            chunk = file.read_at(min(LOOK_BYTES, end - position), position)
            chunk_at, chunk_end = position, position + len(chunk)
            if len(chunk) < HEADER_SIZE:
                return
        header = RecordBatch(chunk, position - chunk_at)
        if header.length < MIN_LENGTH:
            raise CorruptMessage(f"{file.path}: a batch at byte {position} says it has {header.length} bytes")
        if header.size > end - position:
            return
        yield position, header
        position += header.size


def read_batch(file: LogFile, position: int, size: int) -> RecordBatch:
    """Return the complete batch. Raises CorruptMessage if the file ends before the batch."""
    data = file.read_at(size, position)
    if len(data) < size:
        raise CorruptMessage(
            f"{file.path}: the batch at byte {position} has {size} bytes, the file ends after {len(data)}"
        )
    return RecordBatch(data)


def walk_batches(file: LogFile, position: int, end: int) -> Iterator[tuple[int, RecordBatch]]:
    """Yield (position, batch) with the records in memory. Of a batch above 16 MiB only the header is in memory.

    Raises CorruptMessage for an impossible size. Stops at an incomplete batch.
    """
    chunk, chunk_at = b"", position
    while end - position >= HEADER_SIZE:
        at = position - chunk_at
        if len(chunk) - at < HEADER_SIZE:
            chunk, chunk_at, at = file.read_at(min(WALK_BYTES, end - position), position), position, 0
        _, length, _ = SIZE_AND_LAST_OFFSET.unpack_from(chunk, at)
        size = length + LOG_OVERHEAD
        if length < MIN_LENGTH:
            raise CorruptMessage(f"{file.path}: a batch at byte {position} says it has {length} bytes")
        if size > end - position:
            return
        if at + size > len(chunk) and size <= BIG_BATCH:
            chunk, chunk_at, at = file.read_at(min(max(WALK_BYTES, size), end - position), position), position, 0
            if len(chunk) < size:
                return
        yield position, RecordBatch(chunk, at)
        position += size
