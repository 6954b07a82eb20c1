"""A streams group and its members as values.

Owner: the coordinator of the group's offsets partition. Everything here is immutable and has no clock; only `streams_fold.py` makes a new group
from records. Source: KIP-1071; Apache Kafka's StreamsGroup and StreamsGroupMember."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from functools import cached_property
from typing import Final, NamedTuple

from streamactors.broker.group.group_kind import GroupType
from streamactors.broker.group.streams.streams_record import StoredEndpoint, Subtopology
from streamactors.broker.group.streams.tasks import NOTHING_OWNED, OwnedTasks, Tasks, each_task

LEFT: Final = -1
"""Member epoch of a member that leaves or is removed."""

STATIC_LEFT: Final = -2
"""Member epoch of a static member that left and may come back with another member id."""

FIRST_EPOCH: Final = 1
"""Epoch of a group without a record. The first join makes it 2."""

NO_TOPOLOGY: Final = -1


class MemberState(IntEnum):
    """How far a member is on the way to its target assignment. The values are stored."""

    STABLE = 1  # it has its target assignment, and the epoch of it
    UNREVOKED_TASKS = 2  # it must give tasks back before it gets the next epoch
    UNRELEASED_TASKS = 3  # it waits for tasks that other members have not given back
    UNKNOWN = 127  # stored by a newer version; the member must join again


class StreamsGroupState(Enum):
    """The state of a streams group. The values are the names in answers."""

    EMPTY = "Empty"  # no members
    NOT_READY = "NotReady"  # topics of the topology are missing or do not fit
    ASSIGNING = "Assigning"  # the target assignment is older than the group epoch
    RECONCILING = "Reconciling"  # a member does not have its target assignment yet
    STABLE = "Stable"  # every member has its target assignment


class Topology(NamedTuple):
    """The topology of the application; subtopologies by id."""

    epoch: int
    subtopologies: Mapping[str, Subtopology]

    def required_topics(self) -> frozenset[str]:
        """Return every topic that must exist."""
        found: set[str] = set()
        for each in self.subtopologies.values():
            found.update(each.source_topics)
            found.update(topic.name for topic in (*each.repartition_sources, *each.changelogs))
        return frozenset(found)

    def subtopology_of(self, topic: str) -> str | None:
        """Return the id of the subtopology that reads a topic."""
        for name, each in self.subtopologies.items():
            if topic in each.source_topics or any(topic == source.name for source in each.repartition_sources):
                return name
        return None


@dataclass(frozen=True, slots=True)
class StreamsMember:
    """One member: a thread of an instance of the application. `process_id` is that of the instance."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = NO_TOPOLOGY
    process_id: str = ""
    endpoint: StoredEndpoint | None = None
    client_tags: Mapping[str, str] = field(default_factory=dict)
    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: OwnedTasks = NOTHING_OWNED
    revoking: OwnedTasks = NOTHING_OWNED  # it must give these back

    def is_reconciled_to(self, epoch: int) -> bool:
        """Whether the member has the target assignment of this epoch."""
        return self.state is MemberState.STABLE and self.epoch == epoch


@dataclass(frozen=True)
class StreamsGroup:
    """A streams group between two batches of records."""

    group_id: str
    epoch: int = FIRST_EPOCH
    metadata_hash: int = 0
    validated_topology_epoch: int = NO_TOPOLOGY
    assignment_configs: Mapping[str, str] = field(default_factory=dict)
    stored_description_epoch: int = -1
    failed_description_epoch: int = -1
    assignment_epoch: int = FIRST_EPOCH
    assignment_time_ms: int = 0
    members: Mapping[str, StreamsMember] = field(default_factory=dict)
    targets: Mapping[str, Tasks] = field(default_factory=dict)
    static_ids: Mapping[str, str] = field(default_factory=dict)  # member id by instance id
    topology: Topology | None = None

    # -- a group of any kind ----------------------------------------------------------------------------------------

    @property
    def group_type(self) -> GroupType:
        return GroupType.STREAMS

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def listed_protocol(self) -> str:
        return "streams"

    # -- queries ----------------------------------------------------------------------------------------------------

    @cached_property
    def state(self) -> StreamsGroupState:
        if not self.members:
            return StreamsGroupState.EMPTY
        if self.topology is None or self.topology.epoch != self.validated_topology_epoch:
            return StreamsGroupState.NOT_READY
        if self.epoch > self.assignment_epoch:
            return StreamsGroupState.ASSIGNING
        reconciled = all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values())
        return StreamsGroupState.STABLE if reconciled else StreamsGroupState.RECONCILING

    def static_member(self, instance_id: str | None) -> StreamsMember | None:
        """Return the member of a group.instance.id."""
        member_id = None if instance_id is None else self.static_ids.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    # -- who has a task now -----------------------------------------------------------------------------------------

    @cached_property
    def active_processes(self) -> Mapping[tuple[str, int], str]:
        """The process that has each active task, also one that it must give back."""
        return {
            task: member.process_id
            for member in self.members.values()
            for owned in (member.assigned, member.revoking)
            for task in each_task(owned.tasks.active)
        }

    @cached_property
    def standby_processes(self) -> Mapping[tuple[str, int], frozenset[str]]:
        """The processes that have each standby task."""
        return self._processes("standby")

    @cached_property
    def warmup_processes(self) -> Mapping[tuple[str, int], frozenset[str]]:
        """The processes that have each warm-up task."""
        return self._processes("warmup")

    def _processes(self, role: str) -> Mapping[tuple[str, int], frozenset[str]]:
        found: dict[tuple[str, int], set[str]] = {}
        for member in self.members.values():
            for owned in (member.assigned, member.revoking):
                for task in each_task(getattr(owned, role)):
                    found.setdefault(task, set()).add(member.process_id)
        return {task: frozenset(each) for task, each in found.items()}
