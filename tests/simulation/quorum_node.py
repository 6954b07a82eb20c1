"""One replica of the metadata log in a simulation: the real state machine, and a disk that forgets what was not synced."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from streamactors.broker.quorum.raft.raft_effects import (
    Append,
    AppendLeaderChange,
    AppendVoters,
    Committed,
    Halt,
    LeaderChanged,
    Persist,
    ReadSnapshot,
    Send,
    Sync,
    Truncate,
)
from streamactors.broker.quorum.raft.raft_messages import (
    Answer,
    BeginEpoch,
    EndEpoch,
    EpochEnd,
    Fetch,
    FetchAnswer,
    Vote,
    VoteAnswer,
)
from streamactors.broker.quorum.raft.raft_state import RaftState
from streamactors.broker.quorum.raft.roles import Role, Timing
from streamactors.broker.quorum.replica_log import begins_anew
from streamactors.broker.quorum.vote_file import Election
from streamactors.broker.quorum.voter_changes import add_voter, remove_voter
from tests.simulation.memory_log import MemoryLog, Record, Snapshot

__all__ = ["MemoryLog", "Node", "Record", "Rules", "Violated"]

if TYPE_CHECKING:
    from tests.simulation.quorum_world import World

TIMING = Timing(election_ms=100.0, fetch_ms=200.0)
NO_TIMER = float("inf")


class Violated(Exception):
    """A rule of the quorum is broken."""


class Rules:
    """The rules under test. A mutant replaces some of them."""

    state: type[RaftState] = RaftState
    add = staticmethod(add_voter)
    remove = staticmethod(remove_voter)
    begins_anew = staticmethod(begins_anew)
    syncs_votes = True
    reports_unsynced_log = False


def agrees(answer: FetchAnswer) -> bool:
    """Whether the log of the replica that asks is a beginning of the leader's."""
    return not answer.error and answer.diverging is None and answer.snapshot is None


