"""Acquiring records of a share partition for a member: what a fetch has read becomes locked. Pure.

Rules: Apache Kafka's SharePartition.acquire. With the mode `batch optimised` whole batches of the log are acquired, so a member may get
more than it asked for; with `record limit` it never does (KIP-1206). Records that were delivered often are delivered in ever smaller
parts, and for the last time alone (KIP-1222): one bad record does not take its neighbours with it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from streamactors.broker.share.partition.in_flight import Batch, InFlight, RecordState
from streamactors.broker.share.partition.share_partition import SharePartition


class Span(NamedTuple):
    """The offsets of a batch of the log."""

    first: int
    last: int


class Acquired(NamedTuple):
    """Consecutive records that a member has acquired, and how often they were delivered, this time included."""

    first: int
    last: int
    deliveries: int


class Fetched(NamedTuple):
    """What a fetch has read: the offset it asked for, the batches, and those of aborted transactions."""

    offset: int
    batches: Sequence[Span]
    aborted: Sequence[Span] = ()


class Want(NamedTuple):
    """How much a member takes. `strict`: never more than `max_records`; otherwise batches of about `batch_size` are not split."""

    max_records: int
    batch_size: int
    strict: bool = False


def acquire(partition: SharePartition, member: str, fetched: Fetched, want: Want, now_ms: float) -> list[Acquired]:
    """Lock what the member may have of the fetched records. Records of aborted transactions are archived instead."""
    if not fetched.batches or want.max_records <= 0 or fetched.batches[-1].last < partition.start:
        return []
    first = fetched.batches[0].first
    partition.lost(fetched.offset, first)
    last, most = _room(partition, fetched.offset, want.max_records, fetched.batches[-1].last)
    if most <= 0 or last < first:
        return []
    step = _Acquisition(partition, member, fetched.batches, want, last, now_ms)
    acquired = step.run(most)
    return _without_aborted(partition, acquired, fetched.aborted) if acquired and fetched.aborted else acquired


def _room(partition: SharePartition, offset: int, wanted: int, last: int) -> tuple[int, int]:
    """Return (last offset, number) of the records that may be acquired. Records that were in flight before need no new lock."""
    most = min(wanted, partition.limits.record_locks - partition.in_flight)
    if most <= 0 and offset <= partition.end:
        return min(last, partition.end), min(wanted, partition.end - offset + 1)
    return last, most


class _Acquisition:
    """One call of `acquire`."""

    def __init__(
        self, partition: SharePartition, member: str, batches: Sequence[Span], want: Want, last: int, now_ms: float
    ) -> None:
        self._partition = partition
        self._member = member
        self._batches = batches
        self._want = want
        self._first = batches[0].first
        self._last = last
        self._until_ms = now_ms + partition.limits.lock_ms

    def run(self, most: int) -> list[Acquired]:
        partition = self._partition
        base = self._base()
        known = partition.between(min(self._first, base), self._last)
        if not known:
            return self._take_new(base, self._last, most)
        acquired, left = self._take_between(known, base, most)
        if left > 0 and known[-1].last < self._last:
            acquired += self._take_new(known[-1].last + 1, self._last, left)
        if acquired:
            partition.filled_to(acquired[-1].last + 1)
        return acquired

    def _take_between(self, known: Sequence[Batch], hole: int, left: int) -> tuple[list[Acquired], int]:
        """Acquire what is free in the batches in flight and in the holes before them. Return it, and how many records may follow."""
        partition = self._partition
        acquired: list[Acquired] = []
        for batch in known:
            if left > 0 and partition.gap_is_open:
                if hole < batch.first:
                    taken = self._take_new(hole, batch.first - 1, left)
                    acquired += taken
                    left -= _count(taken)
                hole = batch.last + 1
            if left <= 0:
                break
            throttled = self._is_throttled(batch)
            if throttled and acquired:
                return acquired, 0
            taken = self._take_known(batch, left, throttled)
            acquired += taken
            left -= _count(taken)
            if throttled and taken:
                return acquired, 0
        return acquired, left

    def _base(self) -> int:
        """Return where the fetched records begin to be of interest: at a batch in flight, or at the start of the partition."""
        floor = self._partition.floor(self._first)
        if floor is None:
            return max(self._first, self._partition.start)
        return floor.first if floor.last >= self._first else self._first

    # --- records that were never delivered ---

    def _take_new(self, first: int, last: int, most: int) -> list[Acquired]:
        partition = self._partition
        first = max(first, partition.start)
        if first > last:
            return []
        if most < last - first + 1:
            wanted = _end_of_batch(self._batches, first + most - 1)
            last = min(last, wanted) if partition.gap_is_open else wanted
        acquired = self._insert(first, last, most)
        if partition.batches[0].first == first:
            partition.start = first
        partition.end = max(partition.end, last)
        partition.filled_to((acquired[0].last if self._want.strict else last) + 1)
        return acquired

    def _insert(self, first: int, last: int, most: int) -> list[Acquired]:
        partition = self._partition
        if self._want.strict and last - first + 1 > most:
            batch = Batch(first, last, InFlight(RecordState.AVAILABLE, 0))
            for offset, record in batch.split().items():
                if offset < first + most:
                    record.lock(self._member, self._until_ms)
            partition.insert(batch)
            partition.searches = True
            return [Acquired(first, first + most - 1, 1)]
        acquired = []
        for span in [Span(first, last)] if self._want.strict else self._pieces(first, last):
            state = InFlight(RecordState.AVAILABLE, 0)
            state.lock(self._member, self._until_ms)
            partition.insert(Batch(span.first, span.last, state))
            acquired.append(Acquired(span.first, span.last, 1))
        return acquired

    def _pieces(self, first: int, last: int) -> list[Span]:
        """Cut offsets at the edges of batches of the log, into pieces of at least `batch_size`."""
        size = self._want.batch_size
        pieces = []
        if last - first + 1 > size:
            for batch in self._batches:
                if first + size <= batch.first <= last:
                    pieces.append(Span(first, batch.first - 1))
                    first = batch.first
        return [*pieces, Span(first, last)]

    # --- records that are free again ---

    def _take_known(self, batch: Batch, left: int, throttled: bool) -> list[Acquired]:
        """Acquire what is free of a batch in flight."""
        whole = batch.whole
        if whole is not None:
            if not whole.is_free:
                return []
            too_many = self._want.strict and len(batch) > left
            if not throttled and not too_many and batch.first >= self._first and batch.last <= self._last:
                whole.lock(self._member, self._until_ms)
                return [Acquired(batch.first, batch.last, whole.deliveries)]
        return _joined(self._take_records(batch.split(), left))

    def _take_records(self, records: dict[int, InFlight], left: int) -> Iterable[Acquired]:
        limits = self._partition.limits
        at_most = left if self._want.strict else len(records)
        throttle = None
        count = 0
        for offset, record in records.items():
            if offset < self._first or not record.is_free:
                continue
            if offset > self._last:
                break
            deliveries = record.deliveries
            careful = limits.deliveries > 2
            if careful and deliveries == limits.deliveries - 1 and count:
                break  # its last delivery: alone, in the next fetch
            if throttle is None and deliveries >= limits.throttled_from:
                throttle = max(1, len(records) >> (deliveries - limits.throttled_from + 1))
            record.lock(self._member, self._until_ms)
            count += 1
            yield Acquired(offset, offset, record.deliveries)
            is_last = careful and record.deliveries == limits.deliveries
            if is_last or count in (throttle, at_most):
                break

    def _is_throttled(self, batch: Batch) -> bool:
        """Whether free records of the batch were delivered so often that they must come in smaller parts."""
        limit = self._partition.limits.throttled_from
        if batch.whole is not None:
            return batch.whole.is_free and batch.whole.deliveries >= limit
        assert batch.each is not None
        return any(
            record.is_free and record.deliveries >= limit and self._first <= offset <= self._last
            for offset, record in batch.each.items()
        )


def _end_of_batch(batches: Sequence[Span], offset: int) -> int:
    """Return the last offset of the log's batch with `offset`; `offset` itself if it lies in no batch."""
    inside = None
    for batch in batches:
        if offset < batch.first:
            break
        inside = batch
    return inside.last if inside is not None and offset <= inside.last else offset


def _count(acquired: Iterable[Acquired]) -> int:
    return sum(each.last - each.first + 1 for each in acquired)


def _joined(records: Iterable[Acquired]) -> list[Acquired]:
    """Join neighbours with the same number of deliveries."""
    joined: list[Acquired] = []
    for record in records:
        if joined and joined[-1].last + 1 == record.first and joined[-1].deliveries == record.deliveries:
            joined[-1] = joined[-1]._replace(last=record.last)
        else:
            joined.append(record)
    return joined


def _without_aborted(
    partition: SharePartition, acquired: Sequence[Acquired], aborted: Sequence[Span]
) -> list[Acquired]:
    """Archive what was acquired of aborted transactions, and return the rest."""
    rest = list(acquired)
    for gone in aborted:
        partition.archive(gone.first, gone.last + 1, RecordState.ACQUIRED, partition.covering(gone.first, gone.last))
        kept = []
        for each in rest:
            if each.first < gone.first:
                kept.append(each._replace(last=min(each.last, gone.first - 1)))
            if each.last > gone.last:
                kept.append(each._replace(first=max(each.first, gone.last + 1)))
        rest = kept
    return rest
