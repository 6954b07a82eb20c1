"""Kafka's transaction protocol as one pure state machine: `step(transaction, event, now_ms) -> (transaction,
effects)`.

Owner: the coordinator of the id's partition. `transaction.py` has the states and the legal moves, `transaction_end.py` the rules of the
end. A change is written before it is answered. While a change is being written (`pending`) or markers are being delivered, every other
change is refused with CONCURRENT_TRANSACTIONS, and clients retry it.
Source: KIP-98 and KIP-360, which are transaction.version 0 and 1 (1 only changes the record); KIP-890, which is version 2. The version
of a request, not the level of the cluster, says which rules apply to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from streamactors.broker.errors import ErrorCode
from streamactors.broker.transaction.transaction import (
    FINISHED,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    PREPARED,
    TopicPartition,
    Transaction,
    TransactionState,
)
from streamactors.broker.transaction.transaction_end import (
    check_producer,
    complete,
    end_transaction,
    fence_and_abort,
    is_changing,
    write,
)
from streamactors.broker.transaction.transaction_events import (
    AddPartitions,
    Effect,
    EndAnswer,
    EndTransaction,
    ErrorAnswer,
    Event,
    ExpiryCheck,
    Forget,
    InitAnswer,
    InitProducerId,
    MarkersWritten,
    NeedProducerId,
    SendMarkers,
    TimeoutCheck,
    TransactionAnswer,
    TransactionLoaded,
    VerifyAnswer,
    VerifyPartitions,
    Written,
)

_S = TransactionState


def step(txn: Transaction, event: Event, now_ms: int) -> tuple[Transaction, list[Effect]]:
    """Return the transactional id after an event, and the effects to carry out, in order. Never raises on a request."""
    effects: list[Effect] = []
    return _STEPS[type(event)](txn, event, now_ms, effects), effects


# -- InitProducerId ------------------------------------------------------------------------------------------------


def _init_producer_id(txn: Transaction, init: InitProducerId, now_ms: int, effects: list[Effect]) -> Transaction:
    if is_changing(txn):
        effects.append(TransactionAnswer(init.reply_to, InitAnswer(ErrorCode.CONCURRENT_TRANSACTIONS)))
        return txn
    if not _knows_itself(txn, init):
        effects.append(TransactionAnswer(init.reply_to, InitAnswer(ErrorCode.PRODUCER_FENCED)))
        return txn
    claims_epoch = init.producer_epoch if init.producer_id != NO_PRODUCER_ID else None
    if txn.state is _S.ONGOING:
        if claims_epoch is not None and claims_epoch != txn.producer_epoch:
            # A fenced producer must not abort the transaction of its successor.
            effects.append(TransactionAnswer(init.reply_to, InitAnswer(ErrorCode.PRODUCER_FENCED)))
            return txn
        # The previous producer left a transaction open. It is fenced and aborted first. The new producer retries and then
        # gets one more epoch, so that it shares none with the fenced producer.
        retry = TransactionAnswer(init.reply_to, InitAnswer(ErrorCode.CONCURRENT_TRANSACTIONS))
        return fence_and_abort(txn, init, init.cluster_version, now_ms, retry, effects)
    if txn.epoch_exhausted and claims_epoch in (None, txn.producer_epoch):
        if init.spare_producer_id is None:
            effects.append(NeedProducerId(init))
            return txn
        after = replace(
            txn,
            producer_id=init.spare_producer_id,
            producer_epoch=0,
            last_producer_epoch=NO_PRODUCER_EPOCH if claims_epoch is None else txn.producer_epoch,
        )
    elif claims_epoch is None:
        after = replace(txn, producer_epoch=txn.producer_epoch + 1, last_producer_epoch=NO_PRODUCER_EPOCH)
    elif txn.producer_epoch in (NO_PRODUCER_EPOCH, claims_epoch):
        after = replace(txn, producer_epoch=txn.producer_epoch + 1, last_producer_epoch=txn.producer_epoch)
    elif claims_epoch == txn.last_producer_epoch:
        after = txn  # the answer to its first request was lost: give the same answer again
    else:
        effects.append(TransactionAnswer(init.reply_to, InitAnswer(ErrorCode.PRODUCER_FENCED)))
        return txn
    after = after.moved_to(
        _S.EMPTY, timeout_ms=init.timeout_ms, partitions=frozenset(), started_at_ms=-1, updated_at_ms=now_ms
    )
    reply = TransactionAnswer(init.reply_to, InitAnswer(ErrorCode.NONE, after.producer_id, after.producer_epoch))
    return write(txn, after, reply, effects)


def _knows_itself(txn: Transaction, init: InitProducerId) -> bool:
    """Whether the producer id of a request can be that of the newest producer of this transactional id."""
    if init.producer_id == NO_PRODUCER_ID or txn.producer_epoch == NO_PRODUCER_EPOCH:
        return True
    if init.producer_id == txn.producer_id:
        return True
    # The answer with the current id was lost, and the request names the last epoch of the id before.
    exhausted = replace(txn, producer_epoch=init.producer_epoch).epoch_exhausted
    return init.producer_id == txn.previous_producer_id and exhausted


# -- partitions ----------------------------------------------------------------------------------------------------


def _add_partitions(txn: Transaction, add: AddPartitions, now_ms: int, effects: list[Effect]) -> Transaction:
    # First of all: the producer may have its next id already, which this one becomes when the markers are written.
    error = ErrorCode.CONCURRENT_TRANSACTIONS
    if not is_changing(txn):
        error = check_producer(txn, add.producer_id, add.producer_epoch)
    known_already = add.certain and txn.state is _S.ONGOING and add.partitions <= txn.partitions
    if error is not ErrorCode.NONE or known_already:
        effects.append(TransactionAnswer(add.reply_to, ErrorAnswer(error)))
        return txn
    began = now_ms if txn.state is not _S.ONGOING else txn.started_at_ms
    known = txn.partitions if txn.state is _S.ONGOING else frozenset()
    after = txn.moved_to(
        _S.ONGOING,
        partitions=known | add.partitions,
        started_at_ms=began,
        updated_at_ms=now_ms,
        client_version=add.client_version,
    )
    return write(txn, after, TransactionAnswer(add.reply_to, ErrorAnswer(ErrorCode.NONE)), effects)


def membership_error(txn: Transaction, producer_id: int, producer_epoch: int, where: TopicPartition) -> ErrorCode:
    """Return NONE if a partition is part of the producer's open transaction.

    A pending write does not matter: the append that follows is checked against the log's own producer state."""
    error = check_producer(txn, producer_id, producer_epoch)
    if error is ErrorCode.NONE and txn.state in PREPARED:
        error = ErrorCode.CONCURRENT_TRANSACTIONS
    if error is ErrorCode.NONE and where not in txn.partitions:
        error = ErrorCode.TRANSACTION_ABORTABLE
    return error


