"""What the simulation of the quorum cannot see: who stays quiet, who gives up, and who is first."""

from __future__ import annotations

import uuid
from random import Random

from streamactors.broker.errors import ErrorCode
from streamactors.broker.quorum.raft.raft_effects import (
    AppendLeaderChange,
    Committed,
    Effect,
    Halt,
    LeaderChanged,
    Persist,
    ReadSnapshot,
    Send,
    Sync,
    Truncate,
)
from streamactors.broker.quorum.raft.raft_messages import (
    Answer,
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


def replica(
    saved: Election | None = None, voters: int = 3, records: list[Record] | None = None, me: int = 1
) -> RaftState:
    log = MemoryLog(records if records is not None else [])
    return RaftState(me, set(range(1, voters + 1)), saved or Election(), log, Timing(100.0, 200.0), Random(1), 0.0)


def sent(effects: list[Effect]) -> list[tuple[int, object]]:
    return [(effect.target, effect.request) for effect in effects if isinstance(effect, Send)]


def elected() -> RaftState:
    state = replica()
    state.tick(300.0)
    state.voted(2, VoteAnswer(OK, 0, None, True, True), 300.0)
    state.voted(2, VoteAnswer(OK, 1, None, True, False), 300.0)
    assert state.role is Role.LEADER
    return state


def test_the_only_voter_leads_at_once_and_sends_nothing() -> None:
    state = replica(voters=1)
    effects = state.start(0.0)
    assert state.role is Role.LEADER
    assert sent(effects) == []
    assert AppendLeaderChange(1) in effects


def test_the_only_voter_does_not_give_up() -> None:
    state = replica(voters=1)
    state.start(0.0)
    for now_ms in range(0, 100_000, 1_000):
        assert sent(state.tick(float(now_ms))) == []
    assert (state.role, state.epoch) == (Role.LEADER, 1)


def test_a_vote_for_itself_is_on_disk_before_others_are_asked() -> None:
    state = replica()
    state.tick(300.0)
    effects = state.voted(2, VoteAnswer(OK, 0, None, True, True), 300.0)
    assert effects[0] == Persist(Election(1, voted=1))
    assert sent(effects) == [(2, Vote(1, 1, 0, 0, False)), (3, Vote(1, 1, 0, 0, False))]


def test_a_node_that_is_cut_off_never_raises_the_epoch() -> None:
    state = replica(Election(4, leader=2))
    state.start(0.0)
    for now_ms in range(0, 60_000, 50):
        for effect in state.tick(float(now_ms)):
            assert not isinstance(effect, Persist)
    assert (state.role, state.epoch) == (Role.PROSPECTIVE, 4)


def test_a_pre_vote_is_granted_only_until_the_leader_has_answered() -> None:
    state = replica(Election(4, leader=2))
    asked = sent(state.stored(0, 0.0))[0][1]
    assert isinstance(asked, Fetch)
    vote = Vote(4, 3, 0, 0, True)
    assert state.vote(vote, 1.0)[0].granted
    state.fetched(FetchAnswer(OK, 4, 2, asked), 2.0)
    answer, effects = state.vote(vote, 3.0)
    assert not answer.granted
    assert effects == []


def test_a_granted_pre_vote_does_not_lead_back_to_the_lost_leader() -> None:
    state = replica(Election(4, leader=2))
    state.tick(500.0)
    assert state.role is Role.PROSPECTIVE
    state.voted(3, VoteAnswer(OK, 4, 2, True, True), 500.0)
    assert state.role is Role.CANDIDATE


def test_a_leader_without_a_majority_resigns_and_takes_a_new_epoch_later() -> None:
    state = elected()
    effects: list[Effect] = []
    now_ms = 300.0
    while state.role is Role.LEADER:
        now_ms += 50.0
        state.fetch(Fetch(1, 9, 0, 0), now_ms)  # an observer does not count
        effects = state.tick(now_ms)
    assert 600.0 < now_ms < 800.0
    assert LeaderChanged(None, 1) in effects
    assert sent(effects) == [(2, EndEpoch(1, 1, (2, 3))), (3, EndEpoch(1, 1, (2, 3)))]
    state.tick(state.deadline_ms)
    assert (state.role, state.epoch) == (Role.UNATTACHED, 2)


def test_a_leader_with_a_majority_stays() -> None:
    state = elected()
    for now_ms in range(300, 5_000, 50):
        state.fetch(Fetch(1, 3, 0, 0), float(now_ms))
        state.tick(float(now_ms))
    assert state.role is Role.LEADER


def test_a_restarted_leader_does_not_lead_the_epoch_again() -> None:
    state = replica(Election(4, leader=1, voted=1))
    assert state.role is Role.RESIGNED
    assert not state.vote(Vote(4, 2, 9, 9, False), 0.0)[0].granted


def test_the_best_successor_asks_for_votes_at_once_and_the_next_one_later() -> None:
    for me, role in ((2, Role.PROSPECTIVE), (3, Role.UNATTACHED)):
        state = replica(Election(4, leader=1), me=me)
        state.end(EndEpoch(4, 1, (2, 3)), 0.0)
        assert state.role is role
    assert state.deadline_ms < 100.0


def test_requests_of_another_epoch_are_refused_with_the_leader() -> None:
    state = elected()
    for epoch, error in ((0, ErrorCode.FENCED_LEADER_EPOCH), (2, ErrorCode.UNKNOWN_LEADER_EPOCH)):
        answer, _ = state.fetch(Fetch(epoch, 2, 0, 0), 0.0)
        assert (answer.error, answer.epoch, answer.leader) == (error, 1, 1)
    assert state.begin(BeginEpoch(0, 3), 0.0)[0] == Answer(ErrorCode.FENCED_LEADER_EPOCH, 1, 1)
    follower = replica(Election(4, leader=2))
    assert follower.fetch(Fetch(4, 3, 0, 0), 0.0)[0].error is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_follower_asks_only_for_what_follows_its_synced_log() -> None:
    state = replica(Election(4, leader=2), records=[(4, "a"), (4, "b")])
    assert state.start(0.0) == [LeaderChanged(2, 4), Sync()]
    assert state.stored(1, 0.0) == []
    assert sent(state.stored(2, 0.0)) == [(2, Fetch(4, 1, 2, 4, 0, 50.0))]


def test_an_observer_whose_leader_is_silent_asks_every_voter_and_never_for_votes() -> None:
    state = replica(Election(4, leader=2), me=7)
    state.start(0.0)
    state.stored(0, 0.0)
    asked = [each for now_ms in range(0, 10_000, 50) for each in sent(state.tick(float(now_ms)))]
    assert all(isinstance(request, Fetch) for _, request in asked)
    assert {target for target, _ in asked} == {1, 2, 3}
    assert (state.role, state.epoch) == (Role.UNATTACHED, 4)


def test_a_vote_for_another_is_on_disk_before_it_is_answered_and_no_restart_gives_a_second_one() -> None:
    state = replica()
    answer, effects = state.vote(Vote(1, 2, 0, 0, False), 0.0)
    assert answer.granted
    assert effects[-1] == Persist(Election(1, voted=2))
    restarted = replica(Election(1, voted=2))
    for voter in (state, restarted):
        assert not voter.vote(Vote(1, 3, 0, 0, False), 1.0)[0].granted
        assert voter.vote(Vote(1, 2, 0, 0, False), 1.0)[0].granted, "the answer was lost, and the candidate asks again"


# Voters {1, 2, 3}; records are committed on 1 and 2 -> 1 gets a new disk and starts under its id -> 2 stops -> 3, which lags, asked 1, whose empty log
# is behind any other: 3 was elected without the committed records.
def test_a_node_with_the_id_of_a_voter_and_another_folder_gives_no_vote() -> None:
    for pre_vote in (True, False):
        state = replica()
        answer, effects = state.vote(Vote(2, 3, 1, 10, pre_vote, to_voter=False), 0.0)
        assert answer == VoteAnswer(ErrorCode.INVALID_VOTER_KEY, 2, None, granted=False, pre_vote=pre_vote)
        assert Persist(Election(2)) in effects
        answer, _ = state.vote(Vote(1, 3, 1, 10, pre_vote, to_voter=False), 0.0)
        assert answer.error is ErrorCode.FENCED_LEADER_EPOCH
        assert state.vote(Vote(2, 3, 1, 10, pre_vote), 0.0)[0].granted, "another candidate names the right folder"


def test_a_node_with_another_folder_says_so_to_a_leader_and_follows_it() -> None:
    state = replica()
    answer, _ = state.begin(BeginEpoch(2, 3, to_voter=False), 0.0)
    assert answer == Answer(ErrorCode.INVALID_VOTER_KEY, 2, 3)
    assert state.leader == 3


def test_an_epochs_vote_is_for_one_folder_of_the_candidate() -> None:
    one, other = uuid.UUID(int=501), uuid.UUID(int=502)
    state = replica()
    answer, effects = state.vote(Vote(1, 2, 0, 0, False, one), 0.0)
    assert answer.granted
    assert effects[-1] == Persist(Election(1, voted=2, voted_directory=one))
    for voter in (state, replica(Election(1, voted=2, voted_directory=one))):
        assert not voter.vote(Vote(1, 2, 0, 0, False, other), 1.0)[0].granted
        assert not voter.vote(Vote(1, 2, 0, 0, False), 1.0)[0].granted
        assert voter.vote(Vote(1, 2, 0, 0, False, one), 1.0)[0].granted
    unnamed = replica(Election(1, voted=2))  # of a candidate that named no folder
    assert unnamed.vote(Vote(1, 2, 0, 0, False, one), 1.0)[0].granted


def test_a_candidate_of_an_earlier_epoch_hears_the_epoch_and_the_leader() -> None:
    state = replica(Election(4, leader=2))
    for epoch, error in ((3, ErrorCode.FENCED_LEADER_EPOCH), (4, OK)):
        assert state.vote(Vote(epoch, 3, 9, 9, True), 0.0)[0] == VoteAnswer(error, 4, 2, epoch == 4, True)


def test_a_follower_asks_again_when_the_answer_is_lost_and_not_while_its_disk_is_slow() -> None:
    state = replica(Election(4, leader=2))
    state.start(0.0)
    assert state.deadline_ms == 200.0
    state.deadline_ms = 100.0
    assert state.tick(100.0) == [], "the log is not on disk yet"
    assert state.deadline_ms == 200.0
    asked = sent(state.stored(0, 110.0))
    assert state.deadline_ms == 210.0
    state._wait_for_election(150.0)  # the leader is alive
    state.deadline_ms = 210.0
    assert sent(state.tick(210.0)) == asked


def test_a_new_node_waits_the_time_of_a_fetch_for_the_leader_it_knew() -> None:
    state = replica(Election(4, leader=2))
    assert state.tick(199.0) == []
    assert state.role is Role.FOLLOWER
    state.tick(200.0)
    assert state.role is Role.PROSPECTIVE


def test_an_observer_asks_the_next_voter_after_half_the_time_of_a_fetch() -> None:
    state = replica(me=7)
    assert len(sent(state.tick(500.0))) == 1
    assert state.deadline_ms == 600.0


def test_a_follower_stops_its_node_rather_than_cut_off_what_is_committed() -> None:
    for committed, effect in ((1, Truncate), (2, Halt)):
        state = replica(Election(4, leader=2), records=[(3, "a"), (3, "b")])
        _, asked = sent(state.stored(2, 0.0))[0]
        assert isinstance(asked, Fetch)
        state.high_watermark = committed
        effects = state.fetched(FetchAnswer(OK, 4, 2, asked, diverging=(3, 1)), 1.0)
        assert [type(each) for each in effects] == [effect]


def behind_snapshot(records: list[Record], snapshot: tuple[int, int], *, leader: int) -> RaftState:
    """Return a replica in epoch 9 whose log begins behind a snapshot."""
    log = MemoryLog([])
    log.install(Snapshot(snapshot, [(snapshot[0], at) for at in range(snapshot[1])]))
    log.extend(records)
    state = RaftState(
        1, {1, 2, 3}, Election(8 if leader == 1 else 9, leader=2), log, Timing(100.0, 200.0), Random(1), 0.0
    )
    if leader == 1:
        state.tick(300.0)
        state.voted(2, VoteAnswer(OK, 8, None, True, True), 300.0)
        state.voted(2, VoteAnswer(OK, 9, None, True, False), 300.0)
        assert state.role is Role.LEADER
    return state


# The leader's log: epoch 5 to offset 3, epoch 7 to 18, a snapshot of that. Node 2 has records of epoch 5 up to 20 -> the leader, which knows no
# epoch before 7, let it truncate to 18 and go on there: the records from 3 to 18 were other ones, and counted.
def test_a_replica_whose_last_epoch_ended_before_the_snapshot_reads_the_snapshot() -> None:
    state = behind_snapshot([(8, "a"), (8, "b")], (7, 18), leader=1)
    for offset, epoch in ((20, 5), (18, 5), (18, 6), (18, 8), (17, 7), (0, 0)):
        answer, _ = state.fetch(Fetch(9, 2, offset, epoch), 301.0)
        assert (answer.snapshot, answer.diverging) == ((7, 18), None), (offset, epoch)
    for offset, epoch in ((18, 7), (19, 8), (20, 8)):
        answer, _ = state.fetch(Fetch(9, 2, offset, epoch), 301.0)
        assert (answer.snapshot, answer.diverging) == (None, None), (offset, epoch)
    assert state.fetch(Fetch(9, 2, 20, 7), 301.0)[0].diverging == (7, 18)


def test_a_follower_stops_its_node_rather_than_give_up_its_snapshot() -> None:
    answers: list[dict[str, tuple[int, int]]] = [
        {"diverging": (7, 17)},
        {"diverging": (6, 20)},
        {"diverging": (0, 0)},
        {"snapshot": (8, 17)},
    ]
    for each in answers:
        state = behind_snapshot([], (7, 18), leader=2)
        _, asked = sent(state.stored(18, 0.0))[0]
        assert isinstance(asked, Fetch)
        effects = state.fetched(FetchAnswer(OK, 9, 2, asked, **each), 1.0)  # type: ignore[arg-type]
        assert [type(effect) for effect in effects] == [Halt], each


def test_a_snapshot_is_read_from_the_leader_that_named_it_and_no_longer() -> None:
    def reading() -> RaftState:
        state = replica(Election(4, leader=2))
        _, asked = sent(state.stored(0, 0.0))[0]
        assert isinstance(asked, Fetch)
        assert state.fetched(FetchAnswer(OK, 4, 2, asked, snapshot=(3, 18)), 1.0) == [ReadSnapshot(2, (3, 18))]
        assert state.reads((3, 18))
        assert not state.reads((3, 19))
        assert state.stored(0, 1.5) == [], "nothing is asked for while the snapshot is read"
        return state

    assert reading().snapshot_read(18) == [Committed(18), Sync()]
    another, none, again, failed = (reading() for _ in range(4))
    another.begin(BeginEpoch(5, 3), 2.0)
    none.tick(500.0)
    again.tick(500.0)
    again.begin(BeginEpoch(4, 2), 501.0)
    assert (another.role, none.role, again.role) == (Role.FOLLOWER, Role.PROSPECTIVE, Role.FOLLOWER)
    failed.snapshot_failed(2.0)
    for state in (another, none, again, failed):
        assert not state.reads((3, 18))
        assert state.snapshot_read(18) == []
        deadline_ms = state.deadline_ms
        state.snapshot_piece(600.0)
        state.snapshot_failed(600.0)
        assert state.deadline_ms == deadline_ms


def test_who_has_read_a_snapshot_knows_how_much_more_is_committed() -> None:
    # A node whose disk of the metadata log was replaced read the leader's snapshot, took it for everything that is committed, and deleted the logs of
    # the topics that were created since.
    state = replica(Election(4, leader=2))
    _, asked = sent(state.stored(0, 0.0))[0]
    assert isinstance(asked, Fetch)
    answer = FetchAnswer(OK, 4, 2, asked, 25, snapshot=(3, 18))
    state.fetched(answer, 1.0)
    assert state.leader_committed == -1, "the own log may be another one until the snapshot has its place"
    assert state.snapshot_read(18) == [Committed(18), Sync()]
    assert state.leader_committed == 25
    state.begin(BeginEpoch(5, 3), 2.0)
    assert state.leader_committed == -1


def test_a_candidate_that_cannot_win_any_more_waits_before_it_asks_again() -> None:
    for _ in range(20):
        state = replica()
        state.tick(300.0)
        for voter in (2, 3):
            state.voted(voter, VoteAnswer(OK, 0, None, False, True), 300.0)
        assert 300.0 + RETRY_MS <= state.deadline_ms <= 300.0 + 200.0
        assert sent(state.tick(300.0)) == []


def test_a_fetch_that_no_replica_can_mean_is_refused() -> None:
    state = elected()
    for fetch in (Fetch(1, 2, -1, 0), Fetch(1, 2, 0, -1), Fetch(-1, 2, 0, 0), Fetch(1, 2, 0, 2)):
        assert state.fetch(fetch, 0.0)[0].error is ErrorCode.INVALID_REQUEST
    assert state.fetch(Fetch(1, 2, 0, 0), 0.0)[0].error is OK


def test_a_node_without_a_vote_stands_for_election_until_the_change_is_committed() -> None:
    """1 removes itself from {1, 2} -> 2 lacks the record and needs the vote of 1 -> the log of 1 is longer: only 1 can lead."""
    removed: Record = (1, frozenset({2}))
    for records, high_watermark, stands in [
        ([removed], 0, True),  # the voters before are those of the settings
        ([(1, frozenset({1, 2})), removed], 1, True),
        ([(1, frozenset({2, 3})), removed], 1, False),  # it had no vote before, either
        ([(1, frozenset({1, 2})), removed], 2, False),  # the change is committed
        ([removed, (1, frozenset({1, 2}))], 0, True),
    ]:
        state = replica(voters=2, records=records)
        state.high_watermark = high_watermark
        state.tick(300.0)
        assert (state.role is Role.PROSPECTIVE) == stands, records
