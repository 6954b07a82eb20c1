"""The records of the metadata log: what can happen to the cluster, with the fields of Apache Kafka's own records.

Owner: the controller. Each says its fields on the wire in order; metadata_codec turns them into bytes and back.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NamedTuple

from streamactors.broker.controller.wire_type import (
    BOOLEAN,
    INT8,
    INT16,
    INT32,
    INT64,
    NULLABLE_TEXT,
    TEXT,
    UINT16,
    UUID,
    WireType,
    array,
    structure,
)

TOPIC_RESOURCE: Final = 2
BROKER_RESOURCE: Final = 4


class Field(NamedTuple):
    """One field on the wire; `since` is the record version that brought it, `tag` its number if it is optional."""

    name: str
    type: WireType[Any]
    since: int = 0
    tag: int | None = None


@dataclass(frozen=True, slots=True)
class MetadataRecord:
    """Base of all metadata records."""

    KEY: ClassVar[int]
    VERSION: ClassVar[int] = 0
    WIRE: ClassVar[tuple[Field, ...]] = ()


class Endpoint(NamedTuple):
    """Where a broker is reached through one of its listeners. `protocol` 0 is PLAINTEXT."""

    name: str
    host: str
    port: int
    protocol: int = 0


class Feature(NamedTuple):
    """A feature and the levels of it that a broker supports."""

    name: str
    min_level: int
    max_level: int


@dataclass(frozen=True, slots=True)
class RegisterBroker(MetadataRecord):
    """A broker has started, under a new incarnation; its epoch is this record's offset."""

    KEY = 0
    VERSION = 3
    WIRE = (
        Field("broker_id", INT32),
        Field("migrating", BOOLEAN, since=2),
        Field("incarnation_id", UUID),
        Field("broker_epoch", INT64),
        Field("endpoints", array(structure(Endpoint, TEXT, TEXT, UINT16, INT16))),
        Field("features", array(structure(Feature, TEXT, INT16, INT16))),
        Field("rack", NULLABLE_TEXT),
        Field("fenced", BOOLEAN),
        Field("in_controlled_shutdown", BOOLEAN, since=1),
        Field("log_dirs", array(UUID), since=3, tag=0),
    )
    broker_id: int
    incarnation_id: uuid.UUID
    broker_epoch: int
    endpoints: tuple[Endpoint, ...] = ()
    features: tuple[Feature, ...] = ()
    rack: str | None = None
    fenced: bool = False
    in_controlled_shutdown: bool = False
    migrating: bool = False
    log_dirs: tuple[uuid.UUID, ...] = ()


@dataclass(frozen=True, slots=True)
class UnregisterBroker(MetadataRecord):
    """A broker is no part of the cluster any more."""

    KEY = 1
    WIRE = (Field("broker_id", INT32), Field("broker_epoch", INT64))
    broker_id: int
    broker_epoch: int


@dataclass(frozen=True, slots=True)
class Topic(MetadataRecord):
    """A topic exists; its partitions follow in the same batch."""

    KEY = 2
    WIRE = (Field("name", TEXT), Field("topic_id", UUID))
    name: str
    topic_id: uuid.UUID


@dataclass(frozen=True, slots=True)
class Partition(MetadataRecord):
    """A partition with its replicas, or a new whole state of one."""

    KEY = 3
    VERSION = 1
    WIRE = (
        Field("partition", INT32),
        Field("topic_id", UUID),
        Field("replicas", array(INT32)),
        Field("isr", array(INT32)),
        Field("removing", array(INT32)),
        Field("adding", array(INT32)),
        Field("leader", INT32),
        Field("leader_epoch", INT32),
        Field("partition_epoch", INT32),
        Field("directories", array(UUID), since=1),
    )
    partition: int
    topic_id: uuid.UUID
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int = 0
    partition_epoch: int = 0
    removing: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    directories: tuple[uuid.UUID, ...] = ()


@dataclass(frozen=True, slots=True)
class PartitionChange(MetadataRecord):
    """What changed in a partition, None being unchanged. Naming a leader, even the same one, begins a new epoch."""

    KEY = 5
    WIRE = (
        Field("partition", INT32),
        Field("topic_id", UUID),
        Field("isr", array(INT32), tag=0),
        Field("leader", INT32, tag=1),
        Field("replicas", array(INT32), tag=2),
    )
    partition: int
    topic_id: uuid.UUID
    isr: tuple[int, ...] | None = None
    leader: int | None = None
    replicas: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Config(MetadataRecord):
    """A setting of a topic or a broker (resource name "" is every broker) is set, or with None removed."""

    KEY = 4
    WIRE = (
        Field("resource_type", INT8),
        Field("resource_name", TEXT),
        Field("name", TEXT),
        Field("value", NULLABLE_TEXT),
    )
    resource_type: int
    resource_name: str
    name: str
    value: str | None


@dataclass(frozen=True, slots=True)
class RemoveTopic(MetadataRecord):
    """A topic is gone, with its partitions and settings."""

    KEY = 9
    WIRE = (Field("topic_id", UUID),)
    topic_id: uuid.UUID


@dataclass(frozen=True, slots=True)
class FeatureLevel(MetadataRecord):
    """A feature of the cluster stands at this level; 0 is off."""

    KEY = 12
    WIRE = (Field("name", TEXT), Field("level", INT16))
    name: str
    level: int


@dataclass(frozen=True, slots=True)
class ProducerIds(MetadataRecord):
    """A broker holds the producer ids below `next_producer_id`."""

    KEY = 15
    WIRE = (Field("broker_id", INT32), Field("broker_epoch", INT64), Field("next_producer_id", INT64))
    broker_id: int
    broker_epoch: int
    next_producer_id: int


@dataclass(frozen=True, slots=True)
class BrokerRegistrationChange(MetadataRecord):
    """A broker is fenced (1) or unfenced (-1)."""

    KEY = 17
    WIRE = (Field("broker_id", INT32), Field("broker_epoch", INT64), Field("fenced", INT8, tag=0))
    broker_id: int
    broker_epoch: int
    fenced: int | None = None


@dataclass(frozen=True, slots=True)
class NoOp(MetadataRecord):
    """Nothing, and every record that is about parts of Kafka which are not here."""

    KEY = 20
