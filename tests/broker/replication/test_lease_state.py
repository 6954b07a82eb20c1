"""When a leader may speak for its partition, and when it may not: no leader names the past once another one may have been elected."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from streamactors.broker.replication.lease_state import ALWAYS, NEVER, candidates, lease_end_ms

LAG_MS, SESSION_MS = 30.0, 20.0


def test_those_who_may_be_elected_are_the_isr_the_eligible_and_with_unclean_elections_everybody() -> None:
    given = {"replicas": (1, 2, 3, 4), "isr": (1, 2), "elr": (3,)}
    assert candidates(1, **given, unclean=False) == {2, 3}
    assert candidates(1, **given, unclean=True) == {2, 3, 4}
    assert candidates(1, replicas=(1, 2), isr=(1,), elr=(), unclean=False) == set()


def test_the_session_with_the_controller_is_a_lease_whatever_the_followers_do() -> None:
    assert lease_end_ms(50.0, {2, 3}, {}, LAG_MS) == 50.0


def test_without_the_controller_the_candidate_that_is_silent_for_longest_ends_the_lease() -> None:
    # 1 leads and is cut off together with 3 -> 2, which is on the side of the controller, is elected, and 3 fetches from 1 as before.
    assert lease_end_ms(NEVER, {2, 3}, {2: 5.0, 3: 40.0}, LAG_MS) == 5.0 + LAG_MS
    assert lease_end_ms(NEVER, {2, 3}, {3: 40.0}, LAG_MS) == NEVER


def test_the_only_replica_that_may_lead_needs_nobody() -> None:
    assert lease_end_ms(NEVER, (), {}, LAG_MS) == ALWAYS


class Elections(RuleBasedStateMachine):
    """Broker 1 leads three replicas. A controller, which it may reach or not, elects others when its session is over. Links are cut in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.sent = 0.0  # the last heartbeat that was accepted
        self.fetched = {2: 0.0, 3: 0.0}
        self.leader = 1
        self.elected = 0.0
        self.isr = {1, 2, 3}
        self.reaches_controller = True
        self.reaches = {2: True, 3: True}

    @rule(ms=st.floats(0.5, 15.0))
    def wait(self, ms: float) -> None:
        self.now += ms

    @precondition(lambda self: self.reaches_controller and self.leader == 1)
    @rule()
    def beat(self) -> None:
        self.sent = self.now

    @rule(follower=st.sampled_from((2, 3)))
    def fetch(self, follower: int) -> None:
        if self.reaches[follower] and self.leader == 1:  # who follows another leader asks that one
            self.fetched[follower] = self.now

    @rule()
    def cut_off_controller(self) -> None:
        self.reaches_controller = False

    @rule(follower=st.sampled_from((2, 3)), reaches=st.booleans())
    def link(self, follower: int, reaches: bool) -> None:
        self.reaches[follower] = reaches

    @precondition(lambda self: self.leader == 1)
    @rule(leader=st.sampled_from((2, 3)))
    def elect(self, leader: int) -> None:
        if self.now - self.sent > SESSION_MS:
            self.leader, self.elected = leader, self.now

    @invariant()
    def a_deposed_leader_is_silent_within_the_lag_time(self) -> None:
        others = candidates(1, replicas=(1, 2, 3), isr=self.isr, elr=(), unclean=False)
        end = lease_end_ms(self.sent + SESSION_MS, others, self.fetched, LAG_MS)
        if self.leader != 1:
            assert end <= self.elected + LAG_MS


TestElections = Elections.TestCase
TestElections.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)
