"""A transactional id as a value: who may write under it, and how far its current transaction has come.

Owner: the coordinator of the id's `__transaction_state` partition; `transaction_state.py` is the only file that
makes a new Transaction out of an old one. Immutable, and knows no clock.
Source: Kafka's transaction protocol (KIP-98, KIP-360 epoch bumps by the producer, KIP-890 whose version 2 finds
its fields here)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final, NamedTuple

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
MAX_EPOCH: Final = 32_767  # int16; kept back so that whoever holds the highest usable epoch can still be fenced


class TransactionState(IntEnum):
    """Where a transactional id stands; the numbers are those in the log, `label` the names on the wire."""

    EMPTY = 0  # a producer has the id, and no transaction was begun since
    ONGOING = 1  # partitions take part; their records are invisible to read_committed
    PREPARE_COMMIT = 2  # decided, in the log: from here it commits, whatever crashes
    PREPARE_ABORT = 3  # decided, in the log: from here it aborts, whatever crashes
    COMPLETE_COMMIT = 4  # every partition has its marker
    COMPLETE_ABORT = 5  # every partition has its marker
    DEAD = 6  # expired; only while its tombstone is being written
    PREPARE_EPOCH_FENCE = 7  # a new producer drives the old one out; never in the log, the abort that follows is

    @property
    def label(self) -> str:
        return "".join(word.capitalize() for word in self.name.split("_"))

    @classmethod
    def of_label(cls, label: str) -> TransactionState | None:
        return _BY_LABEL.get(label)


_BY_LABEL: Final = {state.label: state for state in TransactionState}

_S = TransactionState
MOVES: Final[Mapping[TransactionState, frozenset[TransactionState]]] = {
    _S.EMPTY: frozenset({_S.EMPTY, _S.ONGOING, _S.DEAD}),
    _S.ONGOING: frozenset({_S.ONGOING, _S.PREPARE_COMMIT, _S.PREPARE_ABORT, _S.PREPARE_EPOCH_FENCE}),
    _S.PREPARE_COMMIT: frozenset({_S.COMPLETE_COMMIT}),
    _S.PREPARE_ABORT: frozenset({_S.COMPLETE_ABORT}),
    _S.COMPLETE_COMMIT: frozenset({_S.EMPTY, _S.ONGOING, _S.DEAD}),
    _S.COMPLETE_ABORT: frozenset({_S.EMPTY, _S.ONGOING, _S.DEAD}),
    _S.DEAD: frozenset(),
    _S.PREPARE_EPOCH_FENCE: frozenset({_S.PREPARE_ABORT}),
}

FINISHED: Final = frozenset({_S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT})  # no transaction is open or being ended
PREPARED: Final = frozenset({_S.PREPARE_COMMIT, _S.PREPARE_ABORT})  # markers are on their way


class TopicPartition(NamedTuple):
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class Transaction:
    """What the log knows of a transactional id, plus the write that is under way."""

    transactional_id: str
    producer_id: int
    producer_epoch: int = NO_PRODUCER_EPOCH  # -1: just created, no producer has been told of it
    last_producer_epoch: int = NO_PRODUCER_EPOCH  # before the last bump asked for by the producer itself (KIP-360)
    previous_producer_id: int = NO_PRODUCER_ID  # before the epochs of the last one ran out
    next_producer_id: int = NO_PRODUCER_ID  # version 2 only: takes over when the transaction completes
    timeout_ms: int = 60_000
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    started_at_ms: int = -1
    updated_at_ms: int = -1
    client_version: int = 0  # transaction.version of the client that moved it last
    pending: Transaction | None = None  # being written; until the log has answered, every other change waits
    fence_failed: bool = False  # the epoch was bumped to fence, but the write failed: nobody saw it, do not bump again
    marked: bool = False  # every marker is written, but the record that completes the transaction is still owed

    @property
    def epoch_exhausted(self) -> bool:
        """Whether the next bump would use the epoch that is kept back for fencing."""
        return self.producer_epoch >= MAX_EPOCH - 1

    def moved_to(self, state: TransactionState, **changes: object) -> Transaction:
        """Return the next picture of this id. An illegal move is a bug of this broker and raises AssertionError."""
        if state not in MOVES[self.state]:
            raise AssertionError(
                f"transactional id {self.transactional_id!r} cannot move from {self.state.label} to {state.label}"
            )
        return replace(self, state=state, pending=None, **changes)  # type: ignore[arg-type]
