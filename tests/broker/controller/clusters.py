"""Images of clusters of several brokers, for the rules of the controller."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Sequence

from streamactors.broker.config.broker_config import BrokerConfig
from streamactors.broker.controller.command import Facts
from streamactors.broker.metadata.delta import apply_records
from streamactors.broker.metadata.image import MetadataImage
from streamactors.broker.metadata.metadata_record import (
    BrokerRegistration,
    Endpoint,
    MetadataRecord,
    PartitionRecord,
    TopicRecord,
)

TOPIC = "t"
TOPIC_ID = uuid.UUID(int=77)


def directory(broker: int) -> uuid.UUID:
    return uuid.UUID(int=1000 + broker)


def registered(broker: int, *, epoch: int, fenced: bool = False) -> BrokerRegistration:
    return BrokerRegistration(
        broker,
        uuid.UUID(int=broker),
        epoch,
        endpoints=(Endpoint("PLAINTEXT", "127.0.0.1", 9000 + broker),),
        fenced=fenced,
        log_dirs=(directory(broker),),
    )


def cluster(
    *partitions: PartitionRecord, brokers: Sequence[int] = (1, 2, 3), fenced: Collection[int] = ()
) -> MetadataImage:
    """Broker n has epoch 10 + n."""
    records: list[MetadataRecord] = [registered(each, epoch=10 + each, fenced=each in fenced) for each in brokers]
    if partitions:
        records += [TopicRecord(TOPIC, TOPIC_ID), *partitions]
    return apply_records(MetadataImage(), records, 99).image


def partition(
    number: int = 0,
    *,
    replicas: tuple[int, ...] = (1, 2, 3),
    isr: tuple[int, ...] | None = None,
    leader: int | None = None,
    adding: tuple[int, ...] = (),
    removing: tuple[int, ...] = (),
) -> PartitionRecord:
    return PartitionRecord(
        number,
        TOPIC_ID,
        replicas=replicas,
        isr=replicas if isr is None else isr,
        leader=replicas[0] if leader is None else leader,
        leader_epoch=5,
        partition_epoch=7,
        adding=adding,
        removing=removing,
    )


def facts(image: MetadataImage, *, me: int = 1) -> Facts:
    return Facts(image, BrokerConfig.of({}), me, image.brokers[me].broker_epoch, uuid.uuid4, 0)


def after(image: MetadataImage, records: Iterable[MetadataRecord]) -> MetadataImage:
    made = list(records)
    return apply_records(image, made, image.offset + len(made)).image


def only(image: MetadataImage) -> PartitionRecord:
    (found,) = image.topics[TOPIC].partitions
    return found
