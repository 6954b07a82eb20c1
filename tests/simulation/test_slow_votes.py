"""Votes that the disks write slowly: two nodes need longer for them than an election may take. And rules that are broken on purpose."""

from __future__ import annotations

import pytest

from streamactors.broker.quorum.raft.raft_effects import Effect, Send
from streamactors.broker.quorum.raft.raft_messages import VoteAnswer
from streamactors.broker.quorum.raft.raft_state import RaftState
from streamactors.broker.quorum.raft.roles import Role
from tests.simulation.quorum_world import Rules, Violated, World

QUICK = range(15)
MANY = range(10_000)
UNTIL_FOUND = range(60)
VOTE_MS = 200.0
"""How long each vote is written where all disks are equally slow: an election lasts 100 to 200 ms."""
WITHIN_MS = 15_000.0


@pytest.mark.parametrize("changing", [False, True], ids=["fixed voters", "changing voters"])
@pytest.mark.parametrize("seeds", [QUICK, pytest.param(MANY, marks=[pytest.mark.slow, pytest.mark.timeout(1_800)])])
def test_votes_that_are_written_slowly_lose_nothing_and_elect_a_leader_at_last(seeds: range, changing: bool) -> None:
    elections = 0
    for seed in seeds:
        world = World(seed, changing=changing, slow_votes=True)
        try:
            world.play()
        except Violated as violated:
            raise AssertionError(f"seed {seed}: {violated}\n" + "\n".join(world.trace[-60:])) from violated
        elections += len(world.leaders)
    assert elections > 2 * len(seeds)


def first_without_a_leader(rules: type[Rules], seeds: range) -> int | None:
    """Return the first seed with which a bare majority of the voters elects nobody, though only their disks are slow."""
    for seed in seeds:
        world = World(seed, rules, slow_votes=True)
        world.vote_ms = (VOTE_MS,)
        world.faulty = False
        world.be_kind()
        for gone in range(1, 1 + len(world.voters) // 2):
            world.nodes[gone].crash()
        world.run_until(lambda world=world: bool(world.committed), within=WITHIN_MS, lasting=0.0)  # type: ignore[misc]
        if not world.committed:
            return seed
    return None


def test_a_bare_majority_elects_a_leader_though_each_vote_is_written_for_longer_than_an_election_lasts() -> None:
    # An election lasted 150 ms at least, and a disk needed 100 ms for a sync: each candidate gave up before the votes came, and asked anew in the next
    # epoch. No node led for as long as the disks were slow.
    assert first_without_a_leader(Rules, QUICK) is None


# --- broken rules, each of which must be found ---


class LateVotesAreLost(RaftState):
    """A vote that comes after the election timeout of its candidate does not count."""

    def voted(self, voter: int, answer: VoteAnswer, now_ms: float) -> list[Effect]:
        if not answer.pre_vote and self.role is not Role.CANDIDATE:
            return self._learn(answer.epoch, None if answer.granted else answer.leader, now_ms)
        return super().voted(voter, answer, now_ms)


class OwnWorkIsSilence(RaftState):
    """The time for which a node wrote its vote, and heard nobody, counts as the silence of the others."""

    def was_busy(self, ms: float) -> None:
        pass


class NamesItselfLate(RaftState):
    """A leader says that it leads after its own disk has worked."""

    def _lead(self, now_ms: float) -> list[Effect]:
        effects = super()._lead(now_ms)
        return sorted(effects, key=lambda effect: isinstance(effect, Send))


@pytest.mark.parametrize(
    "state", [LateVotesAreLost, OwnWorkIsSilence, NamesItselfLate], ids=lambda state: state.__name__
)
def test_a_broken_rule_is_found(state: type[RaftState]) -> None:
    assert first_without_a_leader(type(state.__name__, (Rules,), {"state": state}), UNTIL_FOUND) is not None
