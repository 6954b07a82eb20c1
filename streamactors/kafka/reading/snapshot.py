"""What `control.snapshot()` shows: the state of a consumer as plain data, for people and for metrics.

Positions are offsets and exclusive: everything before them is delivered, done, committed. `lag` is the number of records that are not done, and
`lag_seconds` the age of the oldest one, by its timestamp. Both are None while they are not known. Of a source whose positions nobody tracks, such as
`plain_source`, a record counts as done when it is delivered. `joined`: the consumer has had its first assignment, maybe of no partition. `rebalances`: how often partitions came or went.
`refetched_bytes` counts what librdkafka fetched and threw away because a partition was paused or read from elsewhere. It comes from librdkafka's
statistics and is up to their interval old."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from streamactors.kafka.client.runs import made_at_ms
from streamactors.kafka.client.statistics import Received
from streamactors.kafka.reading.consumer_state import ConsumerState, Counts
from streamactors.kafka.reading.delivery import AssignedPartition
from streamactors.kafka.reading.offset_tracker import PartitionProgress
from streamactors.kafka.reading.partition_bounds import Known
from streamactors.kafka.subscriptions import TopicPartition

Committed: TypeAlias = Mapping[TopicPartition, int]
"""What a consumer has committed; partitions that were revoked since are included."""


def snapshot(
    state: ConsumerState,
    tracked: Mapping[TopicPartition, PartitionProgress],
    bounds: Mapping[TopicPartition, Known],
    starts: Mapping[TopicPartition, int | None],
    received: Received,
    committed: Committed,
    wall_ms: int,
) -> dict[str, Any]:
    """Return the snapshot. `bounds`: where partitions begin and end, as far as that is known. `starts`: where reading was told to begin."""
    partitions = {}
    for key, partition in state.partitions.copy().items():  # another thread may look while the actor changes them
        known = bounds.get(key)
        if known is None or known.epoch != partition.epoch:
            known = Known(partition.epoch)
        begin = starts.get(key)
        begin = known.begin if begin is None or begin < 0 else begin
        lag = _lag(partition, tracked.get(key), known, begin, wall_ms)
        partitions[str(key)] = _partition(state, partition, tracked.get(key), lag)
    return _of(partitions, sum(state.demand.values()), state.counts, received, committed)


def snapshot_without_consumer(
    counts: Counts | None = None, received: Received | None = None, committed: Committed = MappingProxyType({})
) -> dict[str, Any]:
    """Return the snapshot of a consumer that is closed, or was never made: no partition, no demand, and the counts at its end."""
    return _of({}, 0, counts or Counts(), received or Received(), committed)


def _of(
    partitions: dict[str, dict[str, Any]], demand: int, counts: Counts, received: Received, committed: Committed
) -> dict[str, Any]:
    return {
        "partitions": partitions,
        "joined": False,
        "rebalances": 0,
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


def oldest_undated(shot: dict[str, Any]) -> dict[TopicPartition, int]:
    """Return the partitions of a snapshot with a lag and without its seconds, each with the offset of its oldest record that is not done."""
    found = {}
    for name, partition in shot["partitions"].items():
        if partition["lag"] and partition["lag_seconds"] is None:
            topic, _, number = name.rpartition("-")
            found[TopicPartition(topic, int(number))] = partition["end"] - partition["lag"]
    return found


class Lag(NamedTuple):
    """The end of a partition, the number of its records that are not done, and the age of the oldest one. None: not known."""

    end: int | None
    records: int | None = None
    seconds: float | None = None


def _lag(
    partition: AssignedPartition, progress: PartitionProgress | None, known: Known, begin: int | None, wall_ms: int
) -> Lag:
    """`begin`: where reading begins, for a partition of which nothing has come."""
    end, fetched, done = known.end, partition.fetched, progress.done if progress else None
    if fetched is not None and (partition.at_end if end is None else end < fetched):
        end = fetched
    oldest = progress.times.oldest(done) if progress else None
    head = next((chunk.records[0] for chunk in tuple(partition.chunks) if chunk.records), None)
    made_ms = None if head is None else made_at_ms(head)
    if oldest is not None:  # on its way to the sinks
        begin, made_ms = oldest.first if done is None else done, oldest.ms
    elif partition.position is not None:
        begin = max(partition.position, done or 0)
    elif head is not None:
        begin = head.offset()
    elif partition.at_end:
        begin = fetched
    if end is None or begin is None:
        return Lag(end)
    if end <= begin:
        return Lag(end, 0, 0.0)
    if made_ms is None and oldest is None and head is None:
        made_ms = known.made_ms(begin)
    return Lag(end, end - begin, None if made_ms is None else max(0, wall_ms - made_ms) / 1_000)


def _partition(
    state: ConsumerState, partition: AssignedPartition, progress: PartitionProgress | None, lag: Lag
) -> dict[str, Any]:
    key = partition.key
    return {
        "assigned": True,
        "epoch": partition.epoch,
        "buffered_records": partition.buffered,
        "buffered_bytes": partition.size,
        "demand": state.demand.get(partition.feed, 0),
        "paused": partition.paused,
        "paused_by": _paused_by(state, partition),
        "paused_by_user": key in state.pausing.by_user,
        "position": partition.position,
        "fetched": partition.fetched,
        "at_end": partition.at_end,
        "end": lag.end,
        "lag": lag.records,
        "lag_seconds": lag.seconds,
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
