"""Which replica leads a partition after a broker comes, goes or leaves in order. Pure.

Owner: the controller. Rules: Apache Kafka's PartitionChangeBuilder. A leader is in the ISR and alive: registered, not fenced, not in
controlled shutdown. The last member of an ISR stays in it when it fails, because it may have records that no other replica has; in a cluster
with eligible leader replicas it leaves the ISR and is eligible (`elr_rules`). Only an unclean election, where the topic allows it, makes
another replica the leader."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from streamactors.broker.controller.rules.elr_rules import Eligible, eligible, min_isr_of, with_eligible
from streamactors.broker.metadata.image import NO_LEADER, MetadataImage, TopicImage
from streamactors.broker.metadata.metadata_record import PartitionChange, PartitionRecord

Alive = Callable[[int], bool]
Unclean = Callable[[str], bool]
"""Whether a topic allows unclean elections."""

RECOVERING: Final = 1
NOBODY_ELIGIBLE: Final = Eligible()


def alive_in(image: MetadataImage, *, but: int | None = None) -> Alive:
    """Return whether a broker may lead; `but` is a broker that is about to leave."""

    def alive(broker_id: int) -> bool:
        broker = image.brokers.get(broker_id)
        return broker is not None and broker_id != but and not broker.fenced and not broker.in_controlled_shutdown

    return alive


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
    image: MetadataImage, broker_id: int, unclean: Unclean, *, crashed: bool = False
) -> list[PartitionChange]:
    """Return the changes when a broker is fenced, begins its controlled shutdown, or comes back after it `crashed`."""
    alive = alive_in(image, but=broker_id)
    changes = []
    for topic, partition in partitions_of(image):
        concerned = (
            broker_id in partition.isr or partition.leader == broker_id or (crashed and broker_id in partition.elr)
        )
        if not concerned:
            continue
        isr, min_isr = tuple(each for each in partition.isr if each != broker_id), min_isr_of(image, topic.name)
        if min_isr is None:
            isr = isr or partition.isr
        made = change(
            partition,
            isr,
            alive,
            unclean=unclean(topic.name),
            min_isr=min_isr,
            crashed=broker_id if crashed else None,
        )
        if made is not None:
            changes.append(made)
    return changes


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
        made = change(partition, partition.isr, alive, unclean=unclean(topic.name), min_isr=min_isr)
        if made is not None:
            changes.append(made)
    return changes


def preferred(partition: PartitionRecord, alive: Alive) -> PartitionChange | None:
    """Return the election of the first replica; None if it may not lead, or leads already."""
    first = partition.replicas[0]
    if first == partition.leader or first not in partition.isr or not alive(first):
        return None
    return PartitionChange(partition.partition, partition.topic_id, leader=first)
