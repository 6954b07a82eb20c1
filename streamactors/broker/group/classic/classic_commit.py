"""Checks of requests that commit or delete offsets, or delete a classic group.

Owner: the group coordinator. Pure: each check returns an error code, NONE if the request is legal.
Source: Kafka's OffsetCommit, TxnOffsetCommit (KIP-447), OffsetDelete (KIP-496) and DeleteGroups (KIP-229)."""

from __future__ import annotations

from streamactors.broker.errors import ErrorCode
from streamactors.broker.group.classic.classic_events import SetTimer
from streamactors.broker.group.classic.classic_group import Group, GroupState
from streamactors.broker.group.classic.classic_join import check_member
from streamactors.broker.group.classic.classic_rebalance import session_started


def check_commit(
    group: Group, member_id: str, instance_id: str | None, generation: int, *, transactional: bool = False
) -> ErrorCode:
    """Return NONE if these offsets may be committed. A member may commit only in the current generation."""
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if generation < 0 and group.state is GroupState.EMPTY:
        return ErrorCode.NONE  # an administrator, or a consumer with manual assignment
    if generation >= 0 or member_id or instance_id is not None:
        error = check_member(group, member_id, instance_id)
        if error is not ErrorCode.NONE:
            return error
        if generation != group.generation:
            return ErrorCode.ILLEGAL_GENERATION
    elif not transactional and group.state is not GroupState.EMPTY:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if not transactional and group.state is GroupState.COMPLETING_REBALANCE:
        # The member is in the new generation but has no assignment yet: another member may own these partitions now.
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def session_touched(group: Group, member_id: str) -> SetTimer | None:
    """Return the effect of a commit on the member's session, which a commit extends like a heartbeat."""
    member = group.members.get(member_id)
    if member is None or group.state not in (GroupState.STABLE, GroupState.PREPARING_REBALANCE):
        return None
    return session_started(member)


def check_delete_offsets(group: Group) -> ErrorCode:
    """Return NONE if single offsets may be deleted. The caller refuses those of subscribed topics."""
    if group.state is GroupState.DEAD:
        return ErrorCode.GROUP_ID_NOT_FOUND
    if group.state is not GroupState.EMPTY and not group.is_consumer_group:
        return ErrorCode.NON_EMPTY_GROUP  # the topics that its members use are unknown
    return ErrorCode.NONE


def check_delete_group(group: Group) -> ErrorCode:
    """Return NONE if the group may be deleted: it must have no members."""
    if group.state is GroupState.DEAD:
        return ErrorCode.GROUP_ID_NOT_FOUND
    return ErrorCode.NONE if group.state is GroupState.EMPTY else ErrorCode.NON_EMPTY_GROUP
