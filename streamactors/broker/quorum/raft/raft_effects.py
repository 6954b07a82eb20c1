"""What a replica of the metadata log must do after a step of its state machine, in the order of the list. Pure values."""

from __future__ import annotations

from dataclasses import dataclass

from streamactors.broker.quorum.raft.raft_messages import Batches, EpochEnd, Request
from streamactors.broker.quorum.vote_file import Election


@dataclass(frozen=True, slots=True)
class Persist:
    """Write the election to the disk before the effects that follow, and before the answer."""

    election: Election


@dataclass(frozen=True, slots=True)
class Send:
    """Send a request to another replica."""

    target: int
    request: Request


@dataclass(frozen=True, slots=True)
class AppendLeaderChange:
    """Append the LeaderChange record, the first record of this epoch, and then sync the log."""

    epoch: int


@dataclass(frozen=True, slots=True)
class AppendVoters:
    """Append a record that names these voters, and then sync the log."""

    voters: frozenset[int]


@dataclass(frozen=True, slots=True)
class Append:
    """Append the batches of the leader, and then sync the log."""

    batches: Batches


@dataclass(frozen=True, slots=True)
class Truncate:
    """Remove the records and the epochs from this offset on, and then sync the log."""

    offset: int


@dataclass(frozen=True, slots=True)
class ReadSnapshot:
    """Read this snapshot from the leader, install it, and then call `RaftState.snapshot_read`."""

    leader: int
    snapshot: EpochEnd


@dataclass(frozen=True, slots=True)
class Sync:
    """Sync the log, and then call `RaftState.stored`."""


@dataclass(frozen=True, slots=True)
class Committed:
    """The records below this offset are committed."""

    high_watermark: int


@dataclass(frozen=True, slots=True)
class LeaderChanged:
    """Another node leads, or None."""

    leader: int | None
    epoch: int


@dataclass(frozen=True, slots=True)
class Halt:
    """Stop the node: its committed records differ from the leader's."""

    reason: str


Effect = (
    Persist | Send | AppendLeaderChange | Append | Truncate | ReadSnapshot | Sync | Committed | LeaderChanged | Halt
)
