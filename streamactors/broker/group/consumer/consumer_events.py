"""What goes into the state machine of consumer groups, and what comes out.

Owner: `consumer_state.py`. Frozen values."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from streamactors.broker.group.consumer.consumer_group import Epochs
from streamactors.broker.group.consumer.consumer_record import ConsumerRecord
from streamactors.broker.metadata.image import MetadataImage

Owned = Sequence[tuple[uuid.UUID, Sequence[int]]]
"""Partitions that a member says it has."""

REGEX_PAUSE_MS: Final = 10_000
"""The least time between two resolutions of a group's regular expressions."""


class MigrationPolicy(Enum):
    """Whether a group with members may change its protocol: group.consumer.migration.policy."""

    BIDIRECTIONAL = "bidirectional"
    UPGRADE = "upgrade"  # only from classic to consumer
    DOWNGRADE = "downgrade"  # only from consumer to classic
    DISABLED = "disabled"

    @property
    def may_upgrade(self) -> bool:
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.UPGRADE)

    @property
    def may_downgrade(self) -> bool:
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.DOWNGRADE)


@dataclass(frozen=True, slots=True)
class ConsumerRules:
    """The settings of one consumer group: the broker's group.consumer.*, and the group's own."""

    max_size: int = 2_147_483_647
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000
    assignors: tuple[str, ...] = ("uniform", "range")  # the first is the default
    regex_refresh_interval_ms: int = 600_000
    migration: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    classic_max_size: int = 2_147_483_647


class Around(NamedTuple):
    """What a decision depends on beside the group and the request."""

    image: MetadataImage
    now_ms: int  # wall clock
    rules: ConsumerRules
    newest_topics: int = 0  # version of the metadata at which topics were last created
    is_resolving: bool = False  # the regular expressions of the group are being resolved


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberHeartbeat:
    """A ConsumerGroupHeartbeat. None: unchanged since the last one."""

    member_id: str
    epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topics: tuple[str, ...] | None = None
    regex: str | None = None
    assignor: str | None = None
    owned: Owned | None = None
    client_id: str = ""
    client_host: str = ""


class MemberAnswer(NamedTuple):
    """The answer to a heartbeat that was accepted. `assigned` None: unchanged."""

    member_id: str
    epoch: int
    heartbeat_interval_ms: int = 0
    assigned: Epochs | None = None


class SessionTimer(NamedTuple):
    """Remove the member unless it sends a heartbeat within this time."""

    member_id: str
    delay_ms: int


class RebalanceTimer(NamedTuple):
    """Remove the member if it still has this epoch after this time. None: it has nothing to give back any more."""

    member_id: str
    epoch: int = 0
    delay_ms: int | None = None


class MemberGone(NamedTuple):
    """Cancel all timers of a member."""

    member_id: str


Timer = SessionTimer | RebalanceTimer | MemberGone


@dataclass(slots=True)
class Decision:
    """What the coordinator decided: records to write, whose fold is the new state, and an answer for when they are written."""

    records: list[ConsumerRecord] = field(default_factory=list)
    answer: MemberAnswer | None = None
    timers: list[Timer] = field(default_factory=list)
    is_checked: bool = False  # the group's metadata hash is that of the present metadata
    resolve: frozenset[str] = frozenset()  # regular expressions to be resolved
