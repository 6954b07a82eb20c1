"""Which replica leads a partition after a broker joins, fails or leaves cleanly. Pure.

Owner: the controller. Rules: Apache Kafka's PartitionChangeBuilder. A leader is in the ISR and alive: registered, not fenced, not in
controlled shutdown. The last member of an ISR stays in it when it fails, because it may have records that no other replica has; in a cluster
with eligible leader replicas it leaves the ISR and is eligible (`elr_rules`). Only an unclean election, where the topic allows it, makes
another replica the leader."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Final

from streamactors.broker.controller.rules.elr_rules import Eligible, eligible, min_isr_of, with_eligible
from streamactors.broker.log.folders.folder_ids import OPEN_FOLDERS
from streamactors.broker.metadata.image import METADATA_VERSION, NO_LEADER, MetadataImage, TopicImage
from streamactors.broker.metadata.metadata_record import (
    BrokerRegistration,
    BrokerRegistrationChange,
    MetadataRecord,
    PartitionChange,
    PartitionRecord,
)

Alive = Callable[[int], bool]
Unclean = Callable[[str], bool]
"""Whether a topic allows unclean elections."""

RECOVERING: Final = 1
FIRST_WITH_FOLDERS: Final = 17
"""The level of metadata.version, 3.7-IV2, from which on partitions have the folders of their replicas."""
NOBODY_ELIGIBLE: Final = Eligible()


def alive_in(image: MetadataImage, *, but: int | None = None) -> Alive:
    """Return whether a broker may lead; `but` is a broker that is about to leave."""

    def alive(broker_id: int) -> bool:
        broker = image.brokers.get(broker_id)
        return broker is not None and broker_id != but and not broker.fenced and not broker.in_controlled_shutdown

    return alive


def leaders_in(image: MetadataImage, partition: PartitionRecord, alive: Alive) -> Alive:
    """Return whether a broker may lead a partition: it is alive, and the data folder of its replica works."""
    if not partition.directories:
        return alive

    return lambda broker_id: alive(broker_id) and image.brokers[broker_id].has_folder_of(partition)


def partitions_of(image: MetadataImage) -> Iterator[tuple[TopicImage, PartitionRecord]]:
    """Yield every partition with its topic."""
    for topic in image.topics.values():
        for partition in topic.partitions:
            yield topic, partition


def elect(
    partition: PartitionRecord,
    isr: tuple[int, ...],
    replicas: tuple[int, ...],
    alive: Alive,
    *,
    unclean: bool = False,
    now: Eligible = NOBODY_ELIGIBLE,
) -> tuple[int, bool]:
    """Return the leader for this ISR, and whether its election is unclean. NO_LEADER if no replica may lead.

    The present leader stays if it may lead; otherwise the first of the replica list that may."""
    clean = {*isr, *now.elr}
    if partition.leader in clean and partition.leader in replicas and alive(partition.leader):
        return partition.leader, False
    for replica in replicas:
        if replica in clean and alive(replica):
            return replica, False
    if not clean and len(now.last_leader) == 1 and now.last_leader[0] in replicas and alive(now.last_leader[0]):
        return now.last_leader[0], True
    if unclean:
        for replica in replicas:
            if alive(replica):
                return replica, True
    return NO_LEADER, False


def change(
    partition: PartitionRecord,
    isr: tuple[int, ...],
    alive: Alive,
    *,
    unclean: bool = False,
    min_isr: int | None = None,
    crashed: int | None = None,
) -> PartitionChange | None:
    """Return the change of a partition that gets this ISR, with an election where one is needed; None if nothing changes.

    `min_isr`: see `elr_rules`; the logs of a broker that has `crashed` may have lost their ends."""
    replicas = partition.replicas
    now = eligible(partition, isr, replicas, min_isr, crashed)
    leader, is_unclean = elect(partition, isr, replicas, alive, unclean=unclean, now=now)
    if is_unclean or leader in now.elr:
        isr = (leader,)
        others = tuple(each for each in now.elr if each != leader and not is_unclean)
        now = Eligible(others if min_isr is not None and min(min_isr, len(replicas)) > 1 else ())
    made = PartitionChange(
        partition.partition,
        partition.topic_id,
        isr=isr if isr != partition.isr else None,
        leader=leader if leader != partition.leader else None,
        recovering=RECOVERING if is_unclean else None,
    )
    made = with_eligible(made, partition, now)
    return None if made == PartitionChange(partition.partition, partition.topic_id) else made


def without_broker(
    image: MetadataImage,
    broker_id: int,
    unclean: Unclean,
    *,
    crashed: bool = False,
    folders: Collection[uuid.UUID] | None = None,
) -> list[PartitionChange]:
    """Return the changes when a broker is fenced, begins its controlled shutdown, or comes back after it `crashed`; when only `folders` of it
    have failed, those of the partitions in them."""
    alive = alive_in(image, but=broker_id)
    changes = []
    for topic, partition in partitions_of(image):
        concerned = (
            broker_id in partition.isr or partition.leader == broker_id or (crashed and broker_id in partition.elr)
        )
        if not concerned or (folders is not None and partition.folder_of(broker_id) not in folders):
            continue
        isr, min_isr = tuple(each for each in partition.isr if each != broker_id), min_isr_of(image, topic.name)
        if min_isr is None:
            isr = isr or partition.isr
        made = change(
            partition,
            isr,
            leaders_in(image, partition, alive),
            unclean=unclean(topic.name),
            min_isr=min_isr,
            crashed=broker_id if crashed else None,
        )
        if made is not None:
            changes.append(made)
    return changes


def without_folders(
    image: MetadataImage, broker: BrokerRegistration, failed: Iterable[uuid.UUID], unclean: Unclean
) -> list[MetadataRecord]:
    """Return the changes when data folders of a broker fail (KIP-858); none for folders that it does not have, or has lost already."""
    lost = set(failed) & set(broker.log_dirs)
    if not lost or image.features.get(METADATA_VERSION, 0) < FIRST_WITH_FOLDERS:
        return []
    left = tuple(each for each in broker.log_dirs if each not in lost)
    changed = without_broker(image, broker.broker_id, unclean, folders=lost)
    return [*changed, BrokerRegistrationChange(broker.broker_id, broker.broker_epoch, log_dirs=left)]


def folders_lost_by(image: MetadataImage, broker: BrokerRegistration) -> set[uuid.UUID]:
    """Return the data folders that have replicas of a broker, and that it no longer registers."""
    if not broker.log_dirs:
        return set()
    folders = {partition.folder_of(broker.broker_id) for _, partition in partitions_of(image)}
    return {each for each in folders if each is not None and each not in OPEN_FOLDERS} - set(broker.log_dirs)


def with_broker(image: MetadataImage, broker_id: int, unclean: Unclean) -> list[PartitionChange]:
    """Return the elections of partitions without a leader, when this broker is unfenced. `image` has it fenced still."""
    others = alive_in(image)

    def alive(each: int) -> bool:
        return each == broker_id or others(each)

    changes = []
    for topic, partition in partitions_of(image):
        if partition.leader != NO_LEADER or broker_id not in partition.replicas:
            continue
        min_isr = min_isr_of(image, topic.name)
        may_lead = leaders_in(image, partition, alive)
        made = change(partition, partition.isr, may_lead, unclean=unclean(topic.name), min_isr=min_isr)
        if made is not None:
            changes.append(made)
    return changes


def preferred(partition: PartitionRecord, alive: Alive) -> PartitionChange | None:
    """Return the election of the first replica; None if it may not lead, or leads already."""
    first = partition.replicas[0]
    if first == partition.leader or first not in partition.isr or not alive(first):
        return None
    return PartitionChange(partition.partition, partition.topic_id, leader=first)
