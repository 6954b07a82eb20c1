"""Moves a member towards its target assignment: it gives partitions back, takes the new epoch, and gets what is free.

Owner: the state machine of consumer groups. Pure. A partition has one owner at a time: a member gets it when nobody has it.
Source: KIP-848, Apache Kafka's CurrentAssignmentBuilder."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import replace

from streamactors.broker.errors import ErrorCode, Refusal
from streamactors.broker.group.assignors.group_spec import Partitions
from streamactors.broker.group.consumer.consumer_events import Owned
from streamactors.broker.group.consumer.consumer_group import ConsumerGroup, ConsumerMember, Epochs, MemberState
from streamactors.broker.metadata.image import MetadataImage

_Editable = dict[uuid.UUID, dict[int, int]]


def reconcile(
    group: ConsumerGroup,
    member: ConsumerMember,
    target_epoch: int,
    target: Partitions,
    image: MetadataImage,
    owned: Owned | None,
    *,
    subscription_changed: bool,
) -> ConsumerMember:
    """Return the member as far on its way as it can be. `owned` is what it says it has, None if it does not say.

    Raises Refusal FENCED_MEMBER_EPOCH if its state is unknown."""
    topics = subscribed_ids(group, member, image)
    match member.state:
        case MemberState.STABLE if member.epoch == target_epoch:
            return _without_unsubscribed(member, topics, owned) if subscription_changed else member
        case MemberState.UNREVOKED_PARTITIONS if _has_any(owned, member.revoking):
            return _without_unsubscribed(member, topics, owned) if subscription_changed else member
        case MemberState.UNKNOWN:
            if owned is None or owned:
                raise Refusal(
                    ErrorCode.FENCED_MEMBER_EPOCH,
                    "The consumer group member is in a unknown state. The member must abandon all its partitions and rejoin.",
                )
            return _next(group, member, target_epoch, target_epoch, target, topics, owned)
        case _:
            return _next(group, member, member.epoch, target_epoch, target, topics, owned)


def subscribed_ids(group: ConsumerGroup, member: ConsumerMember, image: MetadataImage) -> dict[uuid.UUID, None]:
    """Return the ids of the topics that a member subscribes to and that exist, in order of their names."""
    names = subscribed_names(group, member)
    return {image.topics[name].topic_id: None for name in sorted(names) if name in image.topics}


def subscribed_names(group: ConsumerGroup, member: ConsumerMember) -> frozenset[str]:
    """Return the topics that a member subscribes to, by name or through a resolved regular expression."""
    resolved = group.regexes.get(member.regex) if member.regex else None
    return member.topics if resolved is None else member.topics | resolved.topics


def _has_any(owned: Owned | None, partitions: Epochs) -> bool:
    """Whether the member still has one of these partitions; it does as long as it does not say what it has."""
    if owned is None:
        return True
    return any(each in partitions.get(topic_id, ()) for topic_id, held in owned for each in held)


def _without_unsubscribed(
    member: ConsumerMember, topics: Mapping[uuid.UUID, None], owned: Owned | None
) -> ConsumerMember:
    """Return the member without partitions of topics that it does not subscribe to any more; its target may still have them."""
    gone = [topic_id for topic_id in member.assigned if topic_id not in topics]
    if not gone and (topics or member.revoking):
        return member
    assigned = {topic_id: epochs for topic_id, epochs in member.assigned.items() if topic_id in topics}
    revoking = dict(member.revoking)
    for topic_id in gone:
        revoking[topic_id] = {**revoking.get(topic_id, {}), **member.assigned[topic_id]}
    moved = replace(member, epoch=member.epoch, previous_epoch=member.epoch, assigned=assigned)
    if not _has_any(owned, revoking):
        return moved
    return replace(moved, state=MemberState.UNREVOKED_PARTITIONS, revoking=revoking)


def _next(
    group: ConsumerGroup,
    member: ConsumerMember,
    epoch: int,
    target_epoch: int,
    target: Partitions,
    topics: Mapping[uuid.UUID, None],
    owned: Owned | None,
) -> ConsumerMember:
    assigned: _Editable = {}
    revoking: _Editable = {}
    pending: dict[uuid.UUID, list[int]] = {}
    unreleased = False
    for topic_id in {**dict.fromkeys(target), **dict.fromkeys(member.assigned)}:
        wanted = frozenset(target.get(topic_id, ())) if topic_id in topics else frozenset()
        has = member.assigned.get(topic_id, {})
        kept = {partition: at for partition, at in has.items() if partition in wanted}
        given_back = {partition: at for partition, at in has.items() if partition not in wanted}
        missing = [partition for partition in sorted(wanted) if partition not in kept]
        own = member.revoking.get(topic_id, {})
        free = [each for each in missing if group.owner_epoch(topic_id, each) == -1 or each in own]
        unreleased = unreleased or len(free) < len(missing)
        if kept:
            assigned[topic_id] = kept
        if given_back:
            revoking[topic_id] = given_back
        if free:
            pending[topic_id] = free
    if revoking and _has_any(owned, revoking):
        return replace(
            member,
            state=MemberState.UNREVOKED_PARTITIONS,
            epoch=epoch,
            previous_epoch=member.epoch,
            assigned=assigned,
            revoking=revoking,
        )
    for topic_id, partitions in pending.items():
        assigned.setdefault(topic_id, {}).update(dict.fromkeys(partitions, target_epoch))
    return replace(
        member,
        state=MemberState.UNRELEASED_PARTITIONS if unreleased else MemberState.STABLE,
        epoch=target_epoch,
        previous_epoch=member.epoch,
        assigned=assigned,
        revoking={},
    )
