"""The transactional ids of one partition: steps their state machines and carries out the effects.

Owner: the partition's coordinator actor."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from streamactors.broker.coordinator.coordinator_log import CoordinatorLog, client_error
from streamactors.broker.coordinator.coordinator_messages import Confirmed
from streamactors.broker.errors import ErrorCode
from streamactors.broker.transaction.markers import Markers
from streamactors.broker.transaction.transaction import PREPARED, TopicPartition, Transaction, TransactionState
from streamactors.broker.transaction.transaction_events import (
    AddPartitions,
    Event,
    ExpiryCheck,
    Forget,
    InitAnswer,
    InitProducerId,
    MarkersWritten,
    NeedProducerId,
    NeedsSpare,
    SendMarkers,
    TimeoutCheck,
    TransactionAnswer,
    TransactionLoaded,
    Write,
)
from streamactors.broker.transaction.transaction_messages import (
    DescribeTransaction,
    ExpirySweep,
    ListTransactions,
    Marked,
    ProducerIdGiven,
    TimeoutSweep,
    ToTransaction,
)
from streamactors.broker.transaction.transaction_record import encode_transaction_key, encode_transaction_value
from streamactors.broker.transaction.transaction_state import failed, membership_error, step
from streamactors.clock import Clock
from streamactors.log_limit import log_limited

_log = logging.getLogger("streamactors.broker.transaction")


@dataclass(frozen=True, slots=True)
class TransactionRules:
    """The broker's settings for transactions."""

    max_timeout_ms: int = 900_000  # transaction.max.timeout.ms
    expiration_ms: int = 7 * 86_400_000  # transactional.id.expiration.ms


