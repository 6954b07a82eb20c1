"""Who may be a member of a streams group: joins, static members, epochs. Pure.

Owner: the state machine of streams groups. Checks and texts: Apache Kafka's GroupMetadataManager."""

from __future__ import annotations

from dataclasses import replace

from streamactors.broker.errors import ErrorCode, Refusal
from streamactors.broker.group.streams.record_of import current_record, member_record, removal, target_record
from streamactors.broker.group.streams.streams_events import Decision, MemberGone, MemberHeartbeat
from streamactors.broker.group.streams.streams_group import STATIC_LEFT, StreamsGroup, StreamsMember
from streamactors.broker.group.streams.tasks import NO_TASKS, Tasks, each_task


def member_of(
    group: StreamsGroup, request: MemberHeartbeat, decision: Decision
) -> tuple[StreamsMember, StreamsMember | None]:
    """Return the member, a new one if it joins, and the static member that it replaces. Raises Refusal."""
    joins = request.epoch == 0
    if request.instance_id is None:
        if joins:
            return group.members.get(request.member_id) or StreamsMember(request.member_id), None
        member = group.members.get(request.member_id)
        if member is None:
            raise unknown(group, request.member_id)
        check_epoch(member, request)
        return member, None
    known = group.static_member(request.instance_id)
    if joins:
        return _static_joins(group, request, known, decision)
    member = static_member(group, request.instance_id, request.member_id)
    check_epoch(member, request)
    return member, None


def _static_joins(
    group: StreamsGroup, request: MemberHeartbeat, known: StreamsMember | None, decision: Decision
) -> tuple[StreamsMember, StreamsMember | None]:
    if known is None:
        return group.members.get(request.member_id) or StreamsMember(request.member_id), None
    if known.epoch != STATIC_LEFT:
        raise Refusal(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {request.member_id} with instance id {request.instance_id} cannot join the group because the instance id is owned "
            f"by {known.member_id} member.",
        )
    member = replace(known, member_id=request.member_id, epoch=0, previous_epoch=0)
    group_id = group.group_id
    decision.timers.append(MemberGone(known.member_id))
    decision.records += removal(group_id, known.member_id)
    decision.records.append(member_record(group_id, member))
    decision.records.append(target_record(group_id, member.member_id, group.targets.get(known.member_id, NO_TASKS)))
    decision.records.append(current_record(group_id, member))
    return member, known if known.member_id != request.member_id else None


def static_member(group: StreamsGroup, instance_id: str, member_id: str) -> StreamsMember:
    """Return the member with this instance id. Raises Refusal if there is none, or if it has another member id."""
    known = group.static_member(instance_id)
    if known is None:
        raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if known.member_id != member_id:
        raise Refusal(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member {known.member_id}.",
        )
    return known


def unknown(group: StreamsGroup, member_id: str) -> Refusal:
    """Return the refusal of a member that is not there."""
    return Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group.group_id}.")


def check_room(group: StreamsGroup, request: MemberHeartbeat, max_size: int) -> None:
    """Raise Refusal GROUP_MAX_SIZE_REACHED if a newcomer would be one too many."""
    if request.instance_id in group.static_ids or request.member_id in group.members:
        return
    if len(group.members) >= max_size:
        raise Refusal(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The streams group has reached its maximum capacity of {max_size} members.",
        )


def check_epoch(member: StreamsMember, request: MemberHeartbeat) -> None:
    """Raise Refusal FENCED_MEMBER_EPOCH unless the member has its epoch, or has missed the answer with the present one."""
    epoch = request.epoch
    if epoch == member.epoch:
        return
    missed = epoch == member.previous_epoch and _has_only(request.owned, member.assigned.tasks)
    if epoch < member.epoch and missed:
        return
    size = "greater" if epoch > member.epoch else "smaller"
    raise Refusal(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The streams group member has a {size} member epoch ({epoch}) than the one known by the group coordinator ({member.epoch}). "
        "The member must abandon all its partitions and rejoin.",
    )


def _has_only(owned: Tasks | None, assigned: Tasks) -> bool:
    if owned is None:
        return False
    return all(
        partition in theirs.get(name, frozenset())
        for mine, theirs in zip(owned, assigned, strict=True)
        for name, partition in each_task(mine)
    )


def described(member: StreamsMember, request: MemberHeartbeat) -> StreamsMember:
    """Return the member with what the request says about it. A member that joins without an endpoint has none."""
    joins = request.epoch == 0
    return replace(
        member,
        instance_id=request.instance_id if request.instance_id is not None else member.instance_id,
        rack_id=request.rack_id if request.rack_id is not None else member.rack_id,
        rebalance_timeout_ms=(
            request.rebalance_timeout_ms if request.rebalance_timeout_ms != -1 else member.rebalance_timeout_ms
        ),
        topology_epoch=member.topology_epoch if request.topology is None else request.topology.epoch,
        client_id=request.client_id,
        client_host=request.client_host,
        process_id=request.process_id if request.process_id is not None else member.process_id,
        client_tags=member.client_tags if request.client_tags is None else dict(request.client_tags),
        endpoint=request.endpoint if joins or request.endpoint is not None else member.endpoint,
    )


def has_changed(member: StreamsMember, updated: StreamsMember, *, static: bool) -> bool:
    """Whether a changed member needs a new assignment. Of a static member only some properties count."""
    if updated == member:
        return False
    relevant = ("topology_epoch", "rack_id", "client_tags", "process_id")
    return not static or any(getattr(member, name) != getattr(updated, name) for name in relevant)
