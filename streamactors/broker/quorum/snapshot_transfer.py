"""Snapshots of the metadata log on their way from the leader to another voter, piece by piece (KIP-630).

Owner: `Quorum`, on its thread. Pure but for reads of the log."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from streamactors.broker.errors import ErrorCode
from streamactors.broker.quorum.raft.raft_messages import EpochEnd, FetchSnapshot, Request, SnapshotPiece
from streamactors.broker.quorum.raft.raft_state import RaftState
from streamactors.broker.quorum.raft.roles import Role
from streamactors.broker.quorum.replica_log import VotersLog

MAX_SNAPSHOT_BYTES: Final = 1 << 30


def piece_of(log: VotersLog, state: RaftState, asked: FetchSnapshot) -> SnapshotPiece:
    """Return the answer of a replica to a request for a piece. Raises StorageError."""
    refused = partial(SnapshotPiece, epoch=state.epoch, leader=state.leader, asked=asked)
    if asked.epoch != state.epoch:
        return refused(ErrorCode.FENCED_LEADER_EPOCH if asked.epoch < state.epoch else ErrorCode.UNKNOWN_LEADER_EPOCH)
    if state.role is not Role.LEADER:
        return refused(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    found = log.snapshot_piece(asked.snapshot, max(asked.position, 0))
    if found is None:
        return refused(ErrorCode.SNAPSHOT_NOT_FOUND)
    size, content = found
    if not 0 <= asked.position < size:
        return refused(ErrorCode.POSITION_OUT_OF_RANGE, size=size)
    return SnapshotPiece(ErrorCode.NONE, state.epoch, state.leader, asked, size, content)


class SnapshotReader:
    """Reads one snapshot at a time from the leader."""

    def __init__(self, me: int, send: Callable[[int, Request], object]) -> None:
        self._me = me
        self._send = send
        self._asked: FetchSnapshot | None = None
        self._content = bytearray()

    def begin(self, epoch: int, leader: int, snapshot: EpochEnd) -> None:
        """Ask for the first piece. What was read of another snapshot is dropped."""
        self._content = bytearray()
        self._ask(epoch, leader, snapshot)

    def _ask(self, epoch: int, leader: int, snapshot: EpochEnd) -> None:
        self._asked = FetchSnapshot(epoch, self._me, snapshot, len(self._content))
        self._send(leader, self._asked)

    def got(self, leader: int, piece: SnapshotPiece) -> bytearray | None:
        """Take a piece; return the whole snapshot when it is complete, and an empty one if the reading has failed.

        None: more pieces are to come, or the piece is of an earlier reading."""
        asked = self._asked
        if asked is None or piece.asked is not asked:
            return None
        self._asked = None
        self._content += piece.content
        if piece.error or not piece.content or not len(self._content) <= piece.size <= MAX_SNAPSHOT_BYTES:
            return bytearray()  # another node leads, or the leader has a newer snapshot
        if len(self._content) < piece.size:
            self._ask(asked.epoch, leader, asked.snapshot)
            return None
        return self._content
