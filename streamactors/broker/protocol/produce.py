"""The codec of Produce (key 0): requests are decoded without a copy of the records, responses packed at once.

Versions: 0-13. 0-2 lack the transactional id of 3 (they are older than record batches, but librdkafka up to 2.8 looks for them in
ApiVersions before it compresses); 9 flexible; 10 current leader (KIP-951); 12 as 11; 13 topic ids
instead of names (KIP-516). Source: Kafka's ProduceRequest.json and ProduceResponse.json."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from struct import Struct, error
from typing import Final, NamedTuple

from streamactors.broker.protocol.errors import MalformedMessage
from streamactors.broker.protocol.primitives import (
    INT32,
    MAX_ELEMENTS,
    array_length,
    nullable_string,
    read_array_length,
    read_nullable_bytes,
    read_nullable_string,
    read_string,
    read_uvarint,
    skip_counted,
    skip_tagged_fields,
    string,
)

FIRST_TRANSACTIONAL: Final = 3
FIRST_FLEXIBLE: Final = 9
FIRST_TOPIC_ID: Final = 13


PartitionRecords = tuple[int, memoryview | None]
"""(partition, records): records are a view into the frame, None where the client sent null."""


TopicRecords = tuple[str, bytes | None, list[PartitionRecords]]
"""(name, topic id, partitions): a name up to version 12, an id of 16 bytes from version 13 on."""


class ProduceRequest(NamedTuple):
    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: list[TopicRecords]


class RecordProblem(NamedTuple):
    """The record that caused the refusal of its batch, by its index in the batch."""

    batch_index: int
    message: str | None


class PartitionProduced(NamedTuple):
    """The answer for one partition. `leader` is (id, epoch) of the current leader, if it is another broker."""

    partition: int
    error_code: int
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    record_errors: Sequence[RecordProblem] = ()
    error_message: str | None = None
    leader: tuple[int, int] | None = None


def succeeded(partition: int, base_offset: int, log_append_time_ms: int, log_start_offset: int) -> PartitionProduced:
    """Return the answer for an appended batch, without the class's slower constructor."""
    return _new(PartitionProduced, (partition, 0, base_offset, log_append_time_ms, log_start_offset, (), None, None))


_new: Final = tuple.__new__


TopicProduced = tuple[str, bytes | None, Sequence[PartitionProduced]]
"""(name, topic id, answers by partition)."""


class ProduceResponse(NamedTuple):
    topics: Sequence[TopicProduced]
    throttle_time_ms: int = 0


def produced(topics: Sequence[TopicProduced]) -> ProduceResponse:
    """Return the response, without the class's slower constructor."""
    return _new(ProduceResponse, (topics, 0))


def decode_produce_request(view: memoryview, position: int, version: int) -> ProduceRequest:
    """Decode a request's body; views of records live as long as the frame. Raises MalformedMessage."""
    try:
        if version >= FIRST_FLEXIBLE:
            return _decode_flexible(view, position, version)
        return _decode_classic(view, position, version)
    except (IndexError, error):
        raise MalformedMessage(f"Produce version {version}: the message ends too early") from None


