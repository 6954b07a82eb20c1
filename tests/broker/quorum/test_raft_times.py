"""When a replica of the metadata log acts next: the time of each rule, and the edges of these times."""

from __future__ import annotations

import pytest

from streamactors.broker.errors import ErrorCode
from streamactors.broker.quorum.raft.raft_effects import (
    Append,
    Committed,
    LeaderChanged,
    Persist,
    ReadSnapshot,
    Send,
    Sync,
)
from streamactors.broker.quorum.raft.raft_messages import (
    BeginEpoch,
    EndEpoch,
    Fetch,
    FetchAnswer,
    Vote,
    VoteAnswer,
)
from streamactors.broker.quorum.raft.raft_state import RaftState
from streamactors.broker.quorum.raft.roles import RETRY_MS, Role, Timing
from streamactors.broker.quorum.vote_file import Election
from tests.simulation.memory_log import MemoryLog, Record, Snapshot

OK = ErrorCode.NONE
ELECTION_MS, FETCH_MS = 100.0, 200.0


class Drawn:
    """Draws what the test says, and the last of several."""

    def __init__(self, share: float) -> None:
        self.share = share

    def random(self) -> float:
        return self.share

    def choice(self, several: list[int]) -> int:
        return several[-1]


def replica(
    saved: Election | None = None,
    *,
    me: int = 1,
    voters: int = 3,
    records: list[Record] | None = None,
    share: float = 0.5,
    now_ms: float = 0.0,
) -> RaftState:
    log = MemoryLog(records or [])
    timing = Timing(ELECTION_MS, FETCH_MS)
    return RaftState(me, set(range(1, voters + 1)), saved or Election(), log, timing, Drawn(share), now_ms)  # type: ignore[arg-type]


def following(epoch: int = 4, **given: int) -> RaftState:
    return replica(Election(epoch, leader=2), **given)  # type: ignore[arg-type]


def leading(now_ms: float = 1_000.0) -> RaftState:
    state = replica()
    state.tick(now_ms)
    state.voted(2, VoteAnswer(OK, 0, None, True, True), now_ms)
    state.voted(2, VoteAnswer(OK, 1, None, True, False), now_ms)
    assert state.role is Role.LEADER
    return state


def log_of(state: RaftState) -> MemoryLog:
    assert isinstance(state._log, MemoryLog)
    return state._log


def asked(state: RaftState, now_ms: float) -> Fetch:
    (effect,) = [each for each in state.stored(state._log.end_offset, now_ms) if isinstance(each, Send)]
    assert isinstance(effect.request, Fetch)
    return effect.request


@pytest.mark.parametrize("share", [0.0, 0.25, 0.99])
def test_a_replica_without_a_leader_waits_one_to_two_election_timeouts(share: float) -> None:
    """The share is drawn anew, so two replicas seldom stand at the same time."""
    due_ms = 50.0 + ELECTION_MS * (1 + share)
    state = replica(share=share, now_ms=50.0)
    assert state.deadline_ms == due_ms
    assert state.tick(due_ms - 0.1) == []
    asks = state.tick(due_ms)
    assert [each.target for each in asks if isinstance(each, Send)] == [2, 3]
    assert state.deadline_ms == due_ms + ELECTION_MS * (1 + share)
    vote = Vote(7, 3, 0, 0, False)
    assert state.vote(vote, 500.0)[0].granted
    assert state.deadline_ms == 500.0 + ELECTION_MS * (1 + share), "a granted vote gives the candidate time"


def test_a_follower_waits_the_time_of_a_fetch_after_each_answer_of_its_leader() -> None:
    state = following(now_ms=10)
    assert state.deadline_ms == 10 + FETCH_MS
    state.fetched(FetchAnswer(OK, 4, 2, asked(state, 60.0), snapshot=(4, 7)), 90.0)
    assert state.deadline_ms == 90 + FETCH_MS
    state.snapshot_piece(130.0)
    assert state.deadline_ms == 130 + FETCH_MS
    state.tick(130 + FETCH_MS)
    assert state.role is Role.PROSPECTIVE
    state.snapshot_piece(400.0)
    assert state.deadline_ms < 400 + FETCH_MS, "a piece of a snapshot that was asked for earlier changes nothing"


