"""The partitions that this broker hosts, by name and by id.

Owner: the data plane; it follows the metadata image."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from streamactors.broker.errors import BrokerError, ErrorCode, StorageShortage
from streamactors.broker.log.config import LogConfig
from streamactors.broker.records.validation import AppendOrigin
from streamactors.broker.replication.hosted_partition import (
    ALL_REPLICAS,
    HostedPartition,
    PartitionState,
    enough_in_sync,
)
from streamactors.broker.replication.pending_produce import PendingProduce, UnsettledAppend

if TYPE_CHECKING:
    from streamactors.broker.runtime import Runtime


_NONE: Final[Mapping[int, HostedPartition]] = {}


class AppendOutcome(NamedTuple):
    """The outcome of an internal append."""

    error: ErrorCode
    base_offset: int = -1
    last_offset: int = -1


class PartitionTable:
    """The table of hosted partitions."""

    def __init__(self, node: Runtime) -> None:
        self._node = node
        self._topics: dict[str, dict[int, HostedPartition]] = {}
        self._names: dict[bytes, str] = {}  # by topic id
        self._lost: dict[str, set[int]] = {}
        """The partitions that were in a data folder which had failed at the start."""

    # ---- look-ups ----

    def get(self, topic: str, index: int) -> HostedPartition | None:
        """Return the partition if it is hosted here."""
        partitions = self._topics.get(topic)
        return None if partitions is None else partitions.get(index)

    def find(self, name: str, topic_id: bytes | None) -> tuple[str, Mapping[int, HostedPartition], ErrorCode]:
        """Return (name, hosted partitions, error for the partitions that are not hosted) of a topic given by name or id.

        The name is "" if the id is unknown."""
        if topic_id is not None:
            name = self._names.get(topic_id, "")
            if not name:
                return "", {}, ErrorCode.UNKNOWN_TOPIC_ID
        missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if name not in self._lost else ErrorCode.KAFKA_STORAGE_ERROR
        return name, self._topics.get(name, _NONE), missing

    def __iter__(self) -> Iterator[HostedPartition]:
        for partitions in self._topics.values():
            yield from partitions.values()

    def __len__(self) -> int:
        return sum(map(len, self._topics.values()))

    # ---- following the metadata ----

    def apply(self, state: PartitionState, config: LogConfig) -> HostedPartition | None:
        """Create the partition, and its log if it does not exist, or apply the new state to it.

        Return None if the partition is in a data folder that has failed."""
        partition = self.get(state.topic, state.partition)
        if partition is not None and partition.topic_id == state.topic_id:
            partition.become(state)
            return partition
        if partition is not None:
            self.delete(state.topic, state.partition)
        logs = self._node.logs
        log = logs.get(state.topic, state.partition)
        if log is None and logs.is_lost(state.directory_id):
            self._lost.setdefault(state.topic, set()).add(state.partition)
            self._names[state.topic_id.bytes] = state.topic
            return None
        if log is None:
            log = logs.create(state.topic, state.partition, state.topic_id, config, directory_id=state.directory_id)
        else:
            log.update_config(config)
        partition = HostedPartition(self._node, state, log)
        if partition.is_leader and log.latest_epoch < state.leader_epoch:
            with suppress(StorageShortage):  # the first append of the epoch records it
                log.assign_leader_epoch(state.leader_epoch)
        partition.update_high_watermark()
        self._topics.setdefault(state.topic, {})[state.partition] = partition
        self._names[state.topic_id.bytes] = state.topic
        return partition

    def delete(self, topic: str, index: int) -> None:
        """Delete a partition and its log. Unknown ones are ignored."""
        if topic in self._lost:
            self._forget_lost(topic, index)
        partition = self._topics.get(topic, {}).pop(index, None)
        if partition is None:
            return
        if not self._topics[topic]:
            del self._topics[topic]
            self._names.pop(partition.topic_id.bytes, None)
        partition.delete()
        self._node.logs.delete(topic, index)

    def _forget_lost(self, topic: str, index: int) -> None:
        self._lost[topic].discard(index)
        if not self._lost[topic]:
            del self._lost[topic]
            if topic not in self._topics:
                self._names = {each: name for each, name in self._names.items() if name != topic}

    def reconfigure(self, topic: str, config: LogConfig, min_insync_replicas: int = 1, unclean: bool = False) -> None:
        """Give the topic's logs their new settings."""
        for partition in self._topics.get(topic, {}).values():
            partition.log.update_config(config)
            enough = enough_in_sync(min_insync_replicas, partition.state.replicas)
            partition.state = replace(partition.state, min_insync_replicas=enough, unclean=unclean)

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
        """Append one batch of a coordinator. Call `then` when it is below the high watermark or has failed.

        Control batches are allowed. `records` is patched in place, so it must be writable."""
        partition = self.get(topic, index)
        if partition is None or not partition.is_leader or not partition.has_lease:
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
        if partition.settled(result, ALL_REPLICAS):
            then(AppendOutcome(ErrorCode.NONE, result.base_offset, result.last_offset))
            return
        appended = UnsettledAppend(partition, result)
        PendingProduce(
            self._node,
            [appended],
            timeout_ms,
            lambda: then(AppendOutcome(appended.error, result.base_offset, result.last_offset)),
        ).wait()
