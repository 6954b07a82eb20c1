"""A view of one record batch in a buffer, and the walk over a buffer of batches.

Owner: the holder of the buffer. A view copies nothing and is valid as long as the buffer. `records()` decompresses. Source: Kafka's
message format, version 2.
"""

from __future__ import annotations

from collections.abc import Iterator

from streamactors.broker.errors import CorruptMessage
from streamactors.broker.records.checksum import crc32c
from streamactors.broker.records.compression import MAX_BATCH_BYTES, Compression, decompress
from streamactors.broker.records.header import (
    ATTRIBUTES_AT,
    BATCH_HEADER,
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC,
    MIN_LENGTH,
    SIZE_AND_LAST_OFFSET,
    TRANSACTIONAL,
    Buffer,
    last_sequence,
)
from streamactors.broker.records.record import Record
from streamactors.broker.records.record_reader import read_records


class RecordBatch:
    """The batch that begins at `position` of a buffer. Raises CorruptMessage if fewer than 61 bytes follow.

    Only `ensure_valid` checks more.
    """

    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "buffer",
        "count",
        "crc",
        "last_offset_delta",
        "leader_epoch",
        "length",
        "magic",
        "max_timestamp",
        "position",
        "producer_epoch",
        "producer_id",
    )

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int

    def __init__(self, buffer: Buffer, position: int = 0) -> None:
        if len(buffer) - position < HEADER_SIZE:
            raise CorruptMessage(f"a record batch needs {HEADER_SIZE} bytes, there are {len(buffer) - position}")
        self.buffer = buffer
        self.position = position
        (
            self.base_offset,
            self.length,
            self.leader_epoch,
            self.magic,
            self.crc,
            self.attributes,
            self.last_offset_delta,
            self.base_timestamp,
            self.max_timestamp,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self.count,
        ) = BATCH_HEADER.unpack_from(buffer, position)

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return self.length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        return last_sequence(self.base_sequence, self.last_offset_delta)

    @property
    def compression(self) -> Compression:
        """Raises ValueError for a codec that does not exist."""
        return Compression(self.attributes & CODEC_MASK)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def is_log_append_time(self) -> bool:
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def delete_horizon_ms(self) -> int | None:
        """When tombstones of this batch may be dropped; None before the first compaction that saw them."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON else None

    def view(self) -> memoryview:
        """The batch's bytes, not copied."""
        return memoryview(self.buffer)[self.position : self.position + self.size]

    def ensure_valid(self) -> None:
        """Raise CorruptMessage unless magic is 2, the whole batch is in the buffer and its CRC32C is right."""
        if self.magic != MAGIC:
            raise CorruptMessage(
                f"record batch at offset {self.base_offset}: format version {self.magic}, only 2 is known"
            )
        if not MIN_LENGTH <= self.length <= len(self.buffer) - self.position - LOG_OVERHEAD:
            raise CorruptMessage(
                f"record batch at offset {self.base_offset}: its header says {self.size} bytes, "
                f"the buffer has {len(self.buffer) - self.position}"
            )
        computed = crc32c(self.view()[ATTRIBUTES_AT:])
        if computed != self.crc:
            raise CorruptMessage(
                f"record batch at offset {self.base_offset}: stored CRC {self.crc}, computed {computed}; "
                "the bytes were damaged in transit"
            )

    def payload(self, max_bytes: int = MAX_BATCH_BYTES) -> bytes:
        """Return the records' bytes, decompressed. Raises CorruptMessage if they do not decompress within max_bytes."""
        stored = self.view()[HEADER_SIZE:]
        codec = self.attributes & CODEC_MASK
        if codec == Compression.NONE:
            return bytes(stored)
        return decompress(codec, stored, max_bytes)

    def records(self) -> Iterator[Record]:
        """Yield the records. Raises CorruptMessage if the bytes do not match the header."""
        timestamp = self.max_timestamp if self.attributes & LOG_APPEND_TIME else None
        return read_records(self.payload(), self.count, self.base_offset, self.base_timestamp, timestamp)

    def __repr__(self) -> str:
        return (
            f"RecordBatch(offsets {self.base_offset}-{self.last_offset}, {self.count} records, {self.size} bytes, "
            f"producer {self.producer_id})"
        )


def iter_batches(buffer: Buffer) -> Iterator[RecordBatch]:
    """Yield the batches of a buffer. Stop at a partial batch, because a fetch may end anywhere.

    Raises CorruptMessage for an impossible size. CRCs are not checked.
    """
    position, end = 0, len(buffer)
    while end - position >= HEADER_SIZE:
        _, length, _ = SIZE_AND_LAST_OFFSET.unpack_from(buffer, position)
        if length < MIN_LENGTH:
            raise CorruptMessage(
                f"a record batch at byte {position} says it has {length} bytes; the least is {MIN_LENGTH}"
            )
        if length > end - position - LOG_OVERHEAD:
            return
        yield RecordBatch(buffer, position)
        position += length + LOG_OVERHEAD
