"""JoinGroup: a member joins a classic group, joins it again, or replaces a static member.

Owner: `classic_state.py`; pure. Source: Kafka's group membership protocol (KIP-62), required member ids (KIP-394),
static members (KIP-345), skipped assignments (KIP-814)."""

from __future__ import annotations

from dataclasses import replace

from streamactors.broker.errors import ErrorCode
from streamactors.broker.group.classic.classic_events import (
    CancelTimer,
    Effect,
    GroupAnswer,
    JoinAnswer,
    JoinGroup,
    SessionExpired,
    SetTimer,
    StaticMemberWritten,
    SyncAnswer,
    WriteGroup,
    session_timer,
)
from streamactors.broker.group.classic.classic_group import Group, GroupState, Member
from streamactors.broker.group.classic.classic_rebalance import (
    complete_if_all_joined,
    current_generation,
    prepare_rebalance,
    rebalance_or_complete,
    session_started,
)
from streamactors.broker.group.subscription import topics_in


def join_group(group: Group, join: JoinGroup, now_ms: int, effects: list[Effect]) -> Group:
    """Handle a JoinGroup request."""
    rules = group.rules
    if group.state is GroupState.DEAD:
        return _refuse(group, join, ErrorCode.COORDINATOR_NOT_AVAILABLE, effects)
    if not rules.min_session_timeout_ms <= join.session_timeout_ms <= rules.max_session_timeout_ms:
        return _refuse(group, join, ErrorCode.INVALID_SESSION_TIMEOUT, effects)
    if not _has_room(group, join.member_id):
        effects.append(CancelTimer(session_timer(join.member_id)))
        _refuse(group, join, ErrorCode.GROUP_MAX_SIZE_REACHED, effects, member_id="")
        return group.without(join.member_id)
    if not group.supports(join.protocol_type, join.protocols):
        return _refuse(group, join, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, effects)
    if join.member_id == "":
        return _join_newcomer(group, join, now_ms, effects)
    if join.member_id in group.pending_joins and join.instance_id is None:
        return _add(group, join, join.member_id, now_ms, effects)
    error = check_member(group, join.member_id, join.instance_id)
    if error is not ErrorCode.NONE:
        return _refuse(group, join, error, effects)
    return _rejoin(group, join, group.members[join.member_id], now_ms, effects)


def check_member(group: Group, member_id: str, instance_id: str | None) -> ErrorCode:
    """Return NONE if these ids belong to one current member."""
    if instance_id is not None:
        holder = group.member_of_instance(instance_id)
        if holder is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if holder.member_id != member_id:
            return ErrorCode.FENCED_INSTANCE_ID
    return ErrorCode.NONE if member_id in group.members else ErrorCode.UNKNOWN_MEMBER_ID


def static_member_written(group: Group, event: StaticMemberWritten, _now_ms: int, effects: list[Effect]) -> Group:
    """Answer a static member that returned to a stable group, now that its new id is in the log."""
    member = group.members.get(event.member_id)
    if member is None:
        return group  # removed or replaced again, and answered then
    if event.error is not ErrorCode.NONE:
        if member.join is not None:
            effects.append(GroupAnswer(member.join, JoinAnswer(event.error, "")))
        effects.append(CancelTimer(session_timer(member.member_id)))
        effects.append(session_started(event.replaced))
        return _swap(group, member, replace(event.replaced, join=None, sync=None))
    if member.join is None:
        return group  # a rebalance has answered it meanwhile
    if group.state is not GroupState.STABLE:
        return group  # the rebalance that began meanwhile will answer
    if event.can_skip_assignment:
        answer = current_generation(group, member, skip=True)
    else:
        # A client that cannot skip would assign again as the leader, so the answer names its old id as the leader.
        answer = replace(current_generation(group, member, as_leader=False), leader=event.leader_before or "")
    effects.append(GroupAnswer(member.join, answer))
    effects.append(session_started(member))  # the session may have ended during the write
    return group.with_member(replace(member, join=None))


# -- newcomers -----------------------------------------------------------------------------------------------------


def _join_newcomer(group: Group, join: JoinGroup, now_ms: int, effects: list[Effect]) -> Group:
    if join.instance_id is not None:
        holder = group.member_of_instance(join.instance_id)
        if holder is not None:
            return _replace_static(group, join, holder, now_ms, effects)
    elif join.needs_known_id:
        # The client joins again with this id. If the answer is lost, the id expires like a session, and the group has no
        # member without a client.
        expired = SessionExpired(join.fresh_member_id)
        effects.append(SetTimer(session_timer(join.fresh_member_id), join.session_timeout_ms, expired))
        _refuse(group, join, ErrorCode.MEMBER_ID_REQUIRED, effects, member_id=join.fresh_member_id)
        return replace(group, pending_joins=group.pending_joins | {join.fresh_member_id})
    return _add(group, join, join.fresh_member_id, now_ms, effects)


