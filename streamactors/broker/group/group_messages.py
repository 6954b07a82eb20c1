"""What a group coordinator is told, beside the events of single groups, and what it answers.

Owner: nobody; frozen messages. `reply_to` is called once with the answer, on the data plane's thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from streamactors.broker.errors import ErrorCode
from streamactors.broker.group.classic_events import Heartbeat, JoinGroup, LeaveGroup, SyncGroup
from streamactors.broker.group.classic_group import Group
from streamactors.broker.group.offset_record import CommittedOffset
from streamactors.broker.group.offsets_state import OffsetsState, Partition


@dataclass(frozen=True, slots=True)
class ToGroup:
    """A member's request to its group."""

    group_id: str
    event: JoinGroup | SyncGroup | Heartbeat | LeaveGroup


class NewOffset(NamedTuple):
    """An offset that somebody wants committed."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str


@dataclass(frozen=True, slots=True)
class CommitOffsets:
    """OffsetCommit, or TxnOffsetCommit when there is a producer id. Answered with one error per offset, in order."""

    reply_to: Callable[[Sequence[ErrorCode]], object]
    group_id: str
    member_id: str
    instance_id: str | None
    generation: int
    offsets: Sequence[NewOffset]
    retention_ms: int = -1
    unknown_group: ErrorCode = ErrorCode.ILLEGAL_GENERATION  # what this version of the request calls it
    producer_id: int = -1
    producer_epoch: int = -1


@dataclass(frozen=True, slots=True)
class FetchOffsets:
    """OffsetFetch of one group; `partitions` None asks for all."""

    reply_to: Callable[[FetchedOffsets], object]
    group_id: str
    partitions: Sequence[Partition] | None
    require_stable: bool


class FetchedOffset(NamedTuple):
    topic: str
    partition: int
    committed: CommittedOffset | None
    error: ErrorCode = ErrorCode.NONE


class FetchedOffsets(NamedTuple):
    error: ErrorCode
    offsets: Sequence[FetchedOffset] = ()


@dataclass(frozen=True, slots=True)
class DescribeGroups:
    """Answered with the groups that exist; the error is for all of them."""

    reply_to: Callable[[ErrorCode, Sequence[Group | None]], object]
    group_ids: Sequence[str]


@dataclass(frozen=True, slots=True)
class ListGroups:
    reply_to: Callable[[ErrorCode, Sequence[Group]], object]


@dataclass(frozen=True, slots=True)
class DeleteGroups:
    """Answered with one error per group, in order."""

    reply_to: Callable[[Sequence[ErrorCode]], object]
    group_ids: Sequence[str]


@dataclass(frozen=True, slots=True)
class DeleteOffsets:
    """Answered with the group's error and one error per partition, in order."""

    reply_to: Callable[[ErrorCode, Sequence[ErrorCode]], object]
    group_id: str
    partitions: Sequence[Partition]


@dataclass(frozen=True, slots=True)
class EndTransaction:
    """Write a transaction's marker into this offsets partition, and commit or drop the offsets that waited for it."""

    reply_to: Callable[[ErrorCode], object]
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    committed: bool


Request = (
    ToGroup | CommitOffsets | FetchOffsets | DescribeGroups | ListGroups | DeleteGroups | DeleteOffsets | EndTransaction
)


@dataclass(frozen=True, slots=True)
class Loaded:
    """The partition has been read: from here on requests are served."""

    groups: dict[str, Group]
    offsets: OffsetsState


@dataclass(frozen=True, slots=True)
class TimerDue:
    """A deadline of a group has come."""

    group_id: str
    key: str
    event: object


@dataclass(frozen=True, slots=True)
class TopicsDeleted:
    """Offsets of these topics go with them."""

    topics: frozenset[str]


@dataclass(frozen=True, slots=True)
class Sweep:
    """Time to look for offsets and groups that have expired."""


@dataclass(frozen=True, slots=True)
class Flush:
    """The turn is over: append what it wrote."""


@dataclass(frozen=True, slots=True)
class Resign:
    """The partition is led by somebody else now, or gone."""
