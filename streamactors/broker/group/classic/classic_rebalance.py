"""The two halves of a rebalance: all members join again, and the members that joined make the next generation.

Owner: `classic_state.py`; pure. Each function returns the group after the step and appends the effects to `effects`.
Source: Kafka's group membership protocol; KIP-134 for the initial delay, KAFKA-12890 for the time limit of SyncGroup."""

from __future__ import annotations

from dataclasses import replace

from streamactors.broker.errors import ErrorCode
from streamactors.broker.group.classic.classic_events import (
    JOIN_TIMER,
    SYNC_TIMER,
    CancelTimer,
    Effect,
    EmptyWritten,
    GroupAnswer,
    InitialDelayElapsed,
    JoinAnswer,
    JoinDeadline,
    SessionExpired,
    SetTimer,
    SyncAnswer,
    SyncDeadline,
    WriteGroup,
    session_timer,
)
from streamactors.broker.group.classic.classic_group import MOVES, NO_ASSIGNMENT, Group, GroupState, Member


def rebalance_or_complete(group: Group, now_ms: int, effects: list[Effect]) -> Group:
    """Start a rebalance if the state permits one; during a rebalance, complete it if all members have joined."""
    if GroupState.PREPARING_REBALANCE in MOVES[group.state]:
        return prepare_rebalance(group, now_ms, effects)
    return complete_if_all_joined(group, now_ms, effects)


def prepare_rebalance(group: Group, now_ms: int, effects: list[Effect]) -> Group:
    """Start a rebalance: every member must join again. An empty group first waits the initial delay for more members."""
    if group.state is GroupState.COMPLETING_REBALANCE:
        # The assignment that parked SyncGroup requests wait for will not be made.
        group = answer_syncs(forget_assignments(group), ErrorCode.REBALANCE_IN_PROGRESS, effects)
    group = replace(group, assigning=False)
    if group.pending_syncs:
        group = replace(group, pending_syncs=frozenset())
    effects.append(CancelTimer(SYNC_TIMER))
    initial = group.state is GroupState.EMPTY
    group = replace(group.moved_to(GroupState.PREPARING_REBALANCE, now_ms), joined_during_delay=False)
    if initial:
        delay_ms = group.rules.initial_rebalance_delay_ms
        if delay_ms == 0:
            return complete_join(group, now_ms, effects)
        remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
        effects.append(SetTimer(JOIN_TIMER, delay_ms, InitialDelayElapsed(delay_ms, remaining_ms)))
        return group
    if group.all_joined:
        return complete_join(group, now_ms, effects)
    effects.append(SetTimer(JOIN_TIMER, group.rebalance_timeout_ms, JoinDeadline()))
    return group


def complete_if_all_joined(group: Group, now_ms: int, effects: list[Effect]) -> Group:
    """Make the next generation if all members have joined and the initial delay is over."""
    if group.state is GroupState.PREPARING_REBALANCE and not group.is_rebalancing_from_empty and group.all_joined:
        return complete_join(group, now_ms, effects)
    return group


def initial_delay_elapsed(group: Group, event: InitialDelayElapsed, now_ms: int, effects: list[Effect]) -> Group:
    """End the initial delay, or extend it if a member joined during it and the rebalance timeout permits."""
    if not group.is_rebalancing_from_empty:
        return group
    if group.joined_during_delay and event.remaining_ms > 0:
        delay_ms = min(group.rules.initial_rebalance_delay_ms, event.remaining_ms)
        remaining_ms = max(event.remaining_ms - event.delay_ms, 0)
        effects.append(SetTimer(JOIN_TIMER, delay_ms, InitialDelayElapsed(delay_ms, remaining_ms)))
        return replace(group, joined_during_delay=False)
    return complete_join(group, now_ms, effects)


def complete_join(group: Group, now_ms: int, effects: list[Effect]) -> Group:
    """Make the next generation. Dynamic members that have not joined are removed, static members stay."""
    effects.append(CancelTimer(JOIN_TIMER))
    late = [m.member_id for m in group.members.values() if m.join is None and m.instance_id is None]
    if late:
        group = group.without(*late)
        effects.extend(CancelTimer(session_timer(member_id)) for member_id in late)
    if not group.members:
        return _become_empty(group, now_ms, effects)
    leader = group.members[group.leader] if group.leader is not None else next(iter(group.members.values()))
    if leader.join is None:
        joined = next((m for m in group.members.values() if m.join is not None), None)
        if joined is None:
            # Only silent static members are left: wait until one returns or all their sessions end.
            effects.append(SetTimer(JOIN_TIMER, group.rebalance_timeout_ms, JoinDeadline()))
            return group
        leader = joined
    group = replace(
        group.moved_to(GroupState.COMPLETING_REBALANCE, now_ms),
        generation=_next_generation(group),
        protocol=group.select_protocol(),
        leader=leader.member_id,
        pending_syncs=frozenset(group.members),
    )
    for member in group.members.values():
        if member.join is not None:
            effects.append(GroupAnswer(member.join, current_generation(group, member)))
        effects.append(session_started(member))
    effects.append(SetTimer(SYNC_TIMER, group.rebalance_timeout_ms, SyncDeadline(group.generation)))
    return group.with_members(replace(member, join=None, is_new=False) for member in group.members.values())


def current_generation(group: Group, member: Member, *, as_leader: bool = True, skip: bool = False) -> JoinAnswer:
    """Return the JoinGroup answer of the current generation; the leader's answer lists the members."""
    leads = as_leader and member.member_id == group.leader
    return JoinAnswer(
        ErrorCode.NONE,
        member.member_id,
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol=group.protocol,
        leader=group.leader or "",
        skip_assignment=skip and leads,
        members=tuple(
            (other.member_id, other.instance_id, other.metadata_for(group.protocol)) for other in group.members.values()
        )
        if leads
        else (),
    )


def session_started(member: Member, timeout_ms: int | None = None) -> SetTimer:
    """Return the effect that restarts a member's session."""
    delay_ms = member.session_timeout_ms if timeout_ms is None else timeout_ms
    return SetTimer(session_timer(member.member_id), delay_ms, SessionExpired(member.member_id))


def forget_assignments(group: Group) -> Group:
    return group.with_members(replace(member, assignment=NO_ASSIGNMENT) for member in group.members.values())


def answer_syncs(group: Group, error: ErrorCode, effects: list[Effect]) -> Group:
    """Answer every parked SyncGroup, with the member's assignment or with an error, and restart those sessions.

    A session does not end while a request of its member is parked."""
    named = error is ErrorCode.NONE
    for member in group.members.values():
        if member.sync is not None:
            answer = SyncAnswer(
                error,
                protocol_type=group.protocol_type if named else None,
                protocol=group.protocol if named else None,
                assignment=member.assignment,
            )
            effects.append(GroupAnswer(member.sync, answer))
            effects.append(session_started(member))
    return group.with_members(replace(member, sync=None) for member in group.members.values())


def _become_empty(group: Group, now_ms: int, effects: list[Effect]) -> Group:
    group = replace(
        group.moved_to(GroupState.EMPTY, now_ms),
        generation=_next_generation(group),
        protocol=None,
        leader=None,
        pending_syncs=frozenset(),
        stored=True,
    )
    # If this record is lost, the previous generation is read at the next start and its sessions end.
    effects.append(WriteGroup(group, (), EmptyWritten()))
    return group


def _next_generation(group: Group) -> int:
    return group.generation + 1 if group.generation < 2**31 - 1 else 0
