"""What the leader of partitions asks of the active controller, and its answer: other ISRs (KIP-497). Pure values.

Owner: `IsrPublisher` makes the command, and the controller's rules answer it."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import NamedTuple

from streamactors.broker.errors import ErrorCode


class IsrProposal(NamedTuple):
    """The ISR that a leader asks for. A member's broker epoch is -1 if it is not to be checked."""

    topic_id: uuid.UUID | None
    partition: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[tuple[int, int], ...]  # broker id, broker epoch
    recovering: int = 0


class IsrOutcome(NamedTuple):
    """The state of the partition after a proposal; only the error counts if there is one."""

    error: ErrorCode
    leader: int = 0
    leader_epoch: int = 0
    isr: tuple[int, ...] = ()
    partition_epoch: int = 0
    recovering: int = 0


class PartitionsAltered(NamedTuple):
    """The answer to AlterPartition: an error for the request, or an outcome per proposal, in order."""

    error: ErrorCode
    outcomes: tuple[IsrOutcome, ...] = ()


@dataclass(frozen=True, slots=True)
class AlterPartition:
    """A leader asks for other ISRs. Answer: PartitionsAltered."""

    broker_id: int
    broker_epoch: int
    proposals: tuple[IsrProposal, ...]

    def refused(self, outcome: tuple[ErrorCode, str | None]) -> PartitionsAltered:
        return PartitionsAltered(outcome[0])
