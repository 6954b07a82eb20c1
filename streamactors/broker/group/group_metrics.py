"""Metrics of groups, computed on request.

Owner: the metrics endpoint; on the data plane's thread, between the coordinators' messages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Final, NamedTuple

from streamactors.broker.group.classic.classic_group import GroupState
from streamactors.broker.group.consumer.consumer_group import ConsumerGroupState
from streamactors.broker.group.group_kind import CoordinatedGroup
from streamactors.broker.group.offsets_state import OffsetsState
from streamactors.broker.group.share.share_group import ShareGroupState
from streamactors.broker.group.streams.streams_group import StreamsGroupState
from streamactors.broker.replication.partition_table import PartitionTable

_STATES: Final[tuple[type[Enum], ...]] = (GroupState, ConsumerGroupState, ShareGroupState, StreamsGroupState)


class PartitionLag(NamedTuple):
    """The lag of a group in one partition."""

    group: str
    topic: str
    partition: int
    committed: int
    lag: int


def lags(offsets: OffsetsState, partitions: PartitionTable) -> Iterator[PartitionLag]:
    """Yield the lag of every committed offset whose partition is on this broker: the records from there, or from the log's start, to the high watermark."""
    for group_id in sorted(offsets.groups()):
        for (topic, index), committed in sorted(offsets.of_group(group_id).items()):
            partition = partitions.get(topic, index)
            if partition is not None:
                begin = max(
                    committed.offset, partition.log.log_start_offset
                )  # what was deleted cannot be read any more
                lag = max(partition.high_watermark - begin, 0)
                yield PartitionLag(group_id, topic, index, committed.offset, lag)


def groups_by_state(groups: Iterable[CoordinatedGroup]) -> dict[str, int]:
    """Return the number of groups of every kind in each state, including states without groups."""
    counts = dict.fromkeys([state.value for kind in _STATES for state in kind], 0)
    for group in groups:
        counts[group.state_name] += 1
    return counts
