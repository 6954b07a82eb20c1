"""The metadata log as its replica sees it: what the rules read of it, and what the quorum does to it.

Implemented by `controller.metadata_log.MetadataLog`."""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import Any, Protocol

from streamactors.broker.log.partition.leader_epochs import LeaderEpochs
from streamactors.broker.quorum.raft.raft_messages import Batches, EpochEnd
from streamactors.broker.quorum.vote_file import Election
from streamactors.broker.quorum.voter_set import VoterSet


class Log(Protocol):
    """What the rules read of the local log. Its epochs are those of `LeaderEpochs`."""

    @property
    def start_offset(self) -> int: ...

    @property
    def newest_snapshot(self) -> EpochEnd | None: ...

    @property
    def end_offset(self) -> int: ...

    @property
    def last_epoch(self) -> int: ...

    @property
    def known_end(self) -> EpochEnd:
        """(epoch, end offset) of all records that this replica has, or had before some were damaged on its disk. It votes as if it had them."""

    @property
    def voters(self) -> Set[int] | None:
        """The voters that the log names last, committed or not; None if it names none, and the settings do."""

    @property
    def voters_before(self) -> Set[int] | None:
        """The voters that the log named before, None if it named none."""

    @property
    def voters_offset(self) -> int:
        """The offset of the record that names them, -1 if no record above the newest snapshot does."""

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """Return (epoch, end offset) of the greatest epoch that is at most `epoch`; (0, 0) without one."""


def begins_anew(snapshot: EpochEnd, latest_epoch: int, end_offset: int) -> bool:
    """Whether a log that ends at `end_offset` must begin again after its newest snapshot, with the epoch of the snapshot.

    `latest_epoch` is the latest epoch that the log knows, -1 without one. Source: Kafka's truncateToLatestSnapshot."""
    # The node stops while it installs a snapshot -> the log ends before the snapshot, or its last epoch is older than that of the snapshot.
    # The log ends where its snapshot does -> recovery and truncation remove an epoch that begins at the end of the log -> the
    # replica would name epoch 0, and vote for candidates without the records of the snapshot.
    epoch, end = snapshot
    if end_offset > end and latest_epoch < 0:
        return False  # the file of the epochs is lost, and the records are there
    return end_offset < end or latest_epoch < epoch


def end_of_epoch(epochs: LeaderEpochs, end_offset: int, snapshot: EpochEnd | None, epoch: int) -> EpochEnd:
    """Return the greatest epoch that is at most `epoch`, and the offset at which it ends; (0, 0) without one.

    An epoch before that of the newest snapshot is not known: a leader sends the snapshot instead."""
    if epoch >= epochs.latest >= 0:
        return epochs.latest, end_offset
    known, end = epochs.end_offset(epoch, end_offset)
    if known < 0:
        return 0, 0
    if snapshot is not None and snapshot[0] < epoch < epochs.entries[0].epoch:
        return snapshot[0], end  # `epochs` cannot tell that no record has the asked epoch
    return known, end


class VotersLog(Log, Protocol):
    """The log of a replica, with its vote file. Every method raises StorageError if the disk fails."""

    @property
    def voter_set(self) -> VoterSet | None:
        """The voters that the log names last, with their folders and addresses."""

    def append(self, records: Iterable[Any], epoch: int) -> int:
        """Append the leader's records as one batch; return the offset of the last one."""

    def append_leader_change(self, leader: int, voters: Set[int], granting: Set[int], epoch: int) -> int:
        """Append the records with which an epoch begins; return the offset of the last one."""

    def append_voters(self, voters: VoterSet, epoch: int) -> int:
        """Append the record that names these voters; return its offset."""

    def append_batches(self, batches: Batches) -> None:
        """Append batches of the leader, unchanged."""

    def batches(self, offset: int) -> Batches:
        """Return batches from `offset` on, as `append_batches` takes them."""

    def truncate(self, offset: int) -> None: ...

    def snapshot_piece(self, snapshot: EpochEnd, position: int) -> tuple[int, bytes] | None:
        """Return the size of a snapshot and its bytes from `position` on; None if it is not there."""

    def install(self, epoch: int, end_offset: int, content: bytes | bytearray) -> None:
        """Replace the log by a snapshot of the leader."""

    def sync(self) -> None: ...

    def read_election(self) -> Election: ...

    def write_election(self, election: Election) -> None: ...
