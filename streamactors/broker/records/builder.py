"""Builds record batches for coordinators, control markers, compaction and tests.

Owner: the caller; a builder is used once. The result is a writable bytearray, as an append to a log takes it. Source:
Kafka's message format, version 2.
"""

from __future__ import annotations

from collections.abc import Iterable

from streamactors.broker.records.compression import Compression, compress
from streamactors.broker.records.header import (
    BATCH_HEADER,
    CONTROL,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    seal,
)
from streamactors.broker.records.record import Headers, NewRecord
from streamactors.broker.records.varint import write_varint


class BatchBuilder:
    """Collects records into one batch. The first record's timestamp is the batch's base timestamp."""

    __slots__ = ("_base_timestamp", "_max_timestamp", "_records", "count")

    def __init__(self) -> None:
        self._records = bytearray()
        self._base_timestamp = NO_TIMESTAMP
        self._max_timestamp = NO_TIMESTAMP
        self.count = 0

    @property
    def size(self) -> int:
        """Bytes of the batch so far, before compression."""
        return HEADER_SIZE + len(self._records)

    def append(
        self, key: bytes | None, value: bytes | None, timestamp: int = NO_TIMESTAMP, headers: Headers = ()
    ) -> None:
        """Add a record; `timestamp` is epoch milliseconds, -1 for none."""
        if self.count == 0:
            self._base_timestamp = timestamp
        self._max_timestamp = max(self._max_timestamp, timestamp)
        write_record(self._records, timestamp - self._base_timestamp, self.count, key, value, headers)
        self.count += 1

    def build(
        self,
        *,
        base_offset: int = 0,
        leader_epoch: int = NO_LEADER_EPOCH,
        compression: Compression = Compression.NONE,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        base_sequence: int = NO_SEQUENCE,
        transactional: bool = False,
        control: bool = False,
    ) -> bytearray:
        """Return the batch. Raises ValueError without records: no client may write an empty batch."""
        if self.count == 0:
            raise ValueError("a record batch needs at least one record")
        return assemble(
            compress(compression, self._records) if compression else self._records,
            base_offset=base_offset,
            leader_epoch=leader_epoch,
            attributes=compression | (TRANSACTIONAL if transactional else 0) | (CONTROL if control else 0),
            last_offset_delta=self.count - 1,
            base_timestamp=self._base_timestamp,
            max_timestamp=self._max_timestamp,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            count=self.count,
        )


def build_batch(
    records: Iterable[NewRecord],
    *,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
    compression: Compression = Compression.NONE,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
) -> bytearray:
    """Return one batch of the records, with offsets from base_offset on."""
    builder = BatchBuilder()
    for record in records:
        builder.append(*record)
    return builder.build(
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        compression=compression,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        transactional=transactional,
    )


def write_record(
    out: bytearray,
    timestamp_delta: int,
    offset_delta: int,
    key: bytes | None,
    value: bytes | None,
    headers: Headers = (),
) -> None:
    """Append one record, preceded by its length."""
    body = bytearray(1)  # attributes: none
    write_varint(body, timestamp_delta)
    write_varint(body, offset_delta)
    for part in (key, value):
        write_varint(body, -1 if part is None else len(part))
        if part:
            body += part
    write_varint(body, len(headers))
    for name, header_value in headers:
        encoded = name.encode("utf-8", "surrogateescape")
        write_varint(body, len(encoded))
        body += encoded
        write_varint(body, -1 if header_value is None else len(header_value))
        if header_value:
            body += header_value
    write_varint(out, len(body))
    out += body


def assemble(
    payload: bytes | bytearray,
    *,
    base_offset: int,
    leader_epoch: int,
    attributes: int,
    last_offset_delta: int,
    base_timestamp: int,
    max_timestamp: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    count: int,
) -> bytearray:
    """Return header and payload (already compressed as the attributes say), with the CRC computed."""
    batch = bytearray(HEADER_SIZE + len(payload))
    batch[HEADER_SIZE:] = payload
    BATCH_HEADER.pack_into(
        batch,
        0,
        base_offset,
        len(batch) - LOG_OVERHEAD,
        leader_epoch,
        MAGIC,
        0,
        attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    )
    seal(batch)
    return batch
