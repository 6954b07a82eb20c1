"""The messages of a coordinator about streams groups.

Frozen. `reply_to` is called once with the answer, on the data plane's thread."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from streamactors.broker.errors import ErrorCode
from streamactors.broker.group.streams.streams_events import MemberAnswer, MemberHeartbeat, Remembered
from streamactors.broker.group.streams.streams_group import StreamsGroup
from streamactors.broker.group.streams.streams_record import InternalTopic

HeartbeatReply = Callable[[ErrorCode, str | None, MemberAnswer | None, tuple[InternalTopic, ...]], object]
"""Called with (error, its text, the answer, internal topics to create)."""


@dataclass(frozen=True, slots=True)
class ToStreamsGroup:
    """A heartbeat of a member."""

    reply_to: HeartbeatReply
    group_id: str
    beat: MemberHeartbeat

    def refuse(self, error: ErrorCode) -> None:
        self.reply_to(error, None, None, ())


class Described(NamedTuple):
    """A group as its coordinator knows it. `group` None: there is no streams group of this id; `why` says so."""

    error: ErrorCode
    why: str | None = None
    group: StreamsGroup | None = None
    known: Remembered | None = None


@dataclass(frozen=True, slots=True)
class DescribeStreamsGroup:
    """Answered with the group and what is remembered of it."""

    reply_to: Callable[[Described], object]
    group_id: str

    def refuse(self, error: ErrorCode) -> None:
        self.reply_to(Described(error))


class SessionExpired(NamedTuple):
    """A member was silent for its session timeout."""

    member_id: str


class RebalanceExpired(NamedTuple):
    """A member did not give tasks back within its rebalance timeout."""

    member_id: str
    epoch: int


class FirstAssignmentDue(NamedTuple):
    """The initial rebalance delay of a new group is over."""
