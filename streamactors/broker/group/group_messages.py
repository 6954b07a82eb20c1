"""The messages of a group coordinator, beside the events of single groups.

Frozen. `reply_to` is called once with the answer, on the data plane's thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from streamactors.broker.errors import ErrorCode
from streamactors.broker.group.classic.classic_events import Heartbeat, JoinGroup, LeaveGroup, SyncGroup
from streamactors.broker.group.consumer.consumer_messages import ToConsumerGroup
from streamactors.broker.group.group_kind import CoordinatedGroup
from streamactors.broker.group.offset_record import CommittedOffset
from streamactors.broker.group.offsets_state import OffsetsState, PartitionKey
from streamactors.broker.group.streams.streams_messages import DescribeStreamsGroup, ToStreamsGroup


@dataclass(frozen=True, slots=True)
class ToGroup:
    """A member's request to its group."""

    group_id: str
    event: JoinGroup | SyncGroup | Heartbeat | LeaveGroup

    def refuse(self, error: ErrorCode) -> None:
        self.event.reply_to(self.event.refused(error))  # type: ignore[operator]


class NewOffset(NamedTuple):
    """An offset to commit."""

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
    unknown_group: ErrorCode = ErrorCode.ILLEGAL_GENERATION  # the error of this request's version
    version: int = 0  # of the request
    producer_id: int = -1
    producer_epoch: int = -1
    still_open: Callable[[], bool] = lambda: True
    """Whether the transaction that the offsets belong to is open: its marker may have been written before this message."""

    def refuse(self, error: ErrorCode) -> None:
        self.reply_to([error] * len(self.offsets))


@dataclass(frozen=True, slots=True)
class FetchOffsets:
    """OffsetFetch of one group; `partitions` None asks for all."""

    reply_to: Callable[[FetchedOffsets], object]
    group_id: str
    partitions: Sequence[PartitionKey] | None
    require_stable: bool
    member_id: str | None = None
    member_epoch: int = -1

    def refuse(self, error: ErrorCode) -> None:
        self.reply_to(FetchedOffsets(error))


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

    reply_to: Callable[[ErrorCode, Sequence[CoordinatedGroup | None]], object]
    group_ids: Sequence[str]

    def refuse(self, error: ErrorCode) -> None:
        self.reply_to(error, [None] * len(self.group_ids))


@dataclass(frozen=True, slots=True)
class ListGroups:
    reply_to: Callable[[ErrorCode, Sequence[CoordinatedGroup]], object]

    def refuse(self, error: ErrorCode) -> None:
        self.reply_to(error, ())


@dataclass(frozen=True, slots=True)
class DeleteGroups:
    """Answered with one error per group, in order."""

    reply_to: Callable[[Sequence[ErrorCode]], object]
    group_ids: Sequence[str]

    def refuse(self, error: ErrorCode) -> None:
        self.reply_to([error] * len(self.group_ids))


@dataclass(frozen=True, slots=True)
class DeleteOffsets:
    """Answered with the group's error and one error per partition, in order."""

    reply_to: Callable[[ErrorCode, Sequence[ErrorCode]], object]
    group_id: str
    partitions: Sequence[PartitionKey]

    def refuse(self, error: ErrorCode) -> None:
        self.reply_to(error, ())


@dataclass(frozen=True, slots=True)
class WriteMarker:
    """Write a transaction's marker to this offsets partition, and commit or drop the transaction's offsets."""

    reply_to: Callable[[ErrorCode], object]
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    committed: bool
    is_stale: Callable[[], bool] = lambda: False
    """Whether the marker is of a transaction that has ended in this partition. Asked when the marker is about to be written."""

    def refuse(self, error: ErrorCode) -> None:
        self.reply_to(error)


Request = (
    ToGroup
    | ToConsumerGroup
    | ToStreamsGroup
    | DescribeStreamsGroup
    | CommitOffsets
    | FetchOffsets
    | DescribeGroups
    | ListGroups
    | DeleteGroups
    | DeleteOffsets
    | WriteMarker
)


class LoadedGroups(NamedTuple):
    """The groups and offsets of an offsets partition."""

    groups: dict[str, CoordinatedGroup]
    offsets: OffsetsState


@dataclass(frozen=True, slots=True)
class TimerDue:
    """A deadline of a group has passed."""

    group_id: str
    key: str
    event: object


@dataclass(frozen=True, slots=True)
class TopicsDeleted:
    """These topics were deleted: delete their offsets, too."""

    topics: frozenset[str]


@dataclass(frozen=True, slots=True)
class Sweep:
    """Delete offsets and groups that have expired."""