def _add(group: Group, join: JoinGroup, member_id: str, now_ms: int, effects: list[Effect]) -> Group:
    member = Member(
        member_id,
        join.instance_id,
        join.client_id,
        join.client_host,
        join.rebalance_timeout_ms,
        join.session_timeout_ms,
        join.protocols,
        join=join.reply_to,
        is_new=True,
    )
    if not group.members:
        group = replace(group, protocol_type=join.protocol_type, leader=None)
    if group.is_rebalancing_from_empty:
        group = replace(group, joined_during_delay=True)
    group = group.with_member(member)
    # A newcomer cannot heartbeat before it is answered, so only this timeout removes a client that has gone.
    effects.append(session_started(member, group.rules.new_member_join_timeout_ms))
    return rebalance_or_complete(group, now_ms, effects)


# -- known members -------------------------------------------------------------------------------------------------


def _rejoin(group: Group, join: JoinGroup, member: Member, now_ms: int, effects: list[Effect]) -> Group:
    same = member.protocols == join.protocols
    if group.state is GroupState.COMPLETING_REBALANCE and same:
        # The answer to its JoinGroup was lost: give the same answer again.
        effects.append(GroupAnswer(join.reply_to, current_generation(group, member)))
        return group
    if group.state is GroupState.STABLE and same and member.member_id != group.leader:
        effects.append(GroupAnswer(join.reply_to, current_generation(group, member)))
        return group
    if group.state is GroupState.EMPTY:
        return _refuse(group, join, ErrorCode.UNKNOWN_MEMBER_ID, effects)
    # The subscription changed, or the leader joins again because the topics changed.
    group = _park(group, join, member, effects)
    return rebalance_or_complete(group, now_ms, effects)


def _park(group: Group, join: JoinGroup, member: Member, effects: list[Effect]) -> Group:
    if member.join is not None and member.join is not join.reply_to:
        # The client sent another request: only one of them can be answered with a generation.
        effects.append(GroupAnswer(member.join, JoinAnswer(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id)))
    return group.with_member(
        replace(
            member,
            protocols=join.protocols,
            rebalance_timeout_ms=join.rebalance_timeout_ms,
            session_timeout_ms=join.session_timeout_ms,
            join=join.reply_to,
        )
    )


def _replace_static(group: Group, join: JoinGroup, holder: Member, now_ms: int, effects: list[Effect]) -> Group:
    """Give a static member that restarted a new member id, and fence the old id."""
    if holder.join is not None:
        effects.append(GroupAnswer(holder.join, JoinAnswer(ErrorCode.FENCED_INSTANCE_ID, holder.member_id)))
    if holder.sync is not None:
        effects.append(GroupAnswer(holder.sync, SyncAnswer(ErrorCode.FENCED_INSTANCE_ID)))
    effects.append(CancelTimer(session_timer(holder.member_id)))
    leader_before = group.leader
    member = replace(holder, member_id=join.fresh_member_id, join=None, sync=None)
    group = _park(_swap(group, holder, member), join, member, effects)
    effects.append(session_started(group.members[member.member_id]))
    if group.state is GroupState.STABLE:
        if group.select_protocol() != group.protocol or _has_other_topics(group, holder, join):
            return prepare_rebalance(group, now_ms, effects)
        group = replace(group, stored=True)
        written = StaticMemberWritten(holder, member.member_id, leader_before, join.can_skip_assignment)
        assignments = tuple((m.member_id, m.assignment) for m in group.members.values())
        effects.append(WriteGroup(group, assignments, written))
        return group
    if group.state is GroupState.COMPLETING_REBALANCE:
        # The leader may assign to the old id now, and the new id would get no partitions.
        return prepare_rebalance(group, now_ms, effects)
    return complete_if_all_joined(group, now_ms, effects)


def _has_other_topics(group: Group, holder: Member, join: JoinGroup) -> bool:
    """Whether a static member of a consumer group returns with other topics: without a rebalance no member would be assigned the new ones.

    Its subscription alone says little. It also has the partitions that the member had, which a restarted member does not know.
    Apache Kafka does not look at the topics (KAFKA-12759)."""
    before = holder.metadata_for(group.protocol)
    after = dict(join.protocols).get(group.protocol or "", b"")
    return group.is_consumer_group and before != after and topics_in(before) != topics_in(after)


def _swap(group: Group, old: Member, new: Member) -> Group:
    """Replace a member by another, at the same position and with the same leadership."""
    swapped = group.with_members(new if m.member_id == old.member_id else m for m in group.members.values())
    pending = group.pending_syncs
    if old.member_id in pending:
        pending = pending - {old.member_id} | {new.member_id}
    leader = new.member_id if group.leader == old.member_id else group.leader
    return replace(swapped, leader=leader, pending_syncs=pending)


# -- refusals ------------------------------------------------------------------------------------------------------


def _has_room(group: Group, member_id: str) -> bool:
    match group.state:
        case GroupState.PREPARING_REBALANCE:
            # Only members with a parked request count: if group.max.size was lowered, the last members to join are
            # refused.
            member = group.members.get(member_id)
            return (member is not None and member.join is not None) or group.joined_count < group.rules.max_size
        case GroupState.COMPLETING_REBALANCE | GroupState.STABLE:
            return member_id in group.members or len(group.members) < group.rules.max_size
        case _:
            return True


def _refuse(
    group: Group, join: JoinGroup, error: ErrorCode, effects: list[Effect], member_id: str | None = None
) -> Group:
    effects.append(GroupAnswer(join.reply_to, JoinAnswer(error, join.member_id if member_id is None else member_id)))
    return group
