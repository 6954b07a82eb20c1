"""What `control.snapshot()` shows: the state of a consumer as plain data, for people and for metrics.

Positions are offsets and exclusive: everything before them is delivered, done, committed. `refetched_bytes` counts what librdkafka fetched
and threw away because a partition was paused or read from elsewhere. It comes from librdkafka's statistics and is up to their interval old."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

from streamactors.kafka.client.statistics import Bounds, Received
from streamactors.kafka.reading.consumer_state import ConsumerState, Counts
from streamactors.kafka.reading.delivery import AssignedPartition
from streamactors.kafka.reading.offset_tracker import PartitionProgress
from streamactors.kafka.subscriptions import TopicPartition

Committed: TypeAlias = Mapping[TopicPartition, int]
"""What a consumer has committed; partitions that were revoked since are included."""


def snapshot(
    state: ConsumerState,
    tracked: Mapping[TopicPartition, PartitionProgress],
    ends: Mapping[TopicPartition, int],
    received: Received,
    committed: Committed,
) -> dict[str, Any]:
    """Return the snapshot. `ends`: the offsets after the last records, where they are known."""
    partitions = {
        str(key): _partition(state, partition, tracked.get(key), ends.get(key), received.bounds.get(key))
        for key, partition in list(state.partitions.items())  # another thread may look while the actor changes them
    }
    return _of(partitions, sum(state.demand.values()), state.counts, received, committed)


def snapshot_without_consumer(
    counts: Counts | None = None, received: Received | None = None, committed: Committed = MappingProxyType({})
) -> dict[str, Any]:
    """Return the snapshot of a consumer that is closed, or was never made: no partition, no demand, and what was counted by its end."""
    return _of({}, 0, counts or Counts(), received or Received(), committed)


def _of(
    partitions: dict[str, dict[str, Any]], demand: int, counts: Counts, received: Received, committed: Committed
) -> dict[str, Any]:
    return {
        "partitions": partitions,
        "demand": demand,
        "polls": counts.polls,
        "records": counts.records,
        "delivered": counts.delivered,
        "pauses": counts.pauses,
        "resumes": counts.resumes,
        "dropped_stale": counts.dropped_stale,
        "refetched_bytes": received.thrown_away_bytes if counts.pauses else 0,
        "committed": {str(key): offset for key, offset in sorted(committed.items())},
    }


def _partition(
    state: ConsumerState,
    partition: AssignedPartition,
    progress: PartitionProgress | None,
    end: int | None,
    bounds: Bounds | None,
) -> dict[str, Any]:
    key = partition.key
    position = begin = partition.position
    if end is None and partition.at_end:
        end = partition.fetched
    if bounds is not None:  # nothing has been delivered yet, perhaps for a reason that somebody must hear of
        begin = bounds.begin if begin is None else begin
        end = bounds.end if end is None else end
    return {
        "assigned": True,
        "epoch": partition.epoch,
        "buffered_records": partition.buffered,
        "buffered_bytes": partition.size,
        "demand": state.demand.get(partition.feed, 0),
        "paused": partition.paused,
        "paused_by": _paused_by(state, partition),
        "paused_by_user": key in state.pausing.by_user,
        "position": position,
        "fetched": partition.fetched,
        "at_end": partition.at_end,
        "lag": max(0, end - begin) if end is not None and begin is not None else None,
        "done": progress.done if progress else None,
        "committed": progress.committed if progress else None,
        "in_flight": progress.records_in_flight if progress else None,
        "acknowledged_above_gap": len(progress.acked) if progress else None,
    }


def _paused_by(state: ConsumerState, partition: AssignedPartition) -> str | None:
    """Return what keeps the partition from being delivered or fetched: user, look-up (its first offset is being looked up), delay (its next record is not due),
    max_in_flight (too many offsets are acknowledged above one that is not), back-pressure; None: nothing."""
    if partition.key in state.pausing.by_user:
        return "user"
    if partition.key in state.pausing.withheld:
        return "look-up"
    if partition.key in state.pausing.delayed:
        return "delay"
    if partition.key in state.pausing.full:
        return "max_in_flight"
    return "back-pressure" if partition.paused else None
