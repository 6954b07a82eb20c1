"""The messages of a transaction coordinator, beside the events of single ids.

Frozen. `reply_to` is called once with the answer, on the data plane's thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from streamactors.broker.errors import ErrorCode
from streamactors.broker.transaction.transaction import TopicPartition, Transaction
from streamactors.broker.transaction.transaction_events import (
    AddPartitions,
    EndTransaction,
    InitProducerId,
    NeedsSpare,
    TimeoutCheck,
    VerifyPartitions,
)

Errors = Mapping[TopicPartition, ErrorCode]
"""The coordinator's error for each partition of the request."""


class VerificationRequest(NamedTuple):
    """A producer, and the partitions that may be part of its open transaction, or (`adds`) become part of it."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: tuple[TopicPartition, ...]
    adds: bool = False


@dataclass(frozen=True, slots=True)
class ToTransaction:
    """A producer's request to its transactional id."""

    transactional_id: str
    event: InitProducerId | AddPartitions | VerifyPartitions | EndTransaction

    def refuse(self, error: ErrorCode) -> None:
        self.event.reply_to(self.event.refused(error))  # type: ignore[operator]


@dataclass(frozen=True, slots=True)
class DescribeTransaction:
    reply_to: Callable[[ErrorCode, Transaction | None], object]
    transactional_id: str

    def refuse(self, error: ErrorCode) -> None:
        self.reply_to(error, None)


@dataclass(frozen=True, slots=True)
class ListTransactions:
    reply_to: Callable[[ErrorCode, Sequence[Transaction]], object]

    def refuse(self, error: ErrorCode) -> None:
        self.reply_to(error, ())


Request = ToTransaction | DescribeTransaction | ListTransactions


@dataclass(frozen=True, slots=True)
class ProducerIdGiven:
    """The producer id that an event waited for."""

    transactional_id: str
    event: NeedsSpare
    producer_id: int

    def refuse(self, error: ErrorCode) -> None:
        if not isinstance(self.event, TimeoutCheck):  # the next sweep tries again
            self.event.reply_to(self.event.refused(error))  # type: ignore[operator]


@dataclass(frozen=True, slots=True)
class Marked:
    """Every partition has the marker of this producer epoch."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class TimeoutSweep:
    """Abort transactions that are open for longer than their timeout."""


@dataclass(frozen=True, slots=True)
class ExpirySweep:
    """Delete ids that have expired."""
