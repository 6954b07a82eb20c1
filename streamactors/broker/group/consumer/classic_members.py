"""Members of a consumer group that use the classic protocol, as during a migration: their JoinGroup, SyncGroup, Heartbeat and LeaveGroup.

Owner: the coordinator of consumer groups. Pure. The generation of such a member is its member epoch; its Heartbeat is
answered with REBALANCE_IN_PROGRESS when it must give partitions back or may have new ones. Source: KIP-848; Apache Kafka's classicGroupJoinToConsumerGroup and its siblings."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from streamactors.broker.errors import ErrorCode, Refusal
from streamactors.broker.group.classic.classic_events import (
    Heartbeat,
    JoinAnswer,
    JoinGroup,
    LeaveGroup,
    Leaving,
    SyncAnswer,
    SyncGroup,
)
from streamactors.broker.group.consumer.consumer_events import Around, Decision, MigrationPolicy
from streamactors.broker.group.consumer.consumer_group import (
    ClassicMember,
    ClassicProtocol,
    ConsumerGroup,
    ConsumerMember,
    MemberState,
)
from streamactors.broker.group.consumer.consumer_state import (
    check_not_fenced,
    check_room,
    known_member,
    known_static,
    note_member,
    note_place,
    replace_static,
    update_epoch,
)
from streamactors.broker.group.consumer.embedded_protocol import Subscription, decode_subscription, encode_assignment
from streamactors.broker.group.consumer.migration import may_downgrade_replaced
from streamactors.broker.group.consumer.reconcile import reconcile
from streamactors.broker.group.consumer.regexes import RegexChange, regex_change
from streamactors.broker.group.consumer.target import update_target
from streamactors.broker.metadata.image import MetadataImage
from streamactors.broker.protocol.record_schema import CorruptRecord

CONSUMER: Final = "consumer"


class Joined(NamedTuple):
    """The outcome of a JoinGroup. `downgrades` says that the group is to become a classic one, with or without a rebalance."""

    decision: Decision
    answer: JoinAnswer
    member: ConsumerMember | None = None
    downgrades: bool = False
    rebalances: bool = False


def join(group: ConsumerGroup, asked: JoinGroup, around: Around) -> Joined:
    """Serve a JoinGroup. Raises Refusal."""
    group_id = group.group_id
    if around.rules.migration is MigrationPolicy.DISABLED:
        raise Refusal(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            f"Cannot join the consumer group {group_id} with the classic protocol because the group migration is disabled.",
        )
    unknown = asked.member_id == ""
    member_id = asked.fresh_member_id if unknown else asked.member_id
    check_room(group, member_id, asked.instance_id, around)
    if not supports(group, asked.protocol_type, [name for name, _ in asked.protocols]):
        raise Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"Member {member_id}'s protocols are not supported.")
    if unknown and asked.instance_id is None and asked.needs_known_id:
        return Joined(Decision(is_checked=group.is_checked), JoinAnswer(ErrorCode.MEMBER_ID_REQUIRED, member_id))
    decision = Decision(is_checked=group.is_checked)
    before = _before(group, member_id, asked.instance_id, decision, unknown=unknown)
    existing = group.static_member(asked.instance_id)
    downgrades = existing is not None and may_downgrade_replaced(group, existing, around)
    subscription = _subscription(asked)
    member = _updated(before, asked, subscription)
    names_changed = note_member(group, before, member, decision)
    regex = regex_change(group, before, member, around, decision)
    changed = names_changed or regex is not RegexChange.NONE
    epoch, same_topics = update_epoch(group, before, member, changed, around, decision)
    rebalances = downgrades and group.assignment_epoch < epoch
    if downgrades:
        old_id = existing.member_id if existing is not None else member_id
        target_epoch, target = group.assignment_epoch, group.targets.get(old_id, {})
    else:
        target_epoch, target = update_target(group, before, member, epoch, same_topics, around, decision)
    if not rebalances and (changed or not member.is_reconciled_to(target_epoch)):
        owned = _owned(subscription, around.image)
        placed = reconcile(group, member, target_epoch, target, around.image, owned, subscription_changed=changed)
        note_place(group, member, placed, decision)
        member = placed
    assert member.classic is not None
    answer = JoinAnswer(ErrorCode.NONE, member.member_id, member.epoch, CONSUMER, member.classic.protocols[0].name)
    return Joined(decision, answer, member, downgrades, rebalances)


def supports(group: ConsumerGroup, protocol_type: str, names: Sequence[str]) -> bool:
    """Whether a member with these assignors can join: it must share one with every member of the classic protocol."""
    if protocol_type != CONSUMER:
        return False
    if not group.members:
        return bool(names)
    classic = [member.classic for member in group.members.values() if member.classic is not None]
    return any(all(name in {each.name for each in other.protocols} for other in classic) for name in names)


def sync(group: ConsumerGroup, asked: SyncGroup, image: MetadataImage) -> tuple[SyncAnswer, ConsumerMember]:
    """Serve a SyncGroup: the member gets what it owns now. Raises Refusal."""
    member, classic = _classic_of(group, asked.member_id, asked.instance_id, asked.generation)
    if asked.protocol_type is not None and asked.protocol_type != CONSUMER:
        raise Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if asked.protocol is not None and asked.protocol != classic.protocols[0].name:
        raise Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if group.assignment_epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
        raise MustJoinAgain(member)
    topics = image.topics_by_id
    has = {topics[topic_id].name: tuple(held) for topic_id, held in member.assigned.items() if topic_id in topics}
    assignment = encode_assignment(has, classic.protocols[0].metadata)
    return SyncAnswer(ErrorCode.NONE, asked.protocol_type, asked.protocol, assignment), member


class MustJoinAgain(Refusal):
    """The member must join again within its rebalance timeout."""

    def __init__(self, member: ConsumerMember) -> None:
        super().__init__(ErrorCode.REBALANCE_IN_PROGRESS)
        self.member = member


def heartbeat(group: ConsumerGroup, asked: Heartbeat) -> tuple[ErrorCode, ConsumerMember]:
    """Serve a Heartbeat: REBALANCE_IN_PROGRESS if the member must join again. Raises Refusal."""
    member, _ = _classic_of(group, asked.member_id, asked.instance_id, asked.generation)
    must_join = (
        member.epoch < group.assignment_epoch
        or member.state is MemberState.UNREVOKED_PARTITIONS
        or (member.state is MemberState.UNRELEASED_PARTITIONS and not _waits(group, member))
    )
    return ErrorCode.REBALANCE_IN_PROGRESS if must_join else ErrorCode.NONE, member


def leaving(group: ConsumerGroup, asked: LeaveGroup) -> tuple[list[ConsumerMember], list[tuple[Leaving, ErrorCode]]]:
    """Return the members that leave, and the result for each one that was named."""
    gone: dict[str, ConsumerMember] = {}
    results: list[tuple[Leaving, ErrorCode]] = []
    for each in asked.members:
        try:
            if each.instance_id is None:
                member = known_member(group, each.member_id)
            else:
                member = known_static(group, each.instance_id)
                if each.member_id:
                    check_not_fenced(member, each.member_id, each.instance_id)
        except Refusal as refusal:
            results.append((each, refusal.code))
            continue
        gone[member.member_id] = member
        results.append((each, ErrorCode.NONE))
    return list(gone.values()), results


def _waits(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Whether a partition of the member's target still belongs to another member."""
    return any(
        partition not in member.assigned.get(topic_id, {}) and group.owner_epoch(topic_id, partition) != -1
        for topic_id, partitions in group.targets.get(member.member_id, {}).items()
        for partition in partitions
    )


