"""The checks of a leader before it appends a batch.

There are two levels. The header and its CRC are always checked. Every record is checked for compacted topics and with
record.validation=full. Apache Kafka always checks every record. Here this is not the default, because with 100-byte records it
costs more than the rest of a Produce request. The rules and their error codes are Kafka's (its LogValidator).
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from streamactors.broker.errors import (
    CorruptMessage,
    InvalidRecord,
    InvalidTimestamp,
    MessageTooLarge,
    NotOneBatch,
    RecordError,
    UnsupportedCompressionType,
)
from streamactors.broker.records.batch import RecordBatch
from streamactors.broker.records.checksum import crc32c
from streamactors.broker.records.compression import Compression
from streamactors.broker.records.header import (
    ATTRIBUTES_AT,
    BATCH_HEADER,
    CODEC_MASK,
    CONTROL,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC,
    NO_TIMESTAMP,
    TRANSACTIONAL,
)
from streamactors.broker.records.record_reader import walk_records

HeaderFields = tuple[int, int, int, int, int, int, int, int, int, int, int, int, int]
"""As BATCH_HEADER unpacks them."""

_SHOWN_ERRORS = 3
_MOST_ERRORS: Final = 1_000
"""Limit of listed errors: a batch of a megabyte can hold a million records. Apache Kafka lists all."""


class AppendOrigin(Enum):
    """The origin of a leader's append. It decides which checks apply."""

    CLIENT = "client"
    """A producer: everything is checked."""
    COORDINATOR = "coordinator"
    """A group or transaction coordinator of this cluster: control batches are allowed, sequences are not checked."""


# Reading a member from its enum class costs a call, and every batch needs these.
_CLIENT: Final = AppendOrigin.CLIENT
_LAST_CODEC: Final = int(Compression.ZSTD)


class TimestampBounds(NamedTuple):
    """Which CreateTime timestamps a topic accepts, in epoch milliseconds, both ends included."""

    earliest: int
    latest: int


def check_header(records: memoryview, max_message_bytes: int, origin: AppendOrigin) -> HeaderFields:
    """Return the header of the one batch that `records` must be.

    Raises InvalidRecord, InvalidTimestamp, MessageTooLarge, CorruptMessage or UnsupportedCompressionType. Costs the CRC and about 1 µs.
    """
    size = len(records)
    if size < HEADER_SIZE:
        raise NotOneBatch(f"a produce request needs one record batch per partition; {size} bytes hold none")
    fields: HeaderFields = BATCH_HEADER.unpack_from(records)
    base_offset, length, _, magic, crc, attributes, last_offset_delta, _, _, producer_id, _, base_sequence, count = (
        fields
    )
    if magic != MAGIC:
        refusal = NotOneBatch if 0 <= magic < MAGIC else CorruptMessage
        raise refusal(f"record batch of format version {magic}; only version 2 can be produced")
    if length + LOG_OVERHEAD != size:
        if HEADER_SIZE <= length + LOG_OVERHEAD < size:
            raise NotOneBatch("a produce request may have only one record batch per partition, this one has more")
        raise CorruptMessage(f"a record batch that says it has {length + LOG_OVERHEAD} bytes came with {size}")
    if size > max_message_bytes:
        raise MessageTooLarge(f"record batch of {size} bytes; max.message.bytes is {max_message_bytes}")
    computed = crc32c(records[ATTRIBUTES_AT:])
    if computed != crc:
        raise CorruptMessage(f"record is corrupt: stored CRC {crc}, computed {computed}")
    if count <= 0 or count != last_offset_delta + 1:
        raise InvalidRecord(
            f"record batch says it has {count} records, but its offsets have room for {last_offset_delta + 1}"
        )
    if attributes & CODEC_MASK > _LAST_CODEC:
        raise UnsupportedCompressionType(f"compression codec {attributes & CODEC_MASK} does not exist")
    if origin is _CLIENT:
        if base_offset != 0:
            raise InvalidRecord(f"the base offset of a produced record batch must be 0, it is {base_offset}")
        if attributes & CONTROL:
            raise InvalidRecord("clients are not allowed to write control records")
        if producer_id >= 0 and base_sequence < 0:
            raise InvalidRecord(f"invalid sequence number {base_sequence} in a batch of producer {producer_id}")
        if attributes & TRANSACTIONAL and producer_id < 0:
            raise InvalidRecord("a transactional record batch without a producer id")
        if attributes & LOG_APPEND_TIME:
            why = "a producer must not set the timestamp type to LogAppendTime"
            raise InvalidTimestamp(why, tuple(RecordError(index, why) for index in range(min(count, _SHOWN_ERRORS))))
    return fields


def check_create_time(records: memoryview, base_timestamp: int, max_timestamp: int, bounds: TimestampBounds) -> int:
    """Return the greatest timestamp: the header's, or the records' if the header's are out of bounds or contradictory. A wrong
    header would keep its segment from retention and hide it from searches by timestamp.

    Raises InvalidTimestamp, which names the records, and InvalidRecord."""
    if base_timestamp <= max_timestamp <= bounds.latest and not NO_TIMESTAMP != base_timestamp < bounds.earliest:
        return max_timestamp
    return check_records(records, keys_required=False, bounds=bounds)


def check_decompressed_size(records: memoryview, max_bytes: int) -> None:
    """Refuse a batch whose records have more than `max_bytes` bytes decompressed. Raises InvalidRecord; allocates no more than `max_bytes`."""
    try:
        RecordBatch(records).payload(max_bytes)
    except CorruptMessage as error:
        raise InvalidRecord(f"{error}; max.decompressed.message.bytes is {max_bytes}") from None


def check_records(records: memoryview, *, keys_required: bool, bounds: TimestampBounds | None) -> int:
    """Check every record of one batch. Return their greatest timestamp (-1 without one).

    Raises InvalidRecord (or InvalidTimestamp) with the index of each record that lacks a key it needs or is out of
    `bounds`, and InvalidRecord for a batch whose records do not match its header.
    """
    batch = RecordBatch(records)
    errors: list[RecordError] = []
    about_time = False
    greatest = NO_TIMESTAMP
    index = -1
    try:
        for index, span in enumerate(walk_records(batch.payload(), batch.count)):
            if span.offset_delta != index:
                raise InvalidRecord(
                    f"record {index} of the batch has offset delta {span.offset_delta}, it must be {index}"
                )
            timestamp = batch.base_timestamp + span.timestamp_delta
            if timestamp > greatest:
                greatest = timestamp
            if keys_required and span.key_size < 0:
                errors.append(RecordError(index, "compacted topic cannot accept a record without a key"))
            elif bounds is not None and timestamp != NO_TIMESTAMP and not bounds.earliest <= timestamp <= bounds.latest:
                about_time = True
                allowed = f"[{bounds.earliest}, {bounds.latest}]"
                errors.append(RecordError(index, f"timestamp {timestamp} is out of range, which is {allowed}"))
            if len(errors) == _MOST_ERRORS:
                break
    except CorruptMessage as error:
        raise InvalidRecord(f"record batch is malformed after record {index}: {error}") from None
    if about_time:
        raise InvalidTimestamp("one or more records have been rejected due to invalid timestamp", tuple(errors))
    if errors:
        shown = "; ".join(f"record {at}: {message}" for at, message in errors[:_SHOWN_ERRORS])
        total = (
            f"{len(errors)} in total"
            if len(errors) < _MOST_ERRORS
            else f"{len(errors)} before the others were looked at"
        )
        raise InvalidRecord(f"one or more records have been rejected, {total}: {shown}", tuple(errors))
    return greatest
