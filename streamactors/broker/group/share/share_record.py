"""The records of a share group in `__consumer_offsets`, key versions 10 to 15.

Owner: the group coordinator. Their encoding: `stored_records.py`.
Source: KIP-932; Apache Kafka's ShareGroup*Key and ShareGroup*Value."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final, NamedTuple, TypeAlias

from streamactors.broker.coordinator.coordinator_log import KeyValue
from streamactors.broker.group.stored_records import StoredRecords
from streamactors.broker.protocol.record_schema import (
    INT8,
    INT32,
    INT64,
    NULLABLE_TEXT,
    TEXT,
    UUID,
    Field,
    array,
    structure,
)

MEMBER, EPOCH, TARGET_EPOCH, TARGET, CURRENT, STATES = range(10, 16)
"""The versions of the keys."""


class StoredPartitions(NamedTuple):
    """Partitions of a topic."""

    topic_id: Annotated[uuid.UUID, UUID]
    partitions: Annotated[Sequence[int], array(INT32)]


class StoredTopic(NamedTuple):
    """Partitions of a topic that has a name."""

    topic_id: Annotated[uuid.UUID, UUID]
    name: Annotated[str, TEXT]
    partitions: Annotated[Sequence[int], array(INT32)]


class StoredName(NamedTuple):
    """A topic."""

    topic_id: Annotated[uuid.UUID, UUID]
    name: Annotated[str, TEXT]


@dataclass(frozen=True, slots=True)
class MemberValue:
    """Key version 10: who a member is, and what it subscribes to."""

    rack_id: Annotated[str | None, NULLABLE_TEXT]
    client_id: Annotated[str, TEXT]
    client_host: Annotated[str, TEXT]
    topics: Annotated[Sequence[str], array(TEXT)]


@dataclass(frozen=True, slots=True)
class EpochValue:
    """Key version 11: the epoch of the group, and the hash of the topics that it was made for."""

    epoch: Annotated[int, INT32]
    metadata_hash: Annotated[int, INT64]


@dataclass(frozen=True, slots=True)
class TargetEpochValue:
    """Key version 12: the epoch of the target assignment, and when it was made."""

    epoch: Annotated[int, INT32]
    time_ms: Annotated[int, Field(INT64, tag=0)] = 0


@dataclass(frozen=True, slots=True)
class TargetValue:
    """Key version 13: the target assignment of a member."""

    topics: Annotated[Sequence[StoredPartitions], array(structure(StoredPartitions))]


@dataclass(frozen=True, slots=True)
class CurrentValue:
    """Key version 14: what a member has. Its state is always 0, stable."""

    epoch: Annotated[int, INT32]
    previous_epoch: Annotated[int, INT32]
    state: Annotated[int, INT8]
    assigned: Annotated[Sequence[StoredPartitions], array(structure(StoredPartitions))]


@dataclass(frozen=True, slots=True)
class StatesValue:
    """Key version 15: which share partitions are being begun, are begun, and are being forgotten."""

    initializing: Annotated[Sequence[StoredTopic], array(structure(StoredTopic))]
    initialized: Annotated[Sequence[StoredTopic], array(structure(StoredTopic))]
    deleting: Annotated[Sequence[StoredName], array(structure(StoredName))]


Value: TypeAlias = MemberValue | EpochValue | TargetEpochValue | TargetValue | CurrentValue | StatesValue


@dataclass(frozen=True, slots=True)
class ShareRecord:
    """One record of a share group; `value` None is a tombstone."""

    kind: int
    group_id: str
    member_id: str = ""
    value: Value | None = None


_STORED: Final = StoredRecords(
    "a share group",
    {EPOCH: EpochValue, TARGET_EPOCH: TargetEpochValue, STATES: StatesValue},
    {MEMBER: MemberValue, TARGET: TargetValue, CURRENT: CurrentValue},
)


def encode(record: ShareRecord) -> KeyValue:
    """Return the key and the value of a record."""
    return _STORED.encode(record.kind, record.group_id, record.member_id, record.value)


def decode(kind: int, key: bytes, value: bytes | None) -> ShareRecord:
    """Return the record. Raises CorruptRecord."""
    return ShareRecord(kind, *_STORED.decode(kind, key, value))