class TransactionShard:
    """Transactional ids of one partition of the transaction topic."""

    def __init__(
        self,
        name: str,
        log: CoordinatorLog,
        clock: Clock,
        rules: TransactionRules,
        next_producer_id: Callable[[Callable[[int | None], object]], object],
        markers: Markers,
        tell: Callable[[ProducerIdGiven], object],
        version: Callable[[], int] = lambda: 0,
    ) -> None:
        """`version` returns the cluster's transaction.version: the format of records, and how open transactions are aborted."""
        self.name = name
        self.log = log
        self.transactions: dict[str, Transaction] = {}
        self._decided: list[str] = []
        """The ids whose decision was read from the log, until it is known to be committed."""
        self._confirmed = True
        """Whether everything that was read from the log is known to be committed."""
        self._clock = clock
        self._rules = rules
        self._next_producer_id = next_producer_id
        self._markers = markers
        self._version = version
        self.serves: Final[Mapping[type, Callable[[Any], object]]] = {
            ToTransaction: self.serve,
            ProducerIdGiven: self.producer_id_given,
            DescribeTransaction: self._describe,
            ListTransactions: lambda message: message.reply_to(ErrorCode.NONE, tuple(self.transactions.values())),
            Marked: self.marked,
            Confirmed: self.confirmed,
            TimeoutSweep: lambda _: self._step_all(TimeoutCheck(self._version())),
            ExpirySweep: lambda _: self._step_all(ExpiryCheck(self._rules.expiration_ms)),
        }
        self._tell = tell

    def take_over(self, transactions: dict[str, Transaction]) -> None:
        """Take over the ids of the log."""
        self.transactions = transactions
        self._decided = [name for name, txn in transactions.items() if txn.state in PREPARED]
        self._confirmed = False

    def confirmed(self, _: Confirmed) -> None:
        """Deliver the missing markers of decided transactions: every later coordinator knows the same decisions now.

        A decision that only this broker has read can be lost with it. The next coordinator would time the transaction out and abort it, and a
        partition that has the marker of the commit would keep what the others drop."""
        self._confirmed = True
        decided, self._decided = self._decided, []
        for transactional_id in decided:
            self._step(transactional_id, TransactionLoaded())

    def close(self) -> None:
        """Stop the delivery of markers. A request that waits for the log is answered when the log reports."""
        self._markers.stop()

    def serve(self, message: ToTransaction) -> None:
        """Pass a producer's request to its id; only InitProducerId makes a new id.

        A partition that only this broker knows as part of the transaction can be lost with it. The next coordinator would commit without that
        partition, and its records would stay open. So the partition is written again before the producer gets the answer."""
        event = message.event
        if not self._confirmed and isinstance(event, AddPartitions):
            event = replace(event, certain=False)
        if isinstance(event, InitProducerId):
            event = replace(event, cluster_version=self._version())
        if isinstance(event, InitProducerId) and not 0 < event.timeout_ms <= self._rules.max_timeout_ms:
            event.reply_to(InitAnswer(ErrorCode.INVALID_TRANSACTION_TIMEOUT))  # type: ignore[operator]
        elif message.transactional_id in self.transactions:
            self._step(message.transactional_id, event)
        elif isinstance(event, InitProducerId):
            self._ask_for_producer_id(message.transactional_id, event)
        else:
            message.refuse(ErrorCode.INVALID_PRODUCER_ID_MAPPING)

    def verify_now(
        self, transactional_id: str, producer_id: int, producer_epoch: int, where: TopicPartition
    ) -> ErrorCode:
        """Return NONE if the partition is part of the id's open transaction."""
        txn = self.transactions.get(transactional_id)
        if txn is None:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        return membership_error(txn, producer_id, producer_epoch, where)

    def producer_id_given(self, given: ProducerIdGiven) -> None:
        """Continue what waited for a producer id: a new transactional id, or one whose epochs ran out."""
        transactional_id, event = given.transactional_id, given.event
        if transactional_id in self.transactions:
            self._step(transactional_id, replace(event, spare_producer_id=given.producer_id))
        elif isinstance(event, InitProducerId):
            self.transactions[transactional_id] = Transaction(
                transactional_id,
                given.producer_id,
                timeout_ms=event.timeout_ms,
                updated_at_ms=self._clock.wall_ms(),
            )
            self._step(transactional_id, event)
        else:  # the id has expired since
            given.refuse(ErrorCode.INVALID_PRODUCER_ID_MAPPING)

    def marked(self, marked: Marked) -> None:
        """Complete the transaction: every partition has its marker."""
        if marked.transactional_id in self.transactions:
            self._step(marked.transactional_id, MarkersWritten(marked.producer_id, marked.producer_epoch))

    def _step_all(self, event: Event) -> None:
        for transactional_id in tuple(self.transactions):
            self._step(transactional_id, event)

    def _describe(self, message: DescribeTransaction) -> None:
        txn = self.transactions.get(message.transactional_id)
        if txn is None or txn.state is TransactionState.DEAD:
            message.reply_to(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, None)
        else:
            message.reply_to(ErrorCode.NONE, txn)

    def _ask_for_producer_id(self, transactional_id: str, event: NeedsSpare) -> None:
        def given(producer_id: int | None) -> None:
            # The controller may have to reserve a block of ids first, so the id comes as a message of its own.
            message = ProducerIdGiven(transactional_id, event, -1 if producer_id is None else producer_id)
            if producer_id is None:
                message.refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            else:
                self._tell(message)

        self._next_producer_id(given)

    def _step(self, transactional_id: str, event: Event) -> None:
        txn, effects = step(self.transactions[transactional_id], event, self._clock.wall_ms())
        self.transactions[transactional_id] = txn
        for effect in effects:
            match effect:
                case TransactionAnswer(reply_to, response):
                    reply_to(response)  # type: ignore[operator]
                case Write():
                    self._write(transactional_id, effect)
                case SendMarkers():
                    self._markers.send(transactional_id, effect)
                case NeedProducerId(waiting):
                    self._ask_for_producer_id(transactional_id, waiting)
                case Forget():
                    del self.transactions[transactional_id]

    def _write(self, transactional_id: str, write: Write) -> None:
        txn = write.transaction
        value = None if txn.state is TransactionState.DEAD else encode_transaction_value(txn, self._version())

        def then(error: ErrorCode, _offset: int) -> None:
            if error is not ErrorCode.NONE:
                state = txn.state.label
                log_limited(
                    _log, logging.WARNING, (self.name, transactional_id, state, error),
                    "transactional id %s of %s: writing %s failed: %s", transactional_id, self.name, state, error.name,
                )  # fmt: skip
            if transactional_id in self.transactions:
                self._step(transactional_id, replace(write.then, error=client_error(error)))

        def refuse(error: ErrorCode) -> None:
            if write.then.reply is not None:
                write.then.reply.reply_to(failed(write.then.reply, error).response)  # type: ignore[operator]

        self.log.write([(encode_transaction_key(transactional_id), value)], then, refuse)
