"""What a leader of the metadata log counts."""

from __future__ import annotations

import pytest

from streamactors.broker.quorum.raft.leader_progress import MOST_REPLICAS, LeaderProgress


@pytest.mark.parametrize(
    ("ends", "committed"), [([9], 9), ([9, 8, 7], 8), ([9, 9, 1, 1], 1), ([9, 8, 7, 6, 5], 7), ([9, -1, -1], None)]
)
def test_a_majority_decides(ends: list[int], committed: int | None) -> None:
    progress = LeaderProgress(0, set(range(len(ends))), 0, 0.0)
    for voter, end in enumerate(ends):
        progress.stored(voter, end)
    assert progress.committed() == committed


def test_records_of_earlier_epochs_are_committed_only_with_one_of_the_own_epoch() -> None:
    progress = LeaderProgress(0, {0, 1, 2}, 5, 0.0)
    progress.stored(0, 6)
    progress.stored(1, 5)
    assert progress.committed() is None
    progress.stored(1, 6)
    assert progress.committed() == 6


def test_nodes_that_are_no_voters_do_not_count() -> None:
    progress = LeaderProgress(0, {0, 1, 2}, 0, 0.0)
    progress.stored(0, 4)
    progress.stored(7, 4)
    progress.fetched(7, 100.0)
    assert progress.committed() is None
    assert progress.quorum_seen_at_ms(100.0) == 0.0


def test_a_leader_that_is_no_voter_any_more_needs_a_majority_of_the_others() -> None:
    progress = LeaderProgress(0, {1, 2, 3}, 0, 0.0)
    progress.stored(0, 9)
    progress.stored(1, 4)
    progress.fetched(1, 100.0)
    assert progress.committed() is None
    assert progress.quorum_seen_at_ms(100.0) == 0.0
    progress.stored(2, 3)
    progress.fetched(2, 90.0)
    assert progress.committed() == 3
    assert progress.quorum_seen_at_ms(100.0) == 90.0


def test_voters_count_however_many_other_nodes_have_fetched() -> None:
    progress = LeaderProgress(0, {0, 1, 2}, 0, 0.0)
    for observer in range(100, 100 + 2 * MOST_REPLICAS):
        progress.stored(observer, 9)
        progress.fetched(observer, 50.0)
    assert len(progress._ends) <= MOST_REPLICAS
    for voter in (0, 1):
        progress.stored(voter, 4)
        progress.fetched(voter, 60.0)
    assert progress.committed() == 4
    assert progress.quorum_seen_at_ms(100.0) == 60.0
    progress.stored(100, 12)
    assert progress._ends[100] == 12, "a node that is known is counted on"


def test_a_replica_has_caught_up_when_it_has_what_the_log_had_at_its_fetch_before() -> None:
    progress = LeaderProgress(0, {0, 1}, 0, 0.0)
    for stored, log_end, caught_up in ((0, 5, False), (4, 9, False), (9, 12, True), (9, 30, True)):
        progress.stored(7, stored)
        progress.reached(7, log_end)
        assert progress.has_caught_up(7) == caught_up
    progress.stored(8, 5)
    progress.reached(8, 5)
    assert progress.has_caught_up(8), "it has the whole log at its first fetch"
    progress.reached(9, 5)
    assert not progress.has_caught_up(9), "nothing is known of its log"


def test_a_voter_that_is_removed_and_added_again_begins_with_nothing() -> None:
    progress = LeaderProgress(0, {0, 1, 2}, 0, 10.0)
    progress.stored(0, 9)
    for voter in (1, 2):
        progress.stored(voter, 9)
        progress.fetched(voter, 70.0)
        progress.reached(voter, 9)
    progress.use({0, 1})
    progress.use({0, 1, 2})
    progress.stored(1, 3)
    assert progress.has_caught_up(1)
    assert not progress.has_caught_up(2)
    assert progress.committed() == 3
    assert progress.successors() == (1, 2)
    progress.use({0, 2})
    assert progress.quorum_seen_at_ms(99.0) == 10.0
    progress.reached(2, 9)
    assert not progress.has_caught_up(2)


def test_successors_are_the_other_voters_by_the_ends_of_their_logs_then_by_their_numbers() -> None:
    progress = LeaderProgress(3, {1, 2, 3, 4, 5}, 0, 0.0)
    for voter, end in ((1, 4), (3, 9), (4, 7), (5, 4)):
        progress.stored(voter, end)
    assert progress.successors() == (4, 1, 5, 2)


def test_a_leader_alone_is_always_in_touch_with_its_majority() -> None:
    assert LeaderProgress(0, {0}, 0, 5.0).quorum_seen_at_ms(70.0) == 70.0
    five = LeaderProgress(0, {0, 1, 2, 3, 4}, 0, 5.0)
    for voter, now_ms in ((1, 90.0), (2, 60.0), (3, 30.0)):
        five.fetched(voter, now_ms)
    assert five.quorum_seen_at_ms(100.0) == 60.0


def test_exactly_so_many_nodes_without_a_vote_are_known() -> None:
    progress = LeaderProgress(0, {0}, 0, 0.0)
    for observer in range(MOST_REPLICAS + 1):
        progress.stored(100 + observer, 1)
        progress.reached(100 + observer, 2)
        progress.fetched(100 + observer, 1.0)
    assert len(progress._ends) == MOST_REPLICAS
    assert not progress.has_caught_up(100 + MOST_REPLICAS)
