"""The events and effects of the transaction state machine.

Frozen messages between the coordinator (or a test) and `transaction_state.step`. `reply_to` is the waiting request; the
machine only passes it on in a `TransactionAnswer`."""

from __future__ import annotations

from dataclasses import dataclass

from streamactors.broker.errors import ErrorCode
from streamactors.broker.transaction.transaction import TopicPartition, Transaction

# -- events ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class InitProducerId:
    reply_to: object
    timeout_ms: int
    producer_id: int = -1  # with `producer_epoch`: the current id of a producer that recovers from an error (KIP-360)
    producer_epoch: int = -1
    spare_producer_id: int | None = None  # used if the epochs of the current id have run out
    cluster_version: int = 0  # the cluster's transaction.version: how a transaction that is still open is aborted

    def refused(self, error: ErrorCode) -> InitAnswer:
        return InitAnswer(error)


@dataclass(frozen=True, slots=True)
class AddPartitions:
    """AddPartitionsToTxn, or AddOffsetsToTxn with the offsets partition of its group.

    With `client_version` 2 the leader of a partition sends it for the producer, when the first batch of the transaction arrives."""

    reply_to: object
    producer_id: int
    producer_epoch: int
    partitions: frozenset[TopicPartition]
    client_version: int = 0
    certain: bool = True
    """False: the transaction was read from the log and can still be lost with this broker. The answer waits for a write."""

    def refused(self, error: ErrorCode) -> ErrorAnswer:
        return ErrorAnswer(error)


@dataclass(frozen=True, slots=True)
class VerifyPartitions:
    """AddPartitionsToTxn v4+ with verify_only: sent by a partition's leader before the first record of a transaction."""

    reply_to: object
    producer_id: int
    producer_epoch: int
    partitions: frozenset[TopicPartition]

    def refused(self, error: ErrorCode) -> VerifyAnswer:
        return VerifyAnswer(tuple((partition, error) for partition in sorted(self.partitions)))


@dataclass(frozen=True, slots=True)
class EndTransaction:
    reply_to: object
    producer_id: int
    producer_epoch: int
    commit: bool
    client_version: int = 0  # 2: the answer has the producer's next epoch
    spare_producer_id: int | None = None  # used if the epochs of the current id run out with this end

    def refused(self, error: ErrorCode) -> EndAnswer:
        return EndAnswer(error)


@dataclass(frozen=True, slots=True)
class TimeoutCheck:
    """Fence and abort the transaction if it is open for longer than its timeout."""

    cluster_version: int = 0  # the cluster's transaction.version
    spare_producer_id: int | None = None


@dataclass(frozen=True, slots=True)
class ExpiryCheck:
    """Delete the id if it was not used for `expiration_ms`."""

    expiration_ms: int


@dataclass(frozen=True, slots=True)
class Written:
    """The log has answered the `Write` of `transaction`; `error` is the error for the client."""

    transaction: Transaction
    reply: TransactionAnswer | None
    fences: bool = False  # the write fences a producer that may still be running
    error: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class MarkersWritten:
    """Every partition of the transaction has the marker of this producer epoch."""

    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class TransactionLoaded:
    """The id was read from the log: the markers of a decided transaction may be missing."""


Event = (
    InitProducerId
    | AddPartitions
    | VerifyPartitions
    | EndTransaction
    | TimeoutCheck
    | ExpiryCheck
    | Written
    | MarkersWritten
    | TransactionLoaded
)

# -- effects --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class InitAnswer:
    error: ErrorCode
    producer_id: int = -1
    producer_epoch: int = -1


@dataclass(frozen=True, slots=True)
class EndAnswer:
    """The answer to an end. With version 2 it has the producer id and epoch of the next transaction."""

    error: ErrorCode
    producer_id: int = -1
    producer_epoch: int = -1


@dataclass(frozen=True, slots=True)
class ErrorAnswer:
    """An answer that is only an error."""

    error: ErrorCode


@dataclass(frozen=True, slots=True)
class VerifyAnswer:
    errors: tuple[tuple[TopicPartition, ErrorCode], ...]


@dataclass(frozen=True, slots=True)
class TransactionAnswer:
    reply_to: object
    response: InitAnswer | EndAnswer | ErrorAnswer | VerifyAnswer


@dataclass(frozen=True, slots=True)
class Write:
    """Append this state to the log (a tombstone if DEAD); `then` comes back as an event, with the log's error."""

    transaction: Transaction
    then: Written


@dataclass(frozen=True, slots=True)
class SendMarkers:
    """Write a marker to every partition of the transaction, and retry until it succeeds."""

    producer_id: int
    producer_epoch: int
    commit: bool
    partitions: frozenset[TopicPartition]
    transaction_version: int = 0  # 2: the epoch of the marker is newer than that of the records


NeedsSpare = InitProducerId | EndTransaction | TimeoutCheck
"""The events that may need another producer id."""


@dataclass(frozen=True, slots=True)
class NeedProducerId:
    """Send this event again, with a spare producer id."""

    event: NeedsSpare


@dataclass(frozen=True, slots=True)
class Forget:
    """The id has expired and its tombstone is in the log."""


Effect = TransactionAnswer | Write | SendMarkers | NeedProducerId | Forget