def _classic_of(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int
) -> tuple[ConsumerMember, ClassicMember]:
    if instance_id is None:
        member = known_member(group, member_id)
    else:
        member = known_static(group, instance_id)
        check_not_fenced(member, member_id, instance_id)
    if member.classic is None:
        raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID)
    if member.epoch != generation:
        raise Refusal(ErrorCode.ILLEGAL_GENERATION)
    return member, member.classic


def _before(
    group: ConsumerGroup, member_id: str, instance_id: str | None, decision: Decision, *, unknown: bool
) -> ConsumerMember:
    if instance_id is None:
        return group.members.get(member_id) or ConsumerMember(member_id)
    if not unknown:
        member = known_static(group, instance_id)
        check_not_fenced(member, member_id, instance_id)
        return member
    existing = group.static_member(instance_id)
    if existing is None:
        return group.members.get(member_id) or ConsumerMember(member_id)
    return replace_static(group, existing, member_id, decision)


def _subscription(asked: JoinGroup) -> Subscription:
    try:
        return decode_subscription(asked.protocols[0][1])
    except CorruptRecord:
        raise Refusal(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            "Malformed embedded consumer protocol in subscription deserialization.",
        ) from None


def _updated(member: ConsumerMember, asked: JoinGroup, subscription: Subscription) -> ConsumerMember:
    return replace(
        member,
        instance_id=asked.instance_id if asked.instance_id is not None else member.instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        rebalance_timeout_ms=asked.rebalance_timeout_ms
        if asked.rebalance_timeout_ms != -1
        else member.rebalance_timeout_ms,
        topics=frozenset(subscription.topics),
        regex="",
        client_id=asked.client_id,
        client_host=asked.client_host,
        classic=ClassicMember(asked.session_timeout_ms, tuple(ClassicProtocol(*each) for each in asked.protocols)),
    )


def _owned(subscription: Subscription, image: MetadataImage) -> list[tuple[uuid.UUID, tuple[int, ...]]]:
    return [
        (image.topics[topic].topic_id, tuple(partitions))
        for topic, partitions in subscription.owned
        if topic in image.topics
    ]
