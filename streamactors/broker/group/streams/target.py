"""The target assignment of a streams group: what the assignor makes of the members and the topology, as records.

Owner: the state machine of streams groups. Pure. Source: Apache Kafka's TargetAssignmentBuilder."""

from __future__ import annotations

from collections.abc import Mapping

from streamactors.broker.group.assignors.hash_order import HashOrdered, text_hash
from streamactors.broker.group.streams.record_of import target_epoch_record, target_record
from streamactors.broker.group.streams.sticky import AssignedMember, Part, assign
from streamactors.broker.group.streams.streams_events import Offsets
from streamactors.broker.group.streams.streams_group import StreamsMember
from streamactors.broker.group.streams.streams_record import StreamsRecord
from streamactors.broker.group.streams.tasks import NO_TASKS, Tasks
from streamactors.broker.group.streams.topology_setup import ConfiguredTopology


def assigned(
    members: Mapping[str, StreamsMember],
    offsets: Mapping[str, Offsets],
    configured: ConfiguredTopology,
    standby_replicas: int,
) -> dict[str, Tasks]:
    """Return the tasks of each member; none while the topics do not fit the topology."""
    order: HashOrdered[str] = HashOrdered(text_hash, members)
    if configured.problem is not None:
        return dict.fromkeys(order, NO_TASKS)
    parts = {name: Part(each.number_of_tasks, each.is_stateful) for name, each in configured.subtopologies.items()}
    known = {
        member_id: AssignedMember(
            members[member_id].process_id, members[member_id].assigned, offsets.get(member_id, {})
        )
        for member_id in order
    }
    return assign(known, parts, standby_replicas)


def new_target(
    group_id: str, epoch: int, before: Mapping[str, Tasks], made: Mapping[str, Tasks], now_ms: int
) -> list[StreamsRecord]:
    """Return the records of an assignment: of the members for which it is another one, then its epoch."""
    changed = [name for name, tasks in made.items() if name not in before or before[name] != tasks]
    records = [target_record(group_id, name, made[name]) for name in changed]
    return [*records, target_epoch_record(group_id, epoch, now_ms)]
