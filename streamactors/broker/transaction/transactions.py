"""The transaction component of a broker: the coordinators of the transaction topic's partitions that it leads.

Owner: the data plane, whose thread also runs the coordinators. A helper thread reads a partition; until it has, requests are
refused with COORDINATOR_LOAD_IN_PROGRESS."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from streamactors.broker.coordinator.coordinator_actor import CoordinatorPhase, Tell
from streamactors.broker.coordinator.coordinator_log import CoordinatorLog
from streamactors.broker.coordinator.coordinators import Coordinators, Kind
from streamactors.broker.errors import ErrorCode
from streamactors.broker.group.groups import Groups
from streamactors.broker.metadata.image import NO_LEADER, TRANSACTION_VERSION
from streamactors.broker.metadata.topic_name import TRANSACTION_TOPIC
from streamactors.broker.producer_ids import ProducerIds
from streamactors.broker.replication.partition_table import PartitionTable
from streamactors.broker.runtime import Runtime
from streamactors.broker.transaction.markers import Markers, MarkerWriter
from streamactors.broker.transaction.transaction import (
    BUMPS_EPOCH,
    TopicPartition,
    Transaction,
    TransactionState,
)
from streamactors.broker.transaction.transaction_events import (
    AddPartitions,
    EndTransaction,
    ErrorAnswer,
    InitProducerId,
    SendMarkers,
    VerifyPartitions,
)
from streamactors.broker.transaction.transaction_messages import (
    DescribeTransaction,
    Errors,
    ExpirySweep,
    ListTransactions,
    Marked,
    TimeoutSweep,
    ToTransaction,
    VerificationRequest,
)
from streamactors.broker.transaction.transaction_record import load_transactions
from streamactors.broker.transaction.transaction_shard import TransactionRules, TransactionShard

if TYPE_CHECKING:
    from streamactors.broker.transaction.remote_markers import RemoteMarkers
    from streamactors.broker.transaction.remote_verification import RemoteVerification

_APPEND_TIMEOUT_MS: Final = 5_000


class Transactions:
    """The operations on transactions for handlers."""

    def __init__(self, node: Runtime, partitions: PartitionTable, producer_ids: ProducerIds, groups: Groups) -> None:
        config = node.config
        self._node = node
        self._producer_ids = producer_ids
        self._verification = self._remote_verification(partitions)
        spoil = {} if self._verification is None else {"about_to": self._verification.marked}
        self.markers = MarkerWriter(node.clock, partitions, groups, **spoil)
        self._remote = self._remote_markers()
        self._rules = TransactionRules(config.transaction_max_timeout_ms, config.transactional_id_expiration_ms)
        self._coordinators = Coordinators(
            node,
            partitions,
            Kind(TRANSACTION_TOPIC, self._new_shard, load_transactions, lambda: _APPEND_TIMEOUT_MS),
        )

    def _new_shard(self, name: str, leader_epoch: int, log: CoordinatorLog, tell: Tell) -> TransactionShard:
        def marked(transactional_id: str, send: SendMarkers) -> None:
            tell(Marked(transactional_id, send.producer_id, send.producer_epoch))

        markers = Markers(self._node, self._remote or self.markers, leader_epoch, marked)
        ids = self._producer_ids.next
        return TransactionShard(name, log, self._node.clock, self._rules, ids, markers, tell, self._version)

    def _version(self) -> int:
        return self._node.metadata.image.features.get(TRANSACTION_VERSION, 0)

    def _remote_markers(self) -> RemoteMarkers | None:
        """Return the delivery of markers to other brokers; None if there are no others."""
        if not self._node.replication.others:
            return None
        from streamactors.broker.transaction.remote_markers import RemoteMarkers  # a broker on its own does not need it

        return RemoteMarkers(self._node, self.markers)

    def _remote_verification(self, partitions: PartitionTable) -> RemoteVerification | None:
        """Return the verification by coordinators on other brokers; None if there are no others."""
        if not self._node.replication.others:
            return None
        from streamactors.broker.transaction.remote_verification import RemoteVerification

        return RemoteVerification(self._node, partitions)

    # -- life -------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the coordinators and their sweeps."""
        config = self._node.config
        self._coordinators.start()
        self._coordinators.every(config.transaction_abort_timed_out_transaction_cleanup_interval_ms, TimeoutSweep)
        self._coordinators.every(config.transaction_remove_expired_transaction_cleanup_interval_ms, ExpirySweep)

    def stop(self) -> None:
        """Stop the coordinators. Open transactions stay open over a restart."""
        self._coordinators.stop()
        for remote in (self._remote, self._verification):
            if remote is not None:
                remote.stop()

    # -- requests ---------------------------------------------------------------------------------------------------

    def tell(
        self, transactional_id: str, event: InitProducerId | AddPartitions | VerifyPartitions | EndTransaction
    ) -> None:
        """Send a producer's request to its id's coordinator, or refuse it with NOT_COORDINATOR."""
        self._tell(transactional_id, ToTransaction(transactional_id, event))

    def verify_now(
        self, transactional_id: str, producer_id: int, producer_epoch: int, where: tuple[str, int]
    ) -> ErrorCode:
        """Return NONE if a partition is part of the producer's open transaction, which a coordinator of this broker has.

        A plain call between the coordinator's messages: Produce must not wait for a turn of the coordinator."""
        coordinator = self._coordinators.coordinator_of(transactional_id)
        if coordinator is None:
            return ErrorCode.NOT_COORDINATOR
        if coordinator.phase is not CoordinatorPhase.ACTIVE:
            return coordinator.phase.error
        return coordinator.shard.verify_now(transactional_id, producer_id, producer_epoch, TopicPartition(*where))

    def is_elsewhere(self, transactional_id: str) -> bool:
        """Whether another broker coordinates this id."""
        return self._coordinator_elsewhere(transactional_id) != NO_LEADER

    def _coordinator_elsewhere(self, transactional_id: str) -> int:
        topic = self._node.metadata.image.topics.get(TRANSACTION_TOPIC)
        if self._verification is None or topic is None:
            return NO_LEADER
        leader = topic.partitions[self._coordinators.index_of(transactional_id)].leader
        return NO_LEADER if leader == self._node.node_id else leader

    def ask(self, asked: VerificationRequest, then: Callable[[Errors], object]) -> None:
        """Have the coordinator verify that partitions are part of an open transaction, or add them; `then` gets an error for each.

        A coordinator of this broker calls `then` when it has added them, before it takes the next request of the producer. So no marker can be
        written in between, as long as `then` appends at once."""
        transactional_id, producer_id, producer_epoch, partitions, adds = asked
        elsewhere = self._coordinator_elsewhere(transactional_id)
        if elsewhere != NO_LEADER:
            assert self._verification is not None
            self._verification.ask(elsewhere, asked, then)
        elif adds:

            def added(answer: ErrorAnswer) -> None:
                then(dict.fromkeys(partitions, answer.error))

            event = AddPartitions(added, producer_id, producer_epoch, frozenset(partitions), client_version=BUMPS_EPOCH)
            self.tell(transactional_id, event)
        else:
            then({each: self.verify_now(*asked[:3], each) for each in partitions})

    def describe(self, transactional_id: str, then: Callable[[ErrorCode, Transaction | None], object]) -> None:
        """Call `then` with an error, or with the state of the id."""
        self._tell(transactional_id, DescribeTransaction(then, transactional_id))

    def list_transactions(self, then: Callable[[ErrorCode, list[Transaction]], object]) -> None:
        """Call `then` with every id that this broker coordinates, or with the error of a partition that is being read."""
        self._coordinators.list_all(ListTransactions, then)

    def open_transactions(self) -> int:
        """Return the number of open transactions."""
        return sum(
            txn.state is TransactionState.ONGOING
            for shard in self._coordinators.shards()
            for txn in shard.transactions.values()
        )

    def _tell(self, transactional_id: str, request: ToTransaction | DescribeTransaction) -> None:
        self._coordinators.tell(self._coordinators.index_of(transactional_id), request)
