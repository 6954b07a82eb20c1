"""The metadata log of a simulated replica: records, a snapshot of the first ones, and what the replica knows of its epochs.

The rules about snapshots and epochs are those of the real log. The records below the snapshot's end are kept, though the replica does
not read them: the world compares them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from typing import Any, NamedTuple

from streamactors.broker.log.partition.leader_epochs import LeaderEpochs
from streamactors.broker.quorum.raft.raft_messages import EpochEnd
from streamactors.broker.quorum.replica_log import begins_anew, end_of_epoch

Record = tuple[int, object]  # (epoch, value)


class Snapshot(NamedTuple):
    """The records below an offset."""

    id: EpochEnd
    records: Sequence[Record]


class MemoryLog:
    """The log as the node sees it, synced or not. A record whose value is a set of ids names the voters."""

    def __init__(
        self,
        records: Sequence[Record],
        snapshot: Snapshot | None = None,
        start: int = 0,
        epochs_from: int = 0,
        begins_anew: Callable[[EpochEnd, int, int], bool] = begins_anew,
    ) -> None:
        """As recovery finds the log: it knows the epochs of the records from `epochs_from` on."""
        self._begins_anew = begins_anew
        self._begin(records[:start], snapshot, start)
        self.extend(records[start:], epochs_from)
        self._begin_after_snapshot()

    def _begin(self, before: Sequence[Record], snapshot: Snapshot | None, start: int) -> None:
        self.start_offset = start
        self._snapshot = snapshot
        self.records: list[Record] = list(before)
        self.epochs = LeaderEpochs()
        self._named: list[tuple[int, Set[int]]] = []  # where records name the voters; -1: the snapshot does
        if snapshot is not None:
            self._named = [(-1, value) for _, value in snapshot.records if isinstance(value, frozenset)][-1:]

    def _begin_after_snapshot(self) -> None:
        snapshot = self._snapshot
        if snapshot is not None and self._begins_anew(snapshot.id, self.epochs.latest, self.end_offset):
            self.install(snapshot)

    def extend(self, records: Iterable[Record], epochs_from: int = 0) -> None:
        for record in records:
            epoch, value = record
            at = len(self.records)
            if epoch != self.epochs.latest and at >= epochs_from:
                self.epochs.assign(epoch, at)
            if isinstance(value, frozenset):
                self._named.append((at, value))
            self.records.append(record)

    def truncate(self, offset: int) -> None:
        assert offset >= self.start_offset
        del self.records[offset:]
        self.epochs.truncate_to(offset)
        while self._named and self._named[-1][0] >= offset:
            del self._named[-1]
        self._begin_after_snapshot()

    def take_snapshot(self, offset: int) -> Snapshot:
        """Begin the log behind a snapshot of its own records."""
        self._snapshot = Snapshot((self.records[offset - 1][0], offset), tuple(self.records[:offset]))
        self.start_offset = offset
        self.epochs.truncate_from_start(offset)
        return self._snapshot

    def install(self, snapshot: Snapshot) -> None:
        """Begin the log behind a snapshot, with nothing else."""
        epoch, end = snapshot.id
        self._begin(snapshot.records, snapshot, end)
        self.epochs.assign(epoch, end)

    @property
    def voters(self) -> Set[int] | None:
        return self._named_as(1)

    @property
    def voters_before(self) -> Set[int] | None:
        return self._named_as(2)

    @property
    def voters_offset(self) -> int:
        return self._named[-1][0] if self._named else -1

    def _named_as(self, last: int) -> Any:
        return self._named[-last][1] if len(self._named) >= last else None

    @property
    def newest_snapshot(self) -> EpochEnd | None:
        return None if self._snapshot is None else self._snapshot.id

    @property
    def snapshot(self) -> Snapshot | None:
        return self._snapshot

    @property
    def end_offset(self) -> int:
        return len(self.records)

    @property
    def known_end(self) -> tuple[int, int]:
        return max((self.last_epoch, self.end_offset), self.lost_end)

    lost_end: tuple[int, int] = (0, 0)
    """How far the log went before records were damaged."""

    @property
    def last_epoch(self) -> int:
        return max(self.epochs.latest, 0)

    @property
    def true_end(self) -> EpochEnd:
        """The epoch of the last record, whatever the log knows of it, and the end."""
        return (self.records[-1][0] if self.records else 0), len(self.records)

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        return end_of_epoch(self.epochs, self.end_offset, self.newest_snapshot, epoch)
