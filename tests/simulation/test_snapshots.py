"""Snapshots of the metadata log under delay, loss, partitions, crashes and slow disks; and rules that are broken on purpose.

Each node writes snapshots at times of its own, and a node that is behind the leader's log reads one. Nodes crash before the next record, and
between the two steps of an installation."""

from __future__ import annotations

import pytest

from streamactors.broker.quorum.raft.raft_effects import Effect, Sync
from streamactors.broker.quorum.raft.raft_messages import EpochEnd, Fetch
from streamactors.broker.quorum.raft.raft_state import RaftState
from streamactors.broker.quorum.raft.roles import Role
from tests.simulation.quorum_world import Rules, Violated, World, first_violation

QUICK = range(60)
MANY = range(10_000)
UNTIL_FOUND = range(1_500)
RARE = range(2_560, 4_000)


@pytest.mark.parametrize("changing", [False, True], ids=["fixed voters", "changing voters"])
@pytest.mark.parametrize("seeds", [QUICK, pytest.param(MANY, marks=[pytest.mark.slow, pytest.mark.timeout(1_800)])])
def test_no_snapshot_loses_anything_committed_or_the_epoch_of_a_log(seeds: range, changing: bool) -> None:
    committed = snapshots = installed = 0
    for seed in seeds:
        world = World(seed, changing=changing, snapshots=True)
        try:
            world.play()
        except Violated as violated:
            raise AssertionError(f"seed {seed}: {violated}\n" + "\n".join(world.trace[-60:])) from violated
        committed += world.under_faults
        snapshots += world.snapshots
        installed += sum(" install " in line for line in world.trace)
    # The runs are worth something: records are committed among the faults, and snapshots are written and read.
    assert committed > 20 * len(seeds)
    assert snapshots > 5 * len(seeds)
    assert installed > len(seeds) // 2


# --- broken rules, each of which must be found ---


class ForgetsTheEpochOfItsSnapshot(Rules):
    """A log that ends where its snapshot does has no epoch after a crash, or after a truncation to there."""

    @staticmethod
    def begins_anew(snapshot: EpochEnd, latest_epoch: int, end_offset: int) -> bool:
        return end_offset < snapshot[1]


class AnyEpochBehindTheStart(RaftState):
    """The leader sends its snapshot only to a replica that ends before it, whatever the epoch of the replica's last record."""

    def _needs(self, snapshot: EpochEnd, fetch: Fetch) -> bool:
        return fetch.offset < self._log.start_offset or fetch.offset == 0


class InstallsALateSnapshot(RaftState):
    """A follower installs a snapshot whose reading began under an earlier leader."""

    def reads(self, snapshot: EpochEnd) -> bool:
        return self.role is Role.FOLLOWER

    def snapshot_read(self, end_offset: int) -> list[Effect]:
        return [*self._raise_high_watermark(end_offset), Sync()]


def with_state(state: type[RaftState]) -> type[Rules]:
    return type(state.__name__, (Rules,), {"state": state})


BROKEN = [
    (ForgetsTheEpochOfItsSnapshot, UNTIL_FOUND),
    (with_state(AnyEpochBehindTheStart), UNTIL_FOUND),
    (with_state(InstallsALateSnapshot), RARE),
]


@pytest.mark.parametrize(("rules", "seeds"), BROKEN, ids=lambda each: each.__name__ if isinstance(each, type) else "")
def test_a_broken_rule_is_found(rules: type[Rules], seeds: range) -> None:
    assert first_violation(rules, seeds, snapshots=True) is not None