def test_a_fetch_waits_a_quarter_of_its_time_at_the_leader_and_is_repeated_after_half() -> None:
    state = following()
    request = asked(state, 60.0)
    assert request == Fetch(4, 1, 0, 0, 0, FETCH_MS / 4)
    assert state.deadline_ms == 60 + FETCH_MS / 2
    again = state.tick(60 + FETCH_MS / 2)
    assert [each.request for each in again if isinstance(each, Send)] == [request]
    assert state.deadline_ms == 60 + FETCH_MS


def test_a_snapshot_that_could_not_be_read_is_asked_for_again_soon() -> None:
    state = following(epoch=4)
    state.fetched(FetchAnswer(OK, 4, 2, asked(state, 0.0), snapshot=(3, 9)), 10.0)
    state.snapshot_failed(50.0)
    assert state.deadline_ms == 50 + RETRY_MS
    again = state.tick(50 + RETRY_MS)
    assert [each.target for each in again if isinstance(each, Send)] == [2]
    state.tick(1_000.0)
    due_ms = state.deadline_ms
    state.snapshot_failed(1_001.0)  # no leader any more
    assert state.deadline_ms == due_ms


def test_a_leader_says_that_it_leads_twice_in_the_time_of_a_fetch() -> None:
    state = leading(1_000.0)
    assert state.deadline_ms == 1_000 + FETCH_MS / 2
    assert state.tick(1_099.9) == []
    assert state.tick(1_100.0) == [Send(2, BeginEpoch(1, 1)), Send(3, BeginEpoch(1, 1))]
    assert state.deadline_ms == 1_100 + FETCH_MS / 2


def test_a_leader_resigns_after_more_than_one_and_a_half_fetch_times_without_a_majority() -> None:
    for silent_ms, leads in ((300.0, True), (300.1, False)):
        state = leading(1_000.0)
        state.fetch(Fetch(1, 3, 0, 0), 1_050.0)
        state.tick(1_050 + silent_ms)
        assert (state.role is Role.LEADER) == leads
    assert state.deadline_ms == 1_050 + silent_ms + ELECTION_MS * 1.5
    assert state.resign(2_000.0) == [], "it has resigned already"


def test_successors_of_a_leader_ask_for_votes_one_after_the_other() -> None:
    successors = (2, 3, 4, 5, 6)
    for place, wait_ms in ((1, 2 * RETRY_MS), (2, 4 * RETRY_MS), (3, ELECTION_MS), (4, ELECTION_MS)):
        state = replica(Election(4, leader=1), me=successors[place], voters=6)
        state.end(EndEpoch(4, 1, successors), 50.0)
        assert state.role is Role.UNATTACHED
        assert state.deadline_ms == 50 + wait_ms
    unnamed = replica(Election(4, leader=1), me=3, voters=6)
    unnamed.end(EndEpoch(4, 1, (2,)), 50.0)
    assert unnamed.deadline_ms == 50 + 2 * RETRY_MS, "a voter that is not named comes after those that are"
    observer = replica(Election(4, leader=1), me=9, voters=6)
    observer.end(EndEpoch(4, 1, successors), 50.0)
    assert (observer.role, observer.deadline_ms) == (Role.FOLLOWER, FETCH_MS)


@pytest.mark.parametrize(("share", "wait_ms"), [(0.0, RETRY_MS), (0.1, RETRY_MS), (0.5, 50.0), (0.9, 90.0)])
def test_a_refused_candidate_waits_a_part_of_the_election_timeout(share: float, wait_ms: float) -> None:
    state = replica(share=share)
    state.tick(500.0)
    state.voted(2, VoteAnswer(OK, 0, None, False, True), 500.0)
    assert state.deadline_ms == 500 + ELECTION_MS * (1 + share), "the second voter can still elect it"
    state.voted(3, VoteAnswer(OK, 0, None, False, True), 505.0)
    assert state.deadline_ms == 505 + wait_ms
    state.voted(3, VoteAnswer(OK, 0, None, False, True), 590.0)
    assert state.deadline_ms == min(505 + wait_ms, 590 + wait_ms), "a late answer never moves the next election back"


