"""The 61-byte header of a record batch, format version 2, and the fields that the broker patches.

Owner: the holder of the buffer. Layout (big-endian): base offset i64 at 0, length of what follows i32 at 8, partition
leader epoch i32 at 12, magic i8 at 16, CRC u32 at 17, attributes i16 at 21, last offset delta i32 at 23, base timestamp
i64 at 27, max timestamp i64 at 35, producer id i64 at 43, producer epoch i16 at 51, base sequence i32 at 53, record
count i32 at 57. The CRC32C covers the attributes and everything after them, so base offset and leader epoch are
assigned in place without a new CRC. Source: Kafka's message format (KIP-98, delete horizon: KIP-534).
"""

from __future__ import annotations

import struct
from typing import Final

from streamactors.broker.records.checksum import crc32c

BATCH_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
"""All thirteen fields, in order."""

HEADER_SIZE: Final = 61
LOG_OVERHEAD: Final = 12
"""Base offset and length: what precedes the part that `length` counts."""

MIN_LENGTH: Final = HEADER_SIZE - LOG_OVERHEAD
MAGIC: Final = 2
MAGIC_AT: Final = 16
CRC_AT: Final = 17
ATTRIBUTES_AT: Final = 21

SIZE_AND_LAST_OFFSET: Final = struct.Struct(">qi11xi")
"""Base offset, length and last offset delta: enough to walk over batches."""

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40
"""The base timestamp is the time at which the batch's tombstones may be dropped."""

NO_TIMESTAMP: Final = -1
NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_LEADER_EPOCH: Final = -1
MAX_SEQUENCE: Final = 2**31 - 1

Buffer = bytes | bytearray | memoryview

_U32 = struct.Struct(">I")
_I64 = struct.Struct(">q")
_I32 = struct.Struct(">i")
_I16 = struct.Struct(">h")


def assign_offset(batch: Buffer, base_offset: int, leader_epoch: int) -> None:
    """Write the base offset and the leader epoch into a writable batch. The CRC does not cover them."""
    _I64.pack_into(batch, 0, base_offset)
    _I32.pack_into(batch, 12, leader_epoch)


def assign_timestamps(batch: Buffer, attributes: int, max_timestamp: int) -> None:
    """Write the attributes and the largest timestamp into a writable batch that ends with its buffer, and compute its CRC again."""
    _I16.pack_into(batch, ATTRIBUTES_AT, attributes)
    _I64.pack_into(batch, 35, max_timestamp)
    seal(batch)


def seal(batch: Buffer) -> None:
    """Compute and write the CRC of a writable batch, whose end is the buffer's."""
    _U32.pack_into(batch, CRC_AT, crc32c(memoryview(batch)[ATTRIBUTES_AT:]))


def last_sequence(base_sequence: int, last_offset_delta: int) -> int:
    """Return the sequence number of a batch's last record; they wrap from 2^31 - 1 to 0."""
    if base_sequence < 0:
        return NO_SEQUENCE
    return (base_sequence + last_offset_delta) & MAX_SEQUENCE
