"""The rules by which the leader adds a voter to the quorum, or removes one: one at a time. Pure.

Owner: the quorum of the leader. Any majority of a set and any majority of the set with one voter more or less have a voter in common, so
two leaders cannot be elected in one epoch. Between two changes, and before the first change of an epoch, a record must be committed.
Source: KIP-853; the erratum to the Raft dissertation, chapter 4."""

from __future__ import annotations

from streamactors.broker.errors import ErrorCode
from streamactors.broker.quorum.raft.leader_progress import LeaderProgress
from streamactors.broker.quorum.raft.raft_effects import AppendVoters
from streamactors.broker.quorum.raft.raft_state import RaftState


def add_voter(state: RaftState, voter: int, *, caught_up: bool | None = None) -> AppendVoters | ErrorCode:
    """Return what adds a voter, or why it cannot be added now. `caught_up` says that it has read the log, instead of the leader's progress.

    NOT_LEADER_OR_FOLLOWER: this node does not lead. REQUEST_TIMED_OUT: the change before is not committed, or the new voter has not read
    the whole log yet; ask again. DUPLICATE_VOTER: it has a vote."""
    progress = _ready(state)
    if isinstance(progress, ErrorCode):
        return progress
    if voter in state.voters:
        return ErrorCode.DUPLICATE_VOTER
    if not (
        progress.has_caught_up(voter) if caught_up is None else caught_up
    ):  # a set that waits for an empty log could commit nothing for long
        return ErrorCode.REQUEST_TIMED_OUT
    return AppendVoters(frozenset({*state.voters, voter}))


def remove_voter(state: RaftState, voter: int) -> AppendVoters | ErrorCode:
    """Return what removes a voter, or why it cannot be removed now. A leader that removes itself leads until its removal is committed.

    Errors as for `add_voter`, and VOTER_NOT_FOUND: it has no vote. INVALID_REQUEST: it is the last voter."""
    progress = _ready(state)
    if isinstance(progress, ErrorCode):
        return progress
    if voter not in state.voters:
        return ErrorCode.VOTER_NOT_FOUND
    if state.voters == {voter}:
        return ErrorCode.INVALID_REQUEST
    return AppendVoters(frozenset(state.voters - {voter}))


def update_voter(state: RaftState, voter: int) -> AppendVoters | ErrorCode:
    """Return the record that names the same voters, one with other addresses; or why that cannot be done now. Errors as for `remove_voter`."""
    progress = _ready(state)
    if isinstance(progress, ErrorCode):
        return progress
    return AppendVoters(frozenset(state.voters)) if voter in state.voters else ErrorCode.VOTER_NOT_FOUND


def _ready(state: RaftState) -> LeaderProgress | ErrorCode:
    progress = state.progress
    if progress is None:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    if state.high_watermark <= max(progress.epoch_start, state.voters_offset):
        return ErrorCode.REQUEST_TIMED_OUT
    return progress
