"""The transactional ids of a simulated cluster, by the broker's TransactionShard, and the markers that end transactions.

Owner: `SimulatedCluster`. Clients use the protocol of transaction.version 0, as librdkafka 2.16 does: partitions are added by AddPartitionsToTxn."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from streamactors.broker.coordinator.coordinator_actor import Tell
from streamactors.broker.coordinator.coordinator_log import CoordinatorLog
from streamactors.broker.errors import ErrorCode
from streamactors.broker.group.group_messages import WriteMarker
from streamactors.broker.metadata.topic_name import OFFSETS_TOPIC, TRANSACTION_TOPIC
from streamactors.broker.transaction.markers import Markers
from streamactors.broker.transaction.transaction import TopicPartition
from streamactors.broker.transaction.transaction_events import SendMarkers
from streamactors.broker.transaction.transaction_messages import ExpirySweep, Marked, TimeoutSweep, ToTransaction
from streamactors.broker.transaction.transaction_record import load_transactions
from streamactors.broker.transaction.transaction_shard import TransactionRules, TransactionShard
from streamactors.simulation.cluster.coordination.coordinators import Coordinators
from streamactors.simulation.cluster.partitions.batch import Marker
from streamactors.simulation.cluster.timers import SimTimers

if TYPE_CHECKING:
    from streamactors.simulation.cluster.coordination.groups import Groups
    from streamactors.simulation.cluster.topics import Topics
    from streamactors.simulation.world.face import World

_MARKER_MS: Final = 2.0
"""The time from a decision to its markers in the partitions, at most."""


class Transactions:
    """The transaction coordinators."""

    def __init__(self, world: World, topics: Topics, groups: Groups, chosen: Callable[[int], int]) -> None:
        config = topics.config
        self._world = world
        self._topics = topics
        self._groups = groups
        self._next_id = 0
        self._rules = TransactionRules(config.transaction_max_timeout_ms, config.transactional_id_expiration_ms)
        self._node: Any = _Node(SimTimers(world, TRANSACTION_TOPIC), topics)
        self.coordinators: Coordinators[TransactionShard] = Coordinators(
            world, TRANSACTION_TOPIC, config.transaction_state_log_num_partitions, self._new_shard,
            load_transactions, chosen,
        )  # fmt: skip
        self._every(float(config.transaction_abort_timed_out_transaction_cleanup_interval_ms), TimeoutSweep)
        self._every(float(config.transaction_remove_expired_transaction_cleanup_interval_ms), ExpirySweep)

    def _every(self, interval_ms: float, event: type) -> None:
        def due() -> None:
            self.coordinators.tell_all(event())
            self._world.later(interval_ms, due, event.__name__)

        self._world.later(interval_ms, due, event.__name__)

    def _new_shard(self, _index: int, name: str, epoch: int, log: CoordinatorLog, tell: Tell) -> TransactionShard:
        def marked(transactional_id: str, send: SendMarkers) -> None:
            tell(Marked(transactional_id, send.producer_id, send.producer_epoch))

        return TransactionShard(
            name, log, self._world, self._rules, self._give_id,
            Markers(self._node, self, epoch, marked), tell, lambda: 0,
        )  # fmt: skip

    def _give_id(self, then: Callable[[int | None], object]) -> None:
        then(self.next_producer_id())

    def next_producer_id(self) -> int:
        """Return a producer id that no producer has."""
        self._next_id += 1
        return self._next_id - 1

    def tell(self, transactional_id: str, event: Any) -> None:
        """Send a producer's request to the coordinator of its transactional id."""
        index = self.coordinators.index_of(transactional_id)
        self.coordinators.tell(index, ToTransaction(transactional_id, event))

    def verify(self, transactional_id: str, producer_id: int, producer_epoch: int, where: TopicPartition) -> ErrorCode:
        """Return NONE if a partition is part of the producer's open transaction."""
        shard = self.coordinators.shard(self.coordinators.index_of(transactional_id))
        if shard is None:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return shard.verify_now(transactional_id, producer_id, producer_epoch, where)

    def write(
        self, where: TopicPartition, send: SendMarkers, coordinator_epoch: int, then: Callable[[ErrorCode], object]
    ) -> None:
        """Write one marker, a moment later: the decision is answered before its markers are there."""

        def due() -> None:
            if where.topic == OFFSETS_TOPIC:
                end = WriteMarker(then, send.producer_id, send.producer_epoch, coordinator_epoch, send.commit)
                self._groups.coordinators.tell(where.partition, end)
                return
            partition = self._topics.get(*where)
            if partition is None:
                then(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                return
            marker = Marker(send.producer_id, send.producer_epoch, coordinator_epoch, send.commit)
            partition.append_marker(marker, then)

        self._world.later(self._world.dice.uniform(0.1, _MARKER_MS), due, f"marker of {where.topic}-{where.partition}")


class _Node:
    """What the broker's Markers need of their broker: timers, and `metadata.image.topics.get(name)`.

    The offsets topic always exists: markers for it are delivered, never dropped."""

    def __init__(self, timers: SimTimers, topics: Topics) -> None:
        self.data_plane = timers
        self.metadata = self
        self._topics = topics

    @property
    def image(self) -> _Node:
        return self

    @property
    def topics(self) -> _Node:
        return self

    def get(self, name: str) -> Any:
        return _OffsetsTopic if name == OFFSETS_TOPIC else self._topics.image.topics.get(name)


class _OffsetsTopic:
    partitions = range(1_000)
