"""The offset tracker of one consumer: per partition, which records were delivered, which are done, and which position is committed.

The consumer's thread notes what is committed and revoked, the source's island what is delivered, and the islands of the sinks what is done.
So the tracker has a lock. A revocation runs inside `poll()` on the consumer's thread, where no message is served; there it waits on the
tracker's condition until the records in flight are done."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol, TypeAlias

from streamactors.engine.marks.marks import PositionMark
from streamactors.kafka.reading.record_times import RecordTimes
from streamactors.kafka.subscriptions import TopicPartition
from streamactors.tracing import switch

if TYPE_CHECKING:
    from streamactors.tracing.settles import Settles


@dataclass(slots=True)
class PartitionProgress:
    """One assigned partition. Positions are exclusive: everything before them is delivered, done, committed."""

    epoch: int
    first: int | None = None
    delivered: int | None = None
    done: int | None = None
    committed: int | None = None
    taken_back: int | None = None  # records after this offset were returned; other sinks may have processed them
    revoking: bool = False
    owed: int = 0  # number of calls of `owe` that are not paid yet
    in_transaction: bool = False  # a transaction commits the positions with the results: what is done is committed
    acked: set[int] = field(default_factory=set)  # acknowledged one by one, above one that is not
    times: RecordTimes = field(
        default_factory=RecordTimes
    )  # of what was handed to the source, from the first record that is not done

    @property
    def in_flight(self) -> bool:
        """True while something delivered is not done yet."""
        return self.delivered is not None and (self.done is None or self.done < self.delivered)

    @property
    def records_in_flight(self) -> int:
        """The number of records that were delivered and are not done. It is too large by the offsets that the log lacks."""
        if self.delivered is None:
            return 0
        done = self.done if self.done is not None else self.first if self.first is not None else self.delivered
        return max(0, self.delivered - done)


Offsets: TypeAlias = range | list[int]
"""Acknowledged offsets of one assignment, at least one: as a range where each follows the one before."""


def highest_of(offsets: Offsets) -> int:
    """Return the highest offset."""
    return offsets[-1] if isinstance(offsets, range) else max(offsets)


class DrainListener(Protocol):
    """A part of the run that can finish records in flight sooner: a transaction commits at once, a Committer acknowledges what it has gathered."""

    def draining(self) -> None:
        """Partitions are being revoked. Must not wait."""


def _settles() -> Settles:
    from streamactors.tracing.settles import Settles

    return Settles()


class OffsetTracker:
    """Tracks for each assigned partition what is delivered, done and committed."""

    def __init__(self) -> None:
        self.gap_aware = False
        """True when marks say which records were filtered on the way. Then acknowledging an offset acknowledges this record alone, else all before it, too."""
        self.until_run_ends = False
        """True when the consumer must stay until the run has ended, though nothing is in flight: windows write entries that move no position."""
        self.drains = False
        """True while a revocation waits until the records in flight are done."""
        self.settles: Settles | None = None if switch.installed is None else _settles()
        """The sampled records that wait for their commit; None unless traces are installed."""
        self.when_committed: dict[object, Callable[[TopicPartition, int, int], None]] = {}
        """Called with partition, epoch and position when the broker has a position; on the thread that has heard of it. By who listens: the sources of a
        consumer's partitions come and go, and listen for one another."""
        self._changed = threading.Condition()
        self._when_drained: Callable[[], None] | None = None
        self._drain_listeners: weakref.WeakSet[DrainListener] = weakref.WeakSet()
        self._partitions: dict[TopicPartition, PartitionProgress] = {}
        self._lost: dict[tuple[TopicPartition, int], int] = {}  # `owed` of assignments that are over
        self._texts: dict[TopicPartition, dict[int, str]] = {}
        """The metadata that is committed with a position, by position, in order."""

    def assigned(self, keys: Iterable[TopicPartition], epoch: int) -> None:
        """Partitions were assigned; nothing of them is delivered yet."""
        with self._changed:
            for key in keys:
                self._note_lost(key)
                self._partitions[key] = PartitionProgress(epoch)
                self._texts.pop(key, None)

    def _of(self, key: TopicPartition, epoch: int) -> PartitionProgress | None:
        progress = self._partitions.get(key)
        return progress if progress is not None and progress.epoch == epoch else None

    def deliverable(self, key: TopicPartition, epoch: int) -> bool:
        """True while records of this assignment may go to the stream; False from the moment its revocation began."""
        with self._changed:
            progress = self._of(key, epoch)
            return progress is not None and not progress.revoking

    def is_ours(self, key: TopicPartition, epoch: int) -> bool:
        """True while this assignment of the partition lasts."""
        with self._changed:
            return self._of(key, epoch) is not None

    def handed(self, key: TopicPartition, epoch: int, first: int, end: int, ms: int | None) -> None:
        """Note that the records from `first` to before `end` are on their way to the source; `ms`: the timestamp of the first one."""
        with self._changed:
            progress = self._of(key, epoch)
            if progress is not None:
                progress.times.note(first, end, ms)

    def delivered(
        self, key: TopicPartition, epoch: int, position: int, first: int | None = None, ms: int | None = None
    ) -> bool:
        """Note that records from `first` to before `position` go to the stream now; `ms`: the timestamp of the first one.

        Returns False if this assignment is over or is being revoked: the records must be dropped."""
        with self._changed:
            progress = self._of(key, epoch)
            if progress is None or progress.revoking:
                return False
            if progress.delivered is None and first is not None:
                progress.first = first
            progress.delivered, progress.taken_back = position, None
            if first is not None:
                progress.times.note(first, position, ms)
            return True

    def described(self, key: TopicPartition, epoch: int, texts: Iterable[tuple[int, str]]) -> None:
        """Note the metadata that the commit of each of these positions carries."""
        with self._changed:
            if self._of(key, epoch) is not None:
                self._texts.setdefault(key, {}).update(texts)

    def texts_of(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, str]:
        """Return the metadata of the commits of these positions: of each the text of the last described position that is not after it."""
        with self._changed:
            described = {key: [at for at in self._texts.get(key, ()) if at <= offsets[key]] for key in offsets}
            return {key: self._texts[key][max(found)] for key, found in described.items() if found}

    def taken_back(self, key: TopicPartition, epoch: int, position: int) -> None:
        """Note that the records from `position` on have not gone to the stream after all; they are delivered again. The first such position counts."""
        with self._changed:
            progress = self._of(key, epoch)
            if progress is not None:
                if progress.taken_back is not None:
                    position = min(position, progress.taken_back)
                progress.taken_back = position
                nothing = progress.done is None and progress.first is not None and position <= progress.first
                progress.delivered = None if nothing else position
                self._changed.notify_all()
        self._look()

    def done(self, key: TopicPartition, epoch: int, position: int) -> None:
        """Note that every sink has done everything before `position`. Stale epochs are ignored."""
        with self._changed:
            progress = self._of(key, epoch)
            if progress is not None and progress.taken_back is not None:
                position = min(position, progress.taken_back)
            if progress is not None and (progress.done is None or position > progress.done):
                progress.done = position
                if progress.acked:
                    _forget_below(progress, position)
                    _close_gap(progress)
                progress.times.done(progress.done)
                self._changed.notify_all()
        self._look()

    def done_everywhere(self, moved: PositionMark) -> None:
        """Note positions that are done at every sink the source reaches."""
        for (_, key), (epoch, position) in moved.items():
            self.done(key, epoch, position)

    def acknowledge(self, key: TopicPartition, epoch: int, *runs: Offsets) -> None:
        """Note that the user has acknowledged these offsets. Those above an offset that is not acknowledged wait for it, or for a mark."""
        with self._changed:
            progress = self._of(key, epoch)
            if progress is None or not runs:
                return
            if self.gap_aware:
                for run in runs:
                    position = progress.first if progress.done is None else progress.done
                    if isinstance(run, range) and run.start == position:
                        progress.done = run.stop  # nothing was left out, as mostly: no need to look at each
                    else:
                        progress.acked.update(run)
                if progress.acked:
                    if progress.done is not None:
                        _forget_below(progress, progress.done)
                    _close_gap(progress)
            else:
                progress.done = max(progress.done or 0, *(highest_of(run) + 1 for run in runs))
            if progress.done is not None:
                progress.times.done(progress.done)
            self._changed.notify_all()
        self._look()

    def above_gap(self, limit: int) -> set[TopicPartition]:
        """Return the partitions with at least this many offsets acknowledged above one that is not."""
        with self._changed:
            return {key for key, progress in self._partitions.items() if len(progress.acked) >= limit}

    def commits_in_transaction(self, key: TopicPartition, epoch: int) -> None:
        """Let a transaction alone commit the positions of this assignment: a later commit of an earlier position would undo it."""
        with self._changed:
            progress = self._of(key, epoch)
            if progress is not None:
                progress.in_transaction = True

    def to_commit(self, keys: Iterable[TopicPartition] | None = None) -> dict[TopicPartition, int]:
        """Return the positions that are done and not committed."""
        with self._changed:
            wanted = self._partitions if keys is None else keys
            found = {key: self._partitions[key] for key in wanted if key in self._partitions}
            for progress in found.values():
                if progress.in_transaction:
                    progress.committed = progress.done
            return {key: p.done for key, p in found.items() if p.done is not None and p.done != p.committed}

    def committed(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Note that the broker has these positions."""
        moved = []
        with self._changed:
            for key, position in offsets.items():
                progress = self._partitions.get(key)
                if progress is not None and (progress.committed is None or position > progress.committed):
                    progress.committed = position
                    if not progress.in_transaction:
                        moved.append((key, progress.epoch, position))
                    texts = self._texts.get(key)
                    if texts:
                        # Later commits keep the string of this position until a later position has one.
                        last = max((at for at in texts if at <= position), default=position)
                        self._texts[key] = {at: text for at, text in texts.items() if at >= last}

        for heard in list(self.when_committed.values()) if moved else ():
            for each in moved:
                heard(*each)

    def revoking(self, keys: Iterable[TopicPartition]) -> None:
        """Let no further record of these partitions be delivered."""
        with self._changed:
            for key in keys:
                if key in self._partitions:
                    self._partitions[key].revoking = True

    def drain(self, keys: Iterable[TopicPartition], timeout_ms: float) -> set[TopicPartition]:
        """Let no further record of these partitions be delivered, and wait until the records in flight are done and nothing is owed.

        Returns the partitions that the deadline found with records in flight, or with results owed."""
        wanted = list(keys)
        self.revoking(wanted)
        deadline = time.monotonic() + timeout_ms / 1_000
        with self._changed:
            listeners = list(self._drain_listeners) if timeout_ms else []
        self.drains = bool(timeout_ms)
        try:
            for listener in listeners:
                listener.draining()
            with self._changed:
                while True:
                    known = {key: self._partitions[key] for key in wanted if key in self._partitions}
                    late = {key for key, progress in known.items() if progress.in_flight or progress.owed}
                    left = deadline - time.monotonic()
                    if not late or left <= 0:
                        return late
                    self._changed.wait(left)
        finally:
            self.drains = False

    # ── results that stem from no record: a transaction commits them without a position ───────────────────────────

    def owe(self, key: TopicPartition, epoch: int, *, last: bool = False) -> bool:
        """Have a revocation of the partition wait until `paid`: results that stem from none of its records are about to be emitted.

        Returns False if this assignment is over or is being revoked: the next owner must emit the results. `last`: the results of the end of
        the input; they are allowed as long as the assignment lasts, since its records in flight include the last ones."""
        with self._changed:
            progress = self._of(key, epoch)
            if progress is None or (progress.revoking and not last):
                return False
            progress.owed += 1
            return True

    def paid(self, key: TopicPartition, epoch: int) -> None:
        """The results of one `owe` are committed, or there were none."""
        with self._changed:
            progress = self._of(key, epoch)
            if progress is not None:
                progress.owed -= 1
                self._changed.notify_all()
            elif (key, epoch) in self._lost:
                self._lost[key, epoch] -= 1
                if not self._lost[key, epoch]:
                    del self._lost[key, epoch]

    def owed(self) -> dict[TopicPartition, int]:
        """Return the partitions whose results that stem from no record are not committed, with the epochs of their assignments."""
        with self._changed:
            return {key: progress.epoch for key, progress in self._partitions.items() if progress.owed}

    def lost_owed(self) -> set[TopicPartition]:
        """Return the partitions that were taken away before such results were committed: the next owner emits them, too."""
        with self._changed:
            return {key for key, _ in self._lost}

    def _note_lost(self, key: TopicPartition) -> None:
        progress = self._partitions.get(key)
        if progress is not None and progress.owed:
            self._lost[key, progress.epoch] = progress.owed

    def tell_of_drains(self, listener: DrainListener) -> None:
        """Notify the listener when a drain begins, as long as the listener exists."""
        with self._changed:
            self._drain_listeners.add(listener)

    def when_drained(self, tell: Callable[[], None]) -> None:
        """From now on call `tell` when a record has become done and none is in flight; on the thread that reports it."""
        self._when_drained = tell

    def _look(self) -> None:
        if self._when_drained is not None and not self.in_flight():
            self._when_drained()

    def forget(self, keys: Iterable[TopicPartition]) -> None:
        """Forget partitions that were revoked."""
        with self._changed:
            for key in keys:
                self._note_lost(key)
                self._partitions.pop(key, None)
                self._texts.pop(key, None)

    def in_flight(self) -> set[TopicPartition]:
        """Return the partitions with records that were delivered and are not done."""
        with self._changed:
            return {key for key, progress in self._partitions.items() if progress.in_flight}

    def snapshot(self) -> dict[TopicPartition, PartitionProgress]:
        """Return a copy of everything."""
        with self._changed:
            return {
                key: replace(progress, acked=set(progress.acked), times=progress.times.copy())
                for key, progress in self._partitions.items()
            }


def _forget_below(progress: PartitionProgress, position: int) -> None:
    """Forget the acknowledgements of what is done anyway."""
    acked = progress.acked
    if max(acked) < position:
        acked.clear()
    elif min(acked) < position:
        progress.acked = {offset for offset in acked if offset >= position}


def _close_gap(progress: PartitionProgress) -> None:
    """Move `done` over what is acknowledged right after it."""
    position = progress.done if progress.done is not None else progress.first
    if position is None or position not in progress.acked:
        return
    acked = progress.acked
    while position in acked:
        acked.remove(position)
        position += 1
    progress.done = position
