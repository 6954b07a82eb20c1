"""A consumer group and its members as values.

Owner: the coordinator of the group's offsets partition. Everything here is immutable and has no clock; only `consumer_fold.py` makes
a new group from an old one. Source: KIP-848, KIP-1101 (metadata hash), KIP-1263 (assignment interval)."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from functools import cached_property
from typing import Final, NamedTuple

from streamactors.broker.group.assignors.group_spec import Partitions
from streamactors.broker.group.assignors.hash_order import timeline_order
from streamactors.broker.group.group_kind import GroupType

Epochs = Mapping[uuid.UUID, Mapping[int, int]]
"""The epoch at which each partition was assigned, by topic id and partition."""

LEFT: Final = -1
"""Member epoch of a member that leaves or is removed."""

STATIC_LEFT: Final = -2
"""Member epoch of a static member that left and may come back with another member id."""

_FIRST_TABLE: Final = 2

FIRST_EPOCH: Final = 1
"""Epoch of a group without a record. The first join makes it 2."""


class MemberState(IntEnum):
    """How far a member is on the way to its target assignment. The values are stored."""

    STABLE = 0  # it has its target assignment, and the epoch of it
    UNREVOKED_PARTITIONS = 1  # it must give partitions back before it gets the next epoch
    UNRELEASED_PARTITIONS = 2  # it waits for partitions that other members have not given back
    UNKNOWN = 127  # stored by a newer version; the member must join again


class ConsumerGroupState(Enum):
    """The state of a consumer group. The values are the names in answers."""

    EMPTY = "Empty"  # no members
    ASSIGNING = "Assigning"  # the target assignment is older than the group epoch
    RECONCILING = "Reconciling"  # a member does not have its target assignment yet
    STABLE = "Stable"  # every member has its target assignment


class ClassicProtocol(NamedTuple):
    """An assignor of a member that uses the classic protocol, with its subscription."""

    name: str
    metadata: bytes


class ClassicMember(NamedTuple):
    """What the group keeps of a member that uses the classic protocol."""

    session_timeout_ms: int = 0
    protocols: tuple[ClassicProtocol, ...] = ()


class ResolvedRegex(NamedTuple):
    """The topics that a regular expression matched, at a version of the metadata."""

    topics: frozenset[str] = frozenset()
    version: int = 0
    time_ms: int = 0


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    """One member."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    regex: str | None = ""
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    classic: ClassicMember | None = None  # None: the member uses the consumer protocol
    epoch: int = 0
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: Epochs = field(default_factory=dict)
    revoking: Epochs = field(default_factory=dict)  # it must give these back

    def is_reconciled_to(self, epoch: int) -> bool:
        """Whether the member has the target assignment of this epoch."""
        return self.state is MemberState.STABLE and self.epoch == epoch

    def assignment_epoch(self, topic_id: uuid.UUID, partition: int) -> int | None:
        """Return the epoch at which a partition was assigned, None if the member does not own it."""
        for owned in (self.assigned, self.revoking):
            epoch = owned.get(topic_id, {}).get(partition)
            if epoch is not None:
                return epoch
        return None


@dataclass(frozen=True)
class ConsumerGroup:
    """A consumer group between two batches of records."""

    group_id: str
    epoch: int = FIRST_EPOCH
    metadata_hash: int = 0
    assignment_epoch: int = FIRST_EPOCH
    assignment_time_ms: int = 0
    members: Mapping[str, ConsumerMember] = field(default_factory=dict)
    targets: Mapping[str, Partitions] = field(default_factory=dict)
    regexes: Mapping[str, ResolvedRegex] = field(default_factory=dict)
    owners: Epochs = field(default_factory=dict)  # the member epoch of the owner of each partition
    static_ids: Mapping[str, str] = field(default_factory=dict)  # member id by instance id
    has_old_metadata: bool = False  # the log has a record of version 4.0, which the next change deletes
    # not stored
    table_size: int = _FIRST_TABLE  # of Apache Kafka's table of members, whose order the assignors see
    is_checked: bool = False  # `metadata_hash` was compared with the present metadata

    # -- a group of any kind ----------------------------------------------------------------------------------------

    @property
    def group_type(self) -> GroupType:
        return GroupType.CONSUMER

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def listed_protocol(self) -> str:
        return "consumer"

    # -- queries ----------------------------------------------------------------------------------------------------

    @cached_property
    def state(self) -> ConsumerGroupState:
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        reconciled = all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values())
        return ConsumerGroupState.STABLE if reconciled else ConsumerGroupState.RECONCILING

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        """Return the member of a group.instance.id."""
        member_id = None if instance_id is None else self.static_ids.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def owner_epoch(self, topic_id: uuid.UUID, partition: int) -> int:
        """Return the member epoch of the partition's owner; -1 for a partition without one."""
        return self.owners.get(topic_id, {}).get(partition, -1)

    def member_order(self, *newcomers: str) -> list[str]:
        """Return the ids of the members in the order of Apache Kafka's table, newcomers last."""
        return [*timeline_order(self.members, self.table_size), *newcomers]

    @cached_property
    def named_topics(self) -> Counter[str]:
        """Number of members that subscribe to each topic by its name."""
        return Counter(topic for member in self.members.values() for topic in member.topics)

    @cached_property
    def subscribed_regexes(self) -> Counter[str]:
        """Number of members that subscribe to each regular expression."""
        return Counter(member.regex for member in self.members.values() if member.regex)

    @cached_property
    def subscribed_topics(self) -> frozenset[str]:
        """All topics that members subscribe to, by name or through a resolved regular expression."""
        return frozenset(self.named_topics).union(*(each.topics for each in self.regexes.values()))

    @cached_property
    def assignors(self) -> Counter[str]:
        """Number of members that ask for each assignor."""
        return Counter(member.assignor for member in self.members.values() if member.assignor is not None)

    @cached_property
    def classic_count(self) -> int:
        """Number of members that use the classic protocol."""
        return sum(member.classic is not None for member in self.members.values())
