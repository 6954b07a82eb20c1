"""A committed offset in `__consumer_offsets`: Kafka's OffsetCommitKey and OffsetCommitValue.

Owner: the group coordinator. Key: version (int16, 0 or 1), group, topic, partition. Value versions 0-4 are read,
as Apache Kafka wrote them over the years; 3 is written (1 where the client named its own retention, which only 1
can hold). A null value is a tombstone: the offset is deleted."""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Final, NamedTuple

from streamactors.broker.coordinator.record_codec import CorruptRecord, Reader, Writer

NO_EPOCH: Final = -1
NO_EXPIRY: Final = -1
KEY_VERSIONS: Final = (0, 1)

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_VALUE_3: Final = struct.Struct(
    ">hqih"
)  # version, offset, leader epoch, length of the metadata, which the time follows


class CommittedOffset(NamedTuple):
    """What a group committed for one partition."""

    offset: int
    leader_epoch: int = NO_EPOCH
    metadata: str = ""
    committed_at_ms: int = -1
    expires_at_ms: int = NO_EXPIRY  # only if the client asked for a retention of its own (OffsetCommit v2-4)
    record_offset: int = -1  # where it stands in the log; the later of two commits wins


@lru_cache(maxsize=65_536)
def _key_prefix(group_id: str, topic: str) -> bytes:
    return Writer(1).string(group_id).string(topic).finish()


def encode_offset_key(group_id: str, topic: str, partition: int) -> bytes:
    """Return the record key of a committed offset."""
    return _key_prefix(group_id, topic) + _INT32.pack(partition)


def decode_offset_key(data: bytes) -> tuple[str, str, int]:
    """Return (group, topic, partition). Raises CorruptRecord."""
    try:  # read a hundred thousand times at a start; whatever does not fit is looked at closely below
        group_end = 4 + _INT16.unpack_from(data, 2)[0]
        topic_end = group_end + 2 + _INT16.unpack_from(data, group_end)[0]
        if 4 <= group_end <= topic_end - 2 and topic_end + 4 == len(data):
            partition: int = _INT32.unpack_from(data, topic_end)[0]
            return data[4:group_end].decode(), data[group_end + 2 : topic_end].decode(), partition
    except (struct.error, UnicodeDecodeError):
        pass
    reader = Reader(data, at=2)
    return reader.string(), reader.string(), reader.int32()


def encode_offset_value(committed: CommittedOffset) -> bytes:
    """Return the record value of a committed offset."""
    if committed.expires_at_ms != NO_EXPIRY:
        writer = Writer(1).int64(committed.offset).string(committed.metadata)
        return writer.int64(committed.committed_at_ms).int64(committed.expires_at_ms).finish()
    metadata = committed.metadata.encode()
    head = _VALUE_3.pack(3, committed.offset, committed.leader_epoch, len(metadata))
    return head + metadata + _INT64.pack(committed.committed_at_ms)


def decode_offset_value(data: bytes, record_offset: int = -1) -> CommittedOffset:
    """Return the committed offset a record holds. Raises CorruptRecord, also for a version from the future."""
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
    return _decode_closely(data, record_offset)


def _decode_closely(data: bytes, record_offset: int) -> CommittedOffset:
    reader = Reader(data)
    version = reader.int16()
    if not 0 <= version <= 4:
        raise CorruptRecord(f"version {version} of a committed offset is unknown; versions 0 to 4 can be read")
    reader.flexible = version >= 4
    offset = reader.int64()
    leader_epoch = reader.int32() if version >= 3 else NO_EPOCH
    metadata = reader.string()
    committed_at_ms = reader.int64()
    expires_at_ms = reader.int64() if version == 1 else NO_EXPIRY
    return CommittedOffset(offset, leader_epoch, metadata, committed_at_ms, expires_at_ms, record_offset)
