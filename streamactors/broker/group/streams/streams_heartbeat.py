"""The state machine of streams groups: a heartbeat, a leave or a timer becomes records and an answer.

Owner: `StreamsKind`. Pure, but for `Remembered`, which belongs to the machine. The order of the steps and of the records is that of Apache Kafka's
GroupMetadataManager, because another broker continues the group from the records. Source: KIP-1071, KIP-1263."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from streamactors.broker.errors import ErrorCode, Refusal
from streamactors.broker.group.stored_times import interval_is_over
from streamactors.broker.group.streams.endpoints import partitions_by_endpoint
from streamactors.broker.group.streams.membership import (
    check_room,
    described,
    has_changed,
    member_of,
    static_member,
    unknown,
)
from streamactors.broker.group.streams.reconcile import reconcile
from streamactors.broker.group.streams.record_of import (
    current_record,
    epoch_record,
    member_record,
    removal,
    target_epoch_record,
    topology_record,
)
from streamactors.broker.group.streams.streams_events import (
    Around,
    Decision,
    FirstAssignmentTimer,
    MemberAnswer,
    MemberGone,
    MemberHeartbeat,
    RebalanceTimer,
    Remembered,
    SessionTimer,
)
from streamactors.broker.group.streams.streams_group import (
    NO_TOPOLOGY,
    STATIC_LEFT,
    MemberState,
    StreamsGroup,
    StreamsGroupState,
    StreamsMember,
    Topology,
)
from streamactors.broker.group.streams.streams_record import MEMBER
from streamactors.broker.group.streams.target import assigned, new_target
from streamactors.broker.group.streams.tasks import NO_TASKS, NOTHING_OWNED, Tasks, each_task
from streamactors.broker.group.streams.topology_setup import ConfiguredTopology, Status, configure

_DELAYED_AT_FIRST = "Assignment delayed due to the configured initial rebalance delay."
_DELAYED_BY_INTERVAL = "Assignment delayed due to the configured assignment interval."


def heartbeat(group: StreamsGroup, known: Remembered, request: MemberHeartbeat, around: Around) -> Decision:
    """Return what a member's heartbeat results in. A group that does not exist yet is an empty one. Raises Refusal."""
    return _Heartbeat(group, known, request, around).decide()


