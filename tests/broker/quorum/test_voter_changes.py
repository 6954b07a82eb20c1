"""Which changes of the voters a leader makes, and which it puts off or refuses."""

from __future__ import annotations

from random import Random

from streamactors.broker.errors import ErrorCode
from streamactors.broker.quorum.raft.raft_effects import AppendVoters, LeaderChanged, Send
from streamactors.broker.quorum.raft.raft_messages import BeginEpoch, EndEpoch, Fetch, FetchAnswer, VoteAnswer
from streamactors.broker.quorum.raft.raft_state import RaftState
from streamactors.broker.quorum.raft.roles import Role, Timing
from streamactors.broker.quorum.vote_file import Election
from streamactors.broker.quorum.voter_changes import add_voter, remove_voter
from tests.simulation.quorum_node import MemoryLog

NOW_MS = 300.0


def replica(me: int, *voters: int) -> tuple[RaftState, MemoryLog]:
    log = MemoryLog([])
    return RaftState(me, set(voters), Election(), log, Timing(100.0, 200.0), Random(1), 0.0), log


def leader(*voters: int) -> tuple[RaftState, MemoryLog]:
    """Return node 1, which has been elected and has not committed anything."""
    state, log = replica(1, *voters)
    state.tick(NOW_MS) if len(voters) > 1 else state.start(NOW_MS)
    for epoch, pre_vote in ((0, True), (1, False)):
        for voter in voters[1:]:
            state.voted(voter, VoteAnswer(ErrorCode.NONE, epoch, None, True, pre_vote), NOW_MS)
    assert state.role is Role.LEADER
    log.extend([(1, "leader")])
    state.stored(1, NOW_MS)
    return state, log


def fetches(state: RaftState, replica: int, offset: int) -> list[object]:
    """A replica has everything below this offset. Return the effects."""
    return list(state.fetch(Fetch(1, replica, offset, 1 if offset else 0), NOW_MS)[1])


def change(state: RaftState, log: MemoryLog, made: AppendVoters | ErrorCode) -> None:
    assert isinstance(made, AppendVoters)
    log.extend([(1, made.voters)])
    state.stored(log.end_offset, NOW_MS)


def test_only_a_leader_changes_the_voters() -> None:
    state, _ = replica(1, 1, 2, 3)
    assert add_voter(state, 4) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert remove_voter(state, 3) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_no_voter_changes_before_a_record_of_the_leaders_own_epoch_is_committed() -> None:
    """Four voters, and two leaders that change them one after the other without this rule: each finds a majority of its own set, and the
    two majorities have nobody in common."""
    state, _ = leader(1, 2, 3)
    assert remove_voter(state, 3) is ErrorCode.REQUEST_TIMED_OUT
    fetches(state, 2, 1)
    assert remove_voter(state, 3) == AppendVoters(frozenset({1, 2}))


def test_a_change_waits_for_the_change_before() -> None:
    state, log = leader(1, 2, 3)
    fetches(state, 2, 1)
    change(state, log, remove_voter(state, 3))
    assert state.voters == {1, 2}  # at once
    assert remove_voter(state, 2) is ErrorCode.REQUEST_TIMED_OUT
    fetches(state, 3, 2)  # no voter any more
    assert remove_voter(state, 2) is ErrorCode.REQUEST_TIMED_OUT
    fetches(state, 2, 2)
    assert remove_voter(state, 2) == AppendVoters(frozenset({1}))


def test_a_new_voter_has_read_the_whole_log_before_it_counts() -> None:
    state, log = leader(1)
    assert add_voter(state, 2) is ErrorCode.REQUEST_TIMED_OUT
    fetches(state, 2, 0)
    assert add_voter(state, 2) is ErrorCode.REQUEST_TIMED_OUT
    fetches(state, 2, 1)
    change(state, log, add_voter(state, 2))
    assert state.high_watermark == 1  # two voters now, and one of them has the record
    fetches(state, 2, 2)
    assert state.high_watermark == 2
    assert add_voter(state, 2) is ErrorCode.DUPLICATE_VOTER


def test_the_last_voter_and_a_stranger_cannot_be_removed() -> None:
    state, _ = leader(1)
    assert remove_voter(state, 1) is ErrorCode.INVALID_REQUEST
    assert remove_voter(state, 9) is ErrorCode.VOTER_NOT_FOUND


def test_a_leader_that_removes_itself_leads_until_the_others_have_the_record_and_then_names_a_successor() -> None:
    state, log = leader(1, 2, 3)
    fetches(state, 2, 1)
    change(state, log, remove_voter(state, 1))
    assert state.role is Role.LEADER
    assert fetches(state, 2, 2) == []  # one of two
    effects = fetches(state, 3, 2)
    assert LeaderChanged(None, 1) in effects
    assert [each.request for each in effects if isinstance(each, Send)] == [EndEpoch(1, 1, (2, 3))] * 2
    assert state.role is Role.RESIGNED


def test_a_node_without_a_vote_asks_the_voters_who_leads() -> None:
    state, _ = replica(4, 1, 2, 3)
    (asked,) = state.tick(NOW_MS)
    assert isinstance(asked, Send)
    assert asked.target in (1, 2, 3)
    assert isinstance(asked.request, Fetch)
    effects = state.fetched(FetchAnswer(ErrorCode.FENCED_LEADER_EPOCH, 5, 2, asked.request), NOW_MS)
    assert LeaderChanged(2, 5) in effects
    assert (state.role, state.epoch, state.leader) == (Role.FOLLOWER, 5, 2)


def test_a_leader_names_itself_to_a_new_voter_at_once() -> None:
    # The leader of a quorum of one has no connection to the new voter -> it stops in order -> the end of its epoch was lost with the connection that was
    # being opened, and the others waited for the fetch timeout.
    state, log = leader(1)
    for offset in (0, 1):
        fetches(state, 2, offset)
    made = add_voter(state, 2)
    assert isinstance(made, AppendVoters)
    log.extend([(1, made.voters)])
    assert state.stored(log.end_offset, NOW_MS) == [Send(2, BeginEpoch(1, 1))]
    assert state.stored(log.end_offset, NOW_MS) == []
