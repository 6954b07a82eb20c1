"""The consumer group protocol (KIP-848) as one pure state machine: a request and a group make a `Decision`.

Owner: the coordinator of the group's offsets partition. A decision is a list of records, and the new group is their fold
(`consumer_fold.py`); the answer is for when they are written. A request that is not legal raises Refusal and changes nothing.
Source: KIP-848; Apache Kafka's GroupMetadataManager, whose records, errors and texts these are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from typing import Final

from streamactors.broker.errors import ErrorCode, Refusal
from streamactors.broker.group.assignors.group_spec import partitions_in_hash_order
from streamactors.broker.group.consumer.consumer_events import (
    Around,
    Decision,
    MemberAnswer,
    MemberGone,
    MemberHeartbeat,
    Owned,
    RebalanceTimer,
    SessionTimer,
)
from streamactors.broker.group.consumer.consumer_group import (
    STATIC_LEFT,
    ConsumerGroup,
    ConsumerMember,
    Epochs,
    MemberState,
)
from streamactors.broker.group.consumer.consumer_record import OLD_METADATA, REGEX, ConsumerRecord
from streamactors.broker.group.consumer.reconcile import reconcile
from streamactors.broker.group.consumer.record_of import (
    current_record,
    epoch_record,
    member_record,
    removal,
    target_epoch_record,
    target_record,
)
from streamactors.broker.group.consumer.regexes import RegexChange, regex_change
from streamactors.broker.group.consumer.subscriptions import are_equal_now, subscriptions_after, subscriptions_without
from streamactors.broker.group.consumer.target import preferred_assignor, present_assignor, update_target
from streamactors.broker.group.metadata_hash import metadata_hash

JOIN: Final = 0
"""The epoch of a member that joins."""

_NOTHING: Final = (None,) * 6
_REJOIN: Final = "The member must abandon all its partitions and rejoin."


def heartbeat(group: ConsumerGroup, beat: MemberHeartbeat, around: Around) -> Decision:
    """Serve the heartbeat of a member that joins (epoch 0) or stays. Raises Refusal."""
    decision = Decision(is_checked=group.is_checked)
    check_room(group, beat.member_id, beat.instance_id, around)
    before = _member_of(group, beat, decision)
    member = _updated(before, beat)
    names_changed = note_member(group, before, member, decision)
    regex = regex_change(group, before, member, around, decision)
    must_bump = names_changed or regex is RegexChange.RESOLVED or _changes_assignor(group, before, member, around)
    epoch, same_topics = update_epoch(group, before, member, must_bump, around, decision)
    target_epoch, target = update_target(group, before, member, epoch, same_topics, around, decision)
    subscription_changed = names_changed or regex is not RegexChange.NONE
    placed = member
    if subscription_changed or not member.is_reconciled_to(target_epoch):
        placed = reconcile(
            group, member, target_epoch, target, around.image, beat.owned, subscription_changed=subscription_changed
        )
        note_place(group, member, placed, decision)
    decision.timers.append(SessionTimer(placed.member_id, around.rules.session_timeout_ms))
    is_full = (
        beat.rebalance_timeout_ms != -1
        and (beat.topics is not None or beat.regex is not None)
        and beat.owned is not None
    )
    tells = beat.epoch == JOIN or is_full or before.assigned != placed.assigned
    decision.answer = MemberAnswer(
        placed.member_id, placed.epoch, around.rules.heartbeat_interval_ms, placed.assigned if tells else None
    )
    return decision


def leave(group: ConsumerGroup, beat: MemberHeartbeat, around: Around) -> Decision:
    """Serve a member that leaves: epoch -1, or -2 for a static member that may come back. Raises Refusal."""
    if beat.instance_id is None:
        member = known_member(group, beat.member_id)
    else:
        member = known_static(group, beat.instance_id)
        check_not_fenced(member, beat.member_id, beat.instance_id)
        if beat.epoch == STATIC_LEFT:
            return _leave_for_a_while(group, member)
    decision = remove_members(group, [member], around)
    decision.answer = MemberAnswer(beat.member_id, beat.epoch)
    return decision


def remove_members(group: ConsumerGroup, gone: Collection[ConsumerMember], around: Around) -> Decision:
    """Remove members: they left, or were silent. The group gets a new epoch."""
    decision = Decision(is_checked=group.is_checked)
    group_id = group.group_id
    for member in gone:
        decision.records += removal(group_id, member.member_id)
    counts = Counter(member.regex for member in gone if member.regex)
    regexes = [regex for regex, count in counts.items() if group.subscribed_regexes[regex] == count]
    decision.records += [ConsumerRecord(REGEX, group_id, regex) for regex in regexes]
    topics = subscriptions_without(group, gone, regexes).topics
    epoch = group.epoch + 1
    decision.records.append(epoch_record(group_id, epoch, metadata_hash(around.image, topics)))
    if len(gone) == len(group.members):
        decision.records.append(target_epoch_record(group_id, epoch, 0))
    decision.timers += [MemberGone(member.member_id) for member in gone]
    return decision


# -- parts that members of the classic protocol use, too ----------------------------------------------------------------


def check_room(group: ConsumerGroup, member_id: str, instance_id: str | None, around: Around) -> None:
    """Raise GROUP_MAX_SIZE_REACHED if a newcomer has no room."""
    if instance_id is not None and instance_id in group.static_ids:
        return
    most = around.rules.max_size
    if len(group.members) >= most and member_id not in group.members:
        raise Refusal(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The consumer group has reached its maximum capacity of {most} members.",
        )


def known_member(group: ConsumerGroup, member_id: str) -> ConsumerMember:
    """Return a member. Raises UNKNOWN_MEMBER_ID."""
    member = group.members.get(member_id)
    if member is None:
        raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group.group_id}.")
    return member


def known_static(group: ConsumerGroup, instance_id: str) -> ConsumerMember:
    """Return the member of an instance id. Raises UNKNOWN_MEMBER_ID."""
    member = group.static_member(instance_id)
    if member is None:
        raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    return member


def check_not_fenced(member: ConsumerMember, member_id: str, instance_id: str) -> None:
    """Raise FENCED_INSTANCE_ID if the instance id belongs to another member by now."""
    if member.member_id != member_id:
        raise Refusal(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member {member.member_id}.",
        )


def replace_static(group: ConsumerGroup, old: ConsumerMember, member_id: str, decision: Decision) -> ConsumerMember:
    """Give the place of a static member to its new member id."""
    member = replace(old, member_id=member_id, epoch=JOIN, previous_epoch=0)
    group_id = group.group_id
    decision.records += [
        *removal(group_id, old.member_id),
        member_record(group_id, member),
        target_record(group_id, member_id, dict(partitions_in_hash_order(group.targets.get(old.member_id, {})))),
        current_record(group_id, member),
    ]
    decision.timers.append(MemberGone(old.member_id))
    return member


def note_member(group: ConsumerGroup, before: ConsumerMember, member: ConsumerMember, decision: Decision) -> bool:
    """Write who the member is, if that changed; return whether it names other topics."""
    if member is before or member == before:
        return False
    decision.records.append(member_record(group.group_id, member))
    return member.topics != before.topics


def update_epoch(
    group: ConsumerGroup,
    before: ConsumerMember,
    member: ConsumerMember,
    must_bump: bool,
    around: Around,
    decision: Decision,
) -> tuple[int, bool]:
    """Give the group a new epoch if its topics have changed; return its epoch, and whether all members subscribe to the same topics."""
    known = member.member_id in group.members or (
        member.instance_id is not None and member.instance_id in group.static_ids
    )
    count = len(group.members) + (not known)
    if not must_bump and group.is_checked:
        return group.epoch, are_equal_now(group)
    topics = subscriptions_after(group, before, member)
    now_hash = metadata_hash(around.image, topics.topics)
    epoch = group.epoch
    if must_bump or now_hash != group.metadata_hash:
        epoch += 1
        decision.records.append(epoch_record(group.group_id, epoch, now_hash))
    if group.has_old_metadata:
        decision.records.append(ConsumerRecord(OLD_METADATA, group.group_id))
    decision.is_checked = True
    return epoch, topics.are_equal(count)


def note_place(group: ConsumerGroup, before: ConsumerMember, placed: ConsumerMember, decision: Decision) -> None:
    """Write what the member has, if that changed, and let it have its rebalance timeout to give partitions back."""
    if placed == before:
        return
    decision.records.append(current_record(group.group_id, placed))
    if placed.classic is not None:
        return
    if placed.state is MemberState.UNREVOKED_PARTITIONS:
        decision.timers.append(RebalanceTimer(placed.member_id, placed.epoch, placed.rebalance_timeout_ms))
    else:
        decision.timers.append(RebalanceTimer(placed.member_id))


# -- members of the consumer protocol -----------------------------------------------------------------------------------


def _member_of(group: ConsumerGroup, beat: MemberHeartbeat, decision: Decision) -> ConsumerMember:
    """Return the member that sends the heartbeat, a new one if it joins. Raises Refusal."""
    joins = beat.epoch == JOIN
    if beat.instance_id is None:
        member = group.members.get(beat.member_id) or (
            ConsumerMember(beat.member_id) if joins else known_member(group, beat.member_id)
        )
        _check_epoch(member, beat.epoch, beat.owned)
        return member
    if not joins:
        member = known_static(group, beat.instance_id)
        check_not_fenced(member, beat.member_id, beat.instance_id)
        _check_epoch(member, beat.epoch, beat.owned)
        return member
    existing = group.static_member(beat.instance_id)
    if existing is None:
        return group.members.get(beat.member_id) or ConsumerMember(beat.member_id)
    if existing.classic is None and existing.epoch != STATIC_LEFT:
        raise Refusal(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {beat.member_id} with instance id {beat.instance_id} cannot join the group because the "
            f"instance id is owned by {existing.member_id} member.",
        )
    return replace_static(group, existing, beat.member_id, decision)


def _check_epoch(member: ConsumerMember, epoch: int, owned: Owned | None) -> None:
    """Raise FENCED_MEMBER_EPOCH unless the member has its epoch, or missed the last answer and owns nothing else."""
    if epoch in (JOIN, member.epoch):
        return
    if epoch < member.epoch and epoch == member.previous_epoch and _is_within(owned, member.assigned):
        return
    size = "greater" if epoch > member.epoch else "smaller"
    raise Refusal(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {size} member epoch ({epoch}) than the one known by the group coordinator "
        f"({member.epoch}). {_REJOIN}",
    )


def _is_within(owned: Owned | None, assigned: Epochs) -> bool:
    if owned is None:
        return False
    return all(
        topic_id in assigned and each in assigned[topic_id] for topic_id, held in owned for each in held or (None,)
    )


def _changes_assignor(group: ConsumerGroup, before: ConsumerMember, member: ConsumerMember, around: Around) -> bool:
    """Whether most members ask for another assignor now. In a tie the one of the member that asks counts, as in Apache Kafka."""
    if not group.assignors and member.assignor is None:
        return False
    default = around.rules.assignors[0]
    return present_assignor(group, default) != preferred_assignor(group, before, member, default)


def _updated(member: ConsumerMember, beat: MemberHeartbeat) -> ConsumerMember:
    """Return the member as the heartbeat describes it. A member of the classic protocol has changed its protocol."""
    says = (beat.instance_id, beat.rack_id, beat.assignor, beat.topics, beat.regex, member.classic)
    if (
        says == _NOTHING
        and beat.rebalance_timeout_ms == -1
        and (beat.client_id, beat.client_host)
        == (
            member.client_id,
            member.client_host,
        )
    ):
        return member
    return replace(
        member,
        instance_id=beat.instance_id if beat.instance_id is not None else member.instance_id,
        rack_id=beat.rack_id if beat.rack_id is not None else member.rack_id,
        rebalance_timeout_ms=beat.rebalance_timeout_ms
        if beat.rebalance_timeout_ms != -1
        else member.rebalance_timeout_ms,
        assignor=beat.assignor if beat.assignor is not None else member.assignor,
        topics=frozenset(beat.topics) if beat.topics is not None else member.topics,
        regex=beat.regex if beat.regex is not None else member.regex,
        client_id=beat.client_id,
        client_host=beat.client_host,
        classic=None,
    )


def _leave_for_a_while(group: ConsumerGroup, member: ConsumerMember) -> Decision:
    """Keep the place of a static member: it gets its partitions back if it returns within its session timeout."""
    assigned = {topic_id: dict.fromkeys(epochs, 0) for topic_id, epochs in member.assigned.items()}
    left = replace(member, epoch=STATIC_LEFT, revoking={}, assigned=assigned)
    return Decision(
        [current_record(group.group_id, left)], MemberAnswer(member.member_id, STATIC_LEFT), is_checked=group.is_checked
    )