class Node:
    """A replica with its disk."""

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.id = number
        self.life = 0
        self.alive = False
        self.disk: list[Record] = []
        self.disk_snapshot: Snapshot | None = None
        self.disk_start = self.disk_epochs_from = 0
        self.disk_election = Election()

    # --- life ---

    def start(self) -> None:
        world = self.world
        self.alive = True
        self.life += 1
        self.syncing = self.sync_again = False
        self.busy = False  # while a vote is written
        self.held: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()  # what has arrived meanwhile
        self.timer_ms = NO_TIMER  # the deadline that has a call
        self.installs = 0
        self.reading: object = None
        self.log = MemoryLog(
            self.disk, self.disk_snapshot, self.disk_start, self.disk_epochs_from, world.rules.begins_anew
        )
        if self.log.start_offset != self.disk_start:
            self.store_whole_log()
        self.high_watermark = 0
        self.state = world.rules.state(
            self.id, world.voters, self.disk_election, self.log, TIMING, world.random, world.now
        )
        world.note("start", self.id, "epoch", self.state.epoch, "log", self.log.end_offset)
        self.carry_out(self.state.start(world.now))

    def crash(self) -> None:
        """Lose what was not synced; some of it may have reached the disk."""
        self.alive = False
        known = len(self.disk)
        if self.log.records[:known] == self.disk:
            self.disk = self.log.records[: self.world.random.randint(known, self.log.end_offset)]
        if self.log.start_offset > self.disk_start and self.disk_snapshot is self.log.snapshot:
            # The log was cut behind its snapshot: its file of epochs, and the checkpoint of its start, may say so or not yet.
            steps = self.world.random.randrange(3)
            self.disk_epochs_from = self.log.start_offset if steps else self.disk_epochs_from
            self.disk_start = self.log.start_offset if steps > 1 else self.disk_start
        self.world.note("crash", self.id, "disk", len(self.disk))

    def guarded(self, life: int, call: Any, *arguments: Any) -> None:
        """Call, unless the node has crashed since."""
        if self.alive and self.life == life:
            self.when_free(call, *arguments)

    def when_free(self, call: Callable[..., object], *arguments: Any) -> None:
        """Call now, or when the vote is on the disk."""
        if self.busy:
            self.held.append((call, arguments))
        else:
            call(*arguments)

    def later(self, delay: float, call: Any, *arguments: Any) -> None:
        self.world.later(delay, self.guarded, self.life, call, *arguments)

    def send(self, target: Node, call: Any, *arguments: Any) -> None:
        self.world.send(self.id, target.id, target.guarded, target.life, call, *arguments)

    # --- steps ---

    def tick(self) -> None:
        self.carry_out(self.state.tick(self.world.now))

    def carry_out(self, effects: list[Any]) -> None:
        for place, effect in enumerate(effects):
            match effect:  # the frequent ones first
                case Send(target, request):
                    if isinstance(request, Vote):
                        self.world.asks(self, request)
                    self.send(self.world.nodes[target], self.world.nodes[target].asked, self, request)
                case Sync():
                    self.sync()
                case Committed(high_watermark):
                    self.world.commits(self, high_watermark)
                case Append(records):
                    self.log.extend(records)
                    self.sync()
                case Persist(election) if self.world.vote_ms:
                    self.busy = True
                    ms = self.world.random.choice(self.world.vote_ms)
                    self.world.later(ms, self.written, self.life, election, ms, effects[place + 1 :])
                    return
                case Persist(election):
                    self.world.persists(self, election)
                    if self.world.rules.syncs_votes:
                        self.disk_election = election
                    else:
                        self.later(150.0, setattr, self, "disk_election", election)
                case AppendLeaderChange(epoch):
                    self.world.leads(self, epoch)
                    self.append((epoch, "leader"))
                case AppendVoters(voters):
                    self.world.note("voters", self.id, sorted(voters))
                    self.append((self.state.epoch, voters))
                case Truncate(offset):
                    self.world.note("truncate", self.id, self.log.end_offset, "to", offset)
                    self.log.truncate(offset)
                    self.sync()
                case ReadSnapshot(leader, snapshot):
                    self.read_snapshot(self.world.nodes[leader], snapshot)
                case LeaderChanged(leader, epoch):
                    self.world.note("node", self.id, "leader", leader, "epoch", epoch)
                case Halt(reason):
                    raise Violated(f"node {self.id}: {reason}")
        deadline_ms = self.state.deadline_ms
        if self.alive and deadline_ms < self.timer_ms:  # a later deadline is looked at when the call comes
            self.call_at(deadline_ms)

    def written(self, life: int, election: Election, ms: float, effects: list[Any]) -> None:
        """A vote is on the disk, for which the whole node has waited."""
        if not self.alive or self.life != life:
            return
        self.world.persists(self, election)
        self.disk_election = election
        self.busy = False
        self.state.was_busy(ms)
        self.carry_out(effects)
        if not self.busy and self.state.deadline_ms <= self.world.now:
            self.tick()  # a dispatcher looks at its timers before it reads what has arrived
        while self.held and not self.busy and self.alive:
            call, arguments = self.held.popleft()
            call(*arguments)

    def change(self, voter: int) -> None:
        """Add a voter, or remove it if it has a vote; refused while it cannot be."""
        rules = self.world.rules
        change = rules.remove if voter in self.state.voters else rules.add
        effect = change(self.state, voter)
        if isinstance(effect, AppendVoters):
            self.world.changes += 1
            self.carry_out([effect])

    def call_at(self, deadline_ms: float) -> None:
        self.timer_ms = deadline_ms
        self.later(max(deadline_ms - self.world.now, 0.0) + 0.1, self.due, deadline_ms)

    def due(self, called_ms: float) -> None:
        if called_ms != self.timer_ms:
            return  # an earlier deadline has come in between
        deadline_ms = self.state.deadline_ms
        if deadline_ms > self.world.now:
            self.call_at(deadline_ms)
        else:
            self.timer_ms = NO_TIMER
            self.tick()

    def append(self, record: Record) -> None:
        self.log.extend([record])
        self.sync()

    # --- the disk: one sync at a time ---

    def sync(self) -> None:
        if self.syncing:
            self.sync_again = True
            return
        self.syncing, self.sync_again = True, False
        delay = self.world.random.choice((0.1, 0.5, 2.0, 30.0) if self.world.faulty else (0.1, 0.5))
        self.later(delay, self.synced, list(self.log.records), self.installs)
        if self.world.rules.reports_unsynced_log:
            self.later(0.0, self.stored, self.log.end_offset)

    def synced(self, records: list[Record], installs: int) -> None:
        if installs != self.installs:
            return  # a snapshot has taken the place of this log
        self.disk = records
        self.syncing = False
        if self.sync_again:
            self.sync()
        if self.log.records[: len(records)] == records:
            self.stored(len(records))

    def stored(self, end_offset: int) -> None:
        self.carry_out(self.state.stored(end_offset, self.world.now))

    # --- snapshots ---

    def take_snapshot(self) -> bool:
        """Write a snapshot of what is committed here, and begin the log behind it. Return False if there is nothing new to write."""
        end = self.high_watermark
        if end <= self.log.start_offset or self.log.records[:end] != self.disk[:end]:
            return False
        self.disk_snapshot = self.log.take_snapshot(end)
        self.world.note("snapshot", self.id, self.disk_snapshot.id, "log", self.log.end_offset)
        return True

    def read_snapshot(self, leader: Node, snapshot: EpochEnd) -> None:
        self.reading = asked = object()
        pieces = self.world.random.randint(1, 3)
        self.send(leader, leader.snapshot_asked, self, snapshot, self.state.epoch, asked, pieces)

    def snapshot_asked(self, source: Node, wanted: EpochEnd, epoch: int, asked: object, pieces: int) -> None:
        found = self.log.snapshot
        leads = self.state.role is Role.LEADER and self.state.epoch == epoch
        content = found if leads and found and found.id == wanted else None
        delay = self.world.random.choice((0.0, 20.0, 150.0, 400.0) if self.world.faulty else (0.0,))  # a piece is long
        self.later(delay, self.send, source, source.got_piece, self, wanted, epoch, content, asked, pieces)

    def got_piece(
        self, leader: Node, wanted: EpochEnd, epoch: int, snapshot: Snapshot | None, asked: object, pieces: int
    ) -> None:
        if self.reading is not asked or not self.state.reads(wanted):
            return
        if snapshot is not None and pieces > 1:
            self.state.snapshot_piece(self.world.now)
            self.send(leader, leader.snapshot_asked, self, wanted, epoch, asked, pieces - 1)
            return
        self.reading = None
        if snapshot is None:
            self.state.snapshot_failed(self.world.now)
            self.carry_out([])
            return
        self.world.installs(self, snapshot)
        self.disk_snapshot = snapshot
        if self.world.faulty and self.world.random.random() < 0.2:
            self.world.crash(self)  # between the two steps of an installation
            return
        self.log.install(snapshot)
        self.store_whole_log()
        self.carry_out(self.state.snapshot_read(snapshot.id[1]))

    def store_whole_log(self) -> None:
        self.installs += 1
        self.syncing = self.sync_again = False
        self.disk = list(self.log.records)
        self.disk_start = self.disk_epochs_from = self.log.start_offset

    # --- requests and answers ---

    def asked(self, source: Node, request: Any) -> None:
        state, now = self.state, self.world.now
        answer: Answer
        match request:
            case Vote():
                answer, effects = state.vote(request, now)
            case BeginEpoch():
                answer, effects = state.begin(request, now)
            case EndEpoch():
                answer, effects = state.end(request, now)
            case Fetch():
                answer, effects = state.fetch(request, now)
        self.carry_out(effects)
        self.when_free(self.reply, source, request, answer)

    def reply(self, source: Node, request: Any, answer: Answer) -> None:
        if isinstance(answer, VoteAnswer):
            self.world.votes(self, request, answer)
        if isinstance(answer, FetchAnswer) and agrees(answer):
            self.later(0.0 if request.offset < self.log.end_offset else 10.0, self.serve, source, request)
        else:
            self.send(source, source.answered, self, answer)

    def serve(self, source: Node, fetch: Fetch) -> None:
        """Answer a fetch that was held back. It is judged again, since much can happen in between."""
        answer, effects = self.state.fetch(fetch, self.world.now)
        self.carry_out(effects)
        if agrees(answer):
            records = tuple(self.log.records[fetch.offset : fetch.offset + self.world.batch])
            answer = FetchAnswer(
                answer.error, answer.epoch, answer.leader, fetch, answer.high_watermark, batches=records
            )
        self.send(source, source.answered, self, answer)

    def answered(self, source: Node, answer: Answer) -> None:
        state, now = self.state, self.world.now
        match answer:
            case VoteAnswer():
                self.carry_out(state.voted(source.id, answer, now))
            case FetchAnswer():
                self.carry_out(state.fetched(answer, now))
            case _:
                self.carry_out(state.answered(answer, now))
