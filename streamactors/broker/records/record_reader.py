"""Walk over the decompressed records of a batch.

Record: length varint, attributes i8, timestamp delta varlong, offset delta varint, key length varint (-1: null), key,
value length varint (-1: null), value, header count varint, then per header: key length, key, value length (-1), value.
All work is bounded by the available bytes, whatever the counts claim. Source: Kafka's message format, version 2.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from streamactors.broker.errors import CorruptMessage
from streamactors.broker.records.record import Headers, Record
from streamactors.broker.records.varint import read_varint

# as a named tuple's own constructor does, without its call
_new_span: Any = tuple.__new__
_new_record: Any = tuple.__new__


class RecordSpan(NamedTuple):
    """Positions of the parts of one record in the payload. A size of -1 means null."""

    start: int
    end: int
    timestamp_delta: int
    offset_delta: int
    key_at: int
    key_size: int
    value_at: int
    value_size: int
    header_count: int
    headers_at: int


def walk_records(payload: bytes, count: int) -> Iterator[RecordSpan]:
    """Yield the span of each of `count` records, after a check of its headers.

    Raises CorruptMessage if a length exceeds its record, if records are missing, or if bytes are left over.
    """
    # Varints of one byte are read inline: most are, and five calls per record would be half of the cost.
    position, size = 0, len(payload)
    start = 0
    try:
        for _ in range(count):
            start = position
            length = payload[position]
            if length < 0x80:
                length = (length >> 1) ^ -(length & 1)
                position += 1
            else:
                length, position = read_varint(payload, position)
            end = position + length
            if length < 0 or end > size:
                raise CorruptMessage(f"a record at byte {start} says it has {length} bytes, {size - position} are left")
            position += 1  # attributes: no bit of them is in use
            timestamp_delta = payload[position]
            if timestamp_delta < 0x80:
                timestamp_delta = (timestamp_delta >> 1) ^ -(timestamp_delta & 1)
                position += 1
            else:
                timestamp_delta, position = read_varint(payload, position)
            offset_delta = payload[position]
            if offset_delta < 0x80:
                offset_delta = (offset_delta >> 1) ^ -(offset_delta & 1)
                position += 1
            else:
                offset_delta, position = read_varint(payload, position)
            key_size = payload[position]
            if key_size < 0x80:
                key_size = (key_size >> 1) ^ -(key_size & 1)
                position += 1
            else:
                key_size, position = read_varint(payload, position)
            key_at = position
            if key_size > 0:
                position += key_size
            value_size = payload[position]
            if value_size < 0x80:
                value_size = (value_size >> 1) ^ -(value_size & 1)
                position += 1
            else:
                value_size, position = read_varint(payload, position)
            value_at = position
            if value_size > 0:
                position += value_size
            header_count = payload[position]
            if header_count == 0:
                headers_at = position = position + 1
            else:
                header_count, headers_at = read_varint(payload, position)
                position = _skip_headers(payload, headers_at, end, header_count)
            if position != end or key_size < -1 or value_size < -1:
                raise CorruptMessage(f"the record at byte {start} has {length} bytes; its parts end elsewhere")
            yield _new_span(
                RecordSpan,
                (
                    start,
                    end,
                    timestamp_delta,
                    offset_delta,
                    key_at,
                    key_size,
                    value_at,
                    value_size,
                    header_count,
                    headers_at,
                ),
            )
    except IndexError:
        raise CorruptMessage(f"a record at byte {start} runs past the end of its batch ({size} bytes)") from None
    if position != size:
        raise CorruptMessage(f"{size - position} bytes follow the {count} records that the batch promises")


def read_records(
    payload: bytes, count: int, base_offset: int, base_timestamp: int, log_append_time: int | None = None
) -> Iterator[Record]:
    """Yield the records of a decompressed payload; all have `log_append_time` if it is given."""
    for (
        _,
        _,
        timestamp_delta,
        offset_delta,
        key_at,
        key_size,
        value_at,
        value_size,
        header_count,
        headers_at,
    ) in walk_records(payload, count):
        yield _new_record(
            Record,
            (
                base_offset + offset_delta,
                base_timestamp + timestamp_delta if log_append_time is None else log_append_time,
                payload[key_at : key_at + key_size] if key_size >= 0 else None,
                payload[value_at : value_at + value_size] if value_size >= 0 else None,
                _read_headers(payload, headers_at, header_count) if header_count else (),
            ),
        )


def _varint(data: bytes, position: int) -> tuple[int, int]:
    byte = data[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    return read_varint(data, position)


def _skip_headers(payload: bytes, position: int, end: int, count: int) -> int:
    if count < 0 or 2 * count > end - position:  # a header takes two bytes at least; nothing is allocated by the count
        raise CorruptMessage(f"a record says it has {count} headers in {end - position} bytes")
    for _ in range(count):
        size, position = _varint(payload, position)
        if size < 0:
            raise CorruptMessage("a record header without a key")
        position += size
        size, position = _varint(payload, position)
        if size < -1:
            raise CorruptMessage(f"a record header's value of {size} bytes")
        position += max(size, 0)
        if position > end:
            raise CorruptMessage(f"a record's headers end {position - end} bytes after the record")
    return position


def _read_headers(payload: bytes, position: int, count: int) -> Headers:
    headers = []
    for _ in range(count):
        size, position = _varint(payload, position)
        key = payload[position : position + size].decode("utf-8", "surrogateescape")
        size, position = _varint(payload, position + size)
        headers.append((key, payload[position : position + size] if size >= 0 else None))
        position += max(size, 0)
    return tuple(headers)
