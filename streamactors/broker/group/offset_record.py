"""A committed offset in `__consumer_offsets`: Kafka's OffsetCommitKey and OffsetCommitValue.

Owner: the group coordinator. Key: version (int16, 0 or 1), group, topic, partition. Value versions 0-4 are read. Version 3 is
written, or version 1 if the client sent a retention, which only version 1 has. A null value is a tombstone."""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Annotated, Final, NamedTuple

from streamactors.broker.protocol.record_schema import INT32, INT64, TEXT, Field, Versioned, structure

NO_EPOCH: Final = -1
NO_EXPIRY: Final = -1
KEY_VERSIONS: Final = (0, 1)

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_VALUE_3: Final = struct.Struct(">hqih")  # version, offset, leader epoch, length of the metadata; then the time follows


class CommittedOffset(NamedTuple):
    """The committed offset of a group for one partition."""

    offset: Annotated[int, INT64]
    leader_epoch: Annotated[int, Field(INT32, since=3)] = NO_EPOCH
    metadata: Annotated[str, TEXT] = ""
    committed_at_ms: Annotated[int, INT64] = -1
    expires_at_ms: Annotated[int, Field(INT64, since=1, until=1)] = (
        NO_EXPIRY  # only if the client sent a retention (OffsetCommit v2-4)
    )
    record_offset: int = -1  # the offset of its record in the log; the later of two commits wins


class _Key(NamedTuple):
    group_id: Annotated[str, TEXT]
    topic: Annotated[str, TEXT]
    partition: Annotated[int, INT32]


_KEY: Final = Versioned("a committed offset's key", structure(_Key), highest=max(KEY_VERSIONS))
_VALUE: Final = Versioned("a committed offset", structure(CommittedOffset), highest=4, flexible_since=4)


@lru_cache(maxsize=65_536)
def _key_prefix(group_id: str, topic: str) -> bytes:
    return _KEY.encode(_Key(group_id, topic, 0), 1)[: -_INT32.size]


def encode_offset_key(group_id: str, topic: str, partition: int) -> bytes:
    """Return the record key of a committed offset."""
    return _key_prefix(group_id, topic) + _INT32.pack(partition)


def decode_offset_key(data: bytes) -> tuple[str, str, int]:
    """Return (group, topic, partition). Raises CorruptRecord."""
    try:  # the fast path of a start; any other key takes the general decoder below
        group_end = 4 + _INT16.unpack_from(data, 2)[0]
        topic_end = group_end + 2 + _INT16.unpack_from(data, group_end)[0]
        if 4 <= group_end <= topic_end - 2 and topic_end + 4 == len(data):
            partition: int = _INT32.unpack_from(data, topic_end)[0]
            return data[4:group_end].decode(), data[group_end + 2 : topic_end].decode(), partition
    except (struct.error, UnicodeDecodeError):
        pass
    key = _KEY.decode(data)
    return key.group_id, key.topic, key.partition


def encode_offset_value(committed: CommittedOffset) -> bytes:
    """Return the record value of a committed offset."""
    if committed.expires_at_ms != NO_EXPIRY:
        return _VALUE.encode(committed, 1)
    metadata = committed.metadata.encode()
    head = _VALUE_3.pack(3, committed.offset, committed.leader_epoch, len(metadata))
    return head + metadata + _INT64.pack(committed.committed_at_ms)


def decode_offset_value(data: bytes, record_offset: int = -1) -> CommittedOffset:
    """Return the committed offset of a record. Raises CorruptRecord, also for an unknown version."""
    try:
        version, offset, leader_epoch, length = _VALUE_3.unpack_from(data)
        end = _VALUE_3.size + length
        if version == 3 and length >= 0 and end + 8 == len(data):
            metadata = data[_VALUE_3.size : end].decode() if length else ""
            return CommittedOffset(
                offset, leader_epoch, metadata, _INT64.unpack_from(data, end)[0], NO_EXPIRY, record_offset
            )
    except (struct.error, UnicodeDecodeError):
        pass
    return _VALUE.decode(data)._replace(record_offset=record_offset)
