"""The codec of Fetch (key 1): requests into flat tuples, responses into parts, with records sent from file to socket.

Versions: 4-18. 5 log start offset; 7 sessions (KIP-227); 9 leader epoch (KIP-320); 11 rack and preferred replica
(KIP-392); 12 flexible, last fetched epoch; 13 topic ids instead of names (KIP-516); 15 replica state instead of replica
id (KIP-903); 16 node endpoints; 17 and 18 tagged fields of followers. Source: Kafka's FetchRequest.json and
FetchResponse.json."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct, error
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from streamactors.broker.protocol.errors import MalformedMessage
from streamactors.broker.protocol.primitives import (
    INT32,
    MAX_ELEMENTS,
    array_length,
    read_array_length,
    read_nullable_string,
    read_string,
    read_uvarint,
    skip_counted,
    skip_tagged_fields,
    string,
    tagged_field_count,
    uvarint,
)

FIRST_FLEXIBLE: Final = 12
FIRST_TOPIC_ID: Final = 13
READ_COMMITTED: Final = 1
CONSUMER: Final = -1  # the replica id of a consumer
NO_EPOCH: Final = -1


class FetchPartition(NamedTuple):
    partition: int
    current_leader_epoch: int
    offset: int
    last_fetched_epoch: int
    log_start_offset: int
    max_bytes: int


class FetchTopic(NamedTuple):
    """The partitions of one topic, which has a name up to version 12 and an id of 16 bytes from version 13 on."""

    name: str
    topic_id: bytes | None
    partitions: list[FetchPartition]


class FetchRequest(NamedTuple):
    replica_id: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    topics: list[FetchTopic]
    rack_id: str
    replica_epoch: int = NO_EPOCH  # the broker epoch of a follower, from version 15 on
    forgotten: Sequence[
        tuple[bytes | str, list[int]]
    ] = ()  # what a session should forget: topics by id or name, and partitions


_HEAD_15: Final = Struct(">iiibii")  # max wait, min bytes, max bytes, isolation, session id, session epoch
_HEAD_7: Final = Struct(">iiiibii")  # replica id before those
_HEAD_4: Final = Struct(">iiiib")  # without a session
_PARTITION_12: Final = Struct(">iiqiqiB")  # the last byte: the count of tagged fields
_PARTITION_9: Final = Struct(">iiqqi")
_PARTITION_5: Final = Struct(">iqqi")
_PARTITION_4: Final = Struct(">iqi")
_REPLICA_STATE: Final = Struct(">iqB")
_REPLICA_STATE_TAG: Final = 1


def decode_fetch_request(view: memoryview, position: int, version: int) -> FetchRequest:
    """Decode a request's body. Raises MalformedMessage."""
    try:
        return _decode(view, position, version)
    except error:
        raise MalformedMessage(f"Fetch version {version}: the message ends too early") from None


def _decode(view: memoryview, position: int, version: int) -> FetchRequest:
    compact = version >= FIRST_FLEXIBLE
    replica_id, session_id, session_epoch = CONSUMER, 0, -1
    if version >= 15:
        max_wait_ms, min_bytes, max_bytes, isolation, session_id, session_epoch = _HEAD_15.unpack_from(view, position)
        position += _HEAD_15.size
    elif version >= 7:
        (replica_id, max_wait_ms, min_bytes, max_bytes, isolation, session_id, session_epoch) = _HEAD_7.unpack_from(
            view, position
        )
        position += _HEAD_7.size
    else:
        replica_id, max_wait_ms, min_bytes, max_bytes, isolation = _HEAD_4.unpack_from(view, position)
        position += _HEAD_4.size
    topics, position = _decode_topics(view, position, version)
    forgotten: list[tuple[bytes | str, list[int]]] = []
    if version >= 7:
        forgotten, position = _decode_forgotten(view, position, version)
    rack_id = ""
    replica_epoch = NO_EPOCH
    if version >= 11:
        rack, position = read_nullable_string(view, position, compact)
        rack_id = rack or ""
    if version >= 15:
        replica_id, replica_epoch = _read_replica_state(view, position)
    elif compact:
        skip_tagged_fields(view, position)
    return FetchRequest(
        replica_id,
        max_wait_ms,
        min_bytes,
        max_bytes,
        isolation,
        session_id,
        session_epoch,
        topics,
        rack_id,
        replica_epoch,
        forgotten,
    )


