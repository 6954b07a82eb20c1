"""The records of the metadata log about brokers, topics, settings and features, with the fields of Apache Kafka's own records.

Owner: the controller. The fields are in the order of the wire; `metadata_codec` encodes and decodes them. `security_record` has
the records about users and quotas, `transaction_record` those that bracket a transaction of the metadata log.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Final, NamedTuple

from streamactors.broker.log.folders.folder_ids import OPEN_FOLDERS
from streamactors.broker.protocol.record_schema import (
    BOOLEAN,
    INT8,
    INT16,
    INT32,
    INT64,
    NULLABLE_TEXT,
    TEXT,
    UINT16,
    UUID,
    Field,
    array,
    structure,
)

TOPIC_RESOURCE: Final = 2
BROKER_RESOURCE: Final = 4
CLIENT_METRICS_RESOURCE: Final = 16
GROUP_RESOURCE: Final = 32


@dataclass(frozen=True, slots=True)
class MetadataRecord:
    """Base of all metadata records.

    A record is written in version VERSION, or in the lowest one above that has all its fields. Versions up to NEWEST can be read."""

    KEY: ClassVar[int]
    VERSION: ClassVar[int] = 0
    NEWEST: ClassVar[int] = 0


class Endpoint(NamedTuple):
    """The address of one listener of a broker. `protocol` 0 is PLAINTEXT."""

    name: Annotated[str, TEXT]
    host: Annotated[str, TEXT]
    port: Annotated[int, UINT16]
    protocol: Annotated[int, INT16] = 0


class Feature(NamedTuple):
    """A feature and the levels of it that a broker supports."""

    name: Annotated[str, TEXT]
    min_level: Annotated[int, INT16]
    max_level: Annotated[int, INT16]


@dataclass(frozen=True, slots=True)
class BrokerRegistration(MetadataRecord):
    """A broker has started, under a new incarnation. Its epoch is this record's offset. The image holds the newest of each
    broker; a fenced broker is known, but clients are not sent to it.

    `cordoned` are the data folders that get no new replica (KIP-1066), None before the broker has told them in a heartbeat."""

    KEY = 0
    VERSION = 3
    NEWEST = 4
    broker_id: Annotated[int, INT32]
    migrating: Annotated[bool, Field(BOOLEAN, since=2)] = field(default=False, kw_only=True)
    incarnation_id: Annotated[uuid.UUID, UUID]
    broker_epoch: Annotated[int, INT64]
    endpoints: Annotated[tuple[Endpoint, ...], array(structure(Endpoint))] = ()
    features: Annotated[tuple[Feature, ...], array(structure(Feature))] = ()
    rack: Annotated[str | None, NULLABLE_TEXT] = None
    fenced: Annotated[bool, BOOLEAN] = False
    in_controlled_shutdown: Annotated[bool, Field(BOOLEAN, since=1)] = False
    log_dirs: Annotated[tuple[uuid.UUID, ...], Field(array(UUID), since=3, tag=0)] = ()
    cordoned: Annotated[tuple[uuid.UUID, ...] | None, Field(array(UUID), since=4, tag=1)] = None

    @property
    def is_cordoned(self) -> bool:
        """Whether no data folder of this broker takes a new replica."""
        return bool(self.cordoned) and set(self.log_dirs) <= set(self.cordoned or ())

    def endpoint(self, listener: str) -> Endpoint | None:
        """Return where clients of a listener reach this broker."""
        return next((endpoint for endpoint in self.endpoints if endpoint.name == listener), None)

    def has_folder_of(self, partition: PartitionRecord) -> bool:
        """Whether the data folder of this broker's replica of a partition works, as far as that is known."""
        if not partition.directories or not self.log_dirs:
            return True
        folder = partition.folder_of(self.broker_id)
        return folder is None or folder in OPEN_FOLDERS or folder in self.log_dirs


@dataclass(frozen=True, slots=True)
class UnregisterBroker(MetadataRecord):
    """A broker has left the cluster."""

    KEY = 1
    broker_id: Annotated[int, INT32]
    broker_epoch: Annotated[int, INT64]


@dataclass(frozen=True, slots=True)
class TopicRecord(MetadataRecord):
    """A topic is created. Its partitions follow in the same batch."""

    KEY = 2
    name: Annotated[str, TEXT]
    topic_id: Annotated[uuid.UUID, UUID]


@dataclass(frozen=True, slots=True)
class PartitionRecord(MetadataRecord):
    """The whole state of a partition, new or not.

    `recovering` is 1 from an unclean election until the leader has changed the ISR. `elr` are the replicas outside the ISR that may
    lead without loss (KIP-966). `directories` are the data folders of the replicas, in their order."""

    KEY = 3
    VERSION = 1
    NEWEST = 2
    partition: Annotated[int, INT32]
    topic_id: Annotated[uuid.UUID, UUID]
    replicas: Annotated[tuple[int, ...], array(INT32)]
    isr: Annotated[tuple[int, ...], array(INT32)]
    removing: Annotated[tuple[int, ...], array(INT32)] = field(default=(), kw_only=True)
    adding: Annotated[tuple[int, ...], array(INT32)] = field(default=(), kw_only=True)
    leader: Annotated[int, INT32]
    recovering: Annotated[int, Field(INT8, tag=0)] = field(default=0, kw_only=True)
    leader_epoch: Annotated[int, INT32] = 0
    partition_epoch: Annotated[int, INT32] = 0
    directories: Annotated[tuple[uuid.UUID, ...], Field(array(UUID), since=1)] = ()
    elr: Annotated[tuple[int, ...], Field(array(INT32), since=2, tag=1)] = ()
    last_known_elr: Annotated[tuple[int, ...], Field(array(INT32), since=2, tag=2)] = ()

    def folder_of(self, broker_id: int) -> uuid.UUID | None:
        """Return the data folder of a replica; None if it is not known."""
        if not self.directories or broker_id not in self.replicas:
            return None
        index = self.replicas.index(broker_id)
        return self.directories[index] if index < len(self.directories) else None


