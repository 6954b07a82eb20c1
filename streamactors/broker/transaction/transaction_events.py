"""What can happen to a transactional id, and what it wants done about it.

Owner: nobody; frozen messages between the coordinator (or a test) and `transaction_state.step`. `reply_to` is the
address of a waiting request, given back in an `Answer` and never looked into."""

from __future__ import annotations

from dataclasses import dataclass

from streamactors.broker.errors import ErrorCode
from streamactors.broker.transaction.transaction import TopicPartition, Transaction

# -- events ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class InitProducerId:
    reply_to: object
    timeout_ms: int
    producer_id: int = -1  # with `producer_epoch`: the producer goes on after an error and says who it was (KIP-360)
    producer_epoch: int = -1
    spare_producer_id: int | None = None  # to be used should the epochs of the current one have run out


@dataclass(frozen=True, slots=True)
class AddPartitions:
    """AddPartitionsToTxn, or AddOffsetsToTxn with the offsets partition of its group."""

    reply_to: object
    producer_id: int
    producer_epoch: int
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class VerifyPartitions:
    """AddPartitionsToTxn v4+ with verify_only: a partition leader asks before the first record of a transaction."""

    reply_to: object
    producer_id: int
    producer_epoch: int
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class EndTransaction:
    reply_to: object
    producer_id: int
    producer_epoch: int
    commit: bool


@dataclass(frozen=True, slots=True)
class TimeoutCheck:
    """The sweep came by: a transaction that is open for longer than its timeout is fenced and aborted."""


@dataclass(frozen=True, slots=True)
class ExpiryCheck:
    """The sweep came by: an id that was not used for `expiration_ms` is forgotten."""

    expiration_ms: int


@dataclass(frozen=True, slots=True)
class Written:
    """The log answered to the `Write` of `transaction`; `error` is what its clients are to hear."""

    transaction: Transaction
    reply: Answer | None
    fences: bool = False  # it takes the epoch away from a producer that may still be at work
    error: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class MarkersWritten:
    """Every partition of the transaction has the marker of this producer epoch."""

    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class Loaded:
    """The id was just read from the log: a decided transaction may still owe its markers."""


Event = (
    InitProducerId
    | AddPartitions
    | VerifyPartitions
    | EndTransaction
    | TimeoutCheck
    | ExpiryCheck
    | Written
    | MarkersWritten
    | Loaded
)

# -- effects --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class InitAnswer:
    error: ErrorCode
    producer_id: int = -1
    producer_epoch: int = -1


@dataclass(frozen=True, slots=True)
class ErrorAnswer:
    """The answer to everything that has nothing but an error to say."""

    error: ErrorCode


@dataclass(frozen=True, slots=True)
class VerifyAnswer:
    errors: tuple[tuple[TopicPartition, ErrorCode], ...]


@dataclass(frozen=True, slots=True)
class Answer:
    reply_to: object
    response: InitAnswer | ErrorAnswer | VerifyAnswer


@dataclass(frozen=True, slots=True)
class Write:
    """Append this picture to the log (a tombstone when it is DEAD); `then` comes back with the error filled in."""

    transaction: Transaction
    then: Written


@dataclass(frozen=True, slots=True)
class SendMarkers:
    """Tell every partition of the transaction how it ended, for as long as it takes."""

    producer_id: int
    producer_epoch: int
    commit: bool
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class NeedProducerId:
    """Step this event again, with a spare producer id in it."""

    event: InitProducerId


@dataclass(frozen=True, slots=True)
class Forget:
    """The id is expired and its tombstone is in the log."""


Effect = Answer | Write | SendMarkers | NeedProducerId | Forget