def _decode_topics(view: memoryview, position: int, version: int) -> tuple[list[FetchTopic], int]:
    compact = version >= FIRST_FLEXIBLE
    count, position = read_array_length(view, position, compact)
    if count < 0:
        raise MalformedMessage("null where the topics must be")
    topics = []
    left = MAX_ELEMENTS - count  # topics, partitions and unknown tagged fields, all together
    for _ in range(count):
        name, topic_id, position = _read_topic(view, position, version)
        partition_count, position = read_array_length(view, position, compact)
        if partition_count < 0:
            raise MalformedMessage("null where the partitions of a topic must be")
        left -= partition_count
        if left < 0:
            raise MalformedMessage(f"more than {MAX_ELEMENTS} topics and partitions in one request")
        partitions = []
        for _ in range(partition_count):
            if compact:
                *fields, tags = _PARTITION_12.unpack_from(view, position)
                partitions.append(FetchPartition._make(fields))
                position += _PARTITION_12.size
                if tags:
                    position, left = skip_counted(view, position - 1, left)
            elif version >= 9:
                index, epoch, offset, log_start, max_bytes = _PARTITION_9.unpack_from(view, position)
                partitions.append(FetchPartition(index, epoch, offset, NO_EPOCH, log_start, max_bytes))
                position += _PARTITION_9.size
            elif version >= 5:
                index, offset, log_start, max_bytes = _PARTITION_5.unpack_from(view, position)
                partitions.append(FetchPartition(index, NO_EPOCH, offset, NO_EPOCH, log_start, max_bytes))
                position += _PARTITION_5.size
            else:
                index, offset, max_bytes = _PARTITION_4.unpack_from(view, position)
                partitions.append(FetchPartition(index, NO_EPOCH, offset, NO_EPOCH, -1, max_bytes))
                position += _PARTITION_4.size
        if compact:
            position, left = skip_counted(view, position, left)
        topics.append(FetchTopic(name, topic_id, partitions))
    return topics, position


def _read_topic(view: memoryview, position: int, version: int) -> tuple[str, bytes | None, int]:
    if version >= FIRST_TOPIC_ID:
        if position + 16 > len(view):
            raise MalformedMessage("the message ends inside a topic id")
        return "", bytes(view[position : position + 16]), position + 16
    name, position = read_string(view, position, version >= FIRST_FLEXIBLE)
    return name, None, position


def _decode_forgotten(view: memoryview, position: int, version: int) -> tuple[list[tuple[bytes | str, list[int]]], int]:
    compact = version >= FIRST_FLEXIBLE
    count, position = read_array_length(view, position, compact)
    left = MAX_ELEMENTS - count
    forgotten: list[tuple[bytes | str, list[int]]] = []
    for _ in range(count):
        name, topic_id, position = _read_topic(view, position, version)
        partition_count, position = read_array_length(view, position, compact)
        size = 4 * max(partition_count, 0)
        if position + size > len(view):  # unpacking stops at the end of the message without an error
            raise MalformedMessage("the message ends inside the forgotten topics")
        indexes = [index for (index,) in INT32.iter_unpack(view[position : position + size])]
        forgotten.append((name if topic_id is None else topic_id, indexes))
        position += size
        if compact:
            position, left = skip_counted(view, position, left)
    return forgotten, position


def _read_replica_state(view: memoryview, position: int) -> tuple[int, int]:
    """Return (replica id, broker epoch)."""
    count = tagged_field_count(view, position)
    position += 1
    for _ in range(count):
        tag, position = read_uvarint(view, position)
        size, position = read_uvarint(view, position)
        if tag == _REPLICA_STATE_TAG:
            replica_id, epoch, _ = _REPLICA_STATE.unpack_from(view, position)
            return replica_id, epoch
        position += size
    return CONSUMER, NO_EPOCH


