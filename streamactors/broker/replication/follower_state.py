"""What a follower does with the answers of its leader: append, truncate, start over, wait, or stop until newer metadata. Pure.

Owner: the fetcher of one leader, on the data plane. Rules: Apache Kafka's AbstractFetcherThread (KIP-101, KIP-279, KIP-595).

A follower fetches from its log end and names the epoch of its last record. If the leader's log differs there, the answer has the
leader's end of that epoch and no records: the follower truncates and asks again, until the logs agree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from streamactors.broker.errors import ErrorCode
from streamactors.broker.log.partition.leader_epochs import common_end

BACKOFF_MS: Final = 1_000.0
SOON_MS: Final = 50.0
_LEADER_NOT_READY: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.LEADER_NOT_AVAILABLE,
    }
)


class Follow(Enum):
    """What a follower is doing for one partition."""

    FETCHING = "asks for records from its log end"
    FINDING_RANGE = "asks where the leader's log begins and ends"
    FENCED = "waits for metadata of a newer leader epoch"


@dataclass(slots=True)
class Following:
    """One followed partition. `not_before_ms` is when it may be asked for again."""

    leader_epoch: int
    doing: Follow = Follow.FETCHING
    not_before_ms: float = 0.0

    def due(self, now_ms: float) -> bool:
        """Whether the partition should be in the next fetch."""
        return self.doing is Follow.FETCHING and now_ms >= self.not_before_ms


class AskedFetch(NamedTuple):
    """A partition in a fetch that was sent."""

    leader_epoch: int
    offset: int


class LocalLog(NamedTuple):
    """The follower's log at the time of the answer."""

    start_offset: int
    end_offset: int
    epoch_end: Callable[[int], tuple[int, int]]  # (epoch, end) of the greatest epoch that is at most the given one


class Got(NamedTuple):
    """The leader's answer for a partition. `diverging` is (epoch, end offset), None if the logs agree."""

    error: ErrorCode
    high_watermark: int = -1
    log_start_offset: int = -1
    diverging: tuple[int, int] | None = None


# --- what to do ---


class Extend(NamedTuple):
    """Append the records of the answer, then take over the high watermark and the log start."""

    high_watermark: int
    log_start_offset: int


class TruncateTo(NamedTuple):
    """Remove the records from this offset on, with the epochs that began there."""

    offset: int


class StartOver(NamedTuple):
    """Remove everything; the log begins at this offset."""

    offset: int


class FindRange(NamedTuple):
    """Ask where the leader's log begins and ends."""


class Nothing(NamedTuple):
    """The answer is out of date, or the partition must wait."""


Action = Extend | TruncateTo | StartOver | FindRange | Nothing
NOTHING: Final = Nothing()


def judge(following: Following, asked: AskedFetch, got: Got, log: LocalLog, now_ms: float) -> Action:
    """Return what to do with an answer, and note in `following` when to ask again."""
    if asked.leader_epoch != following.leader_epoch or following.doing is not Follow.FETCHING:
        return NOTHING  # the leader has changed since the fetch was sent
    if asked.offset != log.end_offset:
        return NOTHING  # the log was truncated since
    if got.error is ErrorCode.NONE:
        if got.diverging is not None:
            # The answer's high watermark and records belong to a log that this one does not continue.
            return TruncateTo(common_end(got.diverging, log.epoch_end(got.diverging[0]), log.end_offset))
        return Extend(got.high_watermark, got.log_start_offset)
    if got.error is ErrorCode.OFFSET_OUT_OF_RANGE:
        following.doing = Follow.FINDING_RANGE
        return FindRange()
    if got.error is ErrorCode.FENCED_LEADER_EPOCH:
        following.doing = Follow.FENCED
        return NOTHING
    following.not_before_ms = now_ms + (SOON_MS if got.error in _LEADER_NOT_READY else BACKOFF_MS)
    return NOTHING


def judge_range(
    following: Following, asked_epoch: int, leader_start: int, leader_end: int, log: LocalLog
) -> TruncateTo | StartOver | Nothing:
    """Return what to do when the leader has named the range of its log, after a fetch out of that range."""
    if asked_epoch != following.leader_epoch or following.doing is not Follow.FINDING_RANGE:
        return NOTHING
    following.doing = Follow.FETCHING
    if leader_end < log.end_offset:
        return (
            TruncateTo(max(leader_end, log.start_offset)) if leader_end >= log.start_offset else StartOver(leader_end)
        )
    return StartOver(leader_start) if leader_start > log.end_offset else NOTHING


def failed_range(following: Following, now_ms: float) -> None:
    """The range is not known: fetch again later, and ask again if that fails."""
    if following.doing is Follow.FINDING_RANGE:
        following.doing = Follow.FETCHING
        following.not_before_ms = now_ms + BACKOFF_MS
