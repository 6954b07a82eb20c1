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
