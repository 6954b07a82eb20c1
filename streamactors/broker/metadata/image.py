"""The metadata image: the whole cluster metadata at one offset of the metadata log. Immutable, replaced as a whole.

Owner: the controller makes images; all other parts of the broker read them.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from streamactors.broker.metadata.metadata_record import (
    BROKER_RESOURCE,
    TOPIC_RESOURCE,
    BrokerRegistration,
    ConfigRecord,
    ControllerRegistration,
    FeatureLevel,
    MetadataRecord,
    PartitionRecord,
    ProducerIdsRecord,
    TopicRecord,
    ZkMigrationState,
)
from streamactors.broker.metadata.security_record import (
    AccessControlEntry,
    ClientQuota,
    DelegationToken,
    QuotaEntity,
    UserScramCredential,
)

NO_LEADER: Final = -1
METADATA_VERSION: Final = "metadata.version"
TRANSACTION_VERSION: Final = "transaction.version"
GROUP_VERSION: Final = "group.version"
SHARE_VERSION: Final = "share.version"
STREAMS_VERSION: Final = "streams.version"
_NOTHING: Final[Mapping[Any, Any]] = MappingProxyType({})

ResourceKey = tuple[int, str]  # resource type, resource name


@dataclass(frozen=True, slots=True)
class TopicImage:
    """A topic; the index into `partitions` is the partition's number."""

    name: str
    topic_id: uuid.UUID
    partitions: tuple[PartitionRecord, ...]


@dataclass(frozen=True, slots=True)
class MetadataImage:
    """The cluster metadata. `offset` is that of the last record in it, -1 for the empty image."""

    offset: int = -1
    brokers: Mapping[int, BrokerRegistration] = field(default_factory=lambda: _NOTHING)
    topics: Mapping[str, TopicImage] = field(default_factory=lambda: _NOTHING)
    topics_by_id: Mapping[uuid.UUID, TopicImage] = field(default_factory=lambda: _NOTHING)
    configs: Mapping[ResourceKey, Mapping[str, str]] = field(default_factory=lambda: _NOTHING)
    features: Mapping[str, int] = field(default_factory=lambda: _NOTHING)
    next_producer_id: int = 0
    controllers: Mapping[int, ControllerRegistration] = field(default_factory=lambda: _NOTHING)
    acls: Mapping[uuid.UUID, AccessControlEntry] = field(default_factory=lambda: _NOTHING)
    scram: Mapping[tuple[str, int], UserScramCredential] = field(default_factory=lambda: _NOTHING)  # (user, mechanism)
    tokens: Mapping[str, DelegationToken] = field(default_factory=lambda: _NOTHING)
    quotas: Mapping[frozenset[QuotaEntity], Mapping[str, float]] = field(default_factory=lambda: _NOTHING)
    zk_migration: int = 0

    def topic_overrides(self, name: str) -> Mapping[str, str]:
        """Return the settings of a topic itself."""
        return self.configs.get((TOPIC_RESOURCE, name), _NOTHING)

    def broker_overrides(self, broker_id: int) -> Mapping[str, str]:
        """Return the dynamic settings of one broker."""
        return self.configs.get((BROKER_RESOURCE, str(broker_id)), _NOTHING)

    def cluster_overrides(self) -> Mapping[str, str]:
        """Return the dynamic settings of all brokers."""
        return self.configs.get((BROKER_RESOURCE, ""), _NOTHING)

    def live_brokers(self) -> list[int]:
        """Return the ids of the brokers that are not fenced, in order."""
        return sorted(broker.broker_id for broker in self.brokers.values() if not broker.fenced)

    def records(self) -> Iterator[MetadataRecord]:
        """Yield the fewest records that result in this image: the content of a snapshot. The metadata version is the first."""
        for name in sorted(self.features, key=lambda name: (name != METADATA_VERSION, name)):
            yield FeatureLevel(name, self.features[name])
        yield from self.brokers.values()
        yield from self.controllers.values()
        for topic in self.topics.values():
            yield TopicRecord(topic.name, topic.topic_id)
            yield from topic.partitions
        for (resource_type, resource_name), settings in self.configs.items():
            for name, value in settings.items():
                yield ConfigRecord(resource_type, resource_name, name, value)
        if self.next_producer_id:
            yield ProducerIdsRecord(-1, -1, self.next_producer_id)
        for entity, limits in self.quotas.items():
            for key, limit in limits.items():
                yield ClientQuota(tuple(sorted(entity, key=str)), key, limit)
        yield from self.acls.values()
        yield from self.scram.values()
        yield from self.tokens.values()
        if self.zk_migration:
            yield ZkMigrationState(self.zk_migration)
