"""The messages of share groups to their coordinator.

Frozen. `reply_to` is called once with the answer, on the data plane's thread."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from streamactors.broker.errors import ErrorCode
from streamactors.broker.group.share.share_group import Partitions
from streamactors.broker.group.share.share_rules import Beat


class BeatAnswer(NamedTuple):
    """The answer to a heartbeat. `assignment` None: it has not changed."""

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    member_id: str = ""
    epoch: int = 0
    heartbeat_ms: int = 0
    assignment: Partitions | None = None


@dataclass(frozen=True, slots=True)
class ShareHeartbeat:
    """A heartbeat of a member; epoch -1 leaves."""

    group_id: str
    beat: Beat
    reply_to: Callable[[BeatAnswer], object]

    def refuse(self, error: ErrorCode) -> None:
        self.reply_to(BeatAnswer(error))


class Outcome(NamedTuple):
    """The outcome for a group, a topic or a partition."""

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


class OffsetsAnswer(NamedTuple):
    """The outcome for a group, and for each topic of the request that is in it: of the topic, or of its partitions."""

    outcome: Outcome
    topics: Mapping[str, Outcome | Mapping[int, Outcome]]


@dataclass(frozen=True, slots=True)
class AlterShareOffsets:
    """Set the start offsets of share partitions of an empty group anew, by topic name and partition."""

    group_id: str
    offsets: Mapping[str, Mapping[int, int]]
    reply_to: Callable[[OffsetsAnswer], object]

    def refuse(self, error: ErrorCode) -> None:
        self.reply_to(OffsetsAnswer(Outcome(error), {}))


@dataclass(frozen=True, slots=True)
class DeleteShareOffsets:
    """Forget the share partitions of topics of an empty group."""

    group_id: str
    topics: tuple[str, ...]
    reply_to: Callable[[OffsetsAnswer], object]

    def refuse(self, error: ErrorCode) -> None:
        self.reply_to(OffsetsAnswer(Outcome(error), {}))


ShareRequest = ShareHeartbeat | AlterShareOffsets | DeleteShareOffsets


@dataclass(frozen=True, slots=True)
class StatesBegun:
    """The share coordinator has begun share partitions of a group, or could not."""

    group_id: str
    topics: Mapping[uuid.UUID, frozenset[int]]
    succeeded: bool


@dataclass(frozen=True, slots=True)
class StatesDeleted:
    """The share coordinator has forgotten the share partitions of topics of a group."""

    group_id: str
    topic_ids: frozenset[uuid.UUID]


@dataclass(frozen=True, slots=True)
class ShareTopicsGone:
    """Topics were deleted."""

    topic_ids: frozenset[uuid.UUID]


@dataclass(frozen=True, slots=True)
class SessionOver:
    """A member has sent no heartbeat for the session timeout."""

    member_id: str
