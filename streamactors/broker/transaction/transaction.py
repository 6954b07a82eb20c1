"""The state of a transactional id: its current producer, and the state of its current transaction.

Owner: the coordinator of the id's `__transaction_state` partition. Immutable, without a clock; only `transaction_state.py` makes
a new Transaction from an old one.
Source: Kafka's transaction protocol: KIP-98, KIP-360 (the producer bumps its epoch) and KIP-890 (version 2: every end of a transaction
bumps it)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final, NamedTuple

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1

BUMPS_EPOCH: Final = 2
"""The first transaction.version in which the end of a transaction gives the producer a new epoch (KIP-890)."""
MAX_EPOCH: Final = (
    32_767  # int16; never given to a producer, so that a producer with the epoch before it can still be fenced
)


class TransactionState(IntEnum):
    """The state of a transactional id. The numbers are those of the log; `label` is the name on the wire."""

    EMPTY = 0  # a producer has the id and has not begun a transaction
    ONGOING = 1  # partitions take part; their records are invisible to read_committed
    PREPARE_COMMIT = 2  # the decision is in the log: it survives every crash
    PREPARE_ABORT = 3  # the decision is in the log: it survives every crash
    COMPLETE_COMMIT = 4  # every partition has its marker
    COMPLETE_ABORT = 5  # every partition has its marker
    DEAD = 6  # expired; the tombstone is being written
    PREPARE_EPOCH_FENCE = 7  # a new producer fences the old one; not stored, PREPARE_ABORT follows at once

    @property
    def label(self) -> str:
        return "".join(word.capitalize() for word in self.name.split("_"))

    @classmethod
    def of_label(cls, label: str) -> TransactionState | None:
        return _BY_LABEL.get(label)


_BY_LABEL: Final = {state.label: state for state in TransactionState}

_S = TransactionState
MOVES: Final[Mapping[TransactionState, frozenset[TransactionState]]] = {
    # PREPARE_ABORT: version 2 lets a producer abort a transaction that has no partition
    _S.EMPTY: frozenset({_S.EMPTY, _S.ONGOING, _S.PREPARE_ABORT, _S.DEAD}),
    _S.ONGOING: frozenset({_S.ONGOING, _S.PREPARE_COMMIT, _S.PREPARE_ABORT, _S.PREPARE_EPOCH_FENCE}),
    _S.PREPARE_COMMIT: frozenset({_S.COMPLETE_COMMIT}),
    _S.PREPARE_ABORT: frozenset({_S.COMPLETE_ABORT}),
    _S.COMPLETE_COMMIT: frozenset({_S.EMPTY, _S.ONGOING, _S.PREPARE_ABORT, _S.DEAD}),
    _S.COMPLETE_ABORT: frozenset({_S.EMPTY, _S.ONGOING, _S.PREPARE_ABORT, _S.DEAD}),
    _S.DEAD: frozenset(),
    _S.PREPARE_EPOCH_FENCE: frozenset({_S.PREPARE_ABORT}),
}

FINISHED: Final = frozenset({_S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT})  # no transaction is open or ending
PREPARED: Final = frozenset({_S.PREPARE_COMMIT, _S.PREPARE_ABORT})  # the markers are being delivered


class TopicPartition(NamedTuple):
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class Transaction:
    """The stored state of a transactional id, and the write in progress."""

    transactional_id: str
    producer_id: int
    producer_epoch: int = NO_PRODUCER_EPOCH  # -1: just created, no producer has the id yet
    last_producer_epoch: int = NO_PRODUCER_EPOCH  # before the last bump that the producer knows of (KIP-360, KIP-890)
    previous_producer_id: int = NO_PRODUCER_ID  # the id before the last write; another one if its epochs ran out
    next_producer_id: int = NO_PRODUCER_ID  # version 2: the producer id after this transaction, if the epochs run out
    next_producer_epoch: int = NO_PRODUCER_EPOCH  # of two-phase commit (KIP-939), which is not served: only kept
    timeout_ms: int = 60_000
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    started_at_ms: int = -1
    updated_at_ms: int = -1
    client_version: int = 0  # the protocol of the last change: 2 bumps epochs, 0 does not
    pending: Transaction | None = None  # the state that is being written; every other change is refused until then
    fence_failed: bool = False  # the epoch was bumped to fence and the write failed: do not bump it again
    marked: bool = False  # every marker is written, but the completing record is not

    @property
    def epoch_exhausted(self) -> bool:
        """Whether the next bump would use the epoch that is reserved for fencing."""
        return self.producer_epoch >= MAX_EPOCH - 1

    @property
    def next_producer(self) -> tuple[int, int]:
        """The producer id and epoch after the end of this prepared transaction."""
        if self.client_version >= BUMPS_EPOCH and self.next_producer_id != NO_PRODUCER_ID:
            return self.next_producer_id, 0
        return self.producer_id, self.producer_epoch

    def moved_to(self, state: TransactionState, **changes: object) -> Transaction:
        """Return this id in another state. Raises AssertionError for an illegal move, which is a bug of this broker."""
        if state not in MOVES[self.state]:
            raise AssertionError(
                f"transactional id {self.transactional_id!r} cannot move from {self.state.label} to {state.label}"
            )
        return replace(self, state=state, pending=None, **changes)  # type: ignore[arg-type]
