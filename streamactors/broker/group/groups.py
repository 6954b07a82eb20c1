"""The group component of a broker: one coordinator actor per offsets partition that is led here, and the way to them.

Owner: the data plane; everything here runs on its thread, the coordinators too, because each of their answers
needs the log and the connections that live there. Reading a partition happens on a helper thread; meanwhile its
groups answer COORDINATOR_LOAD_IN_PROGRESS."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from streamactors.actors.cell import Cell
from streamactors.broker.controller.topic_name import OFFSETS_TOPIC
from streamactors.broker.coordinator.coordinator_log import CoordinatorLog
from streamactors.broker.coordinator.led_partitions import LedPartitions
from streamactors.broker.coordinator.loading import load
from streamactors.broker.errors import ErrorCode
from streamactors.broker.group.classic_events import Heartbeat, JoinGroup, LeaveGroup, SyncGroup
from streamactors.broker.group.classic_group import Group, GroupRules
from streamactors.broker.group.group_actor import GroupCoordinatorActor
from streamactors.broker.group.group_loading import load_groups
from streamactors.broker.group.group_messages import (
    CommitOffsets,
    DeleteGroups,
    DescribeGroups,
    EndTransaction,
    Flush,
    ListGroups,
    Request,
    Resign,
    Sweep,
    ToGroup,
    TopicsDeleted,
)
from streamactors.broker.group.group_metrics import PartitionLag, lags
from streamactors.broker.group.group_shard import GroupShard, OffsetRules
from streamactors.broker.group.refusal import refuse

if TYPE_CHECKING:
    from streamactors.actors.timing_wheel import Timer
    from streamactors.broker.controller.delta import ImageDelta
    from streamactors.broker.node import Node


class Coordinator:
    """One coordinator actor and its mailbox."""

    __slots__ = ("actor", "cell", "index")

    def __init__(self, index: int, actor: GroupCoordinatorActor, cell: Cell) -> None:
        self.index = index
        self.actor = actor
        self.cell = cell


class Groups:
    """What handlers and the transaction component ask about groups."""

    def __init__(self, node: Node) -> None:
        config = node.config
        self._node = node
        self._rules = GroupRules(
            initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
            min_session_timeout_ms=config.group_min_session_timeout_ms,
            max_session_timeout_ms=config.group_max_session_timeout_ms,
            max_size=config.group_max_size,
        )
        self._offset_rules = OffsetRules(
            retention_ms=config.offsets_retention_minutes * 60_000,
            metadata_max_bytes=config.offset_metadata_max_bytes,
        )
        self._coordinators: LedPartitions[Coordinator] = LedPartitions(
            node, OFFSETS_TOPIC, self._elected, lambda coordinator: coordinator.cell.tell(Resign())
        )
        self._sweep_timer: Timer | None = None

    # -- life -------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Take over the groups whose partitions are led here."""
        self._coordinators.start()
        self._node.controller.subscribe(self._topics_changed)
        self._sweep_later()

    def stop(self) -> None:
        """Let go of all groups; whoever waits is told to look for another coordinator."""
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
        self._coordinators.stop()

    # -- requests ---------------------------------------------------------------------------------------------------

    def index_of(self, group_id: str) -> int:
        """Return the offsets partition of a group, -1 while there is none."""
        return self._coordinators.index_of(group_id)

    def to_group(self, group_id: str, event: JoinGroup | SyncGroup | Heartbeat | LeaveGroup) -> None:
        """Give a member's request to its group's coordinator."""
        self.tell(group_id, ToGroup(group_id, event))

    def tell(self, group_id: str, request: Request) -> None:
        """Give a request to a group's coordinator, or refuse it if that is not here."""
        coordinator = self._coordinators.of(group_id)
        if coordinator is None:
            refuse(request, ErrorCode.NOT_COORDINATOR)
        else:
            coordinator.cell.tell(request)

    def commit_in_transaction(self, transactional_id: str, commit: CommitOffsets) -> None:
        """Commit offsets in a transaction, if its coordinator knows that the group's offsets are part of it."""
        index = self._coordinators.index_of(commit.group_id)
        partition = self._node.partitions.get(OFFSETS_TOPIC, index)
        transactions = self._node.transactions
        if (
            partition is None
            or transactions is None
            or not self._node.config.transaction_partition_verification_enable
            or partition.log.ongoing_transaction(commit.producer_id) is not None
        ):
            self.tell(commit.group_id, commit)
            return

        error = transactions.verify_now(
            transactional_id, commit.producer_id, commit.producer_epoch, (OFFSETS_TOPIC, index)
        )
        if error is ErrorCode.NONE:
            self.tell(commit.group_id, commit)
        else:
            commit.reply_to([error] * len(commit.offsets))

    def end_transaction(self, index: int, end: EndTransaction) -> None:
        """Write a transaction's marker into an offsets partition."""
        coordinator = self._coordinators.get(index)
        if coordinator is None:
            refuse(end, ErrorCode.NOT_COORDINATOR)
        else:
            coordinator.cell.tell(end)

    def describe_groups(
        self, group_ids: Sequence[str], then: Callable[[list[tuple[ErrorCode, Group | None]]], object]
    ) -> None:
        """Call `then` with (error, group or None) for each id, in order."""
        found: list[tuple[ErrorCode, Group | None]] = [(ErrorCode.NONE, None)] * len(group_ids)
        open_answers = len(group_ids)
        if not group_ids:
            then(found)

        def answered(at: int, error: ErrorCode, groups: Sequence[Group | None]) -> None:
            nonlocal open_answers
            found[at] = (error, groups[0])
            open_answers -= 1
            if not open_answers:
                then(found)

        for at, group_id in enumerate(group_ids):
            self.tell(group_id, DescribeGroups(partial(answered, at), (group_id,)))

    def list_groups(self, then: Callable[[ErrorCode, list[Group]], object]) -> None:
        """Call `then` with every group that is coordinated here, or with the error of a partition still being read."""
        coordinators = list(self._coordinators)
        open_answers = len(coordinators)
        listed: list[Group] = []
        failed = ErrorCode.NONE
        if not coordinators:
            then(failed, listed)

        def answered(error: ErrorCode, groups: Sequence[Group]) -> None:
            nonlocal open_answers, failed
            listed.extend(groups)
            failed = failed or error
            open_answers -= 1
            if not open_answers:
                then(failed, [] if failed else listed)

        for coordinator in coordinators:
            coordinator.cell.tell(ListGroups(answered))

    def delete_groups(self, group_ids: Sequence[str], then: Callable[[list[ErrorCode]], object]) -> None:
        """Delete groups; call `then` with one error each, in order."""
        errors = [ErrorCode.NONE] * len(group_ids)
        open_answers = len(group_ids)
        if not group_ids:
            then(errors)

        def answered(at: int, error: Sequence[ErrorCode]) -> None:
            nonlocal open_answers
            (errors[at],) = error
            open_answers -= 1
            if not open_answers:
                then(errors)

        for at, group_id in enumerate(group_ids):
            self.tell(group_id, DeleteGroups(partial(answered, at), (group_id,)))

    def coordinated(self) -> Iterator[Group]:
        """Return the groups coordinated here; a look between the coordinators' messages."""
        for coordinator in self._coordinators:
            yield from coordinator.actor.shard.groups.values()

    def lags(self) -> list[PartitionLag]:
        """Return how far each group is behind in each partition hosted here."""
        shards = (coordinator.actor.shard for coordinator in self._coordinators)
        return [each for shard in shards for each in lags(shard.offsets, self._node.partitions)]

    # -- coordinators -----------------------------------------------------------------------------------------------

    def _elected(self, index: int, _leader_epoch: int) -> Coordinator:
        node = self._node
        name = f"{OFFSETS_TOPIC}-{index}"
        cell: Cell

        def tell(message: Any) -> None:
            cell.tell(message)

        partition = node.partitions.get(OFFSETS_TOPIC, index)
        assert partition is not None, f"{name} is led here and not hosted"
        log = CoordinatorLog(
            partial(self._append, index), node.clock.wall_ms, _max_batch_bytes(partition), lambda: tell(Flush())
        )
        shard = GroupShard(name, log, node.clock, node.data_plane, self._rules, self._offset_rules, tell)
        actor = GroupCoordinatorActor(shard)
        cell = node.data_plane.spawn(lambda message: actor.receiveMessage(message, None), name)
        load(node, partition.log, cell, lambda batches: load_groups(batches, self._rules, name))
        return Coordinator(index, actor, cell)

    def _append(self, index: int, batch: bytearray, then: Callable[[Any], object]) -> None:
        timeout_ms = self._node.config.offsets_commit_timeout_ms
        self._node.partitions.append(OFFSETS_TOPIC, index, batch, then, timeout_ms=timeout_ms)

    # -- what happens by itself -------------------------------------------------------------------------------------

    def _topics_changed(self, delta: ImageDelta) -> None:
        if delta.deleted:
            deleted = TopicsDeleted(frozenset(topic.name for topic in delta.deleted))
            for coordinator in self._coordinators:
                coordinator.cell.tell(deleted)

    def _sweep_later(self) -> None:
        interval_ms = self._node.config.offsets_retention_check_interval_ms
        self._sweep_timer = self._node.data_plane.call_later(interval_ms, self._sweep)

    def _sweep(self) -> None:
        for coordinator in self._coordinators:
            coordinator.cell.tell(Sweep())
        self._sweep_later()


def _max_batch_bytes(partition: Any) -> int:
    config = partition.log.config
    return int(min(config.max_message_bytes, config.segment_bytes))
