"""The metadata image: everything the cluster knows at one offset of the metadata log. Immutable, replaced whole.

Owner: the controller makes it, everyone reads it: take it once per request and all answers agree with each other.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from streamactors.broker.controller.metadata_record import (
    BROKER_RESOURCE,
    TOPIC_RESOURCE,
    Config,
    Endpoint,
    Feature,
    FeatureLevel,
    MetadataRecord,
    Partition,
    ProducerIds,
    RegisterBroker,
    Topic,
)

NO_LEADER: Final = -1
_NOTHING: Final[Mapping[Any, Any]] = MappingProxyType({})

ResourceKey = tuple[int, str]  # resource type, resource name


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """A broker of the cluster. A fenced one is known but not served from."""

    broker_id: int
    epoch: int
    incarnation_id: uuid.UUID
    endpoints: tuple[Endpoint, ...]
    features: tuple[Feature, ...] = ()
    rack: str | None = None
    fenced: bool = False

    def endpoint(self, listener: str) -> Endpoint | None:
        """Return where this broker is reached by clients of that listener."""
        return next((endpoint for endpoint in self.endpoints if endpoint.name == listener), None)


@dataclass(frozen=True, slots=True)
class PartitionImage:
    """Who has a partition, who leads it (-1: nobody) and since which epoch."""

    partition: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int = 0
    partition_epoch: int = 0


@dataclass(frozen=True, slots=True)
class TopicImage:
    """A topic; the index into `partitions` is the partition's number."""

    name: str
    topic_id: uuid.UUID
    partitions: tuple[PartitionImage, ...]


@dataclass(frozen=True, slots=True)
class MetadataImage:
    """The whole. `offset` is the last record that went into it, -1 for the empty image."""

    offset: int = -1
    brokers: Mapping[int, BrokerRegistration] = field(default_factory=lambda: _NOTHING)
    topics: Mapping[str, TopicImage] = field(default_factory=lambda: _NOTHING)
    topics_by_id: Mapping[uuid.UUID, TopicImage] = field(default_factory=lambda: _NOTHING)
    configs: Mapping[ResourceKey, Mapping[str, str]] = field(default_factory=lambda: _NOTHING)
    features: Mapping[str, int] = field(default_factory=lambda: _NOTHING)
    next_producer_id: int = 0

    def topic_overrides(self, name: str) -> Mapping[str, str]:
        """Return the settings that are set on a topic itself."""
        return self.configs.get((TOPIC_RESOURCE, name), _NOTHING)

    def broker_overrides(self, broker_id: int) -> Mapping[str, str]:
        """Return the settings that are set on one broker while it runs."""
        return self.configs.get((BROKER_RESOURCE, str(broker_id)), _NOTHING)

    def cluster_overrides(self) -> Mapping[str, str]:
        """Return the settings that are set for all brokers while they run."""
        return self.configs.get((BROKER_RESOURCE, ""), _NOTHING)

    def live_brokers(self) -> list[int]:
        """Return the ids of the brokers that are not fenced, in order."""
        return sorted(broker.broker_id for broker in self.brokers.values() if not broker.fenced)

    def records(self) -> Iterator[MetadataRecord]:
        """Yield the fewest records that add up to this image, which is what a snapshot holds."""
        for name, level in self.features.items():
            yield FeatureLevel(name, level)
        for broker in self.brokers.values():
            yield RegisterBroker(
                broker_id=broker.broker_id,
                incarnation_id=broker.incarnation_id,
                broker_epoch=broker.epoch,
                endpoints=broker.endpoints,
                features=broker.features,
                rack=broker.rack,
                fenced=broker.fenced,
            )
        for topic in self.topics.values():
            yield Topic(topic.name, topic.topic_id)
            for partition in topic.partitions:
                yield Partition(
                    partition=partition.partition,
                    topic_id=topic.topic_id,
                    replicas=partition.replicas,
                    isr=partition.isr,
                    leader=partition.leader,
                    leader_epoch=partition.leader_epoch,
                    partition_epoch=partition.partition_epoch,
                )
        for (resource_type, resource_name), settings in self.configs.items():
            for name, value in settings.items():
                yield Config(resource_type, resource_name, name, value)
        if self.next_producer_id:
            yield ProducerIds(-1, -1, self.next_producer_id)
