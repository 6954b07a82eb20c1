"""The topics, their settings and the brokers of a simulated cluster: the metadata image, changed by the broker's own rules.

Owner: `SimulatedCluster`. A change is at once known to every broker. The image is the truth about names, ids and settings; a `Partition` is the truth
about its leader, and reports changes to the image."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from streamactors.broker.config.describe import resolve_topic
from streamactors.broker.controller.command import Facts, PlannedChange
from streamactors.broker.errors import ErrorCode
from streamactors.broker.metadata.delta import ImageDelta
from streamactors.broker.metadata.image import GROUP_VERSION, METADATA_VERSION, TRANSACTION_VERSION, MetadataImage
from streamactors.broker.metadata.metadata_record import (
    BrokerRegistration,
    FeatureLevel,
    FenceBroker,
    MetadataRecord,
    UnfenceBroker,
)
from streamactors.simulation.cluster.partitions.partition import Partition
from streamactors.simulation.cluster.partitions.rules import PartitionRules

if TYPE_CHECKING:
    from streamactors.broker.config.broker_config import BrokerConfig
    from streamactors.simulation.world.face import World

Command = TypeVar("Command")
_METADATA_LEVEL = 25


class Topics:
    """The metadata, and every partition of a topic that users see."""

    def __init__(
        self, world: World, config: BrokerConfig, brokers: int, replication_ms: Callable[[int], float | None]
    ) -> None:
        self._world = world
        self.config = config
        self._replication_ms = replication_ms
        self.partitions: dict[tuple[str, int], Partition] = {}
        self.counts: dict[str, int] = {}
        """The number of partitions of each topic."""
        self.changed: Callable[[ImageDelta], None] = lambda _: None
        """Called after every change of the metadata."""
        self.image = MetadataImage()
        self._apply(
            [
                FeatureLevel(METADATA_VERSION, _METADATA_LEVEL),
                FeatureLevel(TRANSACTION_VERSION, 0),
                FeatureLevel(GROUP_VERSION, 1),
                *(BrokerRegistration(each, incarnation_id=self.new_id(), broker_epoch=each) for each in range(brokers)),
            ]
        )

    def new_id(self) -> uuid.UUID:
        """Return a random id, from the world's dice."""
        return uuid.UUID(int=self._world.dice.getrandbits(128), version=4)

    # --- questions ---

    def is_alive(self, broker: int) -> bool:
        """Whether a broker runs."""
        found = self.image.brokers.get(broker)
        return found is not None and not found.fenced

    def get(self, topic: str, partition: int) -> Partition | None:
        """Return a partition, None if it does not exist."""
        return self.partitions.get((topic, partition))

    def of(self, topic: str) -> list[Partition]:
        """Return the partitions of a topic in order; none if it does not exist."""
        found = self.image.topics.get(topic)
        return [] if found is None else [self.partitions[topic, index] for index in range(len(found.partitions))]

    # --- changes ---

    def change(self, rule: Callable[[Facts, Command], PlannedChange], command: Command) -> Any:
        """Carry out a command of the controller by its rule; return the answer."""
        facts = Facts(
            self.image, self.config, 0, 0, self.new_id, self._world.dice.randrange(max(1, len(self.image.brokers)))
        )
        planned = rule(facts, command)
        if planned.records:
            self._apply(planned.records)
        return planned.answer

    def set_alive(self, broker: int, alive: bool) -> None:
        """Note that a broker has stopped or started, and let partitions choose leaders."""
        epoch = self.image.brokers[broker].broker_epoch
        self._apply([UnfenceBroker(broker, epoch) if alive else FenceBroker(broker, epoch)])
        for partition in tuple(self.partitions.values()):
            if not alive and partition.leader == broker:
                partition.elect()
            if not alive:
                partition.shrink_isr(gone=broker)
            elif partition.leader < 0:
                partition.elect()
            partition.replicate()

    def _apply(self, records: Iterable[MetadataRecord]) -> None:
        delta = ImageDelta(self.image)
        for record in records:
            delta.replay(record)
        self.image = delta.finish(self.image.offset + 1)
        for topic in delta.deleted:
            for index in range(len(topic.partitions)):
                self.partitions.pop((topic.name, index)).close()
            self.counts.pop(topic.name, None)
        for topic in (*delta.created, *delta.changed):
            self.counts[topic.name] = len(topic.partitions)
            rules = self._rules(topic.name)
            for index, record in enumerate(topic.partitions):
                if (topic.name, index) not in self.partitions:
                    made = Partition(
                        topic.name, index, record.replicas, rules, self._world, self.is_alive, self._replication_ms
                    )
                    made.moved = self._moved
                    self.partitions[topic.name, index] = made
        for name in delta.configured_topics:
            rules = self._rules(name)
            for partition in self.of(name):
                partition.rules = rules
        self.changed(delta)

    def _rules(self, topic: str) -> PartitionRules:
        return PartitionRules.of(resolve_topic(self.config, self.image.topic_overrides(topic)))

    def _moved(self, partition: Partition) -> None:
        """Write a partition's leader and ISR into the image."""
        topic = self.image.topics.get(partition.topic)
        if topic is None:
            return
        before = topic.partitions[partition.index]
        after = replace(
            before, leader=partition.leader, isr=partition.isr, leader_epoch=partition.leader_epoch,
            partition_epoch=before.partition_epoch + 1,
        )  # fmt: skip
        self._apply([after])


def error_of(topics: Topics, topic: str, partition: int) -> ErrorCode:
    """Return UNKNOWN_TOPIC_OR_PARTITION unless the partition exists."""
    known = topics.get(topic, partition) is not None
    return ErrorCode.NONE if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
