"""The rules of replication under delay, loss, partitions, kills and power cuts, by the thousand; and rules that are broken on purpose."""

from __future__ import annotations

from typing import Any

import pytest

from streamactors.broker.errors import ErrorCode
from streamactors.broker.replication.follower_state import (
    Action,
    AskedFetch,
    Extend,
    Following,
    Got,
    LocalLog,
    TruncateTo,
    judge,
)
from streamactors.broker.replication.leader_state import UNKNOWN, Eligible, LeaderState, Proposal
from tests.simulation.replication_world import Rules, Violated, World

QUICK = range(150)
MANY = range(10_000)
UNTIL_FOUND = range(3_000)


@pytest.mark.parametrize("seeds", [QUICK, pytest.param(MANY, marks=[pytest.mark.slow, pytest.mark.timeout(900)])])
def test_nothing_acknowledged_is_lost_and_the_replicas_agree_at_last(seeds: range) -> None:
    acknowledged = elections = promised = 0
    for seed in seeds:
        world = World(seed)
        try:
            world.play()
        except Violated as violated:
            raise AssertionError(f"seed {seed}: {violated}\n" + "\n".join(world.trace[-60:])) from violated
        acknowledged += len(world.acknowledged)
        elections += world.controller.image.leader_epoch
        promised += not world.trace[-1].endswith("nothing is promised any more")
    # The runs are worth something: writes succeed, leaders change, and few runs end early.
    assert acknowledged > 100 * len(seeds)
    assert elections > 3 * len(seeds)
    assert promised > 0.9 * len(seeds)


def test_a_seed_is_a_run_to_the_byte() -> None:
    assert World(7).play().trace == World(7).play().trace
    assert World(7).play().trace != World(8).play().trace


# --- broken rules, each of which must be found ---


class CommittedIsrOnly(LeaderState):
    """Counts the ISR without the proposal: the controller may have taken the new member in already."""

    @property
    def maximal_isr(self) -> frozenset[int]:
        return frozenset(self.isr)

    def high_watermark(self, limit: int, **rest: Any) -> int:
        return super().high_watermark(limit, **{**rest, "eligible": lambda replica, epoch: False})


class ProposalAtOnce(LeaderState):
    """Counts a smaller ISR before the controller has it."""

    @property
    def maximal_isr(self) -> frozenset[int]:
        return frozenset(self.isr if self.proposed is None else self.proposed.isr)


class SilentMembersDoNotCount(LeaderState):
    """Moves the high watermark although a member of the ISR has not fetched in this epoch."""

    def high_watermark(self, limit: int, **rest: Any) -> int:
        silent = {each: self.remotes.pop(each) for each in [*self.remotes] if self.remotes[each].end_offset == UNKNOWN}
        try:
            return super().high_watermark(limit, **rest)
        finally:
            self.remotes.update(silent)


class AnyoneMayJoin(LeaderState):
    """Takes followers into the ISR wherever their logs end."""

    def growth(self, replica: int, high_watermark: int, eligible: Eligible) -> Proposal | None:
        remote = self.remotes.get(replica)
        if remote is None or self.proposed is not None or replica in self.isr or remote.end_offset == UNKNOWN:
            return None
        return self._proposal({*self.isr, replica}) if eligible(replica, remote.broker_epoch) else None


class EveryAnswerIsNews(LeaderState):
    """Goes back to an older ISR when an answer comes after newer metadata."""

    def learn(self, replicas: Any, isr: Any, partition_epoch: int) -> None:
        self.partition_epoch = -1
        super().learn(replicas, isr, partition_epoch)


class NoAnswerIsNo(LeaderState):
    """Takes a proposal back although an earlier attempt may have been carried out."""

    def refused(self, proposal: Proposal, *, certain: bool) -> None:
        super().refused(proposal, certain=True)

    def high_watermark(self, limit: int, **rest: Any) -> int:
        return super().high_watermark(limit, **{**rest, "eligible": lambda replica, epoch: False})


class EarlierEndsCount(LeaderState):
    """Begins its epoch with the log ends that followers had under earlier leaders."""

    def __init__(self, me: int, *, start_offset: int, **rest: Any) -> None:
        super().__init__(me, start_offset=start_offset, **rest)
        for remote in self.remotes.values():
            remote.end_offset = start_offset


class ZombiesMayFetch(Rules):
    """A fetch of an earlier registration counts."""

    checks_broker_epoch = False


class EpochsOutliveTheirRecords(Rules):
    """A truncation leaves the epochs of the removed records."""

    forgets_epochs_at_truncation = True


class WritesOutliveTheLeadership(Rules):
    """A write is acknowledged by the high watermark that a later leader brings."""

    fails_writes_with_the_leadership = False


def late_answers_count(following: Following, asked: AskedFetch, got: Got, log: LocalLog, now_ms: float) -> Action:
    """Uses an answer although the log was truncated, or the leader changed, since the question."""
    if got.error is ErrorCode.NONE and got.diverging is None:
        return Extend(got.high_watermark, got.log_start_offset)
    return judge(following, asked._replace(offset=log.end_offset), got, log, now_ms)


def truncates_to_the_leader_alone(
    following: Following, asked: AskedFetch, got: Got, log: LocalLog, now_ms: float
) -> Action:
    """Truncates to the leader's end of the epoch without a look at the own epochs."""
    action = judge(following, asked, got, log, now_ms)
    return TruncateTo(got.diverging[1]) if isinstance(action, TruncateTo) and got.diverging is not None else action


def keeps_its_log(following: Following, asked: AskedFetch, got: Got, log: LocalLog, now_ms: float) -> Action:
    """Never truncates."""
    action = judge(following, asked, got, log, now_ms)
    return Extend(-1, 0) if isinstance(action, TruncateTo) else action


LEADERS = [
    CommittedIsrOnly,
    ProposalAtOnce,
    SilentMembersDoNotCount,
    AnyoneMayJoin,
    EveryAnswerIsNews,
    NoAnswerIsNo,
    EarlierEndsCount,
]
FOLLOWERS = [late_answers_count, truncates_to_the_leader_alone, keeps_its_log]
RULES = [ZombiesMayFetch, EpochsOutliveTheirRecords, WritesOutliveTheLeadership]
BROKEN = [
    *RULES,
    *(type(each.__name__, (Rules,), {"leader": each}) for each in LEADERS),
    *(type(each.__name__, (Rules,), {"judge": staticmethod(each)}) for each in FOLLOWERS),
]


RARE = ("ZombiesMayFetch", "EveryAnswerIsNews")  # found after some hundred seeds


def first_violation(rules: type[Rules]) -> int | None:
    for seed in UNTIL_FOUND:
        try:
            World(seed, rules).play()
        except (Violated, AssertionError, IndexError):
            return seed
    return None


@pytest.mark.parametrize(
    "rules",
    [pytest.param(each, marks=[pytest.mark.slow] if each.__name__ in RARE else []) for each in BROKEN],
    ids=lambda rules: rules.__name__,
)
def test_a_broken_rule_is_found(rules: type[Rules]) -> None:
    assert first_violation(rules) is not None