class _Heartbeat:
    def __init__(self, group: StreamsGroup, known: Remembered, request: MemberHeartbeat, around: Around) -> None:
        self._group = group
        self._known = known
        self._request = request
        self._around = around
        self._joins = request.epoch == 0
        self._decision = Decision()
        self._status: list[tuple[Status, str]] = []

    def decide(self) -> Decision:
        group, request, decision = self._group, self._request, self._decision
        if self._joins:
            check_room(group, request, self._around.rules.max_size)
        member, replaced = member_of(group, request, decision)
        updated = described(member, request)
        if updated != member:
            decision.records.append(member_record(group.group_id, updated))
        bump = has_changed(member, updated, static=request.instance_id is not None)
        topology = self._topology()
        if group.topology is not None and updated.topology_epoch < group.topology.epoch:
            self._status.append(
                (
                    Status.STALE_TOPOLOGY,
                    f"The member's topology epoch {updated.topology_epoch} is behind the group's topology epoch {group.topology.epoch}.",
                )
            )
        metadata_hash, configured = self._configured(topology)
        bump |= metadata_hash != group.metadata_hash
        validated = self._validated(topology, configured)
        self._note_offsets()
        bump |= validated != group.validated_topology_epoch
        configs = self._around.rules.assignment_configs
        bump |= configs != dict(group.assignment_configs)
        moves = not bump and self._is_off_target(updated)
        epoch = group.epoch
        if bump or moves:
            epoch += 1
            decision.records.append(epoch_record(group, epoch, metadata_hash, validated, configs))
        target_epoch, target = self._target(updated, replaced, epoch, configured, same=moves)
        updated = self._reconciled(updated, target_epoch, target)
        decision.timers.append(SessionTimer(updated.member_id, self._around.rules.session_timeout_ms))
        if request.shutdown and self._known.shutdown_by is None:
            self._known.shutdown_by = request.member_id
        self._forget_replaced()
        decision.answer = self._answer(member, updated, replaced, configured)
        return decision

    # -- topology ---------------------------------------------------------------------------------------------------

    def _topology(self) -> Topology:
        """Return the topology of the group; the first member brings it. Raises Refusal."""
        given, stored = self._request.topology, self._group.topology
        if stored is None:
            if given is None:
                raise Refusal(
                    ErrorCode.UNKNOWN_SERVER_ERROR, "The topology is null and the group topology is also null."
                )
            self._decision.records.append(topology_record(self._group.group_id, given))
            return given
        if given is not None and stored.epoch <= given.epoch and stored != given:
            raise Refusal(ErrorCode.INVALID_REQUEST, "Topology updates are not supported yet.")
        return stored

    def _configured(self, topology: Topology) -> tuple[int, ConfiguredTopology]:
        """Return the metadata hash and what the topology needs; computed again when a topic has changed."""
        group, known, around = self._group, self._known, self._around
        found = known.configured
        if group.topology is not None and found is not None and known.topics_version is around.topics_version:
            return group.metadata_hash, found
        metadata_hash = around.hash_of(topology.required_topics())
        if group.topology is None or found is None or metadata_hash != group.metadata_hash:
            found = known.configured = configure(topology, around.partitions_of)
        known.topics_version = around.topics_version
        return metadata_hash, found

    def _validated(self, topology: Topology, configured: ConfiguredTopology) -> int:
        """Return the topology epoch whose topics fit, -1 if they do not. Raises Refusal for tasks that cannot be."""
        if configured.problem is not None:
            return NO_TOPOLOGY
        for tasks in self._request.owned or ():
            for name, partition in each_task(tasks):
                found = configured.subtopologies.get(name)
                if found is None:
                    raise Refusal(ErrorCode.INVALID_REQUEST, f"Subtopology {name} does not exist in the topology.")
                if not 0 <= partition < found.number_of_tasks:
                    raise Refusal(
                        ErrorCode.INVALID_REQUEST,
                        f"Task {partition} for subtopology {name} is invalid. Number of tasks for this subtopology: {found.number_of_tasks}",
                    )
        return topology.epoch

    def _note_offsets(self) -> None:
        member_id, request = self._request.member_id, self._request
        if request.task_offsets is not None:
            self._known.offsets[member_id] = request.task_offsets
        if request.task_end_offsets is not None:
            self._known.end_offsets[member_id] = request.task_end_offsets

    def _forget_replaced(self) -> None:
        """A static member that comes back is a new one, which has not reported anything."""
        for record in self._decision.records:
            if record.kind == MEMBER and record.value is None:
                self._known.offsets.pop(record.member_id, None)
                self._known.end_offsets.pop(record.member_id, None)

    # -- assignment -------------------------------------------------------------------------------------------------

    def _is_off_target(self, updated: StreamsMember) -> bool:
        """Whether the member of a stable group has other tasks than its target assignment: a static member has come back."""
        group = self._group
        stable = group.state is StreamsGroupState.STABLE
        return stable and group.targets.get(updated.member_id, NO_TASKS) != updated.assigned.tasks

    def _target(
        self,
        updated: StreamsMember,
        replaced: StreamsMember | None,
        epoch: int,
        configured: ConfiguredTopology,
        *,
        same: bool,
    ) -> tuple[int, Tasks]:
        """Return the epoch of the target assignment, and what this member is to have. `same`: the assignment stays, only the epoch is new."""
        group, around = self._group, self._around
        delay_ms = around.rules.initial_rebalance_delay_ms
        starts = not group.members and delay_ms > 0
        if starts:
            self._decision.timers.append(FirstAssignmentTimer(delay_ms))
        if starts or around.is_delayed:
            self._status.append((Status.ASSIGNMENT_DELAYED, _DELAYED_AT_FIRST))
            return group.assignment_epoch, NO_TASKS
        members = {name: each for name, each in group.members.items() if replaced is None or name != replaced.member_id}
        members[updated.member_id] = updated
        targets = dict(group.targets)
        if replaced is not None and replaced.member_id in targets:
            targets[updated.member_id] = targets.pop(replaced.member_id)
        if group.assignment_epoch >= epoch:
            return group.assignment_epoch, targets.get(updated.member_id, NO_TASKS)
        if same and group.assignment_epoch >= group.epoch:
            self._decision.records.append(target_epoch_record(group.group_id, epoch, group.assignment_time_ms))
            return epoch, targets.get(updated.member_id, NO_TASKS)
        if not _may_assign(group, around):
            self._status.append((Status.ASSIGNMENT_DELAYED, _DELAYED_BY_INTERVAL))
            return group.assignment_epoch, targets.get(updated.member_id, NO_TASKS)
        made = assigned(members, self._known.offsets, configured, around.rules.standby_replicas)
        self._decision.records += new_target(group.group_id, epoch, targets, made, around.now_ms)
        return epoch, made[updated.member_id]

    def _reconciled(self, updated: StreamsMember, target_epoch: int, target: Tasks) -> StreamsMember:
        if updated.is_reconciled_to(target_epoch):
            return updated
        member = reconcile(self._group, updated, target_epoch, target, self._request.owned)
        if member == updated:
            return member
        self._decision.records.append(current_record(self._group.group_id, member))
        revokes = member.state is MemberState.UNREVOKED_TASKS
        self._decision.timers.append(
            RebalanceTimer(member.member_id, member.epoch, member.rebalance_timeout_ms if revokes else None)
        )
        return member

    # -- answer -----------------------------------------------------------------------------------------------------

    def _answer(
        self,
        member: StreamsMember,
        updated: StreamsMember,
        replaced: StreamsMember | None,
        configured: ConfiguredTopology,
    ) -> MemberAnswer:
        known, request = self._known, self._request
        moved = member.assigned != updated.assigned
        if member.endpoint != updated.endpoint or (moved and updated.endpoint is not None):
            known.endpoint_epoch += 1
        answer = MemberAnswer(updated.member_id, updated.epoch, self._around.rules, self._status)
        if self._joins or moved:
            answer.tasks = updated.assigned.tasks
        if known.endpoint_epoch != request.endpoint_epoch:
            without = () if replaced is None else (replaced.member_id,)
            others = [each for name, each in self._group.members.items() if name not in (updated.member_id, *without)]
            answer.endpoints = partitions_by_endpoint((*others, updated), configured, self._around.partitions_of)
        if self._group.members or self._group.topology is not None:
            answer.endpoint_epoch = known.endpoint_epoch
        if configured.problem is not None:
            self._decision.to_create = configured.to_create
            self._status.append(configured.problem)
        if known.shutdown_by is not None:
            self._status.append(
                (
                    Status.SHUTDOWN_APPLICATION,
                    f"Streams group member {known.shutdown_by} encountered a fatal error and requested a shutdown for the entire application.",
                )
            )
        missing = [tag for tag in self._around.rules.rack_aware_tags if tag not in updated.client_tags]
        if request.version >= 1 and missing:
            self._status.append(
                (
                    Status.MISSING_CLIENT_TAGS,
                    f"Missing required client tags for rack-aware standby assignment: [{', '.join(missing)}]. Configure them via "
                    "'client.tag.<tagKey>' in your Streams config.",
                )
            )
        return answer