def _verify_partitions(txn: Transaction, ask: VerifyPartitions, _now_ms: int, effects: list[Effect]) -> Transaction:
    errors = tuple(
        (where, membership_error(txn, ask.producer_id, ask.producer_epoch, where)) for where in sorted(ask.partitions)
    )
    effects.append(TransactionAnswer(ask.reply_to, VerifyAnswer(errors)))
    return txn


# -- the end -------------------------------------------------------------------------------------------------------


def _markers_written(txn: Transaction, event: MarkersWritten, now_ms: int, effects: list[Effect]) -> Transaction:
    same = (event.producer_id, event.producer_epoch) == (txn.producer_id, txn.producer_epoch)
    if not same or txn.state not in PREPARED or txn.pending is not None:
        return txn
    return complete(replace(txn, marked=True), now_ms, effects)


# -- the log -------------------------------------------------------------------------------------------------------


def _written(txn: Transaction, event: Written, _now_ms: int, effects: list[Effect]) -> Transaction:
    after = event.transaction
    if txn.pending is not after:
        return txn
    if event.error is not ErrorCode.NONE:
        # The old state stays. If the completing record failed, `marked` stays, and the next sweep writes the record again.
        if event.reply is not None:
            effects.append(failed(event.reply, event.error))
        return replace(txn, pending=None, fence_failed=txn.fence_failed or event.fences)
    if event.reply is not None:
        effects.append(event.reply)
    if after.state in PREPARED:
        effects.append(_markers(after))
    elif after.state is _S.DEAD:
        effects.append(Forget())
    return after


def failed(reply: TransactionAnswer, error: ErrorCode) -> TransactionAnswer:
    """Return the answer with an error instead of the result."""
    kind = type(reply.response)
    response = kind(error) if kind in (InitAnswer, EndAnswer) else ErrorAnswer(error)
    return TransactionAnswer(reply.reply_to, response)


def _markers(txn: Transaction) -> SendMarkers:
    commit = txn.state is _S.PREPARE_COMMIT
    return SendMarkers(txn.producer_id, txn.producer_epoch, commit, txn.partitions, txn.client_version)


def _loaded(txn: Transaction, _event: TransactionLoaded, _now_ms: int, effects: list[Effect]) -> Transaction:
    if txn.state in PREPARED:
        effects.append(_markers(txn))
    return txn


# -- sweeps --------------------------------------------------------------------------------------------------------


def _timeout_check(txn: Transaction, check: TimeoutCheck, now_ms: int, effects: list[Effect]) -> Transaction:
    if txn.marked and txn.pending is None:
        return complete(txn, now_ms, effects)
    if txn.state is not _S.ONGOING or txn.pending is not None or txn.started_at_ms + txn.timeout_ms >= now_ms:
        return txn
    return fence_and_abort(txn, check, check.cluster_version, now_ms, None, effects)


def _expiry_check(txn: Transaction, event: ExpiryCheck, now_ms: int, effects: list[Effect]) -> Transaction:
    if txn.state not in FINISHED or txn.pending is not None or txn.updated_at_ms > now_ms - event.expiration_ms:
        return txn
    return write(txn, txn.moved_to(_S.DEAD, partitions=frozenset()), None, effects)


# Any: each function takes the one event it is listed under.
_STEPS: Final[dict[type, Callable[[Transaction, Any, int, list[Effect]], Transaction]]] = {
    InitProducerId: _init_producer_id,
    AddPartitions: _add_partitions,
    VerifyPartitions: _verify_partitions,
    EndTransaction: end_transaction,
    TimeoutCheck: _timeout_check,
    ExpiryCheck: _expiry_check,
    Written: _written,
    MarkersWritten: _markers_written,
    TransactionLoaded: _loaded,
}
