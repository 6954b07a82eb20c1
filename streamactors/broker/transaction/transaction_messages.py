"""What a transaction coordinator is told, beside the events of single ids, and what it answers.

Owner: nobody; frozen messages. `reply_to` is called once with the answer, on the data plane's thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from streamactors.broker.errors import ErrorCode
from streamactors.broker.transaction.transaction import Transaction
from streamactors.broker.transaction.transaction_events import (
    AddPartitions,
    EndTransaction,
    InitProducerId,
    VerifyPartitions,
)


@dataclass(frozen=True, slots=True)
class ToTransaction:
    """A producer's request to its transactional id."""

    transactional_id: str
    event: InitProducerId | AddPartitions | VerifyPartitions | EndTransaction


@dataclass(frozen=True, slots=True)
class DescribeTransaction:
    reply_to: Callable[[ErrorCode, Transaction | None], object]
    transactional_id: str


@dataclass(frozen=True, slots=True)
class ListTransactions:
    reply_to: Callable[[ErrorCode, Sequence[Transaction]], object]


Request = ToTransaction | DescribeTransaction | ListTransactions


@dataclass(frozen=True, slots=True)
class ProducerIdGiven:
    """A producer id that an InitProducerId has been waiting for."""

    transactional_id: str
    event: InitProducerId
    producer_id: int


@dataclass(frozen=True, slots=True)
class Marked:
    """Every partition has the marker of this producer epoch."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class Loaded:
    """The partition has been read: from here on requests are served."""

    transactions: dict[str, Transaction]


@dataclass(frozen=True, slots=True)
class TimeoutSweep:
    """Time to look for transactions that are open for too long."""


@dataclass(frozen=True, slots=True)
class ExpirySweep:
    """Time to look for ids that nobody uses any more."""


@dataclass(frozen=True, slots=True)
class Flush:
    """The turn is over: append what it wrote."""


@dataclass(frozen=True, slots=True)
class Resign:
    """The partition is led by somebody else now, or gone."""
