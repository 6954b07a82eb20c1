"""The new target assignment of a group, by one of the coordinator's assignors.

Owner: the state machine of consumer groups. Pure. Source: KIP-848, KIP-1263; Apache Kafka's TargetAssignmentBuilder."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Final

from streamactors.broker.errors import ErrorCode, Refusal
from streamactors.broker.group.assignors.assignors import assign
from streamactors.broker.group.assignors.group_spec import (
    AssignorFailed,
    GroupSpec,
    Partitions,
    SpecMember,
    members_in_hash_order,
)
from streamactors.broker.group.assignors.hash_order import HashOrdered, text_hash, timeline_order
from streamactors.broker.group.consumer.consumer_events import Around, Decision
from streamactors.broker.group.consumer.consumer_group import ConsumerGroup, ConsumerMember
from streamactors.broker.group.consumer.reconcile import subscribed_names
from streamactors.broker.group.consumer.record_of import target_epoch_record, target_record
from streamactors.broker.group.stored_times import interval_is_over
from streamactors.broker.metadata.image import MetadataImage

_ASSIGNORS_TABLE: Final = 2
"""Size of Apache Kafka's table of the assignors that members ask for."""

_NO_PARTITIONS: Final[Partitions] = {}


def update_target(
    group: ConsumerGroup,
    before: ConsumerMember,
    member: ConsumerMember,
    epoch: int,
    same_topics: bool,
    around: Around,
    decision: Decision,
) -> tuple[int, Partitions]:
    """Compute a new target assignment if the group's epoch has moved and the interval allows it; return its epoch, and the member's target.

    Raises Refusal UNKNOWN_SERVER_ERROR if the assignor fails."""
    replaced = group.static_member(member.instance_id)
    old_id = member.member_id if replaced is None else replaced.member_id
    if group.assignment_epoch >= epoch or not _may_assign(group, around):
        return group.assignment_epoch, group.targets.get(old_id, _NO_PARTITIONS)
    targets = dict(group.targets)
    if old_id != member.member_id and old_id in targets:
        targets[member.member_id] = targets.pop(old_id)
    order = group.member_order(*(() if member.member_id in group.members else (member.member_id,)))
    ids = [member_id for member_id in order if member_id == member.member_id or member_id != old_id]
    members = {**group.members, member.member_id: member}
    spec_members = members_in_hash_order(
        [_spec_of(group, members[each], targets.get(each, _NO_PARTITIONS), around.image) for each in ids]
    )

    def partition_count(topic_id: uuid.UUID) -> int:
        topic = around.image.topics_by_id.get(topic_id)
        return -1 if topic is None else len(topic.partitions)

    name = preferred_assignor(group, before, member, around.rules.assignors[0])
    try:
        made = assign(name, GroupSpec(spec_members, same_topics, partition_count))
    except AssignorFailed as failed:
        why = f"Failed to compute a new target assignment for epoch {epoch}: {failed}"
        raise Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, why) from failed
    for each in spec_members:
        new = made.get(each.member_id, _NO_PARTITIONS)
        if not _equal(new, targets.get(each.member_id)):
            decision.records.append(target_record(group.group_id, each.member_id, new))
    decision.records.append(target_epoch_record(group.group_id, epoch, around.now_ms))
    return epoch, made.get(member.member_id, _NO_PARTITIONS)


def _may_assign(group: ConsumerGroup, around: Around) -> bool:
    made_ms = group.assignment_time_ms
    return not made_ms or interval_is_over(made_ms, around.rules.assignment_interval_ms, around.now_ms)


def _spec_of(group: ConsumerGroup, member: ConsumerMember, target: Partitions, image: MetadataImage) -> SpecMember:
    names = HashOrdered.copy_of(text_hash, sorted(subscribed_names(group, member)))
    topics = [image.topics[name].topic_id for name in names if name in image.topics]
    return SpecMember(member.member_id, member.instance_id, topics, target, len(names))


def _equal(new: Partitions, old: Partitions | None) -> bool:
    if old is None or len(new) != len(old):
        return False
    return all(topic in old and frozenset(partitions) == frozenset(old[topic]) for topic, partitions in new.items())


def preferred_assignor(
    group: ConsumerGroup, before: ConsumerMember | None, after: ConsumerMember | None, default: str
) -> str:
    """Return the assignor that most members ask for after a member has changed; members that ask for none do not count."""
    counts = dict(group.assignors)
    capacity = int(len(counts) / 0.75 + 1) if counts else 16
    order = HashOrdered(text_hash, timeline_order(counts, _ASSIGNORS_TABLE), capacity=capacity)
    if before is not None and before.assignor in counts:
        counts[before.assignor] -= 1
        if not counts[before.assignor]:
            order.discard(before.assignor)
    if after is not None and after.assignor is not None:
        counts[after.assignor] = counts.get(after.assignor, 0) + 1
        order.add_first(after.assignor)
    return _most(order, counts, default)


def present_assignor(group: ConsumerGroup, default: str) -> str:
    """Return the assignor that most members ask for now."""
    return _most(timeline_order(group.assignors, _ASSIGNORS_TABLE), group.assignors, default)


def _most(order: HashOrdered[str] | list[str], counts: Mapping[str, int], default: str) -> str:
    best, most = default, 0
    for name in order:
        if counts.get(name, 0) > most:
            best, most = name, counts[name]
    return best
