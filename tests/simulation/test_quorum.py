"""The rules of the quorum under delay, loss, partitions, crashes and slow disks, by the thousand; and rules that are broken on purpose.

One broken rule needs more than these faults: a leader that commits records of earlier epochs by counting them alone. It is found by
`tests/broker/quorum/test_leader_progress.py`."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace
from typing import Any

import pytest

from streamactors.broker.quorum.raft.leader_progress import LeaderProgress
from streamactors.broker.quorum.raft.raft_effects import Effect, Sync
from streamactors.broker.quorum.raft.raft_messages import Fetch, FetchAnswer, Vote
from streamactors.broker.quorum.raft.raft_state import RaftState
from streamactors.broker.quorum.raft.roles import Role
from tests.simulation.quorum_world import Rules, Violated, World, first_violation

QUICK = range(150)
MANY = range(10_000)
UNTIL_FOUND = range(1_500)


@pytest.mark.parametrize("seeds", [QUICK, pytest.param(MANY, marks=[pytest.mark.slow, pytest.mark.timeout(1_800)])])
def test_nothing_committed_is_lost_and_one_node_leads_at_last(seeds: range) -> None:
    committed = elections = 0
    for seed in seeds:
        world = World(seed)
        try:
            world.play()
        except Violated as violated:
            raise AssertionError(f"seed {seed}: {violated}\n" + "\n".join(world.trace[-60:])) from violated
        committed += world.under_faults
        elections += len(world.leaders)
    # The runs are worth something: records are committed among the faults, and leaders change.
    assert committed > 20 * len(seeds)
    assert elections > 3 * len(seeds)


def test_a_seed_is_a_run_to_the_byte() -> None:
    assert World(7).play().trace == World(7).play().trace
    assert World(7).play().trace != World(8).play().trace


# --- broken rules, each of which must be found ---


class VotesAreNotSynced(Rules):
    """The vote is answered before it is on the disk."""

    syncs_votes = False


class UnsyncedRecordsCount(Rules):
    """Records count for the high watermark before they are on the disk."""

    reports_unsynced_log = True


class ShorterLogsWin(RaftState):
    """A vote is given to a candidate whose log ends before the voter's."""

    def _is_up_to_date(self, vote: Vote) -> bool:
        return True


class VotesAgain(RaftState):
    """A second candidate of an epoch gets the vote as well."""

    def _would_vote(self, vote: Vote, now_ms: float) -> bool:
        return self._is_up_to_date(vote) and self.role is not Role.LEADER

    def vote(self, vote: Vote, now_ms: float) -> Any:
        if vote.epoch == self.epoch and not vote.pre_vote and self.role is not Role.LEADER:
            self.election = replace(self.election, voted=None)
        return super().vote(vote, now_ms)


class LeadsAgain(RaftState):
    """A restarted leader goes on in the epoch that it led."""

    def start(self, now_ms: float) -> list[Effect]:
        if self.role is not Role.RESIGNED:
            return super().start(now_ms)
        self.role = Role.LEADER
        self.progress = LeaderProgress(self._me, self.voters, self._log.end_offset, now_ms)
        return [*self._lead_on(now_ms), Sync()]


class LateAnswersCount(RaftState):
    """A follower appends the answer to an earlier question."""

    def fetched(self, answer: FetchAnswer, now_ms: float) -> list[Effect]:
        self._asked = answer.asked
        return super().fetched(answer, now_ms)


class KeepsItsLog(RaftState):
    """A follower never truncates."""

    def _truncate(self, epoch: int, end_offset: int) -> list[Effect]:
        return [Sync()]


class TruncatesToTheLeaderAlone(RaftState):
    """A follower truncates to the end of the leader's epoch, without a look at its own epochs."""

    def fetched(self, answer: FetchAnswer, now_ms: float) -> list[Effect]:
        if answer.diverging is not None and answer.asked is self._asked:
            answer = replace(answer, diverging=(self._log.last_epoch, answer.diverging[1] + 1))
        return super().fetched(answer, now_ms)


class LogsAreNotCompared(RaftState):
    """The leader serves a follower whose log differs."""

    def fetch(self, fetch: Fetch, now_ms: float) -> Any:
        epoch = self._log.end_of_epoch(self.epoch)[0]
        if fetch.offset <= self._log.end_offset and epoch != 0:
            last = self._log.records[fetch.offset - 1][0] if fetch.offset else 0  # type: ignore[attr-defined]
            answer, effects = super().fetch(replace(fetch, last_epoch=last), now_ms)
            return replace(answer, asked=fetch), effects
        return super().fetch(fetch, now_ms)


class AnyEpochIsNews(RaftState):
    """A message of an earlier epoch takes the node back to it."""

    def _learn(self, epoch: int, leader: int | None, now_ms: float) -> list[Effect]:
        return super()._learn(epoch, leader, now_ms) if epoch >= self.epoch else self._new_epoch(epoch, leader, now_ms)


class MinorityCommits(RaftState):
    """One replica less than a majority is enough for the high watermark."""

    def _lead(self, now_ms: float) -> list[Effect]:
        class Half(LeaderProgress):
            def __init__(self, me: int, voters: Set[int], *rest: Any) -> None:
                super().__init__(me, voters, *rest)

            def committed(self) -> int | None:
                ends = sorted((self._ends.get(each, -1) for each in self._voters), reverse=True)
                end_offset = ends[max(len(ends) // 2 - 1, 0)]
                return end_offset if end_offset > self.epoch_start else None

        effects = super()._lead(now_ms)
        self.progress = Half(self._me, self.voters, self._log.end_offset, now_ms)
        return effects


class LeadersHighWatermarkIsMine(RaftState):
    """A follower commits up to the leader's high watermark, beyond its own log."""

    def stored(self, end_offset: int, now_ms: float) -> list[Effect]:
        raised = [] if self.progress is not None else self._raise_high_watermark(self.leader_committed)
        return [*raised, *super().stored(end_offset, now_ms)]


STATES = [
    ShorterLogsWin,
    VotesAgain,
    LeadsAgain,
    LateAnswersCount,
    KeepsItsLog,
    TruncatesToTheLeaderAlone,
    LogsAreNotCompared,
    AnyEpochIsNews,
    MinorityCommits,
    LeadersHighWatermarkIsMine,
]
BROKEN = [VotesAreNotSynced, UnsyncedRecordsCount, *(type(each.__name__, (Rules,), {"state": each}) for each in STATES)]


@pytest.mark.parametrize("rules", BROKEN, ids=lambda rules: rules.__name__)
def test_a_broken_rule_is_found(rules: type[Rules]) -> None:
    assert first_violation(rules, UNTIL_FOUND) is not None
