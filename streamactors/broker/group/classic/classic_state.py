"""The classic group protocol as one pure state machine: `step(group, event, now_ms) -> (group, effects)`.

Owner: the coordinator of the group's offsets partition. It passes requests, timers and the log's answers to `step` one at a time
and carries out the effects. `classic_group.py` has the states and the legal moves.
Source: Kafka's group membership protocol (KIP-62, 134, 345, 394, 429, 814). Eager and cooperative rebalancing are the same for
the broker: only the members read the difference, in their subscriptions and assignments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from streamactors.broker.errors import ErrorCode
from streamactors.broker.group.classic.classic_events import (
    JOIN_TIMER,
    SYNC_TIMER,
    AssignmentWritten,
    CancelTimer,
    Deleted,
    Effect,
    EmptyWritten,
    Event,
    GroupAnswer,
    GroupLoaded,
    Heartbeat,
    HeartbeatAnswer,
    InitialDelayElapsed,
    JoinAnswer,
    JoinDeadline,
    JoinGroup,
    LeaveAnswer,
    LeaveGroup,
    Leaving,
    Resigned,
    SessionExpired,
    StaticMemberWritten,
    SyncAnswer,
    SyncDeadline,
    SyncGroup,
    WriteGroup,
    session_timer,
)
from streamactors.broker.group.classic.classic_group import NO_ASSIGNMENT, Group, GroupState
from streamactors.broker.group.classic.classic_join import check_member, join_group, static_member_written
from streamactors.broker.group.classic.classic_rebalance import (
    answer_syncs,
    complete_if_all_joined,
    complete_join,
    forget_assignments,
    initial_delay_elapsed,
    prepare_rebalance,
    rebalance_or_complete,
    session_started,
)


def step(group: Group, event: Event, now_ms: int) -> tuple[Group, list[Effect]]:
    """Return the group after an event, and the effects to carry out, in order. Never raises on a request."""
    effects: list[Effect] = []
    return _STEPS[type(event)](group, event, now_ms, effects), effects


# -- requests ------------------------------------------------------------------------------------------------------


def _sync_group(group: Group, sync: SyncGroup, _now_ms: int, effects: list[Effect]) -> Group:
    error = _check_sync(group, sync)
    if error is not ErrorCode.NONE:
        effects.append(GroupAnswer(sync.reply_to, SyncAnswer(error)))
        return group
    member = group.members[sync.member_id]
    group = replace(group, pending_syncs=group.pending_syncs - {sync.member_id})
    if group.state is GroupState.STABLE:
        answer = SyncAnswer(ErrorCode.NONE, group.protocol_type, group.protocol, member.assignment)
        effects.append(GroupAnswer(sync.reply_to, answer))
        return group
    if member.sync is not None and member.sync is not sync.reply_to:
        effects.append(
            GroupAnswer(member.sync, SyncAnswer(ErrorCode.REBALANCE_IN_PROGRESS))
        )  # its own retry replaces it
    group = group.with_member(replace(member, sync=sync.reply_to))
    # A retried SyncGroup may carry another assignment than the one that is being written: the first one counts.
    if sync.member_id == group.leader and not group.assigning:
        given = dict(sync.assignments)
        assignments = tuple((member_id, given.get(member_id, NO_ASSIGNMENT)) for member_id in group.members)
        group = replace(group, stored=True, assigning=True)
        # Members get the assignment only after it is in the log, where a new coordinator finds it.
        effects.append(WriteGroup(group, assignments, AssignmentWritten(group.generation, assignments)))
    return group


def _check_sync(group: Group, sync: SyncGroup) -> ErrorCode:
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    error = check_member(group, sync.member_id, sync.instance_id)
    if error is not ErrorCode.NONE:
        return error
    if sync.generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if _differ(sync.protocol_type, group.protocol_type) or _differ(sync.protocol, group.protocol):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is GroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _differ(asked: str | None, known: str | None) -> bool:
    return asked is not None and known is not None and asked != known


def _heartbeat(group: Group, beat: Heartbeat, _now_ms: int, effects: list[Effect]) -> Group:
    if group.state is GroupState.DEAD:
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    else:
        error = check_member(group, beat.member_id, beat.instance_id)
        if error is ErrorCode.NONE and beat.generation != group.generation:
            error = ErrorCode.ILLEGAL_GENERATION
        if error is ErrorCode.NONE:
            effects.append(session_started(group.members[beat.member_id]))
            if group.state is GroupState.PREPARING_REBALANCE:
                error = ErrorCode.REBALANCE_IN_PROGRESS
    effects.append(GroupAnswer(beat.reply_to, HeartbeatAnswer(error)))
    return group


def _leave_group(group: Group, leave: LeaveGroup, now_ms: int, effects: list[Effect]) -> Group:
    if group.state is GroupState.DEAD:
        effects.append(GroupAnswer(leave.reply_to, LeaveAnswer(ErrorCode.COORDINATOR_NOT_AVAILABLE)))
        return group
    results: list[tuple[Leaving, ErrorCode]] = []
    for leaving in leave.members:
        error, member_id = _who_leaves(group, leaving)
        if error is ErrorCode.NONE:
            group = _remove(group, member_id, effects)
        results.append((leaving, error))
    effects.append(GroupAnswer(leave.reply_to, LeaveAnswer(ErrorCode.NONE, tuple(results))))
    if any(error is ErrorCode.NONE for _, error in results):
        group = _after_removal(group, now_ms, effects)
    return group


def _who_leaves(group: Group, leaving: Leaving) -> tuple[ErrorCode, str]:
    if leaving.member_id == "":
        holder = group.member_of_instance(leaving.instance_id) if leaving.instance_id is not None else None
        return (ErrorCode.UNKNOWN_MEMBER_ID, "") if holder is None else (ErrorCode.NONE, holder.member_id)
    if leaving.member_id in group.pending_joins:
        return ErrorCode.NONE, leaving.member_id
    return check_member(group, leaving.member_id, leaving.instance_id), leaving.member_id


# -- time ----------------------------------------------------------------------------------------------------------


def _session_expired(group: Group, event: SessionExpired, now_ms: int, effects: list[Effect]) -> Group:
    member = group.members.get(event.member_id)
    if member is None and event.member_id not in group.pending_joins:
        return group
    if member is not None and not member.may_expire:
        return group  # a request of the member is parked here
    return _after_removal(_remove(group, event.member_id, effects), now_ms, effects)


def _join_deadline(group: Group, _event: JoinDeadline, now_ms: int, effects: list[Effect]) -> Group:
    return complete_join(group, now_ms, effects) if group.state is GroupState.PREPARING_REBALANCE else group


def _sync_deadline(group: Group, event: SyncDeadline, now_ms: int, effects: list[Effect]) -> Group:
    if event.generation != group.generation or not group.pending_syncs:
        return group
    if group.state not in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
        return group
    late = sorted(group.pending_syncs)
    effects.extend(CancelTimer(session_timer(member_id)) for member_id in late)
    return prepare_rebalance(group.without(*late), now_ms, effects)


def _remove(group: Group, member_id: str, effects: list[Effect]) -> Group:
    """Remove a member or a pending id. Its parked requests are answered, so that the client can join again."""
    member = group.members.get(member_id)
    if member is not None and member.join is not None:
        effects.append(GroupAnswer(member.join, JoinAnswer(ErrorCode.UNKNOWN_MEMBER_ID, "")))
    if member is not None and member.sync is not None:
        effects.append(GroupAnswer(member.sync, SyncAnswer(ErrorCode.UNKNOWN_MEMBER_ID)))
    effects.append(CancelTimer(session_timer(member_id)))
    return group.without(member_id)


def _after_removal(group: Group, now_ms: int, effects: list[Effect]) -> Group:
    if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
        return rebalance_or_complete(group, now_ms, effects)
    if group.is_rebalancing_from_empty and not group.members:
        return complete_join(group, now_ms, effects)  # no member is left for the initial delay
    return complete_if_all_joined(group, now_ms, effects)


# -- the log -------------------------------------------------------------------------------------------------------


def _assignment_written(group: Group, event: AssignmentWritten, now_ms: int, effects: list[Effect]) -> Group:
    if group.state is not GroupState.COMPLETING_REBALANCE or event.generation != group.generation:
        return group  # a rebalance began during the write and has answered the members
    group = replace(group, assigning=False)
    if event.error is not ErrorCode.NONE:
        group = answer_syncs(forget_assignments(group), event.error, effects)
        return prepare_rebalance(group, now_ms, effects)
    assigned = dict(event.assignments)
    group = group.with_members(
        replace(member, assignment=assigned.get(member.member_id, NO_ASSIGNMENT)) for member in group.members.values()
    )
    return answer_syncs(group, ErrorCode.NONE, effects).moved_to(GroupState.STABLE, now_ms)


# -- the coordinator -----------------------------------------------------------------------------------------------


def _loaded(group: Group, _event: GroupLoaded, now_ms: int, effects: list[Effect]) -> Group:
    effects.extend(session_started(member) for member in group.members.values())
    if len(group.members) > group.rules.max_size:
        return prepare_rebalance(group, now_ms, effects)
    return group


def _ended(group: Group, event: Deleted | Resigned, now_ms: int, effects: list[Effect]) -> Group:
    error = ErrorCode.NOT_COORDINATOR if isinstance(event, Resigned) else ErrorCode.UNKNOWN_MEMBER_ID
    for member in group.members.values():
        if member.join is not None:
            effects.append(GroupAnswer(member.join, JoinAnswer(error, member.member_id)))
        if member.sync is not None:
            effects.append(GroupAnswer(member.sync, SyncAnswer(error)))
    effects.extend(
        CancelTimer(session_timer(member_id)) for member_id in [*group.members, *sorted(group.pending_joins)]
    )
    effects += [CancelTimer(JOIN_TIMER), CancelTimer(SYNC_TIMER)]
    if group.state is GroupState.DEAD:
        return group
    silent = {m.member_id: replace(m, join=None, sync=None) for m in group.members.values()}
    return replace(group.moved_to(GroupState.DEAD, now_ms), members=silent, pending_joins=frozenset())


# Any: each function takes the one event it is listed under.
_STEPS: Final[dict[type, Callable[[Group, Any, int, list[Effect]], Group]]] = {
    JoinGroup: join_group,
    SyncGroup: _sync_group,
    Heartbeat: _heartbeat,
    LeaveGroup: _leave_group,
    SessionExpired: _session_expired,
    InitialDelayElapsed: initial_delay_elapsed,
    JoinDeadline: _join_deadline,
    SyncDeadline: _sync_deadline,
    AssignmentWritten: _assignment_written,
    StaticMemberWritten: static_member_written,
    EmptyWritten: lambda group, *_: group,
    GroupLoaded: _loaded,
    Deleted: _ended,
    Resigned: _ended,
}
