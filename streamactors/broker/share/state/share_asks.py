"""What is asked of the share coordinator about one share partition, and its answer.

Frozen. The answer has the fields of all five requests; those that a request does not have keep their defaults."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from streamactors.broker.errors import ErrorCode
from streamactors.broker.share.partition.in_flight import StateBatch
from streamactors.broker.share.state.share_state import NO_COUNT, UNINITIALISED, ShareKey


@dataclass(frozen=True, slots=True)
class InitializeState:
    """Begin a share partition, or set its offset anew with a higher state epoch."""

    state_epoch: int
    start_offset: int


@dataclass(frozen=True, slots=True)
class ReadState:
    """Take a share partition over as its leader."""

    leader_epoch: int


@dataclass(frozen=True, slots=True)
class WriteState:
    """Store what has changed."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    batches: tuple[StateBatch, ...]
    complete_count: int = NO_COUNT


@dataclass(frozen=True, slots=True)
class DeleteState:
    """Forget a share partition."""


@dataclass(frozen=True, slots=True)
class ReadSummary:
    """Look at the start offset and the epochs."""

    leader_epoch: int = -1


Ask = InitializeState | ReadState | WriteState | DeleteState | ReadSummary


class StateAnswer(NamedTuple):
    """The answer about one share partition. The defaults are those of a share partition that is not known, with an error."""

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = 0
    complete_count: int = NO_COUNT
    batches: tuple[StateBatch, ...] = ()


UNKNOWN: StateAnswer = StateAnswer(start_offset=UNINITIALISED)
"""The summary of a share partition that was never initialised."""

Reply = Callable[[StateAnswer], object]


@dataclass(frozen=True, slots=True)
class ToShareState:
    """A request to the coordinator of a share partition."""

    key: ShareKey
    ask: Ask
    reply_to: Reply

    def refuse(self, error: ErrorCode) -> None:
        self.reply_to(StateAnswer(error, error.name))


@dataclass(frozen=True, slots=True)
class SnapshotSweep:
    """Write a snapshot of each share partition whose last one is old, so that the log before it can go."""


@dataclass(frozen=True, slots=True)
class PruneSweep:
    """Delete the records before the oldest snapshot that counts."""


@dataclass(frozen=True, slots=True)
class TopicsGone:
    """Topics were deleted: forget their share partitions."""

    topic_ids: frozenset[object]
