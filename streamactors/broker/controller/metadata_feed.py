"""The metadata log as the other nodes of the cluster read it: answers to Fetch and FetchSnapshot. Pure but for reads of the log.

Owner: the controller's `Duties`, which says in every answer who leads the log. Rules: KIP-595 and KIP-630, as Apache Kafka's KafkaRaftClient answers an observer."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from streamactors.broker.controller.command import Outcome
from streamactors.broker.controller.metadata_log import MAX_FETCH_BYTES
from streamactors.broker.errors import ErrorCode

MAX_SNAPSHOT_BYTES: Final = 1 << 20
NONE: Final = (-1, -1)


class MetadataSource(Protocol):
    """The log: `metadata_log.MetadataLog`."""

    @property
    def start_offset(self) -> int: ...
    @property
    def end_offset(self) -> int: ...

    def epoch_end(self, epoch: int) -> tuple[int, int]: ...

    def read(self, offset: int, max_bytes: int) -> bytes: ...

    def newest_snapshot(self) -> tuple[int, int, Path] | None: ...

    def read_snapshot(self, path: Path, position: int, max_bytes: int) -> tuple[int, bytes]: ...


class Leadership(NamedTuple):
    """Who leads the log, -1 if nobody is known, and in which epoch."""

    leader_id: int = -1
    epoch: int = -1


NOBODY: Final = Leadership()


class Fed(NamedTuple):
    """The answer to a fetch. `diverging` and `snapshot` are (epoch, end offset), NONE without them."""

    error: ErrorCode
    high_watermark: int = -1
    log_start_offset: int = -1
    records: bytes = b""
    diverging: tuple[int, int] = NONE
    snapshot: tuple[int, int] = NONE
    leader: Leadership = NOBODY


class FetchMetadata(NamedTuple):
    """An observer asks for the records from `offset` on; its last record has `last_epoch`. Answer: Fed."""

    leader_epoch: int
    offset: int
    last_epoch: int
    max_wait_ms: float
    high_watermark: int = 2**63 - 1  # known to the observer; before version 18 of Fetch it is not told
    replica_id: int = -1
    directory_id: uuid.UUID | None = None

    def refused(self, outcome: Outcome) -> Fed:
        return Fed(outcome.code)


class Observer(NamedTuple):
    """A node that reads the log without a vote. Times are of the wall clock."""

    replica_id: int
    directory_id: uuid.UUID | None
    offset: int  # that it asked for last
    fetched_ms: int
    caught_up_ms: int  # when it last asked for the end of the log, -1 if never


class QuorumView(NamedTuple):
    """What a node knows of the quorum of the log; the leader is -1 if none is known."""

    error: ErrorCode
    leader: Leadership = NOBODY
    high_watermark: int = -1
    voters: tuple[int, ...] = ()
    observers: tuple[Observer, ...] = ()


class DescribeQuorum(NamedTuple):
    """Who leads the log, who votes, and who reads it? Answer: QuorumView."""

    def refused(self, outcome: Outcome) -> QuorumView:
        return QuorumView(outcome.code)


class Piece(NamedTuple):
    """A piece of a snapshot; `size` is that of the whole."""

    error: ErrorCode
    size: int = 0
    content: bytes = b""
    leader: Leadership = NOBODY


class FetchSnapshot(NamedTuple):
    """An observer asks for a snapshot from `position` on. Answer: Piece."""

    leader_epoch: int
    end_offset: int
    epoch: int
    position: int
    max_bytes: int

    def refused(self, outcome: Outcome) -> Piece:
        return Piece(outcome.code)


def feed(
    log: MetadataSource, epoch: int, high_watermark: int, fetch: FetchMetadata, *, last_chance: bool = False
) -> Fed | None:
    """Return the answer of the leader of `epoch` to a fetch; None if there is nothing new, unless this is its last chance.

    Raises BrokerError."""
    if min(fetch.leader_epoch, fetch.offset, fetch.last_epoch) < 0:
        return Fed(ErrorCode.INVALID_REQUEST)
    error = _epoch_error(epoch, fetch.leader_epoch)
    if error:
        return Fed(error)
    snapshot = log.newest_snapshot()
    if fetch.offset < log.start_offset or (fetch.offset == 0 and snapshot is not None):
        if snapshot is None:
            return Fed(ErrorCode.UNKNOWN_SERVER_ERROR)
        return Fed(ErrorCode.NONE, high_watermark, log.start_offset, snapshot=(snapshot[1], snapshot[0]))
    if fetch.offset > 0:
        known = snapshot is not None and (snapshot[1], snapshot[0]) == (fetch.last_epoch, fetch.offset)
        last_epoch, epoch_end = log.epoch_end(fetch.last_epoch)
        if not known and (last_epoch != fetch.last_epoch or fetch.offset > epoch_end):
            return Fed(ErrorCode.NONE, high_watermark, log.start_offset, diverging=(last_epoch, epoch_end))
    if fetch.offset < log.end_offset:
        return Fed(ErrorCode.NONE, high_watermark, log.start_offset, log.read(fetch.offset, MAX_FETCH_BYTES))
    if last_chance or fetch.max_wait_ms <= 0 or high_watermark > fetch.high_watermark:
        return Fed(ErrorCode.NONE, high_watermark, log.start_offset)
    return None


def feed_snapshot(log: MetadataSource, epoch: int, fetch: FetchSnapshot) -> Piece:
    """Return a piece of the newest snapshot; older ones are deleted. Raises OSError."""
    error = _epoch_error(epoch, fetch.leader_epoch)
    if error:
        return Piece(error)
    newest = log.newest_snapshot()
    if newest is None or newest[:2] != (fetch.end_offset, fetch.epoch):
        return Piece(ErrorCode.SNAPSHOT_NOT_FOUND)
    at_most = max(0, min(fetch.max_bytes, MAX_SNAPSHOT_BYTES))
    size, content = log.read_snapshot(newest[2], max(fetch.position, 0), at_most)
    if not 0 <= fetch.position < size:
        return Piece(ErrorCode.POSITION_OUT_OF_RANGE, size)
    return Piece(ErrorCode.NONE, size, content)


def _epoch_error(epoch: int, asked: int) -> ErrorCode:
    if asked == epoch:
        return ErrorCode.NONE
    return ErrorCode.FENCED_LEADER_EPOCH if asked < epoch else ErrorCode.UNKNOWN_LEADER_EPOCH
