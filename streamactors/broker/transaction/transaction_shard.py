"""The transactional ids of one partition: feeds their state machines and carries the effects out.

Owner: the partition's coordinator actor. Needs a log, a clock, producer ids and somebody who delivers markers, and
no more."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from streamactors.broker.coordinator.coordinator_log import CoordinatorLog, client_error
from streamactors.broker.errors import ErrorCode
from streamactors.broker.transaction.refusal import refuse
from streamactors.broker.transaction.transaction import TopicPartition, Transaction, TransactionState
from streamactors.broker.transaction.transaction_events import (
    Answer,
    Event,
    ExpiryCheck,
    Forget,
    InitAnswer,
    InitProducerId,
    MarkersWritten,
    NeedProducerId,
    SendMarkers,
    TimeoutCheck,
    Write,
)
from streamactors.broker.transaction.transaction_events import Loaded as TransactionLoaded
from streamactors.broker.transaction.transaction_messages import (
    Loaded,
    Marked,
    ProducerIdGiven,
    ToTransaction,
)
from streamactors.broker.transaction.transaction_record import encode_transaction_key, encode_transaction_value
from streamactors.broker.transaction.transaction_state import membership_error, step
from streamactors.clock import Clock

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
        send_markers: Callable[[str, SendMarkers], object],
        tell: Callable[[ProducerIdGiven], object],
    ) -> None:
        self.name = name
        self.log = log
        self.transactions: dict[str, Transaction] = {}
        self._clock = clock
        self._rules = rules
        self._next_producer_id = next_producer_id
        self._send_markers = send_markers
        self._tell = tell

    def take_over(self, loaded: Loaded) -> None:
        """Go on from what the log holds; what was decided and not finished is finished now."""
        self.transactions = loaded.transactions
        for transactional_id in tuple(self.transactions):
            self._step(transactional_id, TransactionLoaded())

    def serve(self, message: ToTransaction) -> None:
        """Give a producer's request to its id; only InitProducerId makes a new one."""
        event = message.event
        if isinstance(event, InitProducerId) and not 0 < event.timeout_ms <= self._rules.max_timeout_ms:
            event.reply_to(InitAnswer(ErrorCode.INVALID_TRANSACTION_TIMEOUT))  # type: ignore[operator]
        elif message.transactional_id in self.transactions:
            self._step(message.transactional_id, event)
        elif isinstance(event, InitProducerId):
            self._ask_for_producer_id(message.transactional_id, event)
        else:
            refuse(message, ErrorCode.INVALID_PRODUCER_ID_MAPPING)

    def verify_now(
        self, transactional_id: str, producer_id: int, producer_epoch: int, where: TopicPartition
    ) -> ErrorCode:
        """Return NONE if the partition is part of the id's open transaction."""
        txn = self.transactions.get(transactional_id)
        if txn is None:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        return membership_error(txn, producer_id, producer_epoch, where)

    def producer_id_given(self, given: ProducerIdGiven) -> None:
        """Go on with an InitProducerId that had to wait for a producer id."""
        transactional_id = given.transactional_id
        if transactional_id not in self.transactions:
            self.transactions[transactional_id] = Transaction(
                transactional_id,
                given.producer_id,
                timeout_ms=given.event.timeout_ms,
                updated_at_ms=self._clock.wall_ms(),
            )
            self._step(transactional_id, given.event)
        else:
            self._step(transactional_id, replace(given.event, spare_producer_id=given.producer_id))

    def marked(self, marked: Marked) -> None:
        """Every partition has its marker."""
        if marked.transactional_id in self.transactions:
            self._step(marked.transactional_id, MarkersWritten(marked.producer_id, marked.producer_epoch))

    def sweep_timeouts(self) -> None:
        for transactional_id in tuple(self.transactions):
            self._step(transactional_id, TimeoutCheck())

    def sweep_expired(self) -> None:
        for transactional_id in tuple(self.transactions):
            self._step(transactional_id, ExpiryCheck(self._rules.expiration_ms))

    def _ask_for_producer_id(self, transactional_id: str, event: InitProducerId) -> None:
        def given(producer_id: int | None) -> None:
            if producer_id is None:
                event.reply_to(InitAnswer(ErrorCode.COORDINATOR_NOT_AVAILABLE))  # type: ignore[operator]
            else:
                # Perhaps much later, when the controller has made a block of ids durable: so in its turn.
                self._tell(ProducerIdGiven(transactional_id, event, producer_id))

        self._next_producer_id(given)

    def _step(self, transactional_id: str, event: Event) -> None:
        txn, effects = step(self.transactions[transactional_id], event, self._clock.wall_ms())
        self.transactions[transactional_id] = txn
        for effect in effects:
            match effect:
                case Answer(reply_to, response):
                    reply_to(response)  # type: ignore[operator]
                case Write():
                    self._write(transactional_id, effect)
                case SendMarkers():
                    self._send_markers(transactional_id, effect)
                case NeedProducerId(waiting):
                    self._ask_for_producer_id(transactional_id, waiting)
                case Forget():
                    del self.transactions[transactional_id]

    def _write(self, transactional_id: str, write: Write) -> None:
        txn = write.transaction
        value = None if txn.state is TransactionState.DEAD else encode_transaction_value(txn)

        def then(error: ErrorCode, _offset: int) -> None:
            if error is not ErrorCode.NONE:
                _log.warning(
                    "transactional id %s of %s: %s could not be written: %s",
                    transactional_id,
                    self.name,
                    txn.state.label,
                    error.name,
                )
            if transactional_id in self.transactions:
                self._step(transactional_id, replace(write.then, error=client_error(error)))

        self.log.write([(encode_transaction_key(transactional_id), value)], then)
