"""The records of a streams group in `__consumer_offsets`, key versions 17 and 19 to 23.

Owner: the group coordinator. Their encoding: `stored_records.py`.
Source: KIP-1071; Apache Kafka's StreamsGroup*Key and StreamsGroup*Value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final, NamedTuple, TypeAlias

from streamactors.broker.coordinator.coordinator_log import KeyValue
from streamactors.broker.group.stored_records import StoredRecords, nullable
from streamactors.broker.protocol.record_schema import (
    INT8,
    INT16,
    INT32,
    INT64,
    NULLABLE_TEXT,
    TEXT,
    UINT16,
    Field,
    array,
    structure,
)

EPOCH, MEMBER, TARGET_EPOCH, TARGET, CURRENT, TOPOLOGY = 17, 19, 20, 21, 22, 23
"""The versions of the keys."""


class StoredPair(NamedTuple):
    """A key with its value."""

    key: Annotated[str, TEXT]
    value: Annotated[str, TEXT]


_PAIRS: Final = array(structure(StoredPair))


@dataclass(frozen=True, slots=True)
class EpochValue:
    """Key version 17: the epoch of the group, and what it was made for."""

    epoch: Annotated[int, INT32]
    metadata_hash: Annotated[int, INT64]
    validated_topology_epoch: Annotated[int, Field(INT32, tag=0)] = -1
    assignment_configs: Annotated[Sequence[StoredPair] | None, Field(_PAIRS, tag=1)] = None
    stored_description_epoch: Annotated[int, Field(INT32, tag=2)] = -1
    failed_description_epoch: Annotated[int, Field(INT32, tag=3)] = -1


class StoredEndpoint(NamedTuple):
    """Where the interactive queries of an instance are served."""

    host: Annotated[str, TEXT]
    port: Annotated[int, UINT16]


@dataclass(frozen=True, slots=True)
class MemberValue:
    """Key version 19: who a member is."""

    instance_id: Annotated[str | None, NULLABLE_TEXT]
    rack_id: Annotated[str | None, NULLABLE_TEXT]
    client_id: Annotated[str, TEXT]
    client_host: Annotated[str, TEXT]
    rebalance_timeout_ms: Annotated[int, INT32]
    topology_epoch: Annotated[int, INT32]
    process_id: Annotated[str, TEXT]
    endpoint: Annotated[StoredEndpoint | None, nullable(structure(StoredEndpoint), absent=-1)]
    client_tags: Annotated[Sequence[StoredPair], _PAIRS]


@dataclass(frozen=True, slots=True)
class TargetEpochValue:
    """Key version 20: the epoch of the target assignment, and when it was made."""

    epoch: Annotated[int, INT32]
    time_ms: Annotated[int, Field(INT64, tag=0)] = 0


class StoredTasks(NamedTuple):
    """Partitions of a subtopology."""

    subtopology: Annotated[str, TEXT]
    partitions: Annotated[Sequence[int], array(INT32)]


_TASKS: Final = array(structure(StoredTasks))


@dataclass(frozen=True, slots=True)
class TargetValue:
    """Key version 21: the target assignment of a member."""

    active: Annotated[Sequence[StoredTasks], _TASKS]
    standby: Annotated[Sequence[StoredTasks], _TASKS]
    warmup: Annotated[Sequence[StoredTasks], _TASKS]


class StoredOwned(NamedTuple):
    """Partitions of a subtopology; of active tasks with the epochs at which they were assigned."""

    subtopology: Annotated[str, TEXT]
    partitions: Annotated[Sequence[int], array(INT32)]
    epochs: Annotated[Sequence[int] | None, Field(array(INT32), tag=0)] = None


_OWNED: Final = array(structure(StoredOwned))


@dataclass(frozen=True, slots=True)
class CurrentValue:
    """Key version 22: what a member has, and what it must give back."""

    epoch: Annotated[int, INT32]
    previous_epoch: Annotated[int, INT32]
    state: Annotated[int, INT8]
    active: Annotated[Sequence[StoredOwned], _OWNED]
    standby: Annotated[Sequence[StoredOwned], _OWNED]
    warmup: Annotated[Sequence[StoredOwned], _OWNED]
    revoking_active: Annotated[Sequence[StoredOwned], _OWNED]
    revoking_standby: Annotated[Sequence[StoredOwned], _OWNED]
    revoking_warmup: Annotated[Sequence[StoredOwned], _OWNED]


class InternalTopic(NamedTuple):
    """A repartition or changelog topic. 0 partitions, 0 replicas: the broker decides."""

    name: Annotated[str, TEXT]
    partitions: Annotated[int, INT32]
    replication_factor: Annotated[int, INT16]
    configs: Annotated[Sequence[StoredPair], _PAIRS]


class CopartitionGroup(NamedTuple):
    """Topics that must have equally many partitions, as indexes into the arrays of their subtopology."""

    source_topics: Annotated[Sequence[int], array(INT16)]
    source_topic_regex: Annotated[Sequence[int], array(INT16)]
    repartition_source_topics: Annotated[Sequence[int], array(INT16)]


@dataclass(frozen=True, slots=True)
class Subtopology:
    """A part of the topology that is processed by one kind of task."""

    subtopology_id: Annotated[str, TEXT]
    source_topics: Annotated[Sequence[str], array(TEXT)]
    source_topic_regex: Annotated[Sequence[str], array(TEXT)]
    changelogs: Annotated[Sequence[InternalTopic], array(structure(InternalTopic))]
    repartition_sinks: Annotated[Sequence[str], array(TEXT)]
    repartition_sources: Annotated[Sequence[InternalTopic], array(structure(InternalTopic))]
    copartition_groups: Annotated[Sequence[CopartitionGroup], array(structure(CopartitionGroup))]


@dataclass(frozen=True, slots=True)
class TopologyValue:
    """Key version 23: the topology, as the first member of its epoch gave it."""

    epoch: Annotated[int, INT32]
    subtopologies: Annotated[Sequence[Subtopology], array(structure(Subtopology))]


Value: TypeAlias = EpochValue | MemberValue | TargetEpochValue | TargetValue | CurrentValue | TopologyValue


@dataclass(frozen=True, slots=True)
class StreamsRecord:
    """One record of a streams group; `value` None is a tombstone."""

    kind: int
    group_id: str
    member_id: str = ""
    value: Value | None = None


_STORED: Final = StoredRecords(
    "a streams group",
    {EPOCH: EpochValue, TARGET_EPOCH: TargetEpochValue, TOPOLOGY: TopologyValue},
    {MEMBER: MemberValue, TARGET: TargetValue, CURRENT: CurrentValue},
)


def encode(record: StreamsRecord) -> KeyValue:
    """Return the key and the value of a record."""
    return _STORED.encode(record.kind, record.group_id, record.member_id, record.value)


def decode(kind: int, key: bytes, value: bytes | None) -> StreamsRecord:
    """Return the record. Raises CorruptRecord."""
    return StreamsRecord(kind, *_STORED.decode(kind, key, value))
