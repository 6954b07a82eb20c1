"""A plain model of a share partition, record by record, and a random world that drives the real one beside it.

The file is long because the model has every rule of the real one. It knows nothing of batches. It holds one row per record, a log with holes and aborted transactions, and what the share coordinator
has stored."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from random import Random
from typing import Any

from streamactors.broker.errors import BrokerError
from streamactors.broker.share.partition.acknowledging import Acknowledgement, AcknowledgeType, acknowledge
from streamactors.broker.share.partition.acquiring import Acquired, Fetched, Span, Want, acquire
from streamactors.broker.share.partition.in_flight import DONE, RecordState, ShareLimits, StateBatch
from streamactors.broker.share.partition.releasing import next_lock_end_ms, release_expired, release_member
from streamactors.broker.share.partition.share_partition import Change, GivenUp, SharePartition

MEMBERS = ("a", "b", "c")
BECOMES = {
    AcknowledgeType.GAP: RecordState.ARCHIVED,
    AcknowledgeType.ACCEPT: RecordState.ACKNOWLEDGED,
    AcknowledgeType.RELEASE: RecordState.AVAILABLE,
}


@dataclass
class Row:
    """One record in flight."""

    state: RecordState
    deliveries: int
    member: str = ""
    lock_until_ms: float | None = None
    before: tuple[RecordState, str] | None = None
    final: bool = False


@dataclass
class Pending:
    """A change whose storing has not ended, and the rows that it changed."""

    change: Change
    offsets: list[int]
    partition: SharePartition


@dataclass
class World:
    """A log, a share partition that reads it, the model and the stored states."""

    random: Random
    limits: ShareLimits
    log: list[tuple[Span, bool]] = field(default_factory=list)
    """The batches of the log, and whether their transaction was aborted."""
    log_start: int = 0
    log_end: int = 0
    now_ms: float = 0.0
    rows: dict[int, Row] = field(default_factory=dict)
    stored: dict[int, tuple[RecordState, int]] = field(default_factory=dict)
    stored_start: int = 0
    done: set[int] = field(default_factory=set)
    pending: list[Pending] = field(default_factory=list)
    buried: list[int] = field(default_factory=list)
    """The offsets that the dead letter queue has taken."""
    counts: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.partition = SharePartition(self.limits, 0)

    # --- the log ---

    def append(self) -> None:
        """Append a batch; sometimes records before it are missing, sometimes its transaction was aborted."""
        first = self.log_end + (self.random.randint(1, 3) if self.random.random() < 0.15 else 0)
        last = first + self.random.randint(0, 6)
        self.log.append((Span(first, last), self.random.random() < 0.1))
        self.log_end = last + 1

    def delete_records(self) -> None:
        """Move the start of the log."""
        if self.log_start < self.log_end:
            self.log_start = self.random.randint(self.log_start + 1, min(self.log_end, self.log_start + 6))

    def compact(self) -> None:
        """Remove a batch of the log."""
        if len(self.log) > 1:
            del self.log[self.random.randrange(len(self.log) - 1)]

    # --- fetching ---

    def fetch(self, member: str, want: Want, most_batches: int) -> list[Acquired]:
        """Fetch and acquire as a broker does, and check what was acquired."""
        partition = self.partition
        if not partition.may_acquire():
            return []
        offset = partition.next_fetch_offset()
        if offset < self.log_start:
            self._log_starts(self.log_start)
            return []
        read = [(span, gone) for span, gone in self.log if span.last >= max(offset, self.log_start)][:most_batches]
        if not read or offset >= self.log_end:
            return []
        before = partition.in_flight
        base = read[0][0].first
        for at, row in self.rows.items():
            if offset <= at < base and row.state is RecordState.AVAILABLE:  # the log has lost it
                self._archive(row)
        aborted = [span for span, gone in read if gone]
        acquired = acquire(partition, member, Fetched(offset, [span for span, _ in read], aborted), want, self.now_ms)
        self._note(member, acquired, before, aborted, want)
        return acquired

    def _note(self, member: str, acquired: list[Acquired], before: int, aborted: list[Span], want: Want) -> None:
        partition = self.partition
        total = sum(last - first + 1 for first, last, _ in acquired)
        if want.strict:
            assert total <= want.max_records
        until_ms = self.now_ms + self.limits.lock_ms
        for first, last, deliveries in acquired:
            assert first <= last
            for at in range(first, last + 1):
                row = self.rows.setdefault(at, Row(RecordState.AVAILABLE, 0))
                assert at not in self.done, f"{at} is delivered again"
                assert (row.state, row.before) == (RecordState.AVAILABLE, None), (at, row)
                assert deliveries == row.deliveries + 1, (at, deliveries, row)
                assert deliveries <= self.limits.deliveries
                assert not any(gone.first <= at <= gone.last for gone in aborted), f"{at} was aborted"
                row.state, row.deliveries, row.member, row.lock_until_ms = (
                    RecordState.ACQUIRED, deliveries, member, until_ms,
                )  # fmt: skip
        for first, last, state in partition.states():
            for at in range(first, last + 1):
                if any(gone.first <= at <= gone.last for gone in aborted) and state.state is RecordState.ARCHIVED:
                    row = self.rows.setdefault(at, Row(RecordState.AVAILABLE, 0))
                    if row.state is not RecordState.ARCHIVED:
                        assert row.state is RecordState.AVAILABLE or row.member == member
                        row.deliveries = state.deliveries
                        self._archive(row)
                elif at not in self.rows:  # a strict fetch cut a batch: the rest is known and free
                    assert (state.state, state.deliveries) == (RecordState.AVAILABLE, 0)
                    self.rows[at] = Row(RecordState.AVAILABLE, 0)
        spans = [span for span, _ in self.log]
        reach = max((b.last - a.last for a, b in pairwise([Span(-1, -1), *spans])), default=0)
        # The last record that may be acquired lies in a batch, which is acquired whole, and holes before it count, too.
        assert partition.in_flight <= max(before, self.limits.record_locks) + 2 * reach

    # --- changes ---

    def acknowledge(self, member: str, asked: list[Acknowledgement]) -> None:
        """Acknowledge, and compare the outcome with the model's."""
        partition = self.partition
        clean, wrong = self._expect(member, asked)
        renewed = [
            at for each in asked for at in range(each.first, each.last + 1)
            if each.type_of(at) is AcknowledgeType.RENEW and at in self.rows and at >= partition.start
        ]  # fmt: skip
        try:
            change = acknowledge(partition, member, asked, self.now_ms)
        except BrokerError:
            assert not clean, f"{asked} of {member} was refused"
            self._count("refused")
            for at in renewed:  # a renewal before the wrong acknowledgement counts
                self.rows[at].lock_until_ms = self._state(at).lock_until_ms
            return
        assert not wrong, f"{asked} of {member} was accepted"
        offsets = []
        for each in asked:
            for at in range(max(each.first, partition.start), each.last + 1):
                row, kind = self.rows.get(at), each.type_of(at)
                if row is None:
                    continue
                if kind is AcknowledgeType.RENEW:
                    row.lock_until_ms = self.now_ms + self.limits.lock_ms
                    self._count("renewed")
                    continue
                self._begin(row, BECOMES.get(kind, self.limits.given_up))
                offsets.append(at)
                self._count(kind.name)
        self.pending.append(Pending(change, offsets, partition))

    def _expect(self, member: str, asked: list[Acknowledgement]) -> tuple[bool, bool]:
        """Return (it must be accepted, it must be refused)."""
        seen: set[int] = set()
        clean, wrong = True, False
        for each in asked:
            for at in range(max(each.first, self.partition.start), each.last + 1):
                row = self.rows.get(at)
                if row is None or at in seen:
                    clean = False
                elif row.state is not RecordState.ACQUIRED or row.before is not None or row.member != member:
                    clean, wrong = False, True
                if row is not None and each.type_of(at) is not AcknowledgeType.RENEW:
                    seen.add(at)
        return clean, wrong

    def release_member(self, member: str) -> None:
        """The session of a member ends."""
        change = release_member(self.partition, member)
        offsets = [at for at, row in self.rows.items() if row.state is RecordState.ACQUIRED and row.member == member]
        for at in offsets:
            self._begin(self.rows[at], RecordState.ARCHIVED if at < self.partition.start else RecordState.AVAILABLE)
        self.pending.append(Pending(change, offsets, self.partition))

    def expire(self) -> None:
        """Locks time out."""
        change = release_expired(self.partition, self.now_ms)
        offsets = []
        for at, row in self.rows.items():
            if row.state is RecordState.ACQUIRED and row.lock_until_ms is not None and row.lock_until_ms <= self.now_ms:
                free = at >= self.partition.start and row.deliveries < self.limits.deliveries
                gone = RecordState.ARCHIVED if at < self.partition.start else self.limits.given_up
                row.state = RecordState.AVAILABLE if free else gone
                row.member, row.lock_until_ms = "", None
                offsets.append(at)
                self._count("expired")
        assert sorted(at for first, last, *_ in change.batches for at in range(first, last + 1)) == sorted(offsets)
        self.pending.append(Pending(change, offsets, self.partition))
        end_ms = next_lock_end_ms(self.partition)
        assert end_ms is None or end_ms > self.now_ms

    def _begin(self, row: Row, state: RecordState) -> None:
        row.before = (row.state, row.member)
        if state is RecordState.AVAILABLE and row.deliveries >= self.limits.deliveries:
            state = self.limits.given_up
        row.state, row.member = state, ""

    def _archive(self, row: Row) -> None:
        row.state, row.member, row.lock_until_ms, row.final = RecordState.ARCHIVED, "", None, True

    def finish(self, stored: bool) -> None:
        """The share coordinator answers the oldest write."""
        if not self.pending:
            return
        each = self.pending.pop(0)
        if each.partition is not self.partition:
            return  # a leader that is none any more: its write was refused
        if stored:
            self._store(each.change.batches)
        if not each.change.is_final:
            for at in each.offsets:
                row = self.rows.get(at)
                if row is not None:
                    self._end(row, stored)
            for at, row in self.rows.items():
                if at < self.partition.start and row.state is RecordState.AVAILABLE:
                    self._archive(row)
        self.partition.finish(each.change, stored, self.now_ms)
        self._count("stored" if stored else "not stored")
        if stored or each.change.is_final:
            self._bury(each.change.given_up)
        self._forget()

    def _bury(self, given_up: list[GivenUp]) -> None:
        """The dead letter queue takes the records."""
        for each in given_up:
            self.pending.append(Pending(self.partition.buried(each), [], self.partition))
            for at in range(each.first, each.last + 1):
                self.buried.append(at)
                row = self.rows.get(at)
                if row is not None and row.state is RecordState.ARCHIVING:
                    self._archive(row)
            self._count("buried")

    def _end(self, row: Row, stored: bool) -> None:
        before, row.before = row.before, None
        if stored or row.final or before is None:
            row.lock_until_ms = None
            return
        lapsed = row.lock_until_ms is not None and row.lock_until_ms <= self.now_ms
        if lapsed and not (self.limits.dead_letters and row.deliveries >= self.limits.deliveries):
            row.state = RecordState.ARCHIVED if row.deliveries >= self.limits.deliveries else RecordState.AVAILABLE
            row.member, row.lock_until_ms = "", None
        else:
            row.state, row.member = before

    def _store(self, batches: list[StateBatch]) -> None:
        for first, last, state, deliveries in batches:
            for at in range(first, last + 1):
                assert state is not RecordState.ACQUIRED, "a lock is never stored"
                self.stored[at] = (state, deliveries)
                if state in DONE:
                    self.done.add(at)
        self.stored_start = max(self.stored_start, self.partition.start)

    def _forget(self) -> None:
        for at in [at for at in self.rows if at < self.partition.start]:
            row = self.rows[at]
            if row.state is not RecordState.ACQUIRED and row.before is None and self._maybe_state(at) is None:
                del self.rows[at]

    # --- time, the log's start, a new leader ---

    def _log_starts(self, offset: int) -> None:
        for at, row in self.rows.items():
            if self.partition.start <= at < offset and row.state is RecordState.AVAILABLE:
                self._archive(row)
        self.partition.log_starts_at(offset)
        self._count("log start")

    def reload(self) -> None:
        """Another broker leads the partition, with the stored states only."""
        self.pending.clear()
        start = self.stored_start
        batches: list[StateBatch] = []
        for at, (state, deliveries) in sorted(self.stored.items()):
            if at < start:
                continue
            if batches and batches[-1][1] + 1 == at and batches[-1][2:] == (state, deliveries):
                batches[-1] = batches[-1]._replace(last=at)
            else:
                batches.append(StateBatch(at, at, state, deliveries))
        self.partition = SharePartition(self.limits, start, batches)
        self.rows = {
            at: Row(state, deliveries, final=False) for at, (state, deliveries) in self.stored.items() if at >= start
        }
        self._count("reload")
        self._bury(self.partition.given_up())
        self._forget()

    # --- what must hold ---

    def check(self) -> None:
        """Compare every record, and the invariants of the offsets."""
        partition = self.partition
        seen: set[int] = set()
        last_end = -1
        for first, last, state in partition.states():
            assert first > last_end, "batches overlap"
            last_end = last
            for at in range(first, last + 1):
                seen.add(at)
                row = self.rows[at]
                mine: Any = (state.state, state.deliveries, state.member, state.before is not None)
                model: Any = (row.state, row.deliveries, row.member, row.before is not None)
                assert mine == model, f"offset {at}: {mine}, but the model has {model}"
        for at, row in self.rows.items():
            assert at in seen or at < partition.start or row.state in DONE, f"{at} was forgotten: {row}"
        assert partition.start <= partition.end + 1
        done = sum(row.state in DONE for at, row in self.rows.items() if at >= partition.start and at in seen)
        assert partition.complete_count() == done

    def _maybe_state(self, at: int) -> Any:
        for first, last, state in self.partition.states():
            if first <= at <= last:
                return state
        return None

    def _state(self, at: int) -> Any:
        found = self._maybe_state(at)
        assert found is not None
        return found

    def _count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1