def _decode_flexible(view: memoryview, position: int, version: int) -> ProduceRequest:
    # Varints of one byte and empty tag blocks are read in place: there are tens of thousands of small requests a second.
    transactional_id = None
    length, acks, timeout_ms, topic_count = _START_FLEXIBLE(view, position)
    position += 8
    if length:
        transactional_id, position = read_nullable_string(view, position - 8, True)
        acks, timeout_ms, topic_count = _ACKS_FLEXIBLE.unpack_from(view, position)
        position += 7
    if topic_count > 127:
        topic_count, position = read_uvarint(view, position - 1)
    if topic_count == 0:
        raise MalformedMessage("null where the topics must be")
    limit = len(view)
    topics: list[TopicRecords] = []
    left = MAX_ELEMENTS  # topics, partitions and unknown tagged fields, all together
    for _ in range(topic_count - 1):
        name, topic_id = "", None
        if version >= FIRST_TOPIC_ID:
            topic_id = bytes(view[position : position + 16])
            position += 16
        else:
            length = view[position]
            end = position + length
            if 0 < length < 128 and end < limit:
                try:
                    name = str(view[position + 1 : end], "utf-8")
                except UnicodeDecodeError as problem:
                    raise MalformedMessage(f"a string that is not UTF-8: {problem}") from None
                position = end
            else:
                name, position = read_string(view, position, True)
        partition_count = view[position]
        position += 1
        if partition_count > 127:
            partition_count, position = read_uvarint(view, position - 1)
        elif partition_count == 0:
            raise MalformedMessage(f"null where the partitions of topic {name!r} must be")
        left -= partition_count  # the count plus one for the topic itself
        if left < 0:
            raise MalformedMessage(f"more than {MAX_ELEMENTS} topics and partitions in one request")
        partitions: list[PartitionRecords] = []
        for _ in range(partition_count - 1):
            partition, size, more = _INDEX(view, position)
            begin = position + 5
            if size > 127:
                size, begin = (size & 127 | more << 7, begin + 1) if more < 128 else read_uvarint(view, position + 4)
            records = None
            position = begin
            if size:
                position += size - 1
                if position > limit:
                    raise MalformedMessage(f"records of {size - 1} bytes where {limit - begin} are left")
                records = view[begin:position]
            partitions.append((partition, records))
            if view[position]:
                position, left = skip_counted(view, position, left)
            else:
                position += 1
        if view[position]:
            position, left = skip_counted(view, position, left)
        else:
            position += 1
        topics.append((name, topic_id, partitions))
    if view[position]:
        skip_tagged_fields(view, position)
    return _new(ProduceRequest, (transactional_id, acks, timeout_ms, topics))


def _decode_classic(view: memoryview, position: int, version: int) -> ProduceRequest:
    transactional_id = None
    if version >= FIRST_TRANSACTIONAL:
        transactional_id, position = read_nullable_string(view, position, False)
    acks, timeout_ms = _ACKS.unpack_from(view, position)
    topic_count, position = read_array_length(view, position + 6, False)
    if topic_count < 0:
        raise MalformedMessage("null where the topics must be")
    topics: list[TopicRecords] = []
    partitions_left = MAX_ELEMENTS
    for _ in range(topic_count):
        name, position = read_string(view, position, False)
        partition_count, position = read_array_length(view, position, False)
        if partition_count < 0:
            raise MalformedMessage(f"null where the partitions of topic {name!r} must be")
        partitions_left -= partition_count
        if partitions_left < 0:
            raise MalformedMessage(f"more than {MAX_ELEMENTS} partitions in one request")
        partitions: list[PartitionRecords] = []
        for _ in range(partition_count):
            (partition,) = _INT32(view, position)
            records, position = read_nullable_bytes(view, position + 4, False)
            partitions.append((partition, records))
        topics.append((name, None, partitions))
    return ProduceRequest(transactional_id, acks, timeout_ms, topics)


_INT32: Final = INT32.unpack_from
_INDEX: Final = Struct(">iBB").unpack_from  # and the first two bytes of the records' size (or one, and a tag count)
_ACKS: Final = Struct(">hi")  # acks, timeout
_START_FLEXIBLE: Final = Struct(">BhiB").unpack_from  # no transactional id, then as the next
_ACKS_FLEXIBLE: Final = Struct(">hiB")  # acks, timeout and the first byte of the number of topics
_FRAME: Final = Struct(">ii")
_FRAME_FLEXIBLE: Final = Struct(">iiB")  # with no tagged fields in the header
_THROTTLE_FLEXIBLE: Final = Struct(">iB")  # with no tagged fields after it
_PARTITION: Final = Struct(">ihq")  # versions 0-1: index, error, base offset
_PARTITION_2: Final = Struct(">ihqq")  # 2-4: log append time
_PARTITION_5: Final = Struct(">ihqqq")  # 5-: log start offset
_PARTITION_9_TO_END: Final = Struct(">ihqqqBBBBiB")  # no errors, no message, tags of the partition, the topic; throttle
_LEADER: Final = Struct(">BBBiiB")  # one tagged field: its tag, size, leader id, leader epoch, no tags within
_NO_PROBLEM_8: Final = b"\x00\x00\x00\x00\xff\xff"  # no record errors, no message
_NO_PROBLEM_9: Final = b"\x01\x00\x00"  # and no tagged fields


