"""The coordinator actor of one partition of the transaction topic: one message at a time, in order.

Owner: the transaction component. The rules live in `transaction_state.py`; here is only when: not before the
partition has been read, not after it went to another broker, and one append per turn."""

from __future__ import annotations

import logging

from streamactors.actors.messages import ActorAddress, ActorTypeDispatcher
from streamactors.broker.coordinator.loading import LoadFailed
from streamactors.broker.coordinator.phase import Phase
from streamactors.broker.errors import ErrorCode
from streamactors.broker.transaction.refusal import refuse
from streamactors.broker.transaction.transaction import TopicPartition, TransactionState
from streamactors.broker.transaction.transaction_messages import (
    DescribeTransaction,
    ExpirySweep,
    Flush,
    ListTransactions,
    Loaded,
    Marked,
    ProducerIdGiven,
    Resign,
    TimeoutSweep,
    ToTransaction,
)
from streamactors.broker.transaction.transaction_shard import TransactionShard

_log = logging.getLogger("streamactors.broker.transaction")


class TransactionCoordinatorActor(ActorTypeDispatcher):  # type: ignore[misc]
    """Owns the transactional ids of one partition."""

    def __init__(self, shard: TransactionShard) -> None:
        super().__init__()
        self.shard = shard
        self.phase = Phase.LOADING

    def verify_now(
        self, transactional_id: str, producer_id: int, producer_epoch: int, where: TopicPartition
    ) -> ErrorCode:
        """Return NONE if the partition is part of the open transaction; a look that changes nothing."""
        if self.phase is not Phase.ACTIVE:
            return self.phase.error
        return self.shard.verify_now(transactional_id, producer_id, producer_epoch, where)

    def receiveMsg_ToTransaction(self, message: ToTransaction, _sender: ActorAddress | None) -> None:
        if self.phase is Phase.ACTIVE:
            self.shard.serve(message)
        else:
            refuse(message, self.phase.error)

    def receiveMsg_ProducerIdGiven(self, message: ProducerIdGiven, _sender: ActorAddress | None) -> None:
        if self.phase is Phase.ACTIVE:
            self.shard.producer_id_given(message)
        else:
            refuse(ToTransaction(message.transactional_id, message.event), self.phase.error)

    def receiveMsg_DescribeTransaction(self, message: DescribeTransaction, _sender: ActorAddress | None) -> None:
        if self.phase is not Phase.ACTIVE:
            refuse(message, self.phase.error)
            return
        txn = self.shard.transactions.get(message.transactional_id)
        if txn is None or txn.state is TransactionState.DEAD:
            message.reply_to(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, None)
        else:
            message.reply_to(ErrorCode.NONE, txn)

    def receiveMsg_ListTransactions(self, message: ListTransactions, _sender: ActorAddress | None) -> None:
        if self.phase is Phase.ACTIVE:
            message.reply_to(ErrorCode.NONE, tuple(self.shard.transactions.values()))
        else:
            refuse(message, self.phase.error)

    def receiveMsg_Marked(self, message: Marked, _sender: ActorAddress | None) -> None:
        if self.phase is Phase.ACTIVE:
            self.shard.marked(message)

    def receiveMsg_TimeoutSweep(self, _message: TimeoutSweep, _sender: ActorAddress | None) -> None:
        if self.phase is Phase.ACTIVE:
            self.shard.sweep_timeouts()

    def receiveMsg_ExpirySweep(self, _message: ExpirySweep, _sender: ActorAddress | None) -> None:
        if self.phase is Phase.ACTIVE:
            self.shard.sweep_expired()

    def receiveMsg_Flush(self, _message: Flush, _sender: ActorAddress | None) -> None:
        self.shard.log.flush()

    def receiveMsg_Loaded(self, message: Loaded, _sender: ActorAddress | None) -> None:
        if self.phase is Phase.LOADING:
            self.phase = Phase.ACTIVE
            self.shard.take_over(message)

    def receiveMsg_LoadFailed(self, message: LoadFailed, _sender: ActorAddress | None) -> None:
        if self.phase is Phase.LOADING:
            self.phase = Phase.FAILED
            _log.error("%s cannot be read, its ids are not available: %s", self.shard.name, message.error)

    def receiveMsg_Resign(self, _message: Resign, _sender: ActorAddress | None) -> None:
        if self.phase is Phase.ACTIVE:
            self.shard.log.flush()
        self.phase = Phase.RESIGNED
