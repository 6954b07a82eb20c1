"""The groups and committed offsets of a simulated cluster, by the broker's GroupShard.

Owner: `SimulatedCluster`. Share groups and streams groups are not simulated: their requests are refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from streamactors.broker.coordinator.coordinator_actor import Tell
from streamactors.broker.coordinator.coordinator_log import CoordinatorLog
from streamactors.broker.errors import ErrorCode, InvalidProducerEpoch
from streamactors.broker.group.classic.classic_group import GroupRules
from streamactors.broker.group.consumer.consumer_messages import TopicsChanged
from streamactors.broker.group.consumer.consumer_rules import consumer_rules
from streamactors.broker.group.consumer.consumer_surroundings import ConsumerSurroundings
from streamactors.broker.group.group_loading import load_groups
from streamactors.broker.group.group_messages import CommitOffsets, Sweep, TopicsDeleted
from streamactors.broker.group.group_shard import GroupShard
from streamactors.broker.group.offset_requests import OffsetRules
from streamactors.broker.helpers import HelperOutcome
from streamactors.broker.metadata.metadata_record import GROUP_RESOURCE
from streamactors.broker.metadata.topic_name import OFFSETS_TOPIC
from streamactors.broker.transaction.transaction import TopicPartition
from streamactors.simulation.cluster.coordination.coordinators import Coordinators
from streamactors.simulation.cluster.timers import SimTimers

if TYPE_CHECKING:
    from streamactors.broker.metadata.delta import ImageDelta
    from streamactors.simulation.cluster.coordination.transactions import Transactions
    from streamactors.simulation.cluster.topics import Topics
    from streamactors.simulation.world.face import World


class Groups:
    """The group coordinators."""

    def __init__(self, world: World, topics: Topics, chosen: Callable[[int], int]) -> None:
        config = topics.config
        self._world = world
        self._topics = topics
        self._timers = SimTimers(world, OFFSETS_TOPIC)
        self._rules = GroupRules(
            config.group_initial_rebalance_delay_ms,
            config.group_min_session_timeout_ms,
            config.group_max_session_timeout_ms,
            config.group_max_size,
        )
        self._offset_rules = OffsetRules(config.offsets_retention_minutes * 60_000, config.offset_metadata_max_bytes)
        self.coordinators: Coordinators[GroupShard] = Coordinators(
            world, OFFSETS_TOPIC, config.offsets_topic_num_partitions, self._new_shard,
            lambda batches, name: load_groups(batches, self._rules, name), chosen,
        )  # fmt: skip
        self._sweep_ms = float(config.offsets_retention_check_interval_ms)
        world.later(self._sweep_ms, self._sweep, "offsets expire")

    def _new_shard(self, _index: int, name: str, _epoch: int, log: CoordinatorLog, tell: Tell) -> GroupShard:
        surroundings = ConsumerSurroundings(lambda: self._topics.image, self._consumer_rules, _run_now)
        return GroupShard(
            name, log, self._world, self._timers, self._rules, self._offset_rules, tell, surroundings  # type: ignore[arg-type]
        )  # fmt: skip

    def _consumer_rules(self, group_id: str) -> Any:
        image = self._topics.image
        return consumer_rules(self._topics.config, image.configs.get((GROUP_RESOURCE, group_id), {}))

    def _sweep(self) -> None:
        self.coordinators.tell_all(Sweep())
        self._world.later(self._sweep_ms, self._sweep, "offsets expire")

    def topics_changed(self, delta: ImageDelta) -> None:
        """Tell the coordinators about created, changed and deleted topics."""
        names = frozenset(topic.name for topic in (*delta.created, *delta.changed, *delta.deleted))
        if names:
            self.coordinators.tell_all(TopicsChanged(names, delta.image.offset if delta.created else 0))
        if delta.deleted:
            self.coordinators.tell_all(TopicsDeleted(frozenset(topic.name for topic in delta.deleted)))

    def tell(self, group_id: str, message: Any) -> None:
        """Send a request to a group's coordinator."""
        self.coordinators.tell(self.coordinators.index_of(group_id), message)

    # --- offsets of transactions ---

    def commit_in_transaction(self, transactions: Transactions, transactional_id: str, commit: CommitOffsets) -> None:
        """Commit offsets in a transaction, which must have the offsets partition of the group. Rules: the broker's TxnOffsetCommit."""
        index = self.coordinators.index_of(commit.group_id)
        log = self.coordinators.logs[index]
        is_open = partial(log.is_open, commit.producer_id, commit.producer_epoch)
        if is_open():
            self.coordinators.tell(index, replace(commit, still_open=is_open))
            return
        try:
            log.producers.check_epoch(commit.producer_id, commit.producer_epoch)
        except InvalidProducerEpoch as old:
            commit.refuse(old.code)
            return
        where = TopicPartition(OFFSETS_TOPIC, index)
        error = transactions.verify(transactional_id, commit.producer_id, commit.producer_epoch, where)
        if error is not ErrorCode.NONE:
            commit.refuse(ErrorCode.INVALID_PRODUCER_EPOCH if error is ErrorCode.PRODUCER_FENCED else error)
            return
        self.coordinators.tell(index, commit)


def _run_now(fn: Callable[[], Any], then: Callable[[Any], object]) -> None:
    try:
        outcome: HelperOutcome[Any] = HelperOutcome(value=fn())
    except BaseException as error:  # noqa: BLE001  # as the broker's helper threads do
        outcome = HelperOutcome(error=error)
    then(outcome)
