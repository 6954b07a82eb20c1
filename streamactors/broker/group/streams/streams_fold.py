"""Applies records to a streams group: while the log is read, and when the coordinator decides something.

Owner: the group coordinator. Pure. A decision of the coordinator is a list of records, and its state is their fold, so a new coordinator that reads
the log has the same state. Source: Apache Kafka's replay of GroupMetadataManager."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from streamactors.broker.group.classic.classic_group import Group, GroupRules
from streamactors.broker.group.group_kind import CoordinatedGroup
from streamactors.broker.group.stored_records import fold_into
from streamactors.broker.group.streams.streams_group import LEFT, MemberState, StreamsGroup, StreamsMember, Topology
from streamactors.broker.group.streams.streams_record import (
    CURRENT,
    EPOCH,
    MEMBER,
    TARGET,
    TARGET_EPOCH,
    TOPOLOGY,
    CurrentValue,
    EpochValue,
    MemberValue,
    StoredOwned,
    StoredTasks,
    StreamsRecord,
    TargetEpochValue,
    TargetValue,
    TopologyValue,
    decode,
)
from streamactors.broker.group.streams.tasks import OwnedTasks, TaskEpochs, Tasks, TaskSet


def fold(group: StreamsGroup, records: Iterable[StreamsRecord]) -> StreamsGroup | None:
    """Return the group after these records, None after its tombstone. The given group does not change."""
    after: StreamsGroup | None = group
    for record in records:
        after = _fold_one(after or StreamsGroup(group.group_id), record, was_deleted=after is None)
    return after


def _fold_one(group: StreamsGroup, record: StreamsRecord, *, was_deleted: bool) -> StreamsGroup | None:
    value, member_id = record.value, record.member_id
    match value:
        case EpochValue():
            return replace(
                group,
                epoch=value.epoch,
                metadata_hash=value.metadata_hash,
                validated_topology_epoch=value.validated_topology_epoch,
                assignment_configs={each.key: each.value for each in value.assignment_configs or ()},
                stored_description_epoch=value.stored_description_epoch,
                failed_description_epoch=value.failed_description_epoch,
            )
        case TargetEpochValue():
            return replace(group, assignment_epoch=value.epoch, assignment_time_ms=value.time_ms)
        case TopologyValue():
            return replace(
                group, topology=Topology(value.epoch, {each.subtopology_id: each for each in value.subtopologies})
            )
        case TargetValue():
            target = Tasks(_tasks(value.active), _tasks(value.standby), _tasks(value.warmup))
            return replace(group, targets={**group.targets, member_id: target})
        case MemberValue():
            return _put(group, _described(group.members.get(member_id) or StreamsMember(member_id), value))
        case CurrentValue():
            return _put(group, _placed(group.members.get(member_id) or StreamsMember(member_id), value))
        case None:
            return None if was_deleted else _tombstone(group, record.kind, member_id)


def _tombstone(group: StreamsGroup, kind: int, member_id: str) -> StreamsGroup | None:
    before = group.members.get(member_id)
    if kind == EPOCH:
        return None
    if kind == TOPOLOGY:
        return replace(group, topology=None)
    if kind == TARGET_EPOCH:
        return replace(group, assignment_epoch=LEFT, assignment_time_ms=0)
    if kind == TARGET:
        return replace(group, targets=_without(group.targets, member_id))
    if before is None:
        return group
    if kind == MEMBER:
        static = group.static_ids if before.instance_id is None else _without(group.static_ids, before.instance_id)
        return replace(group, members=_without(group.members, member_id), static_ids=static)
    assert kind == CURRENT
    return _put(group, replace(before, epoch=LEFT, previous_epoch=LEFT, assigned=OwnedTasks(), revoking=OwnedTasks()))


def _without(items: Any, key: str) -> dict[str, Any]:
    return {name: each for name, each in items.items() if name != key}


def _put(group: StreamsGroup, member: StreamsMember) -> StreamsGroup:
    before = group.members.get(member.member_id)
    static = dict(group.static_ids)
    if before is not None and before.instance_id is not None:
        static.pop(before.instance_id, None)
    if member.instance_id is not None:
        static[member.instance_id] = member.member_id
    return replace(group, members={**group.members, member.member_id: member}, static_ids=static)


def _described(member: StreamsMember, value: MemberValue) -> StreamsMember:
    return replace(
        member,
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        topology_epoch=value.topology_epoch,
        process_id=value.process_id,
        endpoint=value.endpoint,
        client_tags={each.key: each.value for each in value.client_tags},
    )


def _placed(member: StreamsMember, value: CurrentValue) -> StreamsMember:
    known = value.state in MemberState._value2member_map_
    epoch = value.epoch
    return replace(
        member,
        epoch=epoch,
        previous_epoch=value.previous_epoch,
        state=MemberState(value.state) if known else MemberState.UNKNOWN,
        assigned=OwnedTasks(_epochs(value.active, epoch), _tasks(value.standby), _tasks(value.warmup)),
        revoking=OwnedTasks(
            _epochs(value.revoking_active, epoch), _tasks(value.revoking_standby), _tasks(value.revoking_warmup)
        ),
    )


def _tasks(stored: Sequence[StoredTasks] | Sequence[StoredOwned]) -> TaskSet:
    return {each.subtopology: frozenset(each.partitions) for each in stored}


def _epochs(stored: Sequence[StoredOwned], default: int) -> TaskEpochs:
    """Return the assignment epochs; in a record without them the member epoch counts."""
    found: dict[str, dict[int, int]] = {}
    for name, partitions, epochs in stored:
        if epochs is None or len(epochs) != len(partitions):
            epochs = [default] * len(partitions)
        found[name] = dict(zip(partitions, epochs, strict=True))
    return found


def _load_one(
    kind: int, groups: dict[str, CoordinatedGroup], key: bytes, value: bytes | None, _rules: GroupRules
) -> None:
    fold_into(groups, decode(kind, key, value), StreamsGroup, fold, StreamsGroup, (Group,))


STREAMS_FOLDS: Final[Mapping[int, Callable[..., None]]] = {
    kind: partial(_load_one, kind) for kind in (EPOCH, MEMBER, TARGET_EPOCH, TARGET, CURRENT, TOPOLOGY)
}
"""How each record of a streams group is folded into the map of groups."""