def _may_assign(group: StreamsGroup, around: Around) -> bool:
    """Whether the time between two assignments is over."""
    made_ms = group.assignment_time_ms
    return not made_ms or interval_is_over(made_ms, around.rules.assignment_interval_ms, around.now_ms)


def first_assignment(group: StreamsGroup, known: Remembered, around: Around) -> Decision:
    """Return the assignment of a new group whose initial delay is over. Heartbeats give it to the members."""
    decision = Decision()
    if not group.members or known.configured is None or group.epoch <= group.assignment_epoch:
        return decision
    if _may_assign(group, around):
        standbys = int(group.assignment_configs.get("num.standby.replicas", "0"))
        made = assigned(group.members, known.offsets, known.configured, standbys)
        decision.records += new_target(group.group_id, group.epoch, group.targets, made, around.now_ms)
    return decision


# -- leaving --------------------------------------------------------------------------------------------------------


def leave(group: StreamsGroup, known: Remembered, request: MemberHeartbeat) -> Decision:
    """Return what a leave results in: with epoch -1 the member is removed, with -2 a static one keeps its place. Raises Refusal."""
    if request.shutdown and known.shutdown_by is None:
        known.shutdown_by = request.member_id
    if request.instance_id is not None:
        member = static_member(group, request.instance_id, request.member_id)
        if request.epoch == STATIC_LEFT:
            return _left_for_a_while(group, member)
    else:
        found = group.members.get(request.member_id)
        if found is None:
            raise unknown(group, request.member_id)
        member = found
    decision = remove(group, known, member)
    decision.answer = MemberAnswer(request.member_id, request.epoch)
    return decision


def _left_for_a_while(group: StreamsGroup, member: StreamsMember) -> Decision:
    epochs: Mapping[str, Mapping[int, int]] = {
        name: dict.fromkeys(each, 0) for name, each in member.assigned.active.items()
    }
    left = replace(member, epoch=STATIC_LEFT, revoking=NOTHING_OWNED, assigned=member.assigned._replace(active=epochs))
    answer = MemberAnswer(member.member_id, STATIC_LEFT)
    return Decision([current_record(group.group_id, left)], answer)


def remove(group: StreamsGroup, known: Remembered, member: StreamsMember) -> Decision:
    """Return the removal of a member. The next heartbeat of another one makes a new assignment."""
    epoch = group.epoch + 1
    records = removal(group.group_id, member.member_id)
    records.append(
        epoch_record(group, epoch, group.metadata_hash, group.validated_topology_epoch, group.assignment_configs)
    )
    if len(group.members) == 1:
        records.append(target_epoch_record(group.group_id, epoch, 0))
        known.shutdown_by = None
    known.offsets.pop(member.member_id, None)
    known.end_offsets.pop(member.member_id, None)
    return Decision(records, timers=[MemberGone(member.member_id)])