@pytest.mark.parametrize(("voters", "grants", "refusals"), [(3, 1, 2), (4, 2, 2), (5, 2, 3)])
def test_a_candidate_is_elected_by_a_majority_and_waits_as_soon_as_no_majority_is_left(
    voters: int, grants: int, refusals: int
) -> None:
    state = replica(voters=voters)
    state.tick(500.0)
    for voter in range(2, 2 + grants):
        assert state.role is Role.PROSPECTIVE
        state.voted(voter, VoteAnswer(OK, 0, None, True, True), 500.0)
    assert state.role is Role.CANDIDATE
    state = replica(voters=voters)
    state.tick(500.0)
    due_ms = state.deadline_ms
    for voter in range(2, 2 + refusals):
        assert state.deadline_ms == due_ms
        state.voted(voter, VoteAnswer(OK, 0, None, False, True), 500.0)
    assert state.deadline_ms < due_ms


def test_answers_of_another_round_of_votes_are_not_counted() -> None:
    state = replica()
    state.tick(500.0)
    for answer in (
        VoteAnswer(OK, 0, None, True, False),
        VoteAnswer(ErrorCode.FENCED_LEADER_EPOCH, -1, None, True, True),
    ):
        assert state.voted(2, answer, 500.0) == []
    assert state.voted(7, VoteAnswer(OK, 0, None, True, True), 500.0) == [], "a node without a vote"
    assert state.role is Role.PROSPECTIVE
    assert state.granting == set()


def test_a_vote_counts_after_the_timeout_of_its_election() -> None:
    # The election lasts 150 ms, and the two disks need longer: every epoch had a candidate, and none had a leader.
    state = replica(voters=5)
    state.tick(500.0)
    for voter in (2, 3):
        state.voted(voter, VoteAnswer(OK, 0, None, True, True), 500.0)
    state.voted(2, VoteAnswer(OK, 1, None, True, False), 600.0)
    state.tick(state.deadline_ms)
    assert (state.role, state.epoch) == (Role.PROSPECTIVE, 1)
    state.voted(4, VoteAnswer(OK, 1, None, False, False), 700.0)
    assert state.role is Role.PROSPECTIVE, "a late refusal says nothing about the pre-vote"
    state.voted(3, VoteAnswer(OK, 1, None, True, False), 700.0)
    assert (state.role, state.epoch, state.granting) == (Role.LEADER, 1, {1, 2, 3})


def test_a_vote_of_an_epoch_that_has_another_leader_or_is_over_counts_no_more() -> None:
    for told in (BeginEpoch(1, 2), BeginEpoch(2, 2)):
        state = replica()
        state.tick(500.0)
        state.voted(2, VoteAnswer(OK, 0, None, True, True), 500.0)
        state.begin(told, 510.0)
        state.tick(state.deadline_ms)
        assert (state.role, state.epoch) == (Role.PROSPECTIVE, told.epoch)
        state.voted(3, VoteAnswer(OK, told.epoch, None, True, False), 900.0)
        assert state.role is Role.PROSPECTIVE


def test_a_voter_supports_no_other_candidate_while_the_one_with_its_vote_can_be_elected() -> None:
    # Two candidates need the vote of the third node. It answered the pre-votes of both at once, so both began the next epoch at the same time, forever.
    state = replica()
    assert state.vote(Vote(7, 3, 0, 0, False), 500.0)[0].granted
    due_ms = state.deadline_ms
    for candidate, now_ms, granted in ((2, due_ms - 1, False), (3, due_ms - 1, True), (2, due_ms, True)):
        assert state.vote(Vote(7, candidate, 0, 0, True), now_ms)[0].granted == granted
    assert state.vote(Vote(8, 2, 0, 0, True), due_ms - 1)[0].granted, "another epoch"


def test_the_time_of_the_own_work_is_not_the_silence_of_the_others() -> None:
    candidate = replica()
    due_ms = candidate.deadline_ms
    candidate.was_busy(400.0)
    assert candidate.tick(due_ms + 399.9) == []
    assert candidate.tick(due_ms + 400.0)
    follower = following()
    request = asked(follower, 0.0)
    follower.was_busy(400.0)
    again = follower.tick(400.0 + FETCH_MS / 2)
    assert [each.request for each in again if isinstance(each, Send)] == [request]


