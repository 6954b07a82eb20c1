"""Produce (key 0) by hand: requests decoded without a copy of the record bytes, responses packed in one go.

Versions: 0-13. 0-2 differ from 3 only by the transactional id (they are older than record batches, but librdkafka up to
2.8 looks for them in ApiVersions before it compresses); 9 flexible; 10 current leader (KIP-951); 12 as 11; 13 topic ids
instead of names (KIP-516). Source: Kafka's ProduceRequest.json and ProduceResponse.json."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple

from streamactors.broker.protocol.errors import MalformedMessage
from streamactors.broker.protocol.primitives import (
    INT16,
    INT32,
    MAX_ELEMENTS,
    array_length,
    nullable_string,
    read_array_length,
    read_int16,
    read_int32,
    read_nullable_bytes,
    read_nullable_string,
    read_string,
    skip_tagged_fields,
    string,
    uvarint,
)

FIRST_TRANSACTIONAL: Final = 3
FIRST_FLEXIBLE: Final = 9
FIRST_TOPIC_ID: Final = 13


class PartitionRecords(NamedTuple):
    """Records for one partition: a view into the frame, None where the client sent null."""

    partition: int
    records: memoryview | None


class TopicRecords(NamedTuple):
    """Records for one topic, named (to version 12) or known by its id (16 bytes)."""

    name: str
    topic_id: bytes | None
    partitions: list[PartitionRecords]


class ProduceRequest(NamedTuple):
    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: list[TopicRecords]


class RecordProblem(NamedTuple):
    """A record that made its batch be refused, by its index in the batch."""

    batch_index: int
    message: str | None


class PartitionProduced(NamedTuple):
    """The answer for one partition. `leader` is (id, epoch) where another broker should be asked."""

    partition: int
    error_code: int
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    record_errors: Sequence[RecordProblem] = ()
    error_message: str | None = None
    leader: tuple[int, int] | None = None


class TopicProduced(NamedTuple):
    name: str
    topic_id: bytes | None
    partitions: Sequence[PartitionProduced]


class ProduceResponse(NamedTuple):
    topics: Sequence[TopicProduced]
    throttle_time_ms: int = 0


def decode_produce_request(view: memoryview, position: int, version: int) -> ProduceRequest:
    """Decode a request's body; views of records live as long as the frame. Raises MalformedMessage."""
    compact = version >= FIRST_FLEXIBLE
    by_id = version >= FIRST_TOPIC_ID
    transactional_id = None
    if version >= FIRST_TRANSACTIONAL:
        transactional_id, position = read_nullable_string(view, position, compact)
    acks, position = read_int16(view, position)
    timeout_ms, position = read_int32(view, position)
    topic_count, position = read_array_length(view, position, compact)
    topics = []
    partitions_left = MAX_ELEMENTS
    for _ in range(topic_count):
        name, topic_id = "", None
        if by_id:
            topic_id = bytes(view[position : position + 16])
            position += 16
        else:
            name, position = read_string(view, position, compact)
        partition_count, position = read_array_length(view, position, compact)
        partitions_left -= partition_count
        if partitions_left < 0:
            raise MalformedMessage(f"more than {MAX_ELEMENTS} partitions in one request")
        partitions = []
        for _ in range(partition_count):
            index, position = read_int32(view, position)
            records, position = read_nullable_bytes(view, position, compact)
            partitions.append(PartitionRecords(index, records))
            if compact:
                position = _skip_tags(view, position)
        if compact:
            position = _skip_tags(view, position)
        topics.append(TopicRecords(name, topic_id, partitions))
    if compact:
        _skip_tags(view, position)
    return ProduceRequest(transactional_id, acks, timeout_ms, topics)


def _skip_tags(view: memoryview, position: int) -> int:
    if position >= len(view):
        raise MalformedMessage("the message ends before its tagged fields")
    return position + 1 if view[position] == 0 else skip_tagged_fields(view, position)


_FRAME: Final = Struct(">ii")
_PARTITION: Final = Struct(">ihq")  # versions 0-1: index, error, base offset
_PARTITION_2: Final = Struct(">ihqq")  # 2-4: log append time
_PARTITION_5: Final = Struct(">ihqqq")  # 5-: log start offset
_LEADER: Final = Struct(">BBBiiB")  # one tagged field: its tag, size, leader id, leader epoch, no tags within


def encode_produce_response(response: ProduceResponse, version: int, correlation_id: int) -> bytes:
    """Return the whole response frame."""
    compact = version >= FIRST_FLEXIBLE
    out = bytearray(8)
    if compact:
        out.append(0)  # no tagged fields in the header
    out += array_length(len(response.topics), compact)
    for topic in response.topics:
        if version >= FIRST_TOPIC_ID:
            out += topic.topic_id or bytes(16)
        else:
            out += string(topic.name, compact)
        out += array_length(len(topic.partitions), compact)
        for partition in topic.partitions:
            _encode_partition(out, partition, version)
        if compact:
            out.append(0)
    if version >= 1:
        out += INT32.pack(response.throttle_time_ms)
    if compact:
        out.append(0)
    _FRAME.pack_into(out, 0, len(out) - 4, correlation_id)
    return bytes(out)


def _encode_partition(out: bytearray, partition: PartitionProduced, version: int) -> None:
    index, error_code, base_offset, log_append_time_ms, log_start_offset, record_errors, message, leader = partition
    if version >= 5:
        out += _PARTITION_5.pack(index, error_code, base_offset, log_append_time_ms, log_start_offset)
    elif version >= 2:
        out += _PARTITION_2.pack(index, error_code, base_offset, log_append_time_ms)
    else:
        out += _PARTITION.pack(index, error_code, base_offset)
    if version < 8:
        return
    compact = version >= FIRST_FLEXIBLE
    out += array_length(len(record_errors), compact)
    for batch_index, problem in record_errors:
        out += INT32.pack(batch_index) + nullable_string(problem, compact)
        if compact:
            out.append(0)
    out += nullable_string(message, compact)
    if version >= 10 and leader is not None:
        out += _LEADER.pack(1, 0, 9, leader[0], leader[1], 0)
    elif compact:
        out.append(0)


def encode_produce_request(request: ProduceRequest, version: int) -> bytes:
    """Encode a request's body, as a producer does (benchmarks and tests; the broker only decodes)."""
    compact = version >= FIRST_FLEXIBLE
    tags = b"\x00" if compact else b""
    parts = []
    if version >= FIRST_TRANSACTIONAL:
        parts.append(nullable_string(request.transactional_id, compact))
    parts += [INT16.pack(request.acks), INT32.pack(request.timeout_ms), array_length(len(request.topics), compact)]
    for topic in request.topics:
        parts.append((topic.topic_id or bytes(16)) if version >= FIRST_TOPIC_ID else string(topic.name, compact))
        parts.append(array_length(len(topic.partitions), compact))
        for index, records in topic.partitions:
            size = -1 if records is None else len(records)
            length = uvarint(size + 1) if compact else INT32.pack(size)
            parts += [INT32.pack(index), length, bytes(records or b""), tags]
        parts.append(tags)
    parts.append(tags)
    return b"".join(parts)
