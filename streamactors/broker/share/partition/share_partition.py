"""The state of one share partition: its offsets and its records in flight. Pure: no clock, no log, no wire.

Owner: the broker that leads the partition. Rules: Apache Kafka's SharePartition (KIP-932). Records below `start` are done. Records from
`start` to `end` are in flight: each has a state. Records after `end` have not been delivered yet. After a restart the stored states may
leave holes; `gap` says from where on a fetch has to look for them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from streamactors.broker.errors import BrokerError, ErrorCode
from streamactors.broker.share.partition.in_flight import (
    DONE,
    Batch,
    InFlight,
    RecordState,
    ShareLimits,
    StateBatch,
)

_NOTHING: Final = -1
_LOWEST: Final = 0  # of all offsets


class BadShareState(BrokerError):
    """The stored state of a share partition contradicts itself."""

    code = ErrorCode.UNKNOWN_SERVER_ERROR


class Gap(NamedTuple):
    """Offsets from `start` on may have no stored state; the loaded states end at `end`."""

    start: int
    end: int


class Moved(NamedTuple):
    """A state that has changed, and what has to be stored for it. `rejected`: a member has rejected the records."""

    state: InFlight
    stored: StateBatch
    rejected: bool = False


class GivenUp(NamedTuple):
    """Consecutive records on their way to a dead letter queue."""

    first: int
    last: int
    deliveries: int
    rejected: bool


@dataclass(slots=True)
class Change:
    """What the share coordinator has to store. `finish` must be called with the outcome.

    `is_final`: the change holds even if it cannot be stored, as a lock that has timed out."""

    moved: list[Moved] = field(default_factory=list)
    is_final: bool = False

    @property
    def batches(self) -> list[StateBatch]:
        """The states to store. Neighbours with the same state are one."""
        joined: list[StateBatch] = []
        for _, each, _ in self.moved:
            before = joined[-1] if joined else None
            if before is not None and before.last + 1 == each.first and before[2:] == each[2:]:
                joined[-1] = StateBatch(before.first, each.last, *each[2:])
            else:
                joined.append(each)
        return joined

    @property
    def given_up(self) -> list[GivenUp]:
        """The records that have to go to a dead letter queue once the change is stored. Neighbours that are alike are one."""
        return given_up(
            (each.stored, each.rejected) for each in self.moved if each.stored.state is RecordState.ARCHIVING
        )

    def add(self, first: int, last: int, state: InFlight, *, rejected: bool = False) -> None:
        """Add the present state of consecutive records."""
        self.moved.append(Moved(state, StateBatch(first, last, state.state, state.deliveries), rejected))


def given_up(batches: Iterable[tuple[StateBatch, bool]]) -> list[GivenUp]:
    """Return the records of the states. Neighbours that are alike are one."""
    found: list[GivenUp] = []
    for (first, last, _, deliveries), rejected in batches:
        before = found[-1] if found else None
        if before is not None and before.last + 1 == first and before[2:] == (deliveries, rejected):
            found[-1] = before._replace(last=last)
        else:
            found.append(GivenUp(first, last, deliveries, rejected))
    return found


class SharePartition:
    """Offsets and records in flight. `limits` may be replaced at any time."""

    def __init__(self, limits: ShareLimits, start: int, stored: Iterable[StateBatch] = ()) -> None:
        """`stored` are the states that the share coordinator has, in the order of their offsets. Raises BadShareState."""
        self.limits = limits
        self.start = start
        self.end = start
        self.batches: list[Batch] = []
        self.gap: Gap | None = None
        self.searches = False
        """Whether records before `end` may be free, so that the next fetch has to look for them."""
        self._load(stored)

    def _load(self, stored: Iterable[StateBatch]) -> None:
        gap_start, previous = _NOTHING, self.start - 1
        for first, last, state, deliveries in stored:
            if not previous < first <= last:
                raise BadShareState(
                    f"the stored states are out of order: offsets {first} to {last} after {previous}; the start offset is {self.start}"
                )
            if gap_start == _NOTHING and first > previous + 1:
                gap_start = previous + 1
            previous = last
            self.batches.append(Batch(first, last, InFlight(state, deliveries)))
        if self.batches:
            self.searches = True
            self.end = previous
            if gap_start != _NOTHING:
                self.gap = Gap(gap_start, self.end)
            self.move_start()

    # --- where batches are ---

    def floor(self, offset: int) -> Batch | None:
        """Return the last batch that begins at or before `offset`."""
        at = bisect_right(self.batches, offset, key=_first)
        return self.batches[at - 1] if at else None

    def between(self, first: int, last: int) -> list[Batch]:
        """Return the batches that begin from `first` to `last`."""
        return self.batches[bisect_left(self.batches, first, key=_first) : bisect_right(self.batches, last, key=_first)]

    def covering(self, first: int, last: int) -> list[Batch]:
        """Return the batches that have records from `first` to `last`."""
        floor = self.floor(first)
        return self.between(floor.first if floor is not None and floor.last >= first else first, last)

    def insert(self, batch: Batch) -> None:
        """Add a batch between the others."""
        self.batches.insert(bisect_left(self.batches, batch.first, key=_first), batch)

    def states(self) -> Iterator[tuple[int, int, InFlight]]:
        """Return (first offset, last offset, state) of everything in flight."""
        for batch in self.batches:
            yield from batch.parts()

    # --- how much is in flight ---

    @property
    def in_flight(self) -> int:
        """Number of offsets in flight, holes included."""
        return self.end - self.start + 1 if self.batches else 0

    def complete_count(self) -> int:
        """Number of records from `start` on that are done (KIP-1226): stored beside the states, for the lag of the group."""
        return sum(
            last - max(self.start, first) + 1
            for first, last, state in self.states()
            if state.state in DONE and last >= self.start
        )

    @property
    def gap_is_open(self) -> bool:
        """Whether the loaded states may still have holes: nothing was acquired after them yet."""
        return self.gap is not None and self.gap.end == self.end

    def filled_to(self, offset: int) -> None:
        """There are no holes below `offset` any more."""
        if self.gap is not None:
            self.gap = self.gap._replace(start=offset) if self.gap_is_open and offset <= self.gap.end else None

    # --- where to fetch ---

    def next_fetch_offset(self) -> int:
        """Return the offset of the next record that may be acquired: one that is free again, or the first that was never delivered."""
        if self.searches and self.batches:
            found = self._first_free()
            if found != _NOTHING:
                return found
            self.searches = False
            if self.gap_is_open:  # there is no hole left, and what waited for the holes may be done
                self.gap = None
                self.move_start()
        return self.end + 1 if self.batches and self.start <= self.batches[-1].last else self.end

    def _first_free(self) -> int:
        hole = self.gap.start if self.gap is not None and self.gap_is_open else None
        for batch in self.batches:
            if hole is not None:
                if batch.first > hole:
                    return hole
                hole = max(batch.last + 1, hole)
            for first, last, state in batch.parts():
                if state.is_free and last >= self.start:
                    return max(first, self.start)
        return _NOTHING

    def enough(self, offset: int, count: int) -> int:
        """Return an offset up to which a fetch from `offset` finds `count` records that may be acquired, if there are so many.

        A batch in flight counts as a whole: what is acquired of it depends on all of its records."""
        hole = self.gap_is_open
        at = bisect_right(self.batches, offset, key=_first)
        for batch in self.batches[max(at - 1, 0) :]:
            if hole and batch.first > offset:
                count -= batch.first - offset
            for first, last, state in batch.parts():
                if state.is_free and last >= offset:
                    count -= last - max(first, offset) + 1
            offset = max(offset, batch.last + 1)
            if count <= 0:
                return batch.last
        return max(offset, self.end) + count

    def may_acquire(self) -> bool:
        """Whether a fetch can acquire anything: a record is free again, or fewer records are locked than the limit allows."""
        return self.may_acquire_at(self.next_fetch_offset())

    def may_acquire_at(self, offset: int) -> bool:
        """As `may_acquire`, with the offset that `next_fetch_offset` has returned."""
        return offset != self.end + 1 or self.in_flight < self.limits.record_locks

    # --- dead letter queues ---

    def given_up(self) -> list[GivenUp]:
        """Return the records that a leader before this one has given up, and that may not be in the dead letter queue."""
        limit = self.limits.deliveries
        return given_up(
            (StateBatch(first, last, state.state, state.deliveries), state.deliveries < limit)
            for first, last, state in self.states()
            if state.state is RecordState.ARCHIVING
        )

    def buried(self, records: GivenUp) -> Change:
        """The dead letter queue has the records, or cannot have them: they are done. Begin to store that."""
        first, last, deliveries, _ = records
        self.archive(first, last + 1, RecordState.ARCHIVING, self.covering(first, last))
        change = Change(is_final=True)
        change.add(first, last, InFlight(RecordState.ARCHIVED, deliveries))
        return change

    # --- moving the start ---

    def move_start(self) -> bool:
        """Move `start` over the records that are done, and forget them. Return whether it moved."""
        if not self._start_is_done():
            return False
        last = self._last_done()
        if last == _NOTHING:
            return False
        if last == self.batches[-1].last:
            self.start = self.end = last + 1
            self.batches.clear()
            return True
        at = bisect_right(self.batches, last, key=_first)
        if self.batches[at - 1].last == last:
            self.start = max(self.start, self.batches[at].first)
            if self.gap is not None and self.gap_is_open:
                self.start = min(self.gap.start, self.start)
            del self.batches[:at]
        else:
            self.start = max(self.start, last + 1)
            del self.batches[: at - 1]
        return True

    def _start_is_done(self) -> bool:
        batch = self.floor(self.start)
        if batch is None:  # a hole: it may not have been fetched yet
            return self.gap is None or not self.gap_is_open or self.gap.start > self.start
        if batch.last < self.start:
            return True  # the start lies in a hole: the log has lost what was there
        if batch.whole is not None:
            return batch.whole.is_done
        assert batch.each is not None
        return batch.each[self.start].is_done

    def _last_done(self) -> int:
        last = _NOTHING
        for batch in self.batches:
            if self.gap is not None and self.gap_is_open and batch.last >= self.gap.start:
                return last
            for _, end, state in batch.parts():
                if not state.is_done:
                    return last
                last = end
        return last

    def log_starts_at(self, offset: int) -> None:
        """The log has lost its records below `offset`: free ones are archived. Locked ones are when they are released."""
        if offset <= self.start:
            return
        if not self.batches:
            self.start = self.end = offset
            return
        if self.archive(self.start, offset, RecordState.AVAILABLE, self.batches):
            self.searches = True
        self.start = offset
        if self.gap_is_open and self.gap is not None:
            self.gap = self.gap._replace(start=max(self.gap.start, offset))
        self.end = max(self.end, self.start)

    def archive(self, first: int, end: int, state: RecordState, batches: Iterable[Batch]) -> bool:
        """Archive the records of `batches` from `first` to before `end` that are in a state. Return whether there were any."""
        found = False
        for batch in batches:
            if batch.first >= end:
                break
            if batch.last < first:
                continue
            if batch.whole is not None:
                if batch.whole.state is not state:
                    continue
                if first <= batch.first and batch.last < end:
                    batch.whole.archive()
                    found = True
                    continue
            for offset, record in batch.split().items():
                if first <= offset < end and record.state is state:
                    record.archive()
                    found = True
        return found

    def lost(self, first: int, end: int) -> None:
        """The log has no records from `first` to before `end`, which a fetch has asked for: it was compacted. Archive the free ones."""
        if not self.batches or first >= end:
            return
        if self.archive(first, end, RecordState.AVAILABLE, self.covering(first, end - 1)):
            self.searches = True
        if self.gap is not None and self.gap_is_open and first <= self.gap.start < end:
            self.filled_to(end)
        self.move_start()

    # --- the end of a change ---

    def finish(self, change: Change, stored: bool, now_ms: float) -> bool:
        """Keep a change that was stored, or undo it. Return whether waiting fetches may acquire more now."""
        if not change.is_final:
            for moved in change.moved:
                moved.state.finish(stored, now_ms)
                if moved.state.state is RecordState.AVAILABLE:
                    self.searches = True
            # The log may have lost records while their release was being stored.
            self.archive(_LOWEST, self.start, RecordState.AVAILABLE, self.batches)
        return self.move_start() if stored or change.is_final else False


def _first(batch: Batch) -> int:
    return batch.first