def test_a_leader_names_itself_before_its_own_disk_works() -> None:
    # A voter began an election while the new leader wrote that it led.
    state = replica()
    state.tick(500.0)
    state.voted(2, VoteAnswer(OK, 0, None, True, True), 500.0)
    effects = state.voted(2, VoteAnswer(OK, 1, None, True, False), 500.0)
    assert effects[:3] == [
        Send(2, BeginEpoch(1, 1)),
        Send(3, BeginEpoch(1, 1)),
        Persist(Election(1, leader=1, voted=1)),
    ]


def test_nobody_returns_to_a_leader_that_has_ended_its_epoch() -> None:
    # 1 gives up -> 2 hears of it and asks 3, which has not heard of it yet and names 1 -> 2 followed 1 until its fetches timed out.
    state = replica(Election(4, leader=1), me=2)
    state.end(EndEpoch(4, 1, (2, 3)), 50.0)
    assert state.role is Role.PROSPECTIVE
    assert state.voted(3, VoteAnswer(OK, 4, 1, False, True), 60.0) == []
    assert state.begin(BeginEpoch(4, 1), 60.0)[1] == []
    assert state.role is Role.PROSPECTIVE
    state.begin(BeginEpoch(5, 1), 70.0)
    assert (state.role, state.leader) == (Role.FOLLOWER, 1), "it leads a later epoch"


def test_a_node_without_a_vote_asks_every_half_fetch_time_and_knows_whom() -> None:
    timing = Timing(ELECTION_MS, FETCH_MS)
    log = MemoryLog([(3, "a"), (3, "b")])
    state = RaftState(9, {1, 2}, Election(), log, timing, Drawn(0.5), 0.0, {5, 9})  # type: ignore[arg-type]
    assert state.tick(1_000.0) == [Send(5, Fetch(3, 9, 2, 3, max_wait_ms=0.0))]
    assert state.deadline_ms == 1_000 + FETCH_MS / 2
    alone = RaftState(9, set(), Election(), MemoryLog([]), timing, Drawn(0.5), 0.0, {9})  # type: ignore[arg-type]
    assert alone.tick(1_000.0) == []
    assert alone.deadline_ms == 1_000 + FETCH_MS / 2


def test_the_high_watermark_of_a_follower_covers_what_is_on_its_disk_and_never_falls() -> None:
    state = following(records=[(4, "a"), (4, "b"), (4, "c")])  # type: ignore[arg-type]
    for told, known in ((2, 2), (9, 3), (1, 3)):
        state.fetched(FetchAnswer(OK, 4, 2, asked_again(state), high_watermark=told), 20.0)
        effects = state.stored(3, 30.0)
        assert state.high_watermark == known
        assert [each.high_watermark for each in effects if isinstance(each, Committed)] == ([known] if told > 1 else [])


def asked_again(state: RaftState) -> Fetch:
    return state._asked or asked(state, 10.0)


def test_an_answer_is_carried_out_once_and_only_by_the_follower_that_asked() -> None:
    state = following()
    request = asked(state, 0.0)
    refused = FetchAnswer(ErrorCode.UNKNOWN_LEADER_EPOCH, 4, 2, request, batches=["x"])
    assert state.fetched(refused, 5.0) == []
    other = Fetch(4, 1, 0, 0)
    assert state.fetched(FetchAnswer(OK, 4, 2, other, batches=["x"]), 5.0) == []
    assert state.fetched(FetchAnswer(OK, 4, 2, request, batches=["x"]), 5.0) == [Append(["x"])]
    assert state.fetched(FetchAnswer(OK, 4, 2, request, batches=["x"]), 5.0) == []
    request = asked(state, 6.0)
    assert state.fetched(FetchAnswer(OK, 4, 2, request), 7.0) == [Sync()]
    request = asked(state, 8.0)
    assert state.fetched(FetchAnswer(OK, 4, 2, request, snapshot=(3, 9)), 9.0) == [ReadSnapshot(2, (3, 9))]
    assert state.snapshot_read(9) == [Committed(9), Sync()]


