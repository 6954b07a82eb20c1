"""Metrics of groups, computed on request.

Owner: the metrics endpoint; on the data plane's thread, between the coordinators' messages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from streamactors.broker.group.classic.classic_group import Group, GroupState
from streamactors.broker.group.offsets_state import OffsetsState
from streamactors.broker.replication.partition_table import PartitionTable


class PartitionLag(NamedTuple):
    """The lag of a group in one partition."""

    group: str
    topic: str
    partition: int
    committed: int
    lag: int


def lags(offsets: OffsetsState, partitions: PartitionTable) -> Iterator[PartitionLag]:
    """Yield the lag (high watermark less committed offset) of every committed offset whose partition is on this broker."""
    for group_id in sorted(offsets.groups()):
        for (topic, index), committed in sorted(offsets.of_group(group_id).items()):
            partition = partitions.get(topic, index)
            if partition is not None:
                lag = max(partition.high_watermark - committed.offset, 0)
                yield PartitionLag(group_id, topic, index, committed.offset, lag)


def groups_by_state(groups: Iterable[Group]) -> dict[str, int]:
    """Return the number of groups in each state, including states without groups."""
    counts = {state.value: 0 for state in GroupState}
    for group in groups:
        counts[group.state.value] += 1
    return counts
