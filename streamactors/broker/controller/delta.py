"""From one image to the next: records are applied to a delta, which copies only what they touch.

Owner: the controller. A delta says afterwards what was created, changed and deleted, so that the broker need not compare.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Final

from streamactors.broker.controller.image import (
    BrokerRegistration,
    MetadataImage,
    PartitionImage,
    ResourceKey,
    TopicImage,
)
from streamactors.broker.controller.metadata_record import (
    BROKER_RESOURCE,
    TOPIC_RESOURCE,
    BrokerRegistrationChange,
    Config,
    FeatureLevel,
    MetadataRecord,
    NoOp,
    Partition,
    PartitionChange,
    ProducerIds,
    RegisterBroker,
    RemoveTopic,
    Topic,
    UnregisterBroker,
)
from streamactors.broker.controller.wire_type import CorruptMetadata


class ImageDelta:
    """The changes on top of `base`. After `finish`, `image` is the new whole."""

    def __init__(self, base: MetadataImage) -> None:
        self.base: Final = base
        self.image = base
        self.configured: set[ResourceKey] = set()
        self._brokers = dict(base.brokers)
        self._features: dict[str, int] | None = None
        self._configs: dict[ResourceKey, dict[str, str]] = {}
        self._names: dict[uuid.UUID, str] = {}  # topics that were touched
        self._partitions: dict[uuid.UUID, dict[int, PartitionImage]] = {}
        self._added: dict[str, uuid.UUID] = {}
        self._removed: dict[uuid.UUID, TopicImage] = {}
        self._next_producer_id = base.next_producer_id

    @property
    def created(self) -> tuple[TopicImage, ...]:
        """Return the topics that were not there before."""
        return tuple(self.image.topics_by_id[i] for i in self._partitions if i not in self.base.topics_by_id)

    @property
    def changed(self) -> tuple[TopicImage, ...]:
        """Return the topics that were there before and have other partitions, leaders or replicas now."""
        return tuple(self.image.topics_by_id[i] for i in self._partitions if i in self.base.topics_by_id)

    @property
    def deleted(self) -> tuple[TopicImage, ...]:
        """Return the topics that are gone, as they were."""
        return tuple(topic for topic_id, topic in self._removed.items() if topic_id in self.base.topics_by_id)

    def was_deleted(self, topic_id: uuid.UUID | None) -> bool:
        """Whether a topic with this id was deleted in the course of this delta, even one that was created in it."""
        return topic_id in self._removed

    @property
    def configured_topics(self) -> frozenset[str]:
        """Return the names of the topics that have other settings now."""
        return frozenset(name for kind, name in self.configured if kind == TOPIC_RESOURCE)

    @property
    def brokers_configured(self) -> bool:
        """Whether a setting of a broker, or of all, is another one now."""
        return any(kind == BROKER_RESOURCE for kind, _ in self.configured)

    def replay(self, record: MetadataRecord) -> None:
        """Apply one record. Raises CorruptMetadata when it contradicts what was before it."""
        _REPLAY[type(record)](self, record)

    def finish(self, offset: int) -> MetadataImage:
        """Return the image up to and with the record at `offset`."""
        base = self.base
        topics, by_id = base.topics, base.topics_by_id
        if self._partitions or self._removed:
            new_topics, new_by_id = dict(topics), dict(by_id)
            for topic_id, topic in self._removed.items():
                new_by_id.pop(topic_id, None)
                if new_topics.get(topic.name, topic).topic_id == topic_id:
                    new_topics.pop(topic.name, None)
            for topic_id, partitions in self._partitions.items():
                made = TopicImage(self._names[topic_id], topic_id, _in_order(self._names[topic_id], partitions))
                new_topics[made.name] = new_by_id[topic_id] = made
            topics, by_id = new_topics, new_by_id
        configs = base.configs
        if self._configs:
            configs = {key: settings for key, settings in {**configs, **self._configs}.items() if settings}
        self.image = MetadataImage(
            offset=offset,
            brokers=self._brokers,
            topics=topics,
            topics_by_id=by_id,
            configs=configs,
            features=base.features if self._features is None else self._features,
            next_producer_id=self._next_producer_id,
        )
        return self.image

    # --- one method per record ---

    def _register_broker(self, record: RegisterBroker) -> None:
        self._brokers[record.broker_id] = BrokerRegistration(
            broker_id=record.broker_id,
            epoch=record.broker_epoch,
            incarnation_id=record.incarnation_id,
            endpoints=record.endpoints,
            features=record.features,
            rack=record.rack,
            fenced=record.fenced,
        )

    def _unregister_broker(self, record: UnregisterBroker) -> None:
        self._broker(record.broker_id)
        del self._brokers[record.broker_id]

    def _change_registration(self, record: BrokerRegistrationChange) -> None:
        if record.fenced is not None:
            broker = self._broker(record.broker_id)
            self._brokers[record.broker_id] = replace(broker, fenced=record.fenced > 0)

    def _topic(self, record: Topic) -> None:
        if record.name in self._added or self._is_topic(record.name):
            raise CorruptMetadata(f"topic {record.name} is created twice")
        self._added[record.name] = record.topic_id
        self._names[record.topic_id] = record.name
        self._partitions[record.topic_id] = {}

    def _partition(self, record: Partition) -> None:
        self._touched(record.topic_id)[record.partition] = PartitionImage(
            partition=record.partition,
            replicas=record.replicas,
            isr=record.isr,
            leader=record.leader,
            leader_epoch=record.leader_epoch,
            partition_epoch=record.partition_epoch,
        )

    def _change_partition(self, record: PartitionChange) -> None:
        partitions = self._touched(record.topic_id)
        before = partitions.get(record.partition)
        if before is None:
            name = self._names[record.topic_id]
            raise CorruptMetadata(f"{name}-{record.partition} changes, but there is no such partition")
        partitions[record.partition] = PartitionImage(
            partition=record.partition,
            replicas=before.replicas if record.replicas is None else record.replicas,
            isr=before.isr if record.isr is None else record.isr,
            leader=before.leader if record.leader is None else record.leader,
            leader_epoch=before.leader_epoch + (record.leader is not None),
            partition_epoch=before.partition_epoch + 1,
        )

    def _remove_topic(self, record: RemoveTopic) -> None:
        topic = self.base.topics_by_id.get(record.topic_id)
        if topic is None and record.topic_id in self._names:  # it came and went within this delta
            topic = TopicImage(self._names[record.topic_id], record.topic_id, ())
            del self._added[topic.name]
        if topic is None or record.topic_id in self._removed:
            raise CorruptMetadata(f"topic id {record.topic_id} is deleted, but there is none")
        self._removed[record.topic_id] = topic
        self._partitions.pop(record.topic_id, None)
        self._names.pop(record.topic_id, None)
        self._configs[TOPIC_RESOURCE, topic.name] = {}

    def _config(self, record: Config) -> None:
        key = (record.resource_type, record.resource_name)
        settings = self._configs.get(key)
        if settings is None:
            settings = self._configs[key] = dict(self.base.configs.get(key, {}))
        self.configured.add(key)
        if record.value is None:
            settings.pop(record.name, None)
        else:
            settings[record.name] = record.value

    def _feature(self, record: FeatureLevel) -> None:
        if self._features is None:
            self._features = dict(self.base.features)
        if record.level:
            self._features[record.name] = record.level
        else:
            self._features.pop(record.name, None)

    def _producer_ids(self, record: ProducerIds) -> None:
        if record.next_producer_id <= self._next_producer_id:
            raise CorruptMetadata(f"producer ids go back from {self._next_producer_id} to {record.next_producer_id}")
        self._next_producer_id = record.next_producer_id

    # --- look-ups ---

    def _broker(self, broker_id: int) -> BrokerRegistration:
        broker = self._brokers.get(broker_id)
        if broker is None:
            raise CorruptMetadata(f"broker {broker_id} changes, but it was never registered")
        return broker

    def _is_topic(self, name: str) -> bool:
        topic = self.base.topics.get(name)
        return topic is not None and topic.topic_id not in self._removed

    def _touched(self, topic_id: uuid.UUID) -> dict[int, PartitionImage]:
        partitions = self._partitions.get(topic_id)
        if partitions is None:
            topic = self.base.topics_by_id.get(topic_id)
            if topic is None or topic_id in self._removed:
                raise CorruptMetadata(f"a partition of topic id {topic_id}, but there is no such topic")
            self._names[topic_id] = topic.name
            partitions = self._partitions[topic_id] = {p.partition: p for p in topic.partitions}
        return partitions


def _in_order(name: str, partitions: dict[int, PartitionImage]) -> tuple[PartitionImage, ...]:
    try:
        return tuple([partitions[number] for number in range(len(partitions))])
    except KeyError as error:
        raise CorruptMetadata(f"topic {name} has {len(partitions)} partitions, but none numbered {error}") from None


_REPLAY: Final[dict[type[MetadataRecord], Callable[[ImageDelta, Any], None]]] = {
    RegisterBroker: ImageDelta._register_broker,
    UnregisterBroker: ImageDelta._unregister_broker,
    BrokerRegistrationChange: ImageDelta._change_registration,
    Topic: ImageDelta._topic,
    Partition: ImageDelta._partition,
    PartitionChange: ImageDelta._change_partition,
    RemoveTopic: ImageDelta._remove_topic,
    Config: ImageDelta._config,
    FeatureLevel: ImageDelta._feature,
    ProducerIds: ImageDelta._producer_ids,
    NoOp: lambda delta, record: None,
}


def apply_records(image: MetadataImage, records: Iterable[MetadataRecord], offset: int) -> ImageDelta:
    """Return the finished delta of one batch of records that ends at `offset`."""
    delta = ImageDelta(image)
    for record in records:
        delta.replay(record)
    delta.finish(offset)
    return delta
