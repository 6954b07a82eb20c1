"""One, three or five replicas of the metadata log under faults, and the invariants of the quorum."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from streamactors.broker.quorum.raft.raft_messages import Vote, VoteAnswer
from streamactors.broker.quorum.raft.roles import Role
from streamactors.broker.quorum.vote_file import Election
from tests.simulation.memory_log import Snapshot
from tests.simulation.quorum_node import TIMING, Node, Record, Rules, Violated
from tests.simulation.scheduler import Scheduler

__all__ = ["Rules", "Violated", "World", "first_violation"]

SLOW_VOTES = (20.0, 60.0, 130.0)
"""How long a vote is written, in ms. Two of them can take longer than the election timeout."""
FAULTS = ("crash", "crash", "crash", "start", "start", "start", "start", "apart", "apart", "heal", "resign", "everyone")


class World(Scheduler):
    """The replicas, a client that appends, faults and the invariants."""

    def __init__(
        self,
        seed: int,
        rules: Any = Rules,
        *,
        changing: bool = False,
        snapshots: bool = False,
        slow_votes: bool = False,
    ) -> None:
        """`changing`: voters are added and removed, and up to two nodes begin without a vote. `snapshots`: nodes write snapshots.

        `slow_votes`: a vote is written for as long as `SLOW_VOTES` says, and the node hears nothing meanwhile; else in no time."""
        super().__init__(seed, loss=0.03)
        self.rules: Any = rules
        self.vote_ms = SLOW_VOTES if slow_votes else ()
        self.voters = frozenset(range(1, 1 + self.random.choice((1, 3, 3, 3, 5))))
        self.leaders: dict[int, int] = {}
        self.given: dict[tuple[int, int], int] = {}
        self.epochs = dict.fromkeys(range(1, 10), 0)
        self.committed: list[Record] = []
        self.committed_in: list[int] = []
        """The epoch in which each of these was committed."""
        self.under_faults = 0  # records that were committed while there were faults
        self.values = 0
        self.batch = self.random.choice(
            (4, 50) if changing else (1, 1, 4)
        )  # a node that gets one at a time never catches up
        self.faulty = self.writing = True
        self.changes = 0
        count = len(self.voters) + (self.random.choice((0, 1, 1, 2)) if changing else 0)
        self.nodes = {number: Node(self, number) for number in range(1, count + 1)}
        for node in self.nodes.values():
            node.start()
        self.later(5.0, self.client)
        self.later(200.0, self.fault)
        if changing:
            self.later(100.0, self.change)
        self.snapshots = 0
        if snapshots:
            self.later(50.0, self.snapshot)

    # --- the client and the faults ---

    def client(self) -> None:
        if not self.writing:
            return
        for node in self.nodes.values():
            if node.alive and node.state.role is Role.LEADER:
                self.values += 1
                node.append((node.state.epoch, self.values))
        self.later(self.random.choice((5.0, 20.0)), self.client)

    def change(self) -> None:
        """Have whoever thinks that it leads add or remove a voter."""
        voter = self.random.choice(list(self.nodes))
        for node in self.nodes.values():
            if node.alive and node.state.role is Role.LEADER:
                node.change(voter)
        if self.faulty:
            self.later(self.random.uniform(5.0, 100.0), self.change)

    def snapshot(self) -> None:
        """Have a node write a snapshot. Often the node crashes before the next record is on its disk."""
        nodes = list(self.nodes.values())
        leaders = [each for each in nodes if each.alive and each.state.role is Role.LEADER]
        node = self.random.choice(leaders if leaders and self.random.random() < 0.5 else nodes)
        if node.alive and node.take_snapshot():
            self.snapshots += 1
            if self.random.random() < 0.3:
                node.later(self.random.choice((0.0, 1.0, 10.0)), self.crash, node)
        if self.faulty:
            self.later(self.random.uniform(5.0, 100.0), self.snapshot)

    def fault(self) -> None:
        if not self.faulty:
            return
        node = self.random.choice(list(self.nodes.values()))
        match self.random.choice(FAULTS):
            case "crash" if node.alive:
                node.crash()
                if self.random.random() < 0.5:
                    self.later(1.0, self.restart, node)
            case "start":
                self.restart(node)
            case "everyone":
                for each in self.nodes.values():
                    if each.alive:
                        each.crash()
                    self.later(self.random.choice((1.0, 1.0, 150.0)), self.restart, each)
            case "apart" if len(self.nodes) > 1:
                one, other = self.random.sample(sorted(self.nodes), 2)
                self.note("apart", one, other)
                self.separate(one, other)
            case "resign" if node.alive:
                node.carry_out(node.state.resign(self.now))
            case "heal":
                self.heal()
        self.later(self.random.uniform(5.0, 120.0), self.fault)

    def crash(self, node: Node) -> None:
        if self.faulty:
            node.crash()
            self.later(self.random.choice((1.0, 150.0, 500.0)), self.restart, node)

    def restart(self, node: Node) -> None:
        if not node.alive:
            node.start()

    # --- invariants ---

    def persists(self, node: Node, election: Election) -> None:
        if election.epoch < self.epochs[node.id]:
            raise Violated(f"node {node.id} goes from epoch {self.epochs[node.id]} back to {election.epoch}")
        self.epochs[node.id] = election.epoch
        if election.voted == node.id:
            self.gives(node, election.epoch, node.id)

    def asks(self, node: Node, vote: Vote) -> None:
        if (vote.last_epoch, vote.end_offset) != node.log.true_end:
            raise Violated(f"node {node.id} asks for votes as if its log ended otherwise than at {node.log.true_end}")

    def votes(self, node: Node, vote: Vote, answer: VoteAnswer) -> None:
        if answer.granted and (vote.last_epoch, vote.end_offset) < node.log.true_end:
            raise Violated(
                f"node {node.id} votes for a log that ends before its own, which ends at {node.log.true_end}"
            )
        if answer.granted and not vote.pre_vote:
            self.gives(node, vote.epoch, vote.candidate)

    def gives(self, node: Node, epoch: int, candidate: int) -> None:
        if self.given.setdefault((node.id, epoch), candidate) != candidate:
            raise Violated(f"node {node.id} votes twice in epoch {epoch}")

    def leads(self, node: Node, epoch: int) -> None:
        self.note("leads", node.id, "epoch", epoch, "log", node.log.end_offset)
        if epoch in self.leaders:
            raise Violated(f"epoch {epoch} has the leaders {self.leaders[epoch]} and {node.id}")
        self.leaders[epoch] = node.id
        if self.random.random() < 0.2:  # the first record of the epoch may be on this disk only
            node.later(self.random.choice((0.1, 3.0, 10.0)), self.crash, node)
        # a node may win a vote so late that a newer epoch has a leader, and records, of which it need not know
        before = bisect_left(self.committed_in, epoch)
        if node.log.records[:before] != self.committed[:before]:
            raise Violated(f"node {node.id} leads epoch {epoch} without all records that were committed before")

    def installs(self, node: Node, snapshot: Snapshot) -> None:
        self.note("install", node.id, snapshot.id, "log", node.log.end_offset)
        end = snapshot.id[1]
        if node.log.end_offset > end and node.log.records[:end] == list(snapshot.records):
            raise Violated(f"node {node.id} replaces its log, which ends at {node.log.end_offset}, by its beginning")

    def commits(self, node: Node, high_watermark: int) -> None:
        self.note("commit", node.id, high_watermark)
        if high_watermark <= node.high_watermark:
            raise Violated(f"the high watermark of node {node.id} goes back to {high_watermark}")
        node.high_watermark = high_watermark
        known, records = len(self.committed), node.log.records
        if high_watermark > len(records):
            raise Violated(f"node {node.id} commits {high_watermark} and its log ends at {len(records)}")
        if records[: min(high_watermark, known)] != self.committed[:high_watermark]:
            raise Violated(f"node {node.id} commits other records than were committed before")
        if high_watermark > known:
            self.committed += records[known:high_watermark]
            self.committed_in += [node.state.epoch] * (high_watermark - known)
            self.majority_has_it(node, high_watermark)
            if self.random.random() < 0.05:  # what was just committed must not depend on its leader
                node.later(0.1, self.crash, node)
        self.logs_match()

    def majority_has_it(self, leader: Node, high_watermark: int) -> None:
        voters = leader.state.voters
        having = [n.id for n in self.nodes.values() if n.id in voters and n.disk[:high_watermark] == self.committed]
        if len(having) <= len(voters) // 2:
            raise Violated(f"{high_watermark} is committed, and is on the disks of {having} only")

    def logs_match(self) -> None:
        """Logs that have the same epoch at an offset are equal up to there."""
        nodes = [node for node in self.nodes.values() if node.alive]
        for one, other in pairwise(nodes):
            ours, theirs = one.log.records, other.log.records
            for at in range(min(len(ours), len(theirs)) - 1, -1, -1):
                if ours[at][0] == theirs[at][0]:
                    if ours[: at + 1] != theirs[: at + 1]:
                        raise Violated(f"the logs of {one.id} and {other.id} differ below offset {at}")
                    break

    def is_settled(self) -> bool:
        """Whether one node leads, and every node has the committed records on its disk, and no others."""
        leaders = sum(node.state.role is Role.LEADER for node in self.nodes.values())
        return leaders == 1 and all(node.log.records == node.disk == self.committed for node in self.nodes.values())

    # --- a run ---

    def play(self) -> World:
        """Run with faults, then without: at last one node leads, and all logs are equal and committed."""
        self.run(1_800.0)
        self.faulty = False
        self.be_kind()
        self.note("no more faults")
        for node in self.nodes.values():
            self.restart(node)
        self.under_faults = before = len(self.committed)
        self.run_until(
            lambda: len(self.committed) > before + 10, within=3_000.0 if self.vote_ms else 1_200.0, lasting=0.0
        )
        if len(self.committed) <= before:
            raise Violated("nothing is committed after the last fault")
        self.writing = False
        self.run_until(
            self.is_settled, within=(7_000.0 if self.vote_ms else 3_400.0) - self.now, lasting=1.5 * TIMING.fetch_ms
        )
        for node in self.nodes.values():
            if not (node.log.records == node.disk == self.committed):
                raise Violated(f"node {node.id} ends at {node.log.end_offset}, {len(self.committed)} are committed")
        leaders = [node for node in self.nodes.values() if node.state.role is Role.LEADER]
        if len(leaders) != 1:
            raise Violated("not exactly one node leads at the end")
        if leaders[0].id not in leaders[0].state.voters:
            raise Violated(f"node {leaders[0].id} leads at the end without a vote")
        return self


def first_violation(rules: type[Rules], seeds: Iterable[int], **faults: bool) -> int | None:
    """Return the first seed at which the rules violate an invariant. `faults`: the options of `World`."""
    for seed in seeds:
        try:
            World(seed, rules, **faults).play()
        except (Violated, AssertionError):
            return seed
    return None
