"""What goes into the state machine of streams groups, and what comes out.

Owner: `streams_heartbeat.py`. Frozen values, but for what a coordinator remembers of a group without storing it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from streamactors.broker.group.streams.streams_group import StreamsMember, Topology
from streamactors.broker.group.streams.streams_record import InternalTopic, StoredEndpoint, StreamsRecord
from streamactors.broker.group.streams.tasks import Tasks
from streamactors.broker.group.streams.topology_setup import ConfiguredTopology, Counts, Status

Offsets = Mapping[str, Mapping[int, int]]
"""Offset sums by subtopology and partition."""


@dataclass(frozen=True, slots=True)
class StreamsRules:
    """The settings of one streams group: the broker's group.streams.*, and the group's own."""

    max_size: int = 2_147_483_647
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000
    initial_rebalance_delay_ms: int = 3_000
    task_offset_interval_ms: int = 60_000
    acceptable_recovery_lag: int = 10_000
    standby_replicas: int = 0
    rack_aware_tags: tuple[str, ...] = ()

    @property
    def assignment_configs(self) -> dict[str, str]:
        """What an assignment depends on, as it is stored."""
        configs = {"num.standby.replicas": str(self.standby_replicas)}
        if self.rack_aware_tags:
            configs["rack.aware.assignment.tags"] = ",".join(self.rack_aware_tags)
        return configs


class Around(NamedTuple):
    """What a decision depends on beside the group and the request."""

    partitions_of: Counts
    hash_of: Callable[[frozenset[str]], int]  # the metadata hash of topics
    topics_version: object  # another one after every change of a topic
    now_ms: int  # wall clock
    rules: StreamsRules
    is_delayed: bool = False  # the first rebalance waits for more members


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberHeartbeat:
    """A StreamsGroupHeartbeat. None: unchanged since the last one."""

    member_id: str
    epoch: int
    version: int = 1
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topology: Topology | None = None
    owned: Tasks | None = None
    process_id: str | None = None
    endpoint: StoredEndpoint | None = None
    client_tags: Mapping[str, str] | None = None
    task_offsets: Offsets | None = None
    task_end_offsets: Offsets | None = None
    shutdown: bool = False
    endpoint_epoch: int = -1
    client_id: str = ""
    client_host: str = ""


class EndpointPartitions(NamedTuple):
    """What an instance serves: partitions by topic."""

    endpoint: StoredEndpoint
    active: tuple[tuple[str, tuple[int, ...]], ...]
    standby: tuple[tuple[str, tuple[int, ...]], ...]


@dataclass(slots=True)
class MemberAnswer:
    """The answer to a heartbeat that was accepted. `tasks` None: unchanged; `endpoints` None: the member knows them."""

    member_id: str
    epoch: int
    rules: StreamsRules | None = None  # None: the member has left
    status: list[tuple[Status, str]] = field(default_factory=list)
    tasks: Tasks | None = None
    endpoint_epoch: int = 0
    endpoints: list[EndpointPartitions] | None = None


class SessionTimer(NamedTuple):
    """Remove the member unless it sends a heartbeat within this time."""

    member_id: str
    delay_ms: int


class RebalanceTimer(NamedTuple):
    """Remove the member if it still has this epoch after this time. None: it has nothing to give back any more."""

    member_id: str
    epoch: int = 0
    delay_ms: int | None = None


class FirstAssignmentTimer(NamedTuple):
    """Make the first assignment of a new group after this time, unless the timer runs already."""

    delay_ms: int


class MemberGone(NamedTuple):
    """Cancel all timers of a member."""

    member_id: str


Timer = SessionTimer | RebalanceTimer | FirstAssignmentTimer | MemberGone


@dataclass(slots=True)
class Remembered:
    """What the coordinator knows of a group without storing it. A new coordinator starts without it."""

    configured: ConfiguredTopology | None = None
    topics_version: object = None
    offsets: dict[str, Offsets] = field(default_factory=dict)  # of each member's tasks
    end_offsets: dict[str, Offsets] = field(default_factory=dict)
    shutdown_by: str | None = None
    endpoint_epoch: int = 0


@dataclass(slots=True)
class Decision:
    """What the coordinator decided: records to write, whose fold is the new state, and an answer for when they are written."""

    records: list[StreamsRecord] = field(default_factory=list)
    answer: MemberAnswer | None = None
    timers: list[Timer] = field(default_factory=list)
    to_create: tuple[InternalTopic, ...] = ()
    removed: StreamsMember | None = None
