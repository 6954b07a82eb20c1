"""The changes of topics and partitions from one image to the next.

Owner: `ImageDelta`. Rules: Apache Kafka's TopicsDelta and PartitionRegistration.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from streamactors.broker.metadata.image import MetadataImage, TopicImage
from streamactors.broker.metadata.metadata_record import (
    ClearElr,
    PartitionChange,
    PartitionRecord,
    RemoveTopic,
    TopicRecord,
)
from streamactors.broker.protocol.record_schema import CorruptRecord


class TopicsDelta:
    """The topics on top of `base`: `touched` are those created or changed, `removed` those deleted."""

    def __init__(self, base: MetadataImage) -> None:
        self.base: Final = base
        self.touched: dict[uuid.UUID, dict[int, PartitionRecord]] = {}
        self.removed: dict[uuid.UUID, TopicImage] = {}
        self._names: dict[uuid.UUID, str] = {}  # of touched topics
        self._added: dict[str, uuid.UUID] = {}

    def image(self) -> tuple[Mapping[str, TopicImage], Mapping[uuid.UUID, TopicImage]]:
        """Return the topics by name and by id."""
        topics, by_id = self.base.topics, self.base.topics_by_id
        if not self.touched and not self.removed:
            return topics, by_id
        new_topics, new_by_id = dict(topics), dict(by_id)
        for topic_id, topic in self.removed.items():
            new_by_id.pop(topic_id, None)
            if new_topics.get(topic.name, topic).topic_id == topic_id:
                new_topics.pop(topic.name, None)
        for topic_id, partitions in self.touched.items():
            made = TopicImage(self._names[topic_id], topic_id, _in_order(self._names[topic_id], partitions))
            new_topics[made.name] = new_by_id[topic_id] = made
        return new_topics, new_by_id

    # --- one method per record ---

    def create(self, record: TopicRecord) -> None:
        if record.name in self._added or self._exists(record.name):
            raise CorruptRecord(f"topic {record.name} is created twice")
        self._added[record.name] = record.topic_id
        self._names[record.topic_id] = record.name
        self.touched[record.topic_id] = {}

    def partition(self, record: PartitionRecord) -> None:
        self._touch(record.topic_id)[record.partition] = record

    def change(self, record: PartitionChange) -> None:
        partitions = self._touch(record.topic_id)
        before = partitions.get(record.partition)
        if before is None:
            name = self._names[record.topic_id]
            raise CorruptRecord(f"{name}-{record.partition} changes, but there is no such partition")
        partitions[record.partition] = replace(
            before,
            replicas=before.replicas if record.replicas is None else record.replicas,
            isr=before.isr if record.isr is None else record.isr,
            removing=before.removing if record.removing is None else record.removing,
            adding=before.adding if record.adding is None else record.adding,
            leader=before.leader if record.leader is None else record.leader,
            recovering=before.recovering if record.recovering is None else record.recovering,
            leader_epoch=before.leader_epoch + (record.leader is not None),
            partition_epoch=before.partition_epoch + 1,
            directories=before.directories if record.directories is None else record.directories,
            elr=before.elr if record.elr is None else record.elr,
            last_known_elr=before.last_known_elr if record.last_known_elr is None else record.last_known_elr,
        )

    def remove(self, record: RemoveTopic) -> str:
        """Remove a topic; return its name."""
        topic = self.base.topics_by_id.get(record.topic_id)
        if topic is None and record.topic_id in self._names:  # created and deleted within this delta
            topic = TopicImage(self._names[record.topic_id], record.topic_id, ())
            del self._added[topic.name]
        if topic is None or record.topic_id in self.removed:
            raise CorruptRecord(f"topic id {record.topic_id} is deleted, but it does not exist")
        self.removed[record.topic_id] = topic
        self.touched.pop(record.topic_id, None)
        self._names.pop(record.topic_id, None)
        return topic.name

    def clear_elr(self, record: ClearElr) -> None:
        if record.topic_name:
            topic_id = self._added.get(record.topic_name)
            if topic_id is None and self._exists(record.topic_name):
                topic_id = self.base.topics[record.topic_name].topic_id
            if topic_id is None:
                raise CorruptRecord(f"the ELR of topic {record.topic_name} is cleared, but there is no such topic")
            asked = {topic_id}
        else:
            asked = (self.base.topics_by_id.keys() - self.removed.keys()) | self.touched.keys()
        for each in asked:
            base = self.base.topics_by_id.get(each)
            partitions = self.touched[each].values() if each in self.touched else base.partitions if base else ()
            for partition in tuple(partitions):
                if partition.elr or partition.last_known_elr:
                    self.change(PartitionChange(partition.partition, each, elr=(), last_known_elr=()))

    # --- look-ups ---

    def _exists(self, name: str) -> bool:
        topic = self.base.topics.get(name)
        return topic is not None and topic.topic_id not in self.removed

    def _touch(self, topic_id: uuid.UUID) -> dict[int, PartitionRecord]:
        partitions = self.touched.get(topic_id)
        if partitions is None:
            topic = self.base.topics_by_id.get(topic_id)
            if topic is None or topic_id in self.removed:
                raise CorruptRecord(f"a partition of topic id {topic_id}, but there is no such topic")
            self._names[topic_id] = topic.name
            partitions = self.touched[topic_id] = {p.partition: p for p in topic.partitions}
        return partitions


def _in_order(name: str, partitions: dict[int, PartitionRecord]) -> tuple[PartitionRecord, ...]:
    try:
        return tuple([partitions[number] for number in range(len(partitions))])
    except KeyError as error:
        raise CorruptRecord(f"topic {name} has {len(partitions)} partitions, but none numbered {error}") from None
