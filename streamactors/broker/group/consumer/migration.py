"""A group with members changes its protocol: the classic group becomes a consumer group, or the other way round.

Owner: the coordinator of consumer groups. Pure. Members of the classic protocol stay as they are in a consumer group (`classic_members.py`); when the last
member of the consumer protocol has left, the group is a classic one again. Source: KIP-848, group.consumer.migration.policy; Apache Kafka's
validateOnlineUpgrade, ConsumerGroup.fromClassicGroup and ClassicGroup.fromConsumerGroup."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping
from dataclasses import replace

from streamactors.broker.errors import ErrorCode, Refusal
from streamactors.broker.group.assignors.group_spec import Partitions
from streamactors.broker.group.classic.classic_group import Group, GroupRules, GroupState, Member
from streamactors.broker.group.consumer.consumer_events import Around
from streamactors.broker.group.consumer.consumer_fold import fold
from streamactors.broker.group.consumer.consumer_group import (
    ClassicMember,
    ClassicProtocol,
    ConsumerGroup,
    ConsumerMember,
)
from streamactors.broker.group.consumer.consumer_record import ConsumerRecord
from streamactors.broker.group.consumer.embedded_protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
)
from streamactors.broker.group.consumer.record_of import (
    current_record,
    epoch_record,
    member_record,
    target_epoch_record,
    target_record,
)
from streamactors.broker.group.metadata_hash import metadata_hash
from streamactors.broker.metadata.image import MetadataImage
from streamactors.broker.protocol.record_schema import CorruptRecord


def upgraded(group: Group, around: Around) -> tuple[ConsumerGroup, list[ConsumerRecord]]:
    """Return the consumer group that a classic group becomes, and its records. Raises Refusal GROUP_ID_NOT_FOUND."""
    _check_upgrade(group, around)
    try:
        members = [_consumer_member(group, member, around.image) for member in group.members.values()]
    except CorruptRecord:
        raise _no_upgrade(group, "the embedded consumer protocol is malformed.") from None
    group_id, epoch = group.group_id, group.generation
    topics = {topic for member in members for topic in member.topics}
    records = [member_record(group_id, member) for member in members]
    records.append(epoch_record(group_id, epoch, metadata_hash(around.image, topics)))
    for member in members:
        has = {topic_id: tuple(held) for topic_id, held in member.assigned.items()}
        records.append(target_record(group_id, member.member_id, has))
    records.append(target_epoch_record(group_id, epoch, 0))
    records += [current_record(group_id, member) for member in members]
    made = fold(ConsumerGroup(group_id), records)
    assert made is not None
    return made, records


def _check_upgrade(group: Group, around: Around) -> None:
    if not around.rules.migration.may_upgrade:
        raise _no_upgrade(group, "online upgrade is disabled.")
    if not group.is_consumer_group:
        raise _no_upgrade(group, "the group does not use the consumer embedded protocol.")
    if len(group.members) > around.rules.max_size:
        raise _no_upgrade(group, "the group size exceeds the consumer group maximum size.")


def _no_upgrade(group: Group, why: str) -> Refusal:
    return Refusal(
        ErrorCode.GROUP_ID_NOT_FOUND, f"Cannot upgrade classic group {group.group_id} to consumer group because {why}"
    )


def _consumer_member(group: Group, member: Member, image: MetadataImage) -> ConsumerMember:
    subscription = decode_subscription(member.metadata_for(group.protocol))
    assigned: dict[uuid.UUID, dict[int, int]] = {}
    if member.assignment:
        assignment = decode_assignment(member.assignment)
        if assignment.user_data:
            raise _no_upgrade(
                group,
                "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default assignor "
                "before re-attempting the upgrade.",
            )
        for topic, partitions in assignment.assigned:
            if topic in image.topics:
                assigned[image.topics[topic].topic_id] = dict.fromkeys(partitions, group.generation)
    return ConsumerMember(
        member.member_id,
        member.instance_id,
        subscription.rack_id or None,
        member.client_id,
        member.client_host,
        frozenset(subscription.topics),
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic=ClassicMember(member.session_timeout_ms, tuple(ClassicProtocol(*each) for each in member.protocols)),
        epoch=group.generation,
        previous_epoch=group.generation,
        assigned=assigned,
    )


def may_downgrade(group: ConsumerGroup, gone: Collection[ConsumerMember], around: Around) -> bool:
    """Whether the group becomes a classic one without these members: the others use the classic protocol, and there are some."""
    left = len(group.members) - len(gone)
    classic = group.classic_count - sum(member.classic is not None for member in gone)
    return (
        left > 0 and classic == left and around.rules.migration.may_downgrade and left <= around.rules.classic_max_size
    )


def may_downgrade_replaced(group: ConsumerGroup, replaced: ConsumerMember, around: Around) -> bool:
    """Whether the group becomes a classic one when a static member comes back with the classic protocol."""
    others = group.classic_count == len(group.members) - 1 and replaced.classic is None
    return others and around.rules.migration.may_downgrade and len(group.members) <= around.rules.classic_max_size


def downgraded(
    group: ConsumerGroup,
    gone: Collection[ConsumerMember],
    joining: ConsumerMember | None,
    rules: GroupRules,
    around: Around,
) -> Group:
    """Return the classic group that a consumer group becomes. `joining` takes the place of the static member of its instance id."""
    without = {member.member_id for member in gone}
    replaced = None if joining is None else group.static_member(joining.instance_id)
    if replaced is not None:
        without.add(replaced.member_id)
    members = [group.members[each] for each in group.member_order() if each not in without]
    if joining is not None:
        members.append(joining)
    classic = Group(
        group.group_id,
        rules,
        state=GroupState.STABLE,
        state_since_ms=around.now_ms,
        generation=group.epoch,
        protocol_type="consumer",
        members={each.member_id: _classic_member(each) for each in members},
        leader=members[0].member_id,
        stored=True,
    )
    classic = replace(classic, protocol=classic.select_protocol())
    assigned = {}
    for member in members:
        target_of = replaced.member_id if joining is member and replaced is not None else member.member_id
        target = _named(group.targets.get(target_of, {}), around.image)
        classic_member = classic.members[member.member_id]
        metadata = classic_member.metadata_for(classic.protocol)
        assigned[member.member_id] = replace(classic_member, assignment=encode_assignment(target, metadata))
    return replace(classic, members=assigned)


def _classic_member(member: ConsumerMember) -> Member:
    assert member.classic is not None
    return Member(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        member.classic.session_timeout_ms,
        tuple((each.name, each.metadata) for each in member.classic.protocols),
    )


def _named(target: Partitions, image: MetadataImage) -> Mapping[str, tuple[int, ...]]:
    topics = image.topics_by_id
    return {topics[topic_id].name: partitions for topic_id, partitions in target.items() if topic_id in topics}
