"""A share group between two batches of records. Immutable values.

Owner: the group coordinator. Source: KIP-932; Apache Kafka's ShareGroup and ShareGroupMember."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from streamactors.broker.group.group_kind import GroupType

FIRST_EPOCH: Final = 1
"""The epoch of a group without records; the first stored epoch is the next one."""
ASSIGNOR: Final = "simple"

Partitions = Mapping[uuid.UUID, frozenset[int]]
NOTHING: Final[Mapping[Any, Any]] = MappingProxyType({})


class ShareGroupState(Enum):
    """The state of a share group. The values are the names on the wire."""

    EMPTY = "Empty"
    STABLE = "Stable"


@dataclass(frozen=True, slots=True)
class ShareMember:
    """One member. A member that was never assigned anything has epoch 0 and the previous epoch -1."""

    member_id: str
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    epoch: int = 0
    previous_epoch: int = -1
    assigned: Partitions = field(default_factory=dict)


class TopicPartitions(NamedTuple):
    """Partitions of a topic whose share partitions are being initialised, or are."""

    name: str
    partitions: frozenset[int]
    since_ms: int = 0  # when the coordinator noted them; not stored


@dataclass(frozen=True)
class ShareGroup:
    """`initializing` topics are being begun at the share coordinator, `initialized` ones may be assigned, `deleting` ones are being forgotten."""

    group_id: str
    epoch: int = FIRST_EPOCH
    metadata_hash: int = 0
    assignment_epoch: int = FIRST_EPOCH
    assignment_ms: int = 0
    members: Mapping[str, ShareMember] = field(default_factory=dict)
    targets: Mapping[str, Partitions] = field(default_factory=dict)
    initializing: Mapping[uuid.UUID, TopicPartitions] = field(default_factory=dict)
    initialized: Mapping[uuid.UUID, TopicPartitions] = field(default_factory=dict)
    deleting: Mapping[uuid.UUID, str] = field(default_factory=dict)
    has_states: bool = False  # the log has a record of the three topics' maps

    @property
    def group_type(self) -> GroupType:
        return GroupType.SHARE

    @property
    def state(self) -> ShareGroupState:
        return ShareGroupState.STABLE if self.members else ShareGroupState.EMPTY

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def listed_protocol(self) -> str:
        return "share"

    @cached_property
    def subscribed_topics(self) -> frozenset[str]:
        """All topics that members subscribe to."""
        return frozenset().union(*(member.topics for member in self.members.values()))
