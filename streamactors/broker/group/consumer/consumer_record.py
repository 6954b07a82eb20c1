"""The records of a consumer group in `__consumer_offsets`, key versions 3 to 8 and 16.

Owner: the group coordinator. Their encoding: `stored_records.py`.
Source: KIP-848; Apache Kafka's ConsumerGroup*Key and ConsumerGroup*Value."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final, NamedTuple, TypeAlias

from streamactors.broker.coordinator.coordinator_log import KeyValue
from streamactors.broker.group.stored_records import StoredRecords, nullable
from streamactors.broker.protocol.record_schema import (
    BYTES,
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

EPOCH, OLD_METADATA, MEMBER, TARGET_EPOCH, TARGET, CURRENT, REGEX = 3, 4, 5, 6, 7, 8, 16
"""The versions of the keys."""


@dataclass(frozen=True, slots=True)
class EpochValue:
    """Key version 3: the epoch of the group, and the hash of the topics that it was made for."""

    epoch: Annotated[int, INT32]
    metadata_hash: Annotated[int, Field(INT64, tag=0)] = 0


@dataclass(frozen=True, slots=True)
class OldMetadataValue:
    """Key version 4, of Apache Kafka 4.0: the topics that the epoch was made for. Its content is not used."""


class StoredProtocol(NamedTuple):
    """An assignor of a member that uses the classic protocol."""

    name: Annotated[str, TEXT]
    metadata: Annotated[bytes, BYTES]


@dataclass(frozen=True, slots=True)
class StoredClassic:
    """What is kept of a member that uses the classic protocol."""

    session_timeout_ms: Annotated[int, INT32]
    protocols: Annotated[Sequence[StoredProtocol], array(structure(StoredProtocol))]


NO_PROTOCOLS: Final = StoredClassic(0, ())


@dataclass(frozen=True, slots=True)
class MemberValue:
    """Key version 5: who a member is, and what it subscribes to."""

    instance_id: Annotated[str | None, NULLABLE_TEXT]
    rack_id: Annotated[str | None, NULLABLE_TEXT]
    client_id: Annotated[str, TEXT]
    client_host: Annotated[str, TEXT]
    topics: Annotated[Sequence[str], array(TEXT)]
    regex: Annotated[str | None, NULLABLE_TEXT]
    rebalance_timeout_ms: Annotated[int, INT32]
    assignor: Annotated[str | None, NULLABLE_TEXT]
    classic: Annotated[StoredClassic | None, Field(nullable(structure(StoredClassic), absent=0), tag=0)] = NO_PROTOCOLS
    """None: the member uses the consumer protocol. That is written, because Apache Kafka reads a record without this field as `NO_PROTOCOLS`."""


@dataclass(frozen=True, slots=True)
class TargetEpochValue:
    """Key version 6: the epoch of the target assignment, and when it was made."""

    epoch: Annotated[int, INT32]
    time_ms: Annotated[int, Field(INT64, tag=0)] = 0


class StoredPartitions(NamedTuple):
    """Partitions of a topic."""

    topic_id: Annotated[uuid.UUID, UUID]
    partitions: Annotated[Sequence[int], array(INT32)]


@dataclass(frozen=True, slots=True)
class TargetValue:
    """Key version 7: the target assignment of a member."""

    topics: Annotated[Sequence[StoredPartitions], array(structure(StoredPartitions))]


class StoredOwned(NamedTuple):
    """Partitions of a topic, with the epochs at which they were assigned."""

    topic_id: Annotated[uuid.UUID, UUID]
    partitions: Annotated[Sequence[int], array(INT32)]
    epochs: Annotated[Sequence[int] | None, Field(array(INT32), tag=0)] = None


@dataclass(frozen=True, slots=True)
class CurrentValue:
    """Key version 8: what a member has, and what it must give back."""

    epoch: Annotated[int, INT32]
    previous_epoch: Annotated[int, INT32]
    state: Annotated[int, INT8]
    assigned: Annotated[Sequence[StoredOwned], array(structure(StoredOwned))]
    revoking: Annotated[Sequence[StoredOwned], array(structure(StoredOwned))]


@dataclass(frozen=True, slots=True)
class RegexValue:
    """Key version 16: the topics that a regular expression matched."""

    topics: Annotated[Sequence[str], array(TEXT)]
    version: Annotated[int, INT64]
    time_ms: Annotated[int, INT64]


Value: TypeAlias = (
    EpochValue | OldMetadataValue | MemberValue | TargetEpochValue | TargetValue | CurrentValue | RegexValue
)


@dataclass(frozen=True, slots=True)
class ConsumerRecord:
    """One record of a consumer group. `name` is a member id or a regular expression; `value` None is a tombstone."""

    kind: int
    group_id: str
    name: str = ""
    value: Value | None = None


_STORED: Final = StoredRecords(
    "a consumer group",
    {EPOCH: EpochValue, OLD_METADATA: OldMetadataValue, TARGET_EPOCH: TargetEpochValue},
    {MEMBER: MemberValue, TARGET: TargetValue, CURRENT: CurrentValue, REGEX: RegexValue},
)


def encode(record: ConsumerRecord) -> KeyValue:
    """Return the key and the value of a record."""
    return _STORED.encode(record.kind, record.group_id, record.name, record.value)


def decode(kind: int, key: bytes, value: bytes | None) -> ConsumerRecord:
    """Return the record. Raises CorruptRecord."""
    if kind == OLD_METADATA and value is not None:
        return ConsumerRecord(kind, *_STORED.decode(kind, key, None)[:2], OldMetadataValue())
    return ConsumerRecord(kind, *_STORED.decode(kind, key, value))