@dataclass(frozen=True, slots=True)
class PartitionChange(MetadataRecord):
    """The changed fields of a partition; None means unchanged. A leader, even the same one, begins a new epoch."""

    KEY = 5
    NEWEST = 2
    partition: Annotated[int, INT32]
    topic_id: Annotated[uuid.UUID, UUID]
    isr: Annotated[tuple[int, ...] | None, Field(array(INT32), tag=0)] = None
    leader: Annotated[int | None, Field(INT32, tag=1)] = None
    replicas: Annotated[tuple[int, ...] | None, Field(array(INT32), tag=2)] = None
    removing: Annotated[tuple[int, ...] | None, Field(array(INT32), tag=3)] = None
    adding: Annotated[tuple[int, ...] | None, Field(array(INT32), tag=4)] = None
    recovering: Annotated[int | None, Field(INT8, tag=5)] = None
    elr: Annotated[tuple[int, ...] | None, Field(array(INT32), since=2, tag=6)] = None
    last_known_elr: Annotated[tuple[int, ...] | None, Field(array(INT32), since=2, tag=7)] = None
    directories: Annotated[tuple[uuid.UUID, ...] | None, Field(array(UUID), since=1, tag=8)] = None


@dataclass(frozen=True, slots=True)
class ConfigRecord(MetadataRecord):
    """A setting of a topic or broker is set, or removed if `value` is None. Resource name "" means all brokers."""

    KEY = 4
    resource_type: Annotated[int, INT8]
    resource_name: Annotated[str, TEXT]
    name: Annotated[str, TEXT]
    value: Annotated[str | None, NULLABLE_TEXT]


@dataclass(frozen=True, slots=True)
class RemoveTopic(MetadataRecord):
    """A topic is deleted, with its partitions and settings."""

    KEY = 9
    topic_id: Annotated[uuid.UUID, UUID]


@dataclass(frozen=True, slots=True)
class FeatureLevel(MetadataRecord):
    """The level of one feature of the cluster; 0 is off."""

    KEY = 12
    name: Annotated[str, TEXT]
    level: Annotated[int, INT16]


@dataclass(frozen=True, slots=True)
class ProducerIdsRecord(MetadataRecord):
    """A broker has reserved the producer ids below `next_producer_id`."""

    KEY = 15
    broker_id: Annotated[int, INT32]
    broker_epoch: Annotated[int, INT64]
    next_producer_id: Annotated[int, INT64]


@dataclass(frozen=True, slots=True)
class BrokerRegistrationChange(MetadataRecord):
    """A broker is fenced (1) or unfenced (-1), begins its controlled shutdown (1), or has other data folders, or other cordoned ones."""

    KEY = 17
    NEWEST = 3
    broker_id: Annotated[int, INT32]
    broker_epoch: Annotated[int, INT64]
    fenced: Annotated[int | None, Field(INT8, tag=0)] = None
    in_controlled_shutdown: Annotated[int | None, Field(INT8, since=1, tag=1)] = None
    log_dirs: Annotated[tuple[uuid.UUID, ...] | None, Field(array(UUID), since=2, tag=2)] = None
    cordoned: Annotated[tuple[uuid.UUID, ...] | None, Field(array(UUID), since=3, tag=3)] = None


@dataclass(frozen=True, slots=True)
class FenceBroker(MetadataRecord):
    """A broker is fenced. Kafka before 3.3 wrote this instead of a BrokerRegistrationChange."""

    KEY = 7
    broker_id: Annotated[int, INT32]
    broker_epoch: Annotated[int, INT64]


@dataclass(frozen=True, slots=True)
class UnfenceBroker(MetadataRecord):
    """A broker is no longer fenced. Kafka before 3.3 wrote this instead of a BrokerRegistrationChange."""

    KEY = 8
    broker_id: Annotated[int, INT32]
    broker_epoch: Annotated[int, INT64]


@dataclass(frozen=True, slots=True)
class ControllerRegistration(MetadataRecord):
    """A controller has started: its listeners, and the features that it supports."""

    KEY = 27
    controller_id: Annotated[int, INT32]
    incarnation_id: Annotated[uuid.UUID, UUID]
    zk_migration_ready: Annotated[bool, BOOLEAN] = False
    endpoints: Annotated[tuple[Endpoint, ...], array(structure(Endpoint))] = ()
    features: Annotated[tuple[Feature, ...], array(structure(Feature))] = ()


@dataclass(frozen=True, slots=True)
class UnregisterController(MetadataRecord):
    """A controller has left the cluster."""

    KEY = 29
    controller_id: Annotated[int, INT32]


@dataclass(frozen=True, slots=True)
class ClearElr(MetadataRecord):
    """The eligible leader replicas of a topic are cleared, or those of all topics if the name is empty."""

    KEY = 28
    topic_name: Annotated[str, TEXT]


@dataclass(frozen=True, slots=True)
class ZkMigrationState(MetadataRecord):
    """The state of a migration from ZooKeeper, in clusters that once ran on it. It has no effect in KRaft."""

    KEY = 21
    state: Annotated[int, INT8]


@dataclass(frozen=True, slots=True)
class NoOp(MetadataRecord):
    """No change. An idle controller writes it so that the log's end moves."""

    KEY = 20
