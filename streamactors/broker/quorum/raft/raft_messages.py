"""What voters of the metadata log say to each other, as plain values without a protocol version.

Every answer names the leader and the epoch that its sender knows. Source: KIP-595, KIP-996."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from streamactors.broker.errors import ErrorCode

Batches = Sequence[Any]
"""Record batches. The state machine hands them on and does not read them."""

EpochEnd = tuple[int, int]
"""An epoch and an end offset: of the epoch in a log, or of the records in a snapshot."""

NOT_TOLD: Final = 2**63 - 1
"""The high watermark of a replica that does not say how much it knows."""


@dataclass(frozen=True, slots=True)
class Vote:
    """A request for a vote. A pre-vote asks whether a vote would be given, and changes nothing.

    `directory` is the candidate's folder, None if it does not name one. `to_voter`: the request names this replica by its id and its
    folder. A replica with the id of a voter and another folder is not a voter."""

    epoch: int
    candidate: int
    last_epoch: int
    end_offset: int
    pre_vote: bool
    directory: uuid.UUID | None = None
    to_voter: bool = True


@dataclass(frozen=True, slots=True)
class BeginEpoch:
    """The leader says that it leads the epoch. `to_voter` as in `Vote`."""

    epoch: int
    leader: int
    to_voter: bool = True


@dataclass(frozen=True, slots=True)
class EndEpoch:
    """The leader gives up its epoch. It names the voters that should lead next, the best one first."""

    epoch: int
    leader: int
    successors: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Fetch:
    """A replica asks for the log from `offset`. Everything below this offset is on the replica's disk.

    The leader answers at once if it has news: records, or a high watermark above that of the replica. Else it waits."""

    epoch: int
    replica: int
    offset: int
    last_epoch: int
    high_watermark: int = NOT_TOLD
    max_wait_ms: float = 500.0


@dataclass(frozen=True, slots=True)
class FetchSnapshot:
    """A replica asks for the bytes of a snapshot from `position` on."""

    epoch: int
    replica: int
    snapshot: EpochEnd
    position: int


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a BeginEpoch or an EndEpoch."""

    error: ErrorCode
    epoch: int
    leader: int | None


@dataclass(frozen=True, slots=True)
class VoteAnswer(Answer):
    """The answer to a Vote."""

    granted: bool
    pre_vote: bool


@dataclass(frozen=True, slots=True)
class FetchAnswer(Answer):
    """The answer to a Fetch. `diverging` is the end of the last common epoch in the leader's log, None if the logs agree.

    `snapshot` is what the replica must read first, because the log begins after `asked.offset`. The owner of the log adds the
    batches from `asked.offset` on. The high watermark is -1 while the leader does not know it."""

    asked: Fetch
    high_watermark: int = -1
    diverging: EpochEnd | None = None
    batches: Batches = ()
    snapshot: EpochEnd | None = None
    log_start: int = 0


@dataclass(frozen=True, slots=True)
class SnapshotPiece(Answer):
    """The answer to a FetchSnapshot. `size` is that of the whole snapshot."""

    asked: FetchSnapshot
    size: int = 0
    content: bytes = b""


Request = Vote | BeginEpoch | EndEpoch | Fetch | FetchSnapshot
