"""Releasing records of a share partition without an acknowledgement: their lock timed out, or their member has gone. Pure.

Rules: Apache Kafka's SharePartition. A released record is delivered again unless it was delivered as often as the limit allows; then it
is archived. A record below the start of the partition is archived: the log does not have it any more."""

from __future__ import annotations

from collections.abc import Callable

from streamactors.broker.share.partition.in_flight import InFlight, RecordState
from streamactors.broker.share.partition.share_partition import Change, SharePartition


def release_member(partition: SharePartition, member: str) -> Change:
    """Begin to release everything that a member has acquired. The locks stay until the change is finished."""
    change = Change()
    _release(
        partition,
        change,
        lambda state: state.member == member,
        lambda state, to: state.begin(to, partition.limits),
    )
    return change


def release_expired(partition: SharePartition, now_ms: float) -> Change:
    """Release everything whose lock has timed out. That holds even if it cannot be stored: a new leader would release it, too."""
    change = Change(is_final=True)

    def free(state: InFlight, to: RecordState) -> bool:
        if not state.move(to, partition.limits):
            return False
        state.lock_until_ms = None
        if state.state is RecordState.AVAILABLE:
            partition.searches = True
        return True

    _release(partition, change, lambda state: state.lock_until_ms is not None and state.lock_until_ms <= now_ms, free)
    return change


def next_lock_end_ms(partition: SharePartition) -> float | None:
    """Return when the next lock times out; None if no record is locked."""
    ends = [
        state.lock_until_ms
        for _, _, state in partition.states()
        if state.state is RecordState.ACQUIRED and state.lock_until_ms is not None
    ]
    return min(ends, default=None)


def _release(
    partition: SharePartition,
    change: Change,
    wanted: Callable[[InFlight], bool],
    free: Callable[[InFlight, RecordState], bool],
) -> None:
    start = partition.start
    for batch in partition.batches:
        whole = batch.whole
        if whole is not None and (whole.state is not RecordState.ACQUIRED or not wanted(whole)):
            continue
        if whole is not None and batch.straddles(start):
            batch.split()
        for first, last, state in batch.parts():
            if state.state is not RecordState.ACQUIRED or not wanted(state):
                continue
            if free(state, RecordState.ARCHIVED if last < start else RecordState.AVAILABLE):
                change.add(first, last, state)
