"""Makes the records of a streams group from its values.

Owner: the state machine of streams groups. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from streamactors.broker.group.streams.streams_group import StreamsGroup, StreamsMember, Topology
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
    StoredPair,
    StoredTasks,
    StreamsRecord,
    TargetEpochValue,
    TargetValue,
    TopologyValue,
)
from streamactors.broker.group.streams.tasks import TaskEpochs, Tasks, TaskSet


def epoch_record(
    group: StreamsGroup, epoch: int, metadata_hash: int, validated: int, configs: Mapping[str, str]
) -> StreamsRecord:
    """Return the record of a group's epoch."""
    value = EpochValue(
        epoch,
        metadata_hash,
        validated,
        tuple(StoredPair(*each) for each in sorted(configs.items())),
        group.stored_description_epoch,
        group.failed_description_epoch,
    )
    return StreamsRecord(EPOCH, group.group_id, "", value)


def target_epoch_record(group_id: str, epoch: int, time_ms: int) -> StreamsRecord:
    """Return the record of the epoch of a target assignment."""
    return StreamsRecord(TARGET_EPOCH, group_id, "", TargetEpochValue(epoch, time_ms))


def topology_record(group_id: str, topology: Topology) -> StreamsRecord:
    """Return the record of a topology, its subtopologies by id."""
    subtopologies = tuple(each for _, each in sorted(topology.subtopologies.items()))
    return StreamsRecord(TOPOLOGY, group_id, "", TopologyValue(topology.epoch, subtopologies))


def member_record(group_id: str, member: StreamsMember) -> StreamsRecord:
    """Return the record of who a member is."""
    value = MemberValue(
        member.instance_id,
        member.rack_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        member.topology_epoch,
        member.process_id,
        member.endpoint,
        tuple(StoredPair(*each) for each in sorted(member.client_tags.items())),
    )
    return StreamsRecord(MEMBER, group_id, member.member_id, value)


def target_record(group_id: str, member_id: str, target: Tasks) -> StreamsRecord:
    """Return the record of a member's target assignment."""
    return StreamsRecord(TARGET, group_id, member_id, TargetValue(*map(_stored, target)))


def current_record(group_id: str, member: StreamsMember) -> StreamsRecord:
    """Return the record of what a member has."""
    assigned, revoking = member.assigned, member.revoking
    value = CurrentValue(
        member.epoch,
        member.previous_epoch,
        member.state,
        _with_epochs(assigned.active),
        _owned(assigned.standby),
        _owned(assigned.warmup),
        _with_epochs(revoking.active),
        _owned(revoking.standby),
        _owned(revoking.warmup),
    )
    return StreamsRecord(CURRENT, group_id, member.member_id, value)


def removal(group_id: str, member_id: str) -> list[StreamsRecord]:
    """Return the tombstones of a member."""
    return [StreamsRecord(kind, group_id, member_id) for kind in (CURRENT, TARGET, MEMBER)]


def tombstones(group: StreamsGroup) -> list[StreamsRecord]:
    """Return the records that delete a group, in Apache Kafka's order."""
    group_id = group.group_id
    records = [StreamsRecord(kind, group_id, member_id) for kind in (CURRENT, TARGET) for member_id in group.members]
    records.append(StreamsRecord(TARGET_EPOCH, group_id))
    records += [StreamsRecord(MEMBER, group_id, member_id) for member_id in group.members]
    return [*records, StreamsRecord(EPOCH, group_id), StreamsRecord(TOPOLOGY, group_id)]


def _stored(tasks: TaskSet) -> tuple[StoredTasks, ...]:
    return tuple(StoredTasks(name, tuple(sorted(tasks[name]))) for name in sorted(tasks))


def _owned(tasks: TaskSet) -> tuple[StoredOwned, ...]:
    return tuple(StoredOwned(name, tuple(sorted(tasks[name]))) for name in sorted(tasks))


def _with_epochs(tasks: TaskEpochs) -> tuple[StoredOwned, ...]:
    return tuple(
        StoredOwned(name, tuple(sorted(each)), tuple(each[partition] for partition in sorted(each)))
        for name, each in sorted(tasks.items())
    )