def step(world: World) -> None:
    """One random step."""
    random = world.random
    draw = random.random()
    member = random.choice(MEMBERS)
    if draw < 0.18:
        world.append()
    elif draw < 0.45:
        want = Want(random.randint(1, 8), random.randint(1, 6), random.random() < 0.4)
        world.fetch(member, want, random.randint(1, 4))
    elif draw < 0.70:
        world.acknowledge(member, _asked(world, member))
    elif draw < 0.85:
        world.finish(random.random() < 0.85)
    elif draw < 0.92:
        world.now_ms += random.choice((10, 400, 1100))
        world.expire()
    elif draw < 0.95:
        world.release_member(member)
    elif draw < 0.97:
        world.delete_records()
    elif draw < 0.985:
        world.compact()
    elif not world.pending:
        world.reload()
    world.check()


def _asked(world: World, member: str) -> list[Acknowledgement]:
    random = world.random
    mine = sorted(at for at, row in world.rows.items() if row.state is RecordState.ACQUIRED and row.member == member)
    asked = []
    for _ in range(random.randint(1, 2)):
        if mine and random.random() < 0.9:
            first = random.choice(mine)
            last = first
            while last + 1 in mine and random.random() < 0.8:
                last += 1
        else:
            first = random.randint(max(0, world.partition.start - 3), world.partition.end + 2)
            last = first + random.randint(0, 4)
        kinds = [1, 1, 1, 2, 2, 3, 0, 4]
        types = (
            [random.choice(kinds)] if random.random() < 0.6 else [random.choice(kinds) for _ in range(first, last + 1)]
        )
        asked.append(Acknowledgement(first, last, types))
    return asked


def drain(world: World) -> None:
    """Accept everything that is left: afterwards every record is done."""
    for _ in range(10_000):
        while world.pending:
            world.finish(True)
        world.now_ms += world.limits.lock_ms + 1
        world.expire()
        while world.pending:
            world.finish(True)
        acquired = world.fetch("a", Want(50, 10), 100)
        world.check()
        for first, last, _ in acquired:
            world.acknowledge("a", [Acknowledgement(first, last, [1])])
            world.finish(True)
        if not acquired and world.partition.next_fetch_offset() >= world.log_end:
            return
    raise AssertionError(f"no end: {world.partition.start} to {world.partition.end} of {world.log_end}")
