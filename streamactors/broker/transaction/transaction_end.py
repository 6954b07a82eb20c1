"""How a transaction ends: on the producer's request, because a new producer fences it, or because its time is over. Pure.

Owner: `transaction_state.step`. Up to version 1 the producer keeps its epoch at the end of a transaction. With version 2 (KIP-890) the
decision has the next epoch, the markers carry it, and the producer uses it for its next transaction. So a late batch or marker of a
transaction cannot be mistaken for one of the next.

| version 2, state | abort again | abort | commit again | commit |
|---|---|---|---|---|
| EMPTY | PRODUCER_FENCED | aborts | PRODUCER_FENCED | INVALID_TXN_STATE |
| COMPLETE_ABORT | NONE | aborts | INVALID_TXN_STATE | INVALID_TXN_STATE |
| COMPLETE_COMMIT | INVALID_TXN_STATE | aborts | NONE | INVALID_TXN_STATE |

"Again" is a request with the epoch before the current one: the producer did not get the answer with the current one."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from streamactors.broker.errors import ErrorCode
from streamactors.broker.transaction.transaction import (
    BUMPS_EPOCH,
    MAX_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    PREPARED,
    Transaction,
    TransactionState,
)
from streamactors.broker.transaction.transaction_events import (
    Effect,
    EndAnswer,
    EndTransaction,
    NeedProducerId,
    NeedsSpare,
    TransactionAnswer,
    Write,
    Written,
)

_S = TransactionState

_DECISIONS: Final = {
    # state after the end: its decision
    _S.COMPLETE_COMMIT: True,
    _S.COMPLETE_ABORT: False,
}


def is_changing(txn: Transaction) -> bool:
    """Whether the id refuses changes: a write or the markers of a decision are in progress."""
    return txn.pending is not None or txn.state in PREPARED


def check_producer(txn: Transaction, producer_id: int, producer_epoch: int) -> ErrorCode:
    """Return NONE for the current producer of the id."""
    if txn.producer_id != producer_id or txn.state is _S.DEAD:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if txn.producer_epoch != producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    return ErrorCode.NONE


def end_transaction(txn: Transaction, end: EndTransaction, now_ms: int, effects: list[Effect]) -> Transaction:
    """Decide the transaction, or refuse the request."""
    error = _refusal_bumping(txn, end) if end.client_version >= BUMPS_EPOCH else _refusal(txn, end)
    if error is not None:
        producer = (txn.producer_id, txn.producer_epoch) if error is ErrorCode.NONE else ()
        effects.append(TransactionAnswer(end.reply_to, EndAnswer(error, *producer)))
        return txn
    if _lacks_producer_id(txn, end.client_version, end):
        effects.append(NeedProducerId(end))
        return txn
    after = _prepared(txn, end.commit, end.client_version, end.spare_producer_id, now_ms)
    answer = EndAnswer(ErrorCode.NONE, *after.next_producer)
    return write(txn, after, TransactionAnswer(end.reply_to, answer), effects)


def _refusal(txn: Transaction, end: EndTransaction) -> ErrorCode | None:
    """Return the answer without a change, None if the transaction is to end."""
    error = check_producer(txn, end.producer_id, end.producer_epoch)
    if error is not ErrorCode.NONE:
        return error
    if is_changing(txn):
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if txn.state is _S.ONGOING:
        return None
    # NONE: the answer to a first request was lost
    return ErrorCode.NONE if _DECISIONS.get(txn.state) is end.commit else ErrorCode.INVALID_TXN_STATE


def _refusal_bumping(txn: Transaction, end: EndTransaction) -> ErrorCode | None:
    """As `_refusal`, for version 2, where the epoch tells a repeated request from a new one."""
    if is_changing(txn):
        return ErrorCode.CONCURRENT_TRANSACTIONS
    overflowed = _is_epoch_before_overflow(txn, end)
    if txn.state is _S.DEAD or (txn.producer_id != end.producer_id and not overflowed):
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    again = txn.state in _DECISIONS and (overflowed or txn.producer_epoch == end.producer_epoch + 1)
    if again:
        return ErrorCode.NONE if _DECISIONS[txn.state] is end.commit else ErrorCode.INVALID_TXN_STATE
    if txn.producer_epoch != end.producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    # Without a partition there is nothing to commit; an abort only bumps the epoch.
    return ErrorCode.INVALID_TXN_STATE if end.commit and txn.state is not _S.ONGOING else None


def _is_epoch_before_overflow(txn: Transaction, end: EndTransaction) -> bool:
    """Whether a request names the last epoch of the producer id before, and the current id was never used."""
    last = (txn.previous_producer_id, MAX_EPOCH - 1)
    return (end.producer_id, end.producer_epoch) == last and txn.producer_epoch == 0


def _lacks_producer_id(txn: Transaction, version: int, event: NeedsSpare) -> bool:
    return version >= BUMPS_EPOCH and txn.epoch_exhausted and event.spare_producer_id is None


def _prepared(txn: Transaction, commit: bool, version: int, spare_producer_id: int | None, now_ms: int) -> Transaction:
    """Return the decision. With version 2 it has the next epoch: the last epoch, MAX_EPOCH, is only for these markers."""
    state = _S.PREPARE_COMMIT if commit else _S.PREPARE_ABORT
    if version < BUMPS_EPOCH:
        return txn.moved_to(state, updated_at_ms=now_ms, client_version=0)
    return txn.moved_to(
        state,
        producer_epoch=min(txn.producer_epoch + 1, MAX_EPOCH),
        last_producer_epoch=txn.producer_epoch,
        next_producer_id=spare_producer_id if txn.epoch_exhausted else NO_PRODUCER_ID,
        started_at_ms=txn.started_at_ms if txn.state in (_S.ONGOING, _S.PREPARE_EPOCH_FENCE) else now_ms,
        updated_at_ms=now_ms,
        client_version=version,
    )


def fence_and_abort(
    txn: Transaction,
    event: NeedsSpare,
    version: int,
    now_ms: int,
    reply: TransactionAnswer | None,
    effects: list[Effect],
) -> Transaction:
    """Fence the producer of an open transaction, and abort the transaction.

    Up to version 1 the new epoch counts even if the write fails: the old producer must not write in between. With version 2 the bump is
    that of every end, and a write that fails changes nothing."""
    if _lacks_producer_id(txn, version, event):
        effects.append(NeedProducerId(event))
        return txn
    fenced, fences = txn, version < BUMPS_EPOCH
    if fences:
        epoch = txn.producer_epoch if txn.fence_failed else txn.producer_epoch + 1
        fenced = replace(txn, producer_epoch=epoch, last_producer_epoch=NO_PRODUCER_EPOCH)
    prepared = _prepared(fenced.moved_to(_S.PREPARE_EPOCH_FENCE), False, version, event.spare_producer_id, now_ms)
    return write(fenced, replace(prepared, fence_failed=False), reply, effects, fences=fences)


def complete(txn: Transaction, now_ms: int, effects: list[Effect]) -> Transaction:
    """Write that every partition has its marker. A producer id whose epochs ran out is replaced."""
    state = _S.COMPLETE_COMMIT if txn.state is _S.PREPARE_COMMIT else _S.COMPLETE_ABORT
    producer_id, producer_epoch = txn.next_producer
    after = txn.moved_to(
        state,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        next_producer_id=NO_PRODUCER_ID,
        next_producer_epoch=NO_PRODUCER_EPOCH,
        partitions=frozenset(),
        marked=False,
        updated_at_ms=now_ms,
    )
    return write(txn, after, None, effects)


def write(
    txn: Transaction,
    after: Transaction,
    reply: TransactionAnswer | None,
    effects: list[Effect],
    *,
    fences: bool = False,
) -> Transaction:
    """Have a state written; until the log answers it is `pending`. Every record names the producer id before it."""
    after = replace(after, previous_producer_id=txn.producer_id)
    effects.append(Write(after, Written(after, reply, fences)))
    return replace(txn, pending=after)
