"""The partitions that this broker hosts, by name and by id.

Owner: the data plane; the controller's image is what it follows."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from streamactors.broker.errors import BrokerError, ErrorCode
from streamactors.broker.log.config import LogConfig
from streamactors.broker.records.validation import AppendOrigin
from streamactors.broker.replication.partition import Partition, PartitionState
from streamactors.broker.replication.pending_produce import Appended, PendingProduce

if TYPE_CHECKING:
    from streamactors.broker.node import Node


_NONE: Final[Mapping[int, Partition]] = {}


class AppendOutcome(NamedTuple):
    """What became of an internal append."""

    error: ErrorCode
    base_offset: int = -1
    last_offset: int = -1


class Partitions:
    """The table of hosted partitions."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._topics: dict[str, dict[int, Partition]] = {}
        self._names: dict[bytes, str] = {}  # by topic id

    # ---- look-ups ----

    def get(self, topic: str, index: int) -> Partition | None:
        """Return the partition if it is hosted here."""
        partitions = self._topics.get(topic)
        return None if partitions is None else partitions.get(index)

    def of_topic(self, topic: str) -> Mapping[int, Partition]:
        """Return the topic's hosted partitions by index."""
        return self._topics.get(topic, _NONE)

    def by_id(self, topic_id: uuid.UUID, index: int) -> Partition | None:
        """Return the partition of a topic id if it is hosted here."""
        return self.get(self._names.get(topic_id.bytes, ""), index)

    def topic_name(self, topic_id: uuid.UUID) -> str | None:
        """Return the name that belongs to a topic id."""
        return self._names.get(topic_id.bytes)

    def name_of(self, topic_id: bytes) -> str | None:
        """Return the name that belongs to the 16 bytes of a topic id."""
        return self._names.get(topic_id)

    def __iter__(self) -> Iterator[Partition]:
        for partitions in self._topics.values():
            yield from partitions.values()

    def __len__(self) -> int:
        return sum(map(len, self._topics.values()))

    # ---- following the metadata ----

    def apply(self, state: PartitionState, config: LogConfig) -> Partition:
        """Create the partition, with its log if there is none yet, or take over its new state."""
        partition = self.get(state.topic, state.partition)
        if partition is not None and partition.topic_id == state.topic_id:
            partition.become(state)
            return partition
        if partition is not None:
            self.delete(state.topic, state.partition)
        logs = self._node.logs
        log = logs.get(state.topic, state.partition)
        if log is None:
            log = logs.create(state.topic, state.partition, state.topic_id, config)
        else:
            log.update_config(config)
        partition = Partition(self._node, state, log)
        if partition.is_leader and log.latest_epoch < state.leader_epoch:
            log.assign_leader_epoch(state.leader_epoch)
        partition.raise_high_watermark()
        self._topics.setdefault(state.topic, {})[state.partition] = partition
        self._names[state.topic_id.bytes] = state.topic
        return partition

    def delete(self, topic: str, index: int) -> None:
        """Delete a partition and its log. Unknown ones are ignored."""
        partition = self._topics.get(topic, {}).pop(index, None)
        if partition is None:
            return
        if not self._topics[topic]:
            del self._topics[topic]
            self._names.pop(partition.topic_id.bytes, None)
        partition.delete()
        self._node.logs.delete(topic, index)

    def reconfigure(self, topic: str, config: LogConfig, min_insync_replicas: int = 1) -> None:
        """Give the topic's logs their new settings."""
        for partition in self._topics.get(topic, {}).values():
            partition.log.update_config(config)
            partition.state = replace(partition.state, min_insync_replicas=min_insync_replicas)

    # ---- internal appends ----

    def append(
        self,
        topic: str,
        index: int,
        records: bytearray | memoryview,
        then: Callable[[AppendOutcome], object],
        *,
        timeout_ms: float = 5_000,
    ) -> None:
        """Append one batch of a coordinator; call `then` when it is below the high watermark, or has failed.

        Control batches are allowed. `records` is patched in place, so it must be writable."""
        partition = self.get(topic, index)
        if partition is None or not partition.is_leader:
            then(AppendOutcome(ErrorCode.NOT_LEADER_OR_FOLLOWER))
            return
        if len(partition.isr) < partition.state.min_insync_replicas:
            then(AppendOutcome(ErrorCode.NOT_ENOUGH_REPLICAS))
            return
        try:
            result = partition.append(memoryview(records), self._node.clock.wall_ms(), AppendOrigin.COORDINATOR)
        except BrokerError as error:
            then(AppendOutcome(error.code))
            return
        if partition.settled(result):
            then(AppendOutcome(ErrorCode.NONE, result.base_offset, result.last_offset))
            return
        appended = Appended(partition, result)
        PendingProduce(
            self._node,
            [appended],
            timeout_ms,
            lambda: then(AppendOutcome(appended.error, result.base_offset, result.last_offset)),
        ).wait()