def test_a_leader_sends_a_replica_to_its_snapshot_when_the_records_are_gone_or_the_replica_is_empty() -> None:
    state = leading()
    assert state.fetch(Fetch(1, 2, 0, 1), 1_000.0)[0].snapshot is None
    log = log_of(state)
    log.extend([(1, number) for number in range(10)])
    log.take_snapshot(8)
    log.start_offset = 5  # the node stopped before the log was cut, and does not know the epoch of the record before 5
    for offset, snapshot in ((0, (1, 8)), (4, (1, 8)), (5, (1, 8)), (6, None), (8, None)):
        answer, _ = state.fetch(Fetch(1, 2, offset, 1), 1_000.0)
        assert (answer.snapshot, answer.log_start) == (snapshot, 5)


def test_a_replica_that_has_read_the_newest_snapshot_goes_on_behind_it() -> None:
    """The log behind a snapshot may have no record of the snapshot's epoch: (epoch, end) of the snapshot counts as known."""
    state = leading()
    log = log_of(state)
    log.install(Snapshot((0, 8), [(0, number) for number in range(8)]))
    log.extend([(1, 8)])
    for last_epoch, offset, diverging in ((0, 8, None), (0, 9, (0, 8)), (1, 9, None)):
        answer, _ = state.fetch(Fetch(1, 2, offset, last_epoch), 1_000.0)
        assert (answer.diverging, answer.snapshot) == (diverging, None), (last_epoch, offset)
    answer, _ = state.fetch(Fetch(1, 2, 8, 1), 1_000.0)
    assert answer.snapshot == (0, 8), "the record before 8 is another one"


def test_a_leader_says_where_a_replicas_log_differs() -> None:
    state = leading()
    log_of(state).extend([(0, "a"), (0, "b"), (1, "c")])
    for last_epoch, offset, diverging in ((0, 2, None), (0, 3, (0, 2)), (1, 3, None), (1, 4, (1, 3)), (0, 1, None)):
        answer, _ = state.fetch(Fetch(1, 2, offset, last_epoch), 1_000.0)
        assert answer.diverging == diverging, (last_epoch, offset)


def test_a_voter_that_lost_its_leader_returns_when_it_is_named_again() -> None:
    state = following()
    state.tick(FETCH_MS)
    assert (state.role, state.leader) == (Role.PROSPECTIVE, None)
    assert state.begin(BeginEpoch(4, 2), 300.0)[1] == [LeaderChanged(2, 4), Sync()]
    assert (state.role, state.leader, state.deadline_ms) == (Role.FOLLOWER, 2, 300 + FETCH_MS)
    assert state.begin(BeginEpoch(4, 2), 350.0)[1] == [], "it follows already"
    assert state.deadline_ms == 300 + FETCH_MS


@pytest.mark.parametrize(
    ("last_epoch", "end_offset", "granted"), [(3, 2, True), (3, 3, True), (3, 1, False), (2, 9, False), (4, 0, True)]
)
def test_a_vote_is_for_a_candidate_whose_log_ends_no_earlier(last_epoch: int, end_offset: int, granted: bool) -> None:
    for pre_vote in (True, False):
        state = replica(records=[(3, "a"), (3, "b")])
        assert state.vote(Vote(5, 2, last_epoch, end_offset, pre_vote), 0.0)[0].granted == granted


def test_a_replica_that_has_lost_records_votes_as_if_it_had_them_and_does_not_stand() -> None:
    # Records that a majority had could be lost with the disk of one voter, if it voted for a candidate without them.
    for pre_vote in (True, False):
        state = replica(records=[(3, "a")])
        state._log.lost_end = (3, 2)  # type: ignore[attr-defined]
        assert not state.vote(Vote(5, 2, 3, 1, pre_vote), 0.0)[0].granted
        assert state.vote(Vote(5, 2, 3, 2, pre_vote), 0.0)[0].granted
    state = replica(records=[(3, "a")])
    state._log.lost_end = (3, 2)  # type: ignore[attr-defined]
    asked = [each.request for each in state.tick(state.deadline_ms) if isinstance(each, Send)]
    assert asked
    assert not any(isinstance(each, Vote) for each in asked)
