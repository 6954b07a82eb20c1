"""The records with which a node that is a controller registers its own broker. Pure.

Owner: `Controller`, at the start of the node."""

from __future__ import annotations

import uuid
from collections.abc import Iterable

from streamactors.broker.controller.rules.election_rules import folders_lost_by, without_broker
from streamactors.broker.metadata.image import METADATA_VERSION, MetadataImage
from streamactors.broker.metadata.metadata_record import (
    BrokerRegistration,
    MetadataRecord,
    PartitionChange,
)


def own_registration(
    image: MetadataImage,
    broker: BrokerRegistration,
    *,
    was_clean: bool,
    leads_others: bool,
    first: Iterable[MetadataRecord] = (),
) -> list[MetadataRecord]:
    """Return the records of a registration: what precedes it, the registration, and the elections where the broker has the only replica.

    The `first` features precede it where the metadata has none. After an unclean stop the ends of logs may be lost, so in a cluster of
    several the broker first leaves every ISR that has other members."""
    before: list[MetadataRecord] = []
    if (
        METADATA_VERSION not in image.features
    ):  # also on a node alone: Apache Kafka and its shell do not read metadata without it
        before += first
    if leads_others and not was_clean:
        before += without_broker(image, broker.broker_id, lambda _: False, crashed=True)
    lost = folders_lost_by(image, broker)
    after = without_broker(image, broker.broker_id, lambda _: False, folders=lost) if lost else []
    return [*before, broker, *after, *_elections(image, broker, everything=not was_clean)]


def _elections(image: MetadataImage, broker: BrokerRegistration, *, everything: bool) -> list[MetadataRecord]:
    """Return the changes that make this broker the leader of the partitions whose only replica it has.

    After an unclean stop the ends of logs may be lost: a new epoch for `everything` lets consumers detect that.
    """
    broker_id = broker.broker_id
    return [
        PartitionChange(partition.partition, topic.topic_id, isr=(broker_id,), leader=broker_id)
        for topic in image.topics.values()
        for partition in topic.partitions
        if partition.replicas == (broker_id,)
        and (everything or partition.leader != broker_id)
        and broker.has_folder_of(partition)
    ]


def new_topic_id() -> uuid.UUID:
    """Return a random id whose text in Kafka's form does not begin with `-`, which a command line would read as an option."""
    while True:
        made = uuid.uuid4()
        if made.bytes[0] >> 2 != 62:
            return made
