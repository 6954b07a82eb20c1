"""The changes from one image to the next. Records are applied to a delta, which copies only what they change.

Owner: the controller, and the loader of a broker that follows one. A delta lists what was created, changed and deleted, so that
the broker need not compare images. The topics are in `topics_delta`.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Final

from streamactors.broker.metadata import security_record as security
from streamactors.broker.metadata.edits import Edits
from streamactors.broker.metadata.image import MetadataImage, ResourceKey, TopicImage
from streamactors.broker.metadata.metadata_record import (
    BROKER_RESOURCE,
    TOPIC_RESOURCE,
    BrokerRegistration,
    BrokerRegistrationChange,
    ClearElr,
    ConfigRecord,
    ControllerRegistration,
    FeatureLevel,
    FenceBroker,
    MetadataRecord,
    NoOp,
    PartitionChange,
    PartitionRecord,
    ProducerIdsRecord,
    RemoveTopic,
    TopicRecord,
    UnfenceBroker,
    UnregisterBroker,
    UnregisterController,
    ZkMigrationState,
)
from streamactors.broker.metadata.topics_delta import TopicsDelta
from streamactors.broker.protocol.record_schema import CorruptRecord


class ImageDelta:
    """The changes on top of `base`. After `finish`, `image` is the new image."""

    def __init__(self, base: MetadataImage) -> None:
        self.base: Final = base
        self.image = base
        self.configured: set[ResourceKey] = set()
        self._topics = TopicsDelta(base)
        self._configs: dict[ResourceKey, dict[str, str]] = {}
        self._brokers = Edits(base.brokers)
        self._controllers = Edits(base.controllers)
        self._features = Edits(base.features)
        self._acls = Edits(base.acls)
        self._scram = Edits(base.scram)
        self._tokens = Edits(base.tokens)
        self._quotas = Edits(base.quotas)
        self._next_producer_id = base.next_producer_id
        self._zk_migration = base.zk_migration

    @classmethod
    def between(cls, base: MetadataImage, image: MetadataImage) -> ImageDelta:
        """Return the finished delta between two images, without their records."""
        delta = cls(base)
        delta.image = image
        old, new = base.topics_by_id, image.topics_by_id
        delta._topics.touched = {topic_id: {} for topic_id, topic in new.items() if old.get(topic_id) != topic}
        delta._topics.removed = {topic_id: topic for topic_id, topic in old.items() if topic_id not in new}
        keys = base.configs.keys() | image.configs.keys()
        delta.configured = {key for key in keys if base.configs.get(key) != image.configs.get(key)}
        ids = base.brokers.keys() | image.brokers.keys()
        delta._brokers.keys = {each for each in ids if base.brokers.get(each) != image.brokers.get(each)}
        return delta

    @classmethod
    def again(cls, image: MetadataImage, topics: Iterable[str]) -> ImageDelta:
        """Return a delta that changes nothing, and lists these topics as changed: followers that failed to follow them try again."""
        delta = cls(image)
        delta._topics.touched = {image.topics[name].topic_id: {} for name in topics if name in image.topics}
        return delta

    @property
    def created(self) -> tuple[TopicImage, ...]:
        """Return the new topics."""
        return tuple(self.image.topics_by_id[i] for i in self._topics.touched if i not in self.base.topics_by_id)

    @property
    def changed(self) -> tuple[TopicImage, ...]:
        """Return the existing topics whose partitions, leaders or replicas changed."""
        return tuple(self.image.topics_by_id[i] for i in self._topics.touched if i in self.base.topics_by_id)

    @property
    def deleted(self) -> tuple[TopicImage, ...]:
        """Return the deleted topics, as they were before."""
        return tuple(topic for topic_id, topic in self._topics.removed.items() if topic_id in self.base.topics_by_id)

    def was_deleted(self, topic_id: uuid.UUID | None) -> bool:
        """Whether a topic with this id was deleted in this delta, even if it was also created in it."""
        return topic_id in self._topics.removed

    @property
    def changed_brokers(self) -> frozenset[int]:
        """Return the ids of the brokers that registered, changed or left."""
        return frozenset(self._brokers.keys)

    @property
    def acls_changed(self) -> bool:
        """Whether access control entries were added or removed."""
        return self.image.acls is not self.base.acls

    @property
    def quotas_changed(self) -> bool:
        """Whether client quotas were set or removed."""
        return self.image.quotas is not self.base.quotas

    @property
    def configured_topics(self) -> frozenset[str]:
        """Return the names of the topics whose settings changed."""
        return frozenset(name for kind, name in self.configured if kind == TOPIC_RESOURCE)

    @property
    def brokers_configured(self) -> bool:
        """Whether a setting of a broker, or of all brokers, changed."""
        return any(kind == BROKER_RESOURCE for kind, _ in self.configured)

    def replay(self, record: MetadataRecord) -> None:
        """Apply one record. Raises CorruptRecord if it contradicts earlier records, or if it brackets a transaction: only the
        records of a whole transaction may be applied, as `MetadataLoader` does."""
        replay = _REPLAY.get(type(record))
        if replay is None:
            raise CorruptRecord(f"{type(record).__name__} marks a transaction; it cannot be applied to an image")
        replay(self, record)

    def finish(self, offset: int) -> MetadataImage:
        """Return the image up to and with the record at `offset`."""
        base = self.base
        topics, by_id = self._topics.image()
        configs = base.configs
        if self._configs:
            configs = {key: settings for key, settings in {**configs, **self._configs}.items() if settings}
        self.image = MetadataImage(
            offset=offset,
            brokers=self._brokers.now,
            controllers=self._controllers.now,
            topics=topics,
            topics_by_id=by_id,
            configs=configs,
            features=self._features.now,
            next_producer_id=self._next_producer_id,
            acls=self._acls.now,
            scram=self._scram.now,
            tokens=self._tokens.now,
            quotas=self._quotas.now,
            zk_migration=self._zk_migration,
        )
        return self.image

    # --- brokers and controllers ---

    def _register_broker(self, record: BrokerRegistration) -> None:
        self._brokers.put(record.broker_id, record)

    def _unregister_broker(self, record: UnregisterBroker) -> None:
        self._broker(record)
        self._brokers.drop(record.broker_id)

    def _change_registration(self, record: BrokerRegistrationChange) -> None:
        broker = self._broker(record)
        if record.fenced:
            broker = replace(broker, fenced=record.fenced > 0)
        if record.in_controlled_shutdown:
            broker = replace(broker, in_controlled_shutdown=True)
        if record.log_dirs is not None:
            broker = replace(broker, log_dirs=record.log_dirs)
        if record.cordoned is not None:
            broker = replace(broker, cordoned=record.cordoned)
        self._brokers.put(record.broker_id, broker)

    def _fence(self, record: FenceBroker) -> None:
        self._brokers.put(record.broker_id, replace(self._broker(record), fenced=True))

    def _unfence(self, record: UnfenceBroker) -> None:
        self._brokers.put(record.broker_id, replace(self._broker(record), fenced=False))

    def _broker(
        self, record: UnregisterBroker | BrokerRegistrationChange | FenceBroker | UnfenceBroker
    ) -> BrokerRegistration:
        broker = self._brokers.now.get(record.broker_id)
        if broker is None:
            raise CorruptRecord(f"broker {record.broker_id} changes, but it was never registered")
        if broker.broker_epoch != record.broker_epoch:
            raise CorruptRecord(
                f"broker {record.broker_id} changes in epoch {record.broker_epoch}, but it registered in epoch "
                f"{broker.broker_epoch}"
            )
        return broker

    def _unregister_controller(self, record: UnregisterController) -> None:
        if not self._controllers.drop(record.controller_id):
            raise CorruptRecord(f"controller {record.controller_id} is unregistered, but it was never registered")

    # --- settings, features, numbers ---

    def _remove_topic(self, record: RemoveTopic) -> None:
        self._configs[TOPIC_RESOURCE, self._topics.remove(record)] = {}

    def _config(self, record: ConfigRecord) -> None:
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
        if record.level:
            self._features.put(record.name, record.level)
        else:
            self._features.drop(record.name)

    def _producer_ids(self, record: ProducerIdsRecord) -> None:
        if record.next_producer_id <= self._next_producer_id:
            raise CorruptRecord(f"producer ids go back from {self._next_producer_id} to {record.next_producer_id}")
        self._next_producer_id = record.next_producer_id

    def _zk(self, record: ZkMigrationState) -> None:
        self._zk_migration = record.state

    # --- users and quotas ---

    def _remove_acl(self, record: security.RemoveAccessControlEntry) -> None:
        if not self._acls.drop(record.id):
            raise CorruptRecord(f"access control entry {record.id} is removed, but there is no such entry")

    def _remove_scram(self, record: security.RemoveUserScramCredential) -> None:
        if not self._scram.drop((record.name, record.mechanism)):
            raise CorruptRecord(f"the SCRAM credential of user {record.name} is removed, but there is none")

    def _quota(self, record: security.ClientQuota) -> None:
        entity = frozenset(record.entity)
        limits = dict(self._quotas.now.get(entity, {}))
        if record.remove:
            limits.pop(record.key, None)
        else:
            limits[record.key] = record.value
        if limits:
            self._quotas.put(entity, limits)
        else:
            self._quotas.drop(entity)


_REPLAY: Final[dict[type[MetadataRecord], Callable[[ImageDelta, Any], object]]] = {
    BrokerRegistration: ImageDelta._register_broker,
    UnregisterBroker: ImageDelta._unregister_broker,
    BrokerRegistrationChange: ImageDelta._change_registration,
    FenceBroker: ImageDelta._fence,
    UnfenceBroker: ImageDelta._unfence,
    UnregisterController: ImageDelta._unregister_controller,
    ControllerRegistration: lambda delta, record: delta._controllers.put(record.controller_id, record),
    TopicRecord: lambda delta, record: delta._topics.create(record),
    PartitionRecord: lambda delta, record: delta._topics.partition(record),
    PartitionChange: lambda delta, record: delta._topics.change(record),
    ClearElr: lambda delta, record: delta._topics.clear_elr(record),
    RemoveTopic: ImageDelta._remove_topic,
    ConfigRecord: ImageDelta._config,
    FeatureLevel: ImageDelta._feature,
    ProducerIdsRecord: ImageDelta._producer_ids,
    security.AccessControlEntry: lambda delta, record: delta._acls.put(record.id, record),
    security.RemoveAccessControlEntry: ImageDelta._remove_acl,
    security.UserScramCredential: lambda delta, record: delta._scram.put((record.name, record.mechanism), record),
    security.RemoveUserScramCredential: ImageDelta._remove_scram,
    security.DelegationToken: lambda delta, record: delta._tokens.put(record.token_id, record),
    security.RemoveDelegationToken: lambda delta, record: delta._tokens.drop(record.token_id),
    security.ClientQuota: ImageDelta._quota,
    ZkMigrationState: ImageDelta._zk,
    NoOp: lambda delta, record: None,
}


def apply_records(image: MetadataImage, records: Iterable[MetadataRecord], offset: int) -> ImageDelta:
    """Return the finished delta of one batch of records that ends at `offset`."""
    delta = ImageDelta(image)
    for record in records:
        delta.replay(record)
    delta.finish(offset)
    return delta
