"""The transaction component of a broker: one coordinator actor per partition of the transaction topic that is led
here.

Owner: the data plane; everything here runs on its thread, the coordinators too. Reading a partition happens on a
helper thread; meanwhile its ids answer COORDINATOR_LOAD_IN_PROGRESS."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from streamactors.actors.cell import Cell
from streamactors.broker.api import LATER, Later
from streamactors.broker.controller.topic_name import TRANSACTION_TOPIC
from streamactors.broker.coordinator.coordinator_log import CoordinatorLog
from streamactors.broker.coordinator.led_partitions import LedPartitions
from streamactors.broker.coordinator.loading import load
from streamactors.broker.coordinator.record_codec import too_long
from streamactors.broker.errors import ErrorCode
from streamactors.broker.transaction.markers import Markers
from streamactors.broker.transaction.refusal import refuse
from streamactors.broker.transaction.transaction import TopicPartition, Transaction, TransactionState
from streamactors.broker.transaction.transaction_actor import TransactionCoordinatorActor
from streamactors.broker.transaction.transaction_events import (
    AddPartitions,
    EndTransaction,
    InitAnswer,
    InitProducerId,
    SendMarkers,
    VerifyPartitions,
)
from streamactors.broker.transaction.transaction_loading import load_transactions
from streamactors.broker.transaction.transaction_messages import (
    DescribeTransaction,
    ExpirySweep,
    Flush,
    ListTransactions,
    Marked,
    Resign,
    TimeoutSweep,
    ToTransaction,
)
from streamactors.broker.transaction.transaction_shard import TransactionRules, TransactionShard

if TYPE_CHECKING:
    from streamactors.actors.timing_wheel import Timer
    from streamactors.broker.node import Node
    from streamactors.broker.request import Request

_KNOWS_FENCED: Final = 4  # the first InitProducerId version whose clients know PRODUCER_FENCED


class Coordinator:
    """One coordinator actor, its mailbox and its markers."""

    __slots__ = ("actor", "cell", "markers")

    def __init__(self, actor: TransactionCoordinatorActor, cell: Cell, markers: Markers) -> None:
        self.actor = actor
        self.cell = cell
        self.markers = markers

    def resign(self) -> None:
        self.markers.stop()
        self.cell.tell(Resign())


class Transactions:
    """What handlers and the group component ask about transactions."""

    def __init__(self, node: Node) -> None:
        config = node.config
        self._node = node
        self._rules = TransactionRules(config.transaction_max_timeout_ms, config.transactional_id_expiration_ms)
        self._coordinators: LedPartitions[Coordinator] = LedPartitions(
            node, TRANSACTION_TOPIC, self._elected, Coordinator.resign
        )
        self._timers: dict[type, Timer] = {}

    # -- life -------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Take over the ids whose partitions are led here."""
        config = self._node.config
        self._coordinators.start()
        self._sweep(TimeoutSweep, config.transaction_abort_timed_out_transaction_cleanup_interval_ms)
        self._sweep(ExpirySweep, config.transaction_remove_expired_transaction_cleanup_interval_ms)

    def stop(self) -> None:
        """Let go of all ids. Open transactions stay open, and go on after the next start."""
        for timer in self._timers.values():
            timer.cancel()
        self._coordinators.stop()

    # -- requests ---------------------------------------------------------------------------------------------------

    def tell(
        self, transactional_id: str, event: InitProducerId | AddPartitions | VerifyPartitions | EndTransaction
    ) -> None:
        """Give a producer's request to its id's coordinator, or refuse it if that is not here."""
        self._tell(transactional_id, ToTransaction(transactional_id, event))

    def init_producer_id(self, request: Request) -> Later:
        """Serve InitProducerId of a transactional producer; the answer goes to the request."""
        message, version = request.message, request.version

        def reply(answer: InitAnswer) -> None:
            error = answer.error
            if error is ErrorCode.PRODUCER_FENCED and version < _KNOWS_FENCED:
                error = ErrorCode.INVALID_PRODUCER_EPOCH
            request.answer(
                {"error_code": error, "producer_id": answer.producer_id, "producer_epoch": answer.producer_epoch}
            )

        if too_long(message.transactional_id):
            reply(InitAnswer(ErrorCode.INVALID_REQUEST))
            return LATER
        claim = (message.producer_id, message.producer_epoch)
        self.tell(message.transactional_id, InitProducerId(reply, message.transaction_timeout_ms, *claim))
        return LATER

    def verify_now(
        self, transactional_id: str, producer_id: int, producer_epoch: int, where: tuple[str, int]
    ) -> ErrorCode:
        """Return NONE if a partition is part of the producer's open transaction.

        Asked on the data plane by plain call, between the coordinator's messages: Produce must not wait for a
        turn."""
        coordinator = self._coordinators.of(transactional_id)
        if coordinator is None:
            return ErrorCode.NOT_COORDINATOR
        return coordinator.actor.verify_now(transactional_id, producer_id, producer_epoch, TopicPartition(*where))

    def describe(self, transactional_id: str, then: Callable[[ErrorCode, Transaction | None], object]) -> None:
        """Call `then` with the error, or with what is known of the id."""
        self._tell(transactional_id, DescribeTransaction(then, transactional_id))

    def list_transactions(self, then: Callable[[ErrorCode, list[Transaction]], object]) -> None:
        """Call `then` with every id that is coordinated here, or with the error of a partition still being read."""
        coordinators = list(self._coordinators)
        open_answers = len(coordinators)
        listed: list[Transaction] = []
        failed = ErrorCode.NONE
        if not coordinators:
            then(failed, listed)

        def answered(error: ErrorCode, transactions: Sequence[Transaction]) -> None:
            nonlocal open_answers, failed
            listed.extend(transactions)
            failed = failed or error
            open_answers -= 1
            if not open_answers:
                then(failed, [] if failed else listed)

        for coordinator in coordinators:
            coordinator.cell.tell(ListTransactions(answered))

    def open_transactions(self) -> int:
        """Return how many transactions are open; a look between the coordinators' messages."""
        return sum(
            txn.state is TransactionState.ONGOING
            for coordinator in self._coordinators
            for txn in coordinator.actor.shard.transactions.values()
        )

    def _tell(self, transactional_id: str, request: ToTransaction | DescribeTransaction) -> None:
        coordinator = self._coordinators.of(transactional_id)
        if coordinator is None:
            refuse(request, ErrorCode.NOT_COORDINATOR)
        else:
            coordinator.cell.tell(request)

    # -- coordinators -----------------------------------------------------------------------------------------------

    def _elected(self, index: int, leader_epoch: int) -> Coordinator:
        node = self._node
        name = f"{TRANSACTION_TOPIC}-{index}"
        cell: Cell

        def tell(message: Any) -> None:
            cell.tell(message)

        def marked(transactional_id: str, send: SendMarkers) -> None:
            tell(Marked(transactional_id, send.producer_id, send.producer_epoch))

        partition = node.partitions.get(TRANSACTION_TOPIC, index)
        assert partition is not None, f"{name} is led here and not hosted"
        config = partition.log.config
        log = CoordinatorLog(
            partial(node.partitions.append, TRANSACTION_TOPIC, index),
            node.clock.wall_ms,
            min(config.max_message_bytes, config.segment_bytes),
            lambda: tell(Flush()),
        )
        markers = Markers(node, leader_epoch, marked)
        shard = TransactionShard(
            name, log, node.clock, self._rules, lambda then: node.producer_ids.next(then), markers.send, tell
        )
        actor = TransactionCoordinatorActor(shard)
        cell = node.data_plane.spawn(lambda message: actor.receiveMessage(message, None), name)
        load(node, partition.log, cell, lambda batches: load_transactions(batches, name))
        return Coordinator(actor, cell, markers)

    def _sweep(self, kind: type[TimeoutSweep] | type[ExpirySweep], interval_ms: float) -> None:
        def due() -> None:
            for coordinator in self._coordinators:
                coordinator.cell.tell(kind())
            self._sweep(kind, interval_ms)

        self._timers[kind] = self._node.data_plane.call_later(interval_ms, due)
