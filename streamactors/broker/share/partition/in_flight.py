"""Records in flight: a batch of a share partition with one state, or with a state for each of its records. Pure.

Owner: `SharePartition`. Source: KIP-932. A batch is split into records only when its records differ, so that the usual acknowledgement of a
whole batch costs one step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

NOBODY: Final = ""
"""The member of a record that no member has acquired."""


class RecordState(IntEnum):
    """The delivery state of a record. The numbers are those of `__share_group_state`."""

    AVAILABLE = 0  # may be acquired
    ACQUIRED = 1  # locked by a member; never stored
    ACKNOWLEDGED = 2  # done
    ARCHIVING = 3  # on its way to a dead letter queue
    ARCHIVED = 4  # given up: rejected, delivered too often, aborted, or removed from the log


_S = RecordState
MOVES: Final[Mapping[RecordState, frozenset[RecordState]]] = {
    _S.AVAILABLE: frozenset({_S.ACQUIRED}),
    _S.ACQUIRED: frozenset({_S.AVAILABLE, _S.ACKNOWLEDGED, _S.ARCHIVING, _S.ARCHIVED}),
    _S.ACKNOWLEDGED: frozenset(),
    _S.ARCHIVING: frozenset({_S.ARCHIVED}),
    _S.ARCHIVED: frozenset(),
}

DONE: Final = frozenset({_S.ACKNOWLEDGED, _S.ARCHIVED})
"""The states of records that are never delivered again."""


@dataclass(frozen=True, slots=True)
class ShareLimits:
    """The settings of a group that its share partitions follow. Times in milliseconds."""

    record_locks: int = 2000  # share.partition.max.record.locks
    deliveries: int = 5  # share.delivery.count.limit
    lock_ms: int = 30_000  # share.record.lock.duration.ms
    renewal: bool = True  # share.renew.acknowledge.enable
    dead_letters: bool = False  # records that are given up go to a dead letter queue first (KIP-1191)

    @property
    def throttled_from(self) -> int:
        """Deliveries after which a batch is delivered in smaller parts, so that one bad record does not take others with it."""
        return max(2, -(-self.deliveries // 2))

    @property
    def given_up(self) -> RecordState:
        """The state of a record that a member has rejected, or that was delivered too often."""
        return RecordState.ARCHIVING if self.dead_letters else RecordState.ARCHIVED


class StateBatch(NamedTuple):
    """Consecutive records with one stored state."""

    first: int
    last: int
    state: RecordState
    deliveries: int


class _Before(NamedTuple):
    state: RecordState
    member: str
    limits: ShareLimits  # when the change began


class InFlight:
    """The state of one batch or of one record.

    `before` is set while a change is being stored: until `finish` the records can be neither acquired nor acknowledged. `heirs` are the
    states of single records if their batch was split meanwhile."""

    __slots__ = ("before", "deliveries", "final", "heirs", "lock_until_ms", "member", "state")

    def __init__(
        self, state: RecordState, deliveries: int, member: str = NOBODY, lock_until_ms: float | None = None
    ) -> None:
        self.state = state
        self.deliveries = deliveries
        self.member = member
        self.lock_until_ms = lock_until_ms
        self.before: _Before | None = None
        self.final = False  # archived: no undo brings it back
        self.heirs: tuple[InFlight, ...] = ()

    @property
    def is_free(self) -> bool:
        """Whether the records may be acquired now."""
        return self.state is RecordState.AVAILABLE and self.before is None

    @property
    def is_done(self) -> bool:
        """Whether the records are done, and that is stored."""
        return self.state in DONE and self.before is None

    def lock(self, member: str, until_ms: float) -> bool:
        """Acquire for a member, which counts as a delivery. Return whether that was possible."""
        if not self.is_free:
            return False
        self.state, self.member, self.lock_until_ms = RecordState.ACQUIRED, member, until_ms
        self.deliveries += 1
        return True

    def move(self, state: RecordState, limits: ShareLimits) -> bool:
        """Release to a new state at once. Records that were delivered as often as the limit allows are given up instead of available.

        Return False if the state does not allow the move."""
        if self.before is not None:
            return False
        if state is RecordState.AVAILABLE and self.deliveries >= limits.deliveries:
            state = limits.given_up
        if state not in MOVES[self.state]:
            return False
        self.state, self.member = state, NOBODY
        return True

    def begin(self, state: RecordState, limits: ShareLimits) -> bool:
        """As `move`, but the change can be undone until `finish`."""
        before = _Before(self.state, self.member, limits)
        if not self.move(state, limits):
            return False
        self.before = before
        return True

    def finish(self, stored: bool, now_ms: float) -> None:
        """End a change that `begin` began: keep it if it was stored, otherwise undo it. A lock that has lapsed meanwhile is released.

        Records that must go to a dead letter queue keep the lapsed lock: that they are given up has to be stored first."""
        for heir in self.heirs:
            heir.finish(stored, now_ms)
        before, self.before = self.before, None
        if stored or self.final or before is None:
            self.lock_until_ms = None
            return
        is_last = self.deliveries >= before.limits.deliveries
        if self.lock_until_ms is None or self.lock_until_ms > now_ms or (is_last and before.limits.dead_letters):
            self.state, self.member = before.state, before.member
        else:
            self.state = RecordState.ARCHIVED if is_last else RecordState.AVAILABLE
            self.member, self.lock_until_ms = NOBODY, None

    def copy(self) -> InFlight:
        """Return the state of one of the records."""
        record = InFlight(self.state, self.deliveries, self.member, self.lock_until_ms)
        record.before, record.final = self.before, self.final
        return record

    def archive(self) -> None:
        """Give the records up, whatever is being stored."""
        self.final = True
        self.state, self.member, self.lock_until_ms = RecordState.ARCHIVED, NOBODY, None


class Batch:
    """Consecutive offsets. Either `whole` or `each` is set: one state for all records, or a state for each offset."""

    __slots__ = ("each", "first", "last", "whole")

    def __init__(self, first: int, last: int, whole: InFlight) -> None:
        self.first = first
        self.last = last
        self.whole: InFlight | None = whole
        self.each: dict[int, InFlight] | None = None

    def __len__(self) -> int:
        return self.last - self.first + 1

    def split(self) -> dict[int, InFlight]:
        """Return the state of each offset. From now on the records change one by one."""
        if self.each is None:
            whole = self.whole
            assert whole is not None
            self.each = {offset: whole.copy() for offset in range(self.first, self.last + 1)}
            if whole.before is not None:  # the log start moves into records that are being released
                whole.heirs = tuple(self.each.values())
            self.whole = None
        return self.each

    def parts(self) -> list[tuple[int, int, InFlight]]:
        """Return (first offset, last offset, state) of the batch, or of each of its records."""
        if self.whole is not None:
            return [(self.first, self.last, self.whole)]
        assert self.each is not None
        return [(offset, offset, state) for offset, state in self.each.items()]

    def straddles(self, start: int) -> bool:
        """Whether `start` lies inside the batch, after its first offset."""
        return self.first < start <= self.last
