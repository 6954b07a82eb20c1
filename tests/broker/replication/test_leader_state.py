"""The leader's view of its followers: lag, the maximal ISR, and when the high watermark may move."""

from __future__ import annotations

from typing import Any

from streamactors.broker.replication.leader_state import UNKNOWN, LeaderState, Proposal

LAG_MS = 30_000.0


def leader(isr: tuple[int, ...] = (1, 2, 3), **given: Any) -> LeaderState:
    fields = {"epoch": 5, "start_offset": 100, "replicas": (1, 2, 3), "partition_epoch": 7, "now_ms": 0.0}
    return LeaderState(1, isr=isr, **{**fields, **given})


def everyone(replica: int, broker_epoch: int) -> bool:
    return True


def reached(state: LeaderState, limit: int, now_ms: float = 0.0, min_isr: int = 1) -> int:
    return state.high_watermark(limit, now_ms=now_ms, lag_ms=LAG_MS, min_isr=min_isr, eligible=everyone)


def test_the_high_watermark_waits_for_every_member_and_for_the_first_fetch_of_each() -> None:
    state = leader()
    assert reached(state, 110) == UNKNOWN
    state.fetched(2, 9, 105, 110, 1.0)
    assert reached(state, 110) == UNKNOWN
    state.fetched(3, 9, 110, 110, 1.0)
    assert reached(state, 110) == 105
    assert reached(state, 103) == 103  # the leader's own copy counts only so far


def test_fewer_members_than_the_topic_asks_for_stop_the_high_watermark() -> None:
    state = leader(isr=(1,))
    assert reached(state, 110, min_isr=1) == 110
    assert reached(state, 110, min_isr=2) == UNKNOWN


def test_a_caught_up_follower_is_waited_for_before_it_is_in_the_isr() -> None:
    state = leader(isr=(1, 2))
    state.fetched(2, 9, 200, 200, 10.0)
    state.fetched(3, 9, 150, 150, 10.0)
    assert reached(state, 200, now_ms=20.0) == 150
    assert reached(state, 200, now_ms=20.0 + LAG_MS) == 200


def test_a_follower_joins_from_the_start_of_the_epoch_and_the_high_watermark() -> None:
    state = leader(isr=(1,))
    state.fetched(2, 9, 99, 200, 1.0)
    assert state.growth(2, 50, everyone) is None
    state.fetched(2, 9, 100, 200, 2.0)
    assert state.growth(2, 101, everyone) is None
    assert state.growth(2, 100, lambda replica, epoch: epoch != 9) is None
    assert state.growth(2, 100, everyone) == Proposal((1, 2), 5, 7, (UNKNOWN, 9))


def test_one_proposal_at_a_time_and_both_lists_count_until_it_is_settled() -> None:
    state = leader(isr=(1, 2))
    proposal = Proposal((1, 2, 3), 5, 7, (UNKNOWN, 9, 9))
    state.propose(proposal)
    assert state.maximal_isr == {1, 2, 3}
    assert state.shrinkage(500, 10**9, LAG_MS) is None
    state.refused(proposal, certain=False)
    assert state.maximal_isr == {1, 2, 3}  # an earlier attempt may have been carried out
    state.learn((1, 2, 3), (1, 2), 6)  # older than what is known
    assert state.maximal_isr == {1, 2, 3}
    state.learn((1, 2, 3), (1, 3), 8)
    assert (state.isr, state.maximal_isr) == ((1, 3), {1, 3})
    state.propose(shrink := Proposal((1,), 5, 8, (UNKNOWN,)))
    assert state.maximal_isr == {1, 3}
    state.refused(shrink, certain=True)
    assert state.proposed is None


def test_a_member_lags_when_it_has_not_reached_the_end_for_the_lag_time() -> None:
    state = leader()
    state.fetched(2, 9, 110, 110, 1_000.0)  # at the end: never lags while nothing is written
    state.fetched(3, 9, 105, 110, 1_000.0)
    without_3 = Proposal((1, 2), 5, 7, (UNKNOWN, 9))
    assert state.shrinkage(110, 10**6, LAG_MS) == without_3
    assert state.shrinkage(111, 1_000.0 + LAG_MS, LAG_MS) == without_3  # 3 was given the time since the election
    state.fetched(3, 9, 110, 120, 20_000.0)  # it has what the leader had when it fetched before
    assert state.remotes[3].caught_up_ms == 1_000.0
    assert state.shrinkage(120, 1_000.0 + LAG_MS, LAG_MS) is None


def test_a_broker_that_is_no_replica_is_not_counted() -> None:
    state = leader()
    assert not state.fetched(9, 9, 110, 110, 1.0)
    state.learn((1, 2, 4), (1, 2), 8)
    assert set(state.remotes) == {2, 4}


def test_a_follower_that_waits_at_the_end_counts_as_caught_up_until_the_leader_appends() -> None:
    """A fetch of a session does not name a partition again whose offset is the same. The leader notes before an append that it was asked."""
    state = leader()
    state.fetched(2, 9, 110, 110, 1_000.0)
    state.fetched(3, 9, 105, 110, 1_000.0)
    for replica in (2, 3, 9):  # 9 is no replica
        state.heard(replica, 50_000.0)
    assert (state.remotes[2].caught_up_ms, state.remotes[2].fetched_ms) == (50_000.0, 50_000.0)
    assert (state.remotes[3].caught_up_ms, state.remotes[3].fetched_ms) == (0.0, 50_000.0)  # it waits behind the end
    assert state.shrinkage(120, 50_000.0 + LAG_MS, LAG_MS) == Proposal((1, 2), 5, 7, (UNKNOWN, 9))
    state.heard(2, 40_000.0)  # older than what is known
    assert (state.remotes[2].caught_up_ms, state.remotes[2].fetched_ms) == (50_000.0, 50_000.0)
    state.fetched(3, 9, 110, 120, 60_000.0)  # it has what the leader had when it was heard of
    assert state.remotes[3].caught_up_ms == 50_000.0