class Region(Protocol):
    """Records that the kernel sends from a file to a socket; held until released."""

    @property
    def length(self) -> int: ...

    def release(self) -> None: ...


R = TypeVar("R", bound=Region)


class PartitionFetched(NamedTuple, Generic[R]):
    """The answer for one partition. Records are bytes, or a region of a segment's file."""

    partition: int
    error_code: int
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    records: bytes | bytearray | R = b""
    aborted: Sequence[tuple[int, int]] | None = None  # (producer id, first offset); None for read_uncommitted
    preferred_replica: int = -1
    diverging: tuple[int, int] | None = None  # (epoch, end offset)
    leader: tuple[int, int] | None = None  # (id, epoch) of the current leader


class TopicFetched(NamedTuple, Generic[R]):
    name: str
    topic_id: bytes | None
    partitions: Sequence[PartitionFetched[R]]


class FetchResponse(NamedTuple, Generic[R]):
    topics: Sequence[TopicFetched[R]]
    error_code: int = 0
    session_id: int = 0
    throttle_time_ms: int = 0


_FRAME: Final = Struct(">ii")  # size, correlation id
_SESSION: Final = Struct(">hi")
_DATA_5: Final = Struct(">ihqqq")
_DATA_4: Final = Struct(">ihqq")
_ABORTED: Final = Struct(">qq")
_DIVERGING: Final = Struct(">BBiqB")
_LEADER: Final = Struct(">BBiiB")


def encode_fetch_response(response: FetchResponse[R], version: int, correlation_id: int) -> list[bytes | bytearray | R]:
    """Return the whole response frame as parts: bytes, with the regions in their places."""
    compact = version >= FIRST_FLEXIBLE
    parts: list[bytes | bytearray | R] = []
    size = 0
    out = bytearray(8)  # size and correlation id
    if compact:
        out.append(0)  # no tagged fields in the header
    out += INT32.pack(response.throttle_time_ms)
    if version >= 7:
        out += _SESSION.pack(response.error_code, response.session_id)
    out += array_length(len(response.topics), compact)
    first = out
    for topic in response.topics:
        if version >= FIRST_TOPIC_ID:
            out += topic.topic_id or bytes(16)
        else:
            out += string(topic.name, compact)
        out += array_length(len(topic.partitions), compact)
        for partition in topic.partitions:
            _encode_partition(out, partition, version)
            records = partition.records
            if isinstance(records, bytes | bytearray):
                out += uvarint(len(records) + 1) if compact else INT32.pack(len(records))
                out += records
            else:
                out += uvarint(records.length + 1) if compact else INT32.pack(records.length)
                parts.append(out)
                parts.append(records)
                size += len(out) + records.length
                out = bytearray()
            if compact:
                out += _partition_tags(partition)
        if compact:
            out.append(0)
    if compact:
        out.append(0)
    parts.append(out)
    _FRAME.pack_into(first, 0, size + len(out) - 4, correlation_id)
    return parts


def _encode_partition(out: bytearray, partition: PartitionFetched[R], version: int) -> None:
    if version >= 5:
        out += _DATA_5.pack(*partition[:5])
    else:
        out += _DATA_4.pack(*partition[:4])
    aborted = partition.aborted
    compact = version >= FIRST_FLEXIBLE
    out += array_length(-1 if aborted is None else len(aborted), compact)
    for entry in aborted or ():
        out += _ABORTED.pack(*entry)
        if compact:
            out.append(0)
    if version >= 11:
        out += INT32.pack(partition.preferred_replica)


def _partition_tags(partition: PartitionFetched[R]) -> bytes:
    if partition.diverging is None and partition.leader is None:
        return b"\x00"
    fields = []
    if partition.diverging is not None:
        fields.append(_DIVERGING.pack(0, 13, *partition.diverging, 0))
    if partition.leader is not None:
        fields.append(_LEADER.pack(1, 9, *partition.leader, 0))
    return uvarint(len(fields)) + b"".join(fields)