def encode_produce_response(response: ProduceResponse, version: int, correlation_id: int) -> bytes:
    """Return the whole response frame."""
    topics, throttle_time_ms = response
    compact = version >= FIRST_FLEXIBLE
    if len(topics) == 1 and compact and version < FIRST_TOPIC_ID:
        name, _, partitions = topics[0]
        if len(partitions) == 1:
            (partition, code, base_offset, log_append_time_ms, log_start_offset, problems, message, leader) = (
                partitions[0]
            )
            if message is None and leader is None and not problems:  # one appended batch, the most frequent answer
                topic = _single_partition_topic(name) if len(name) <= _LONGEST_KEPT else _with_one_partition(name)
                rest = _PARTITION_9_TO_END.pack(
                    partition, code, base_offset, log_append_time_ms, log_start_offset, 1, 0, 0, 0, throttle_time_ms, 0
                )
                return _FRAME_FLEXIBLE.pack(5 + len(topic) + len(rest), correlation_id, 0) + topic + rest
    parts = [b"", _array_length(len(topics), compact)]
    for name, topic_id, partitions in topics:
        encode_name = _name if len(name) <= _LONGEST_KEPT else string
        parts.append((topic_id or bytes(16)) if version >= FIRST_TOPIC_ID else encode_name(name, compact))
        parts.append(_array_length(len(partitions), compact))
        parts += [_encode_partition(partition, version) for partition in partitions]
        if compact:
            parts.append(b"\x00")
    if compact:
        parts.append(_THROTTLE_FLEXIBLE.pack(throttle_time_ms, 0))
        parts[0] = _FRAME_FLEXIBLE.pack(sum(map(len, parts)) + 5, correlation_id, 0)
    else:
        if version >= 1:
            parts.append(INT32.pack(throttle_time_ms))
        parts[0] = _FRAME.pack(sum(map(len, parts)) + 4, correlation_id)
    return b"".join(parts)


def _with_one_partition(name: str) -> bytes:
    """Return the head of a topic with one partition."""
    return b"\x02" + string(name, True) + b"\x02"


_LONGEST_KEPT: Final = 249  # the longest legal name of a topic: longer ones are not cached
_single_partition_topic = lru_cache(maxsize=4096)(_with_one_partition)
_name = lru_cache(maxsize=4096)(string)  # the few topics of a producer repeat
_array_length = lru_cache(maxsize=256)(array_length)


def _encode_partition(produced: PartitionProduced, version: int) -> bytes:
    partition, error_code, base_offset, log_append_time_ms, log_start_offset, problems, message, leader = produced
    if version >= 5:
        fixed = _PARTITION_5.pack(partition, error_code, base_offset, log_append_time_ms, log_start_offset)
        if version >= 8 and message is None and leader is None and not problems:
            return fixed + (_NO_PROBLEM_9 if version >= FIRST_FLEXIBLE else _NO_PROBLEM_8)
    elif version >= 2:
        fixed = _PARTITION_2.pack(partition, error_code, base_offset, log_append_time_ms)
    else:
        fixed = _PARTITION.pack(partition, error_code, base_offset)
    return fixed if version < 8 else fixed + _encode_problem(problems, message, leader, version)


def _encode_problem(
    problems: Sequence[RecordProblem], message: str | None, leader: tuple[int, int] | None, version: int
) -> bytes:
    compact = version >= FIRST_FLEXIBLE
    tags = b"\x00" if compact else b""
    parts = [array_length(len(problems), compact)]
    for batch_index, problem in problems:
        parts.append(INT32.pack(batch_index) + nullable_string(problem, compact) + tags)
    parts.append(nullable_string(message, compact))
    parts.append(_LEADER.pack(1, 0, 9, leader[0], leader[1], 0) if version >= 10 and leader is not None else tags)
    return b"".join(parts)
