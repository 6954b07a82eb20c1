"""The offsets that a run's transaction commits with its records: which ones a cut adds, and whether a partition was taken away meanwhile.

Results that stem from no row, as of windows that silence closes, move no offset. A partition is not given away while such results are not
committed (`owe`): its next owner would find the windows open, and emit them a second time.

Owner: the run's transaction, on the producer's thread; `owe` and `paid` may be called from any thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from streamactors.engine.marks.cut_state import CutState
from streamactors.engine.marks.marks import NOWHERE, Key, Position
from streamactors.kafka.client.producer import StreamProducer
from streamactors.kafka.errors import ProducerFailed
from streamactors.kafka.reading.offset_tracker import OffsetTracker
from streamactors.kafka.subscriptions import TopicPartition


class TakenAway(ProducerFailed):
    """Partitions were revoked while their results were in the open transaction."""


Debt: TypeAlias = tuple[OffsetTracker, TopicPartition, int]
"""Results that stem from no row of a partition, in the assignment of this epoch, and are not committed."""


class TransactionOffsets:
    """Adds the positions of a cut to the transaction."""

    def __init__(self, cut: CutState) -> None:
        self._cut = cut
        self._sources: dict[Any, tuple[OffsetTracker, Callable[[], Any], Callable[[], None]]] = {}
        self._lost: set[TopicPartition] = set()  # with debts of sources that were started again

    def add(self, source: object, tracker: OffsetTracker, group: Callable[[], Any], renew: Callable[[], None]) -> None:
        """Add a source whose offsets the transaction commits. `group()` returns the consumer's membership, `renew()` reports it as stale."""
        former = self._sources.get(source)
        if former is not None:
            self._lost.update(former[0].owed(), former[0].lost_owed())
        self._sources[source] = (tracker, group, renew)

    def __contains__(self, source: object) -> bool:
        return source in self._sources

    def owe(self, inputs: Mapping[Key, int], *, last: bool) -> list[Debt] | None:
        """Results that stem from no row of these inputs (with the epochs of their assignments) are about to be emitted. Return what is owed: no
        partition is given away until it is `paid`. None if the next owner of an input must emit them. `last`: see OffsetTracker.owe."""
        debts: list[Debt] = []
        for (source, partition), epoch in inputs.items():
            known = self._sources.get(source)
            if known is None:
                continue
            if not known[0].owe(partition, epoch, last=last):
                self.paid(debts)
                return None
            debts.append((known[0], partition, epoch))
        return debts

    def paid(self, debts: Iterable[Debt]) -> None:
        """The results are committed, or there were none."""
        for tracker, partition, epoch in debts:
            tracker.paid(partition, epoch)

    def send(self, producer: StreamProducer, timeout_s: float) -> None:
        """Add the offsets of the cut to the transaction. Raises ProducerFailed for a partition that was taken away, StaleMembership after a rebalance."""
        for source, (tracker, group, _) in self._sources.copy().items():  # a source may begin meanwhile
            if not self._positions(source) and not (tracker.owed() or tracker.lost_owed() or self._lost):
                continue  # its consumer may not be there yet
            # In this order: a partition is taken away -> this consumer joins again, and its membership is new -> the membership, read
            # after the partitions were found to be here, would let the broker take positions that another owner has by now.
            membership = group()
            offsets = self._moved(source, tracker)
            if offsets:
                producer.send_offsets(offsets, membership, timeout_s)

    def settled(self, began_ns: int) -> None:
        """The transaction with these offsets is committed: sampled records among theirs get their span."""
        for source, (tracker, _, _) in self._sources.copy().items():
            if tracker.settles is not None:
                offsets = {key: place[1] for key, place in self._positions(source).items()}
                tracker.settles.answered(offsets, began_ns, None)

    @property
    def all_taken_away(self) -> bool:
        """True if all that the transaction has stems from rows of assignments that are over."""
        if self._lost or not all(part.part_state.carried <= self._sources.keys() for part in self._cut.parts):
            return False
        if any(part.part_state.overtaken for part in self._cut.parts):
            return False
        moved = []
        for source, (tracker, _, _) in self._sources.copy().items():
            if tracker.owed() or tracker.lost_owed():
                return False
            moved += [tracker.is_ours(key, place[0]) for key, place in self._positions(source).items()]
        return not any(moved)

    def renew(self) -> None:
        """The memberships are stale."""
        for _, _, renew in list(self._sources.values()):
            renew()

    def _positions(self, source: object) -> dict[Any, Position]:
        """Return the positions of a source that this commit moves."""
        known = self._cut.committed_at
        return {
            key[1]: place
            for key, place in self._cut.target.items()
            if key[0] == source and place > known.get(key, NOWHERE)
        }

    def _moved(self, source: object, tracker: OffsetTracker) -> dict[Any, int]:
        """Return the offsets of these positions. Raises ProducerFailed for a partition that was taken away.

        Where results that stem from no row are owed, the committed offset is sent once more: the broker refuses it if the partition has moved."""
        moved = self._positions(source)
        lost = {str(key) for key, place in moved.items() if not tracker.is_ours(key, place[0])}
        lost.update(map(str, self._lost | tracker.lost_owed()))
        for part in self._cut.parts:
            lost.update(str(key) for of, key in part.part_state.overtaken if of == source)
        if lost:
            raise TakenAway(
                f"{', '.join(sorted(lost))} was revoked while its results were in an open transaction, which is "
                "aborted: the next owner computes them again"
            )
        for key, epoch in tracker.owed().items():
            place = self._cut.committed_at.get((source, key), NOWHERE)
            if place[0] == epoch:
                moved.setdefault(key, place)
        return {key: place[1] for key, place in moved.items()}
