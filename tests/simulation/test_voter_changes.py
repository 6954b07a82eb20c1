"""Voters that are added and removed under delay, loss, partitions, crashes and slow disks; and rules that are broken on purpose.

Two broken rules need more than these faults: a change before a record of the leader's own epoch is committed, and a leader that goes on after its
removal is committed. They are found by `tests/broker/quorum/test_voter_changes.py`."""

from __future__ import annotations

from collections.abc import Set

import pytest

from streamactors.broker.errors import ErrorCode
from streamactors.broker.quorum.raft.raft_effects import AppendVoters, Effect
from streamactors.broker.quorum.raft.raft_state import RaftState
from tests.simulation.quorum_world import Rules, Violated, World, first_violation

QUICK = range(30)
MANY = range(10_000)
UNTIL_FOUND = range(3_000)


@pytest.mark.parametrize("seeds", [QUICK, pytest.param(MANY, marks=[pytest.mark.slow, pytest.mark.timeout(1_800)])])
def test_no_change_of_the_voters_loses_anything_committed_or_leaves_the_quorum_without_a_leader(seeds: range) -> None:
    committed = changes = 0
    for seed in seeds:
        world = World(seed, changing=True)
        try:
            world.play()
        except Violated as violated:
            raise AssertionError(f"seed {seed}: {violated}\n" + "\n".join(world.trace[-60:])) from violated
        committed += world.under_faults
        changes += sum(isinstance(value, frozenset) for _, value in world.committed)
    # The runs are worth something: records are committed among the faults, and voters change.
    assert committed > 20 * len(seeds)
    assert changes > len(seeds)


# --- broken rules, each of which must be found ---


class SeveralChangesAtOnce(Rules):
    """A change does not wait until the change before is committed."""

    @staticmethod
    def add(state: RaftState, voter: int) -> AppendVoters | ErrorCode:
        progress = state.progress
        if progress is None or state.high_watermark <= progress.epoch_start or state.voters == {voter}:
            return ErrorCode.INVALID_REQUEST
        return AppendVoters(frozenset(state.voters ^ {voter}))

    remove = add


class OnlyCommittedVotersCount(RaftState):
    """The voters change when the record is committed, on each node at another time."""

    @property
    def voters(self) -> Set[int]:
        log = self._log
        if log.voters_offset < self.high_watermark:
            return super().voters
        return self._first_voters if log.voters_before is None else log.voters_before


class CountsItselfAfterItsRemoval(RaftState):
    """A leader that has removed itself counts its own disk."""

    def _commit(self, now_ms: float) -> list[Effect]:
        assert self.progress is not None
        self.progress.use(self.voters | {self._me})
        committed = self.progress.committed()
        raised = [] if committed is None else self._raise_high_watermark(committed)
        return [*raised, *super()._commit(now_ms)]


class NeverLeadsWithoutAVote(RaftState):
    """A leader that has removed itself and lost the leadership before the commit is of no use to anybody."""

    def _may_lead(self) -> bool:
        return self._me in self.voters


class StaysWithoutALeader(RaftState):
    """A node without a vote asks nobody who leads."""

    def _look_for_leader(self, now_ms: float) -> list[Effect]:
        self._wait_for_election(now_ms)
        return []


STATES = [
    OnlyCommittedVotersCount,
    CountsItselfAfterItsRemoval,
    StaysWithoutALeader,
]
RARE = [NeverLeadsWithoutAVote]


def with_state(state: type[RaftState]) -> type[Rules]:
    return type(state.__name__, (Rules,), {"state": state})


BROKEN = [
    SeveralChangesAtOnce,
    *map(with_state, STATES),
    *(pytest.param(with_state(each), marks=pytest.mark.slow) for each in RARE),
]


@pytest.mark.parametrize("rules", BROKEN, ids=lambda rules: rules.__name__)
def test_a_broken_rule_is_found(rules: type[Rules]) -> None:
    assert first_violation(rules, UNTIL_FOUND, changing=True) is not None
