"""What voters of the metadata log say to each other, as plain values without a protocol version.

Every answer names the leader and the epoch that its sender knows. Source: KIP-595, KIP-996."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from streamactors.broker.errors import ErrorCode

Batches = Sequence[Any]
"""Record batches. The state machine hands them on and does not read them."""


@dataclass(frozen=True, slots=True)
class Vote:
    """A request for a vote. A pre-vote asks whether a vote would be given, and changes nothing."""

    epoch: int
    candidate: int
    last_epoch: int
    end_offset: int
    pre_vote: bool


@dataclass(frozen=True, slots=True)
class BeginEpoch:
    """The leader says that it leads the epoch."""

    epoch: int
    leader: int


@dataclass(frozen=True, slots=True)
class EndEpoch:
    """The leader gives up its epoch. It names the voters that should lead next, the best one first."""

    epoch: int
    leader: int
    successors: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Fetch:
    """A replica asks for the log from `offset`. Everything below this offset is on the replica's disk."""

    epoch: int
    replica: int
    offset: int
    last_epoch: int


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
    """The answer to a Fetch. `diverging` is (epoch, end offset) in the leader's log, None if the logs agree.

    The owner of the log adds the batches from `asked.offset` on."""

    asked: Fetch
    high_watermark: int = -1
    diverging: tuple[int, int] | None = None
    batches: Batches = ()


Request = Vote | BeginEpoch | EndEpoch | Fetch
