"""The share coordinator of a broker: the coordinators of the partitions of `__share_group_state` that it leads, and the way to the others.

Owner: the data plane. Requests of other brokers come through `serve`; what this broker itself wants stored goes through `ask`, which finds
the coordinator, here or elsewhere, and tries again while it moves or loads."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable
from functools import partial
from typing import Final

from streamactors.broker.coordinator.broker_channels import BrokerChannels
from streamactors.broker.coordinator.coordinator_actor import Tell
from streamactors.broker.coordinator.coordinator_log import CoordinatorLog
from streamactors.broker.coordinator.coordinators import Coordinators, Kind
from streamactors.broker.errors import BrokerError, ErrorCode
from streamactors.broker.metadata.delta import ImageDelta
from streamactors.broker.metadata.topic_name import SHARE_STATE_TOPIC
from streamactors.broker.network.outgoing.channel_answer import ChannelAnswer
from streamactors.broker.replication.partition_table import PartitionTable
from streamactors.broker.runtime import Runtime
from streamactors.broker.share.state.share_asks import (
    Ask,
    PruneSweep,
    Reply,
    SnapshotSweep,
    StateAnswer,
    TopicsGone,
    ToShareState,
)
from streamactors.broker.share.state.share_state import ShareKey
from streamactors.broker.share.state.share_state_record import load_states
from streamactors.broker.share.state.share_state_shard import ShareStateRules, ShareStateShard
from streamactors.broker.share.state.share_state_wire import answer_of, request_of
from streamactors.log_limit import log_limited

_log = logging.getLogger("streamactors.broker.share")

TRIES: Final = 5
FIRST_PAUSE_MS: Final = 100.0
LONGEST_PAUSE_MS: Final = 2_000.0

_MOVING: Final = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NETWORK_EXCEPTION,
    }
)
_NOT_AVAILABLE: Final = StateAnswer(ErrorCode.COORDINATOR_NOT_AVAILABLE, "The coordinator is not available.")

CreateTopic = Callable[[str, Callable[[], object]], object]
"""Creates a topic if that is possible, and calls the function when the attempt has ended."""


class ShareStates:
    """The operations on stored states of share partitions."""

    def __init__(self, node: Runtime, partitions: PartitionTable, create_topic: CreateTopic) -> None:
        config = node.config
        self._node = node
        self._partitions = partitions
        self._create_topic = create_topic
        self._channels = BrokerChannels(node, "share-state")
        self._rules = ShareStateRules(
            config.share_coordinator_snapshot_update_records_per_snapshot,
            config.share_coordinator_cold_partition_snapshot_interval_ms,
        )
        self._stopped = False
        self._coordinators = Coordinators(
            node,
            partitions,
            Kind(
                SHARE_STATE_TOPIC, self._new_shard, load_states, lambda: node.config.share_coordinator_write_timeout_ms
            ),
        )

    def _new_shard(self, name: str, _leader_epoch: int, log: CoordinatorLog, tell: Tell) -> ShareStateShard:
        index = int(name.rpartition("-")[2])
        return ShareStateShard(
            name, log, self._node.clock.wall_ms, self._rules, self._partitions_of, partial(self._trim, index), tell
        )

    def _partitions_of(self, topic_id: uuid.UUID) -> int:
        topic = self._node.metadata.image.topics_by_id.get(topic_id)
        return 0 if topic is None else len(topic.partitions)

    def _trim(self, index: int, offset: int) -> None:
        partition = self._partitions.get(SHARE_STATE_TOPIC, index)
        if partition is None or not partition.is_leader:
            return
        try:
            partition.log.trim.delete_records(min(offset, partition.high_watermark), self._node.clock.wall_ms())
        except (BrokerError, OSError) as error:
            log_limited(_log, logging.WARNING, index, "%s: records that are not needed stay: %s", partition, error)

    # --- life ---

    def start(self) -> None:
        """Start the coordinators and their sweeps."""
        config = self._node.config
        self._coordinators.start()
        self._coordinators.every(config.share_coordinator_cold_partition_snapshot_interval_ms, SnapshotSweep)
        self._coordinators.every(config.share_coordinator_state_topic_prune_interval_ms, PruneSweep)
        self._node.metadata.subscribe(self._changed)

    def stop(self) -> None:
        """Stop the coordinators, and close the connections to others."""
        self._stopped = True
        self._coordinators.stop()
        self._channels.close()

    def _changed(self, delta: ImageDelta) -> None:
        if delta.deleted and not self._stopped:
            self._coordinators.tell_all(TopicsGone(frozenset(topic.topic_id for topic in delta.deleted)))

    # --- requests ---

    def serve(self, key: ShareKey, ask: Ask, reply: Reply) -> None:
        """Answer a request of any broker, if this broker coordinates the share partition."""
        self._coordinators.tell(self._coordinators.index_of(key.coordinator_key), ToShareState(key, ask, reply))

    def ask(self, key: ShareKey, ask: Ask, then: Reply) -> None:
        """Have the coordinator of a share partition, wherever it is, carry out a request. `then` gets its answer, or the last error."""
        self._try(key, ask, then, 1)

    def _try(self, key: ShareKey, ask: Ask, then: Reply, count: int) -> None:
        def answered(answer: StateAnswer) -> None:
            if answer.error not in _MOVING or count >= TRIES or self._stopped:
                then(answer)
                return
            pause_ms = min(FIRST_PAUSE_MS * 2 ** (count - 1), LONGEST_PAUSE_MS)
            self._node.data_plane.call_later(pause_ms, lambda: self._try(key, ask, then, count + 1))

        if SHARE_STATE_TOPIC in self._node.metadata.image.topics:
            self._send(key, ask, answered)
        else:
            self._create_topic(SHARE_STATE_TOPIC, lambda: self._send(key, ask, answered))

    def _send(self, key: ShareKey, ask: Ask, then: Reply) -> None:
        topic = self._node.metadata.image.topics.get(SHARE_STATE_TOPIC)
        if topic is None:
            then(_NOT_AVAILABLE)
            return
        leader = topic.partitions[self._coordinators.index_of(key.coordinator_key)].leader
        if leader == self._node.node_id:
            self.serve(key, ask, then)
            return
        channel = self._channels.to(leader)
        if channel is None:
            then(_NOT_AVAILABLE)
            return
        sent = request_of(key, ask)

        def answered(answer: ChannelAnswer) -> None:
            if answer.error is not None:
                then(StateAnswer(ErrorCode.NETWORK_EXCEPTION, str(answer.error)))
            else:
                then(answer_of(answer.value))

        channel.request(sent.api_key, sent.version, sent.body, answered)
