"""The group component of a broker: the coordinators of the offsets partitions that it leads.

Owner: the data plane, whose thread also runs the coordinators: it owns the log and the connections that they need."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from streamactors.broker.coordinator.coordinator_actor import Tell
from streamactors.broker.coordinator.coordinator_log import CoordinatorLog
from streamactors.broker.coordinator.coordinators import Coordinators, Kind, gather
from streamactors.broker.errors import ErrorCode
from streamactors.broker.group.classic.classic_events import Heartbeat, JoinGroup, LeaveGroup, SyncGroup
from streamactors.broker.group.classic.classic_group import GroupRules
from streamactors.broker.group.consumer.consumer_events import ConsumerRules
from streamactors.broker.group.consumer.consumer_messages import TopicsChanged
from streamactors.broker.group.consumer.consumer_rules import consumer_rules
from streamactors.broker.group.consumer.consumer_surroundings import ConsumerSurroundings
from streamactors.broker.group.group_kind import CoordinatedGroup
from streamactors.broker.group.group_loading import load_groups
from streamactors.broker.group.group_messages import (
    DeleteGroups,
    DescribeGroups,
    ListGroups,
    Request,
    Sweep,
    ToGroup,
    TopicsDeleted,
    WriteMarker,
)
from streamactors.broker.group.group_metrics import PartitionLag, lags
from streamactors.broker.group.group_shard import GroupShard
from streamactors.broker.group.offset_requests import OffsetRules
from streamactors.broker.group.share.share_messages import ShareRequest, ShareTopicsGone
from streamactors.broker.group.share.share_needs import share_needs
from streamactors.broker.group.streams.streams_events import StreamsRules
from streamactors.broker.group.streams.streams_rules import streams_rules
from streamactors.broker.metadata.delta import ImageDelta
from streamactors.broker.metadata.metadata_record import GROUP_RESOURCE
from streamactors.broker.metadata.topic_name import OFFSETS_TOPIC
from streamactors.broker.replication.partition_table import PartitionTable
from streamactors.broker.runtime import Runtime
from streamactors.broker.share.state.share_states import ShareStates


class Groups:
    """The operations on groups for handlers, the transaction component and metrics."""

    def __init__(self, runtime: Runtime, partitions: PartitionTable, share_states: ShareStates | None = None) -> None:
        """`share_states` stores the states of share partitions; without it there are no share groups."""
        config = runtime.config
        self._runtime = runtime
        self._partitions = partitions
        self._share_states = share_states
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
        self._coordinators = Coordinators(
            runtime,
            partitions,
            Kind(
                OFFSETS_TOPIC,
                self._new_shard,
                lambda batches, name: load_groups(batches, self._rules, name),
                lambda: self._runtime.config.offsets_commit_timeout_ms,
                frozenset({TopicsDeleted, TopicsChanged, ShareTopicsGone}),
            ),
        )

    def _new_shard(self, name: str, _leader_epoch: int, log: CoordinatorLog, tell: Tell) -> GroupShard:
        runtime = self._runtime
        share = None if self._share_states is None else share_needs(runtime, self._share_states.ask)
        return GroupShard(
            name,
            log,
            runtime.clock,
            runtime.client_timers,
            self._rules,
            self._offset_rules,
            tell,
            ConsumerSurroundings(lambda: runtime.metadata.image, self.consumer_rules, runtime.helpers.run),
            share,
            self.streams_rules,
        )

    def streams_rules(self, group_id: str) -> StreamsRules:
        """Return the settings of a streams group."""
        image = self._runtime.metadata.image
        return streams_rules(self._runtime.config, image.configs.get((GROUP_RESOURCE, group_id), {}))

    def consumer_rules(self, group_id: str) -> ConsumerRules:
        """Return the settings of a consumer group."""
        image = self._runtime.metadata.image
        return consumer_rules(self._runtime.config, image.configs.get((GROUP_RESOURCE, group_id), {}))

    # -- life -------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the coordinators, and follow deleted topics."""
        self._coordinators.start()
        self._runtime.metadata.subscribe(self._topics_changed)
        self._coordinators.every(self._runtime.config.offsets_retention_check_interval_ms, Sweep)

    def stop(self) -> None:
        """Stop the coordinators; parked requests are answered with NOT_COORDINATOR."""
        self._coordinators.stop()

    def _topics_changed(self, delta: ImageDelta) -> None:
        names = frozenset(topic.name for topic in (*delta.created, *delta.changed, *delta.deleted))
        if names:
            created_at = self._runtime.metadata.image.offset if delta.created else 0
            self._coordinators.tell_all(TopicsChanged(names, created_at))
        if delta.deleted:
            self._coordinators.tell_all(TopicsDeleted(frozenset(topic.name for topic in delta.deleted)))
            self._coordinators.tell_all(ShareTopicsGone(frozenset(topic.topic_id for topic in delta.deleted)))

    # -- requests ---------------------------------------------------------------------------------------------------

    def index_of(self, group_id: str) -> int:
        """Return the offsets partition of a group, -1 if the offsets topic does not exist yet."""
        return self._coordinators.index_of(group_id)

    def to_group(self, group_id: str, event: JoinGroup | SyncGroup | Heartbeat | LeaveGroup) -> None:
        """Send a member's request to its group's coordinator."""
        self.tell(group_id, ToGroup(group_id, event))

    def tell(self, group_id: str, request: Request | ShareRequest) -> None:
        """Send a request to a group's coordinator, or refuse it with NOT_COORDINATOR."""
        self._coordinators.tell(self._coordinators.index_of(group_id), request)

    def end_transaction(self, index: int, end: WriteMarker) -> None:
        """Write a transaction's marker to an offsets partition."""
        self._coordinators.tell(index, end)

    def describe_groups(
        self, group_ids: Sequence[str], then: Callable[[list[tuple[ErrorCode, CoordinatedGroup | None]]], object]
    ) -> None:
        """Call `then` with (error, group or None) for each id, in order."""
        self._of_each(DescribeGroups, group_ids, lambda found: then([(error, groups[0]) for error, groups in found]))

    def delete_groups(self, group_ids: Sequence[str], then: Callable[[list[ErrorCode]], object]) -> None:
        """Delete groups; call `then` with one error each, in order."""
        self._of_each(DeleteGroups, group_ids, lambda found: then([errors[0] for errors in found]))

    def _of_each(
        self,
        request: type[DescribeGroups] | type[DeleteGroups],
        group_ids: Sequence[str],
        then: Callable[[list[Any]], object],
    ) -> None:
        def ask(group_id: str, reply: Callable[..., object]) -> None:
            self.tell(group_id, request(reply, (group_id,)))

        gather([partial(ask, group_id) for group_id in group_ids], then)

    def list_groups(self, then: Callable[[ErrorCode, list[CoordinatedGroup]], object]) -> None:
        """Call `then` with every group that this broker coordinates, or with the error of a partition that is being read."""
        self._coordinators.list_all(ListGroups, then)

    # -- metrics, read between the coordinators' messages -----------------------------------------------------------

    def coordinated(self) -> Iterator[CoordinatedGroup]:
        """Yield the groups that this broker coordinates."""
        for shard in self._coordinators.shards():
            yield from shard.groups.values()

    def lags(self) -> list[PartitionLag]:
        """Return the lag of each group in each partition on this broker."""
        return [each for shard in self._coordinators.shards() for each in lags(shard.offsets, self._partitions)]
