"""The rules of a replica of the metadata log: elections, epochs, votes and the high watermark, as one pure state machine.

Owner: the node's quorum. It calls a method for each request, answer, sync and deadline, and carries out the effects that the
method returns, in order. An election is on disk before the answer is sent. A log is on disk before it counts: the leader counts
itself in `stored`, and a follower fetches again in `stored`. Elections and fetches are in one class, because each of them may change the
epoch, the role and the deadline of the other. Source: KIP-595, KIP-835, KIP-996; Apache Kafka's simulation tests."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace
from random import Random

from streamactors.broker.errors import ErrorCode
from streamactors.broker.log.partition.leader_epochs import common_end
from streamactors.broker.quorum.raft.leader_progress import LeaderProgress
from streamactors.broker.quorum.raft.raft_effects import (
    Append,
    AppendLeaderChange,
    Committed,
    Effect,
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
from streamactors.broker.quorum.raft.roles import RETRY_MS, Role, Timing
from streamactors.broker.quorum.replica_log import Log
from streamactors.broker.quorum.vote_file import Election


class RaftState:
    """One replica. Times are in ms of a clock that only grows."""

    def __init__(
        self,
        me: int,
        voters: Set[int],
        saved: Election,
        log: Log,
        timing: Timing,
        random: Random,
        now_ms: float,
        acquaintances: Set[int] = frozenset(),
    ) -> None:
        """A node without a vote asks the `acquaintances`, too, who leads."""
        self._me = me
        self._first_voters = frozenset(voters)
        self._acquaintances = acquaintances
        self._log = log
        self._timing = timing
        self._random = random
        self.election = saved if saved.epoch >= log.last_epoch else Election(log.last_epoch)
        self.high_watermark = 0
        self.progress: LeaderProgress | None = None
        self._votes: set[int] = set()  # of this epoch, if this node has asked for them since its start
        self._granted: set[int] = set()
        self._refused: set[int] = set()
        self._has_fetched = False
        self._ended_epoch = -1  # the latest epoch whose leader has said that it gives up
        self._asked: Fetch | None = None
        self._reading: EpochEnd | None = None
        self._committed_behind = -1  # what the leader had committed when it named the snapshot that is read
        self.leader_committed = -1
        self._fetch_by_ms = now_ms
        self.role = self._first_role()
        self.deadline_ms = now_ms
        self._wait_for_election(now_ms)

    def _first_role(self) -> Role:
        if self.election.leader == self._me:
            return Role.RESIGNED  # records that were not on disk at the crash may exist elsewhere in this epoch
        return Role.UNATTACHED if self.election.leader is None else Role.FOLLOWER

    def start(self, now_ms: float) -> list[Effect]:
        """Begin. A follower asks its leader; the only voter of a quorum is elected at once."""
        if self.voters == {self._me}:
            return self._campaign(now_ms)
        return [LeaderChanged(self.leader, self.epoch), Sync()] if self.role is Role.FOLLOWER else []

    @property
    def epoch(self) -> int:
        return self.election.epoch

    @property
    def voters(self) -> Set[int]:
        """The voters that the log names, committed or not; the first ones if it names none."""
        named = self._log.voters
        return self._first_voters if named is None else named

    @property
    def voters_offset(self) -> int:
        """The offset of the record that names the voters, -1 if no record does."""
        return self._log.voters_offset

    @property
    def granting(self) -> Set[int]:
        """The voters that have elected this node, if it leads."""
        return self._votes & self.voters

    @property
    def leader(self) -> int | None:
        """The leader that this node is or follows. A node that has lost its leader does not name it."""
        return self.election.leader if self.role in (Role.LEADER, Role.FOLLOWER) else None

    # --- time ---

    def tick(self, now_ms: float) -> list[Effect]:
        """Do what is due. The next call is due at `deadline_ms`."""
        if now_ms < self.deadline_ms:
            return []
        match self.role:
            case Role.LEADER:
                return self._lead_on(now_ms)
            case Role.FOLLOWER if now_ms < self._fetch_by_ms:
                if self._asked is not None:  # the question or its answer is lost
                    return self._fetch(now_ms)
                self.deadline_ms = now_ms + self._timing.fetch_ms / 2  # the disk is slow, and `stored` asks
                return []
            case Role.RESIGNED:
                return self._new_epoch(self.epoch + 1, None, now_ms)
            case _ if self._may_lead():
                return self._prospect(now_ms)
        return self._look_for_leader(now_ms)

    def _may_lead(self) -> bool:
        """Whether this node has a vote, or had one before a change that may not be committed."""
        # 1 removes itself from {1, 2} -> 2 lacks the record and needs the vote of 1 -> the log of 1 is longer: only 1 can lead.
        log = self._log
        if log.known_end > (log.last_epoch, log.end_offset):
            return False  # it has lost records that may be committed, and copies them first
        if self._me in self.voters or log.voters_offset < self.high_watermark:
            return self._me in self.voters
        return self._me in (self._first_voters if log.voters_before is None else log.voters_before)

    def _look_for_leader(self, now_ms: float) -> list[Effect]:
        """A node without a vote asks any voter. The answer names the leader."""
        effects = self._lose_leader(Role.UNATTACHED)
        others = sorted((self.voters | self._acquaintances) - {self._me})
        self.deadline_ms = now_ms + self._timing.fetch_ms / 2
        if not others:
            return effects
        self._asked = Fetch(self.epoch, self._me, self._log.end_offset, self._log.last_epoch, max_wait_ms=0.0)
        return [*effects, Send(self._random.choice(others), self._asked)]

    def _wait_for_election(self, now_ms: float) -> None:
        self._fetch_by_ms = now_ms + self._timing.fetch_ms
        following = self.role is Role.FOLLOWER
        wait_ms = self._timing.fetch_ms if following else self._timing.election_ms * (1 + self._random.random())
        self.deadline_ms = now_ms + wait_ms

    def was_busy(self, ms: float) -> None:
        """This node was busy, for example with its disk, for this time. It could not hear other nodes meanwhile, so that time does not count as their silence."""
        self.deadline_ms += ms
        self._fetch_by_ms += ms

    # --- elections: as the one who asks ---

    def _prospect(self, now_ms: float) -> list[Effect]:
        """Ask whether the voters would vote for this node, so that a node which is cut off does not raise the epoch."""
        if self.voters == {self._me}:
            return self._campaign(now_ms)
        return [*self._lose_leader(Role.PROSPECTIVE), *self._ask_for_votes(now_ms, pre_vote=True)]

    def _lose_leader(self, role: Role) -> list[Effect]:
        followed, self.role = self.role is Role.FOLLOWER, role
        self._asked = self._reading = None
        return [LeaderChanged(None, self.epoch)] if followed else []

    def _campaign(self, now_ms: float) -> list[Effect]:
        self.role = Role.CANDIDATE
        self.election = Election(self.epoch + 1, voted=self._me)
        self._votes = {self._me}
        effects: list[Effect] = [Persist(self.election), LeaderChanged(None, self.epoch)]
        effects += self._ask_for_votes(now_ms, pre_vote=False)
        return effects + self._count_votes(now_ms)

    def _ask_for_votes(self, now_ms: float, *, pre_vote: bool) -> list[Effect]:
        self._granted, self._refused = {self._me}, set()
        self._wait_for_election(now_ms)
        vote = Vote(self.epoch, self._me, self._log.last_epoch, self._log.end_offset, pre_vote)
        return [Send(voter, vote) for voter in sorted(self.voters - {self._me})]

    def voted(self, voter: int, answer: VoteAnswer, now_ms: float) -> list[Effect]:
        """A voter has answered."""
        # A pre-vote can be granted by a follower of a leader that is gone: it names the leader, and this node does not return to it.
        effects = self._learn(answer.epoch, None if answer.granted else answer.leader, now_ms)
        if effects or answer.epoch != self.epoch or voter not in self.voters:
            return effects
        asking = Role.PROSPECTIVE if answer.pre_vote else Role.CANDIDATE
        if answer.granted and not answer.pre_vote and self._votes and self.role in (Role.CANDIDATE, Role.PROSPECTIVE):
            # The disks of the two nodes can take longer than the election timeout. A vote is for the whole epoch, so it counts when it is late.
            self._votes.add(voter)
        elif self.role is not asking:
            return []
        else:
            (self._granted if answer.granted else self._refused).add(voter)
        return self._count_votes(now_ms)

    def _count_votes(self, now_ms: float) -> list[Effect]:
        majority = len(self.voters) // 2 + 1
        if len(self._votes & self.voters) >= majority:
            return self._lead(now_ms)
        if self.role is Role.PROSPECTIVE and len(self._granted & self.voters) >= majority:
            return self._campaign(now_ms)
        if len(self._refused) > len(self.voters) - majority:  # wait, or two candidates disturb each other forever
            wait_ms = self._random.random() * self._timing.election_ms
            self.deadline_ms = min(self.deadline_ms, now_ms + max(wait_ms, RETRY_MS))
        return []

    # --- elections: as the one who is asked ---

    def vote(self, vote: Vote, now_ms: float) -> tuple[VoteAnswer, list[Effect]]:
        """A candidate asks for this node's vote."""
        effects: list[Effect] = []
        if vote.epoch > self.epoch:
            effects += self._new_epoch(vote.epoch, None, now_ms)
        granted = vote.to_voter and vote.epoch == self.epoch and self._would_vote(vote, now_ms)
        if granted and not vote.pre_vote and self.election.voted is None:
            self.role = Role.UNATTACHED
            self.election = replace(self.election, voted=vote.candidate, voted_directory=vote.directory)
            self._wait_for_election(now_ms)
            effects.append(Persist(self.election))
        error = self._error(vote.epoch, to_voter=vote.to_voter)
        return VoteAnswer(error, self.epoch, self.leader, granted, vote.pre_vote), effects

    def _would_vote(self, vote: Vote, now_ms: float) -> bool:
        if not self._is_up_to_date(vote) or self.role is Role.LEADER:
            return False
        if vote.pre_vote:
            if self.role is Role.UNATTACHED and self.election.voted not in (None, vote.candidate):
                return now_ms >= self.deadline_ms  # the one that has the vote may still be elected
            return self.role is not Role.FOLLOWER or not self._has_fetched
        known, voted = self.election, self.election.voted
        same = voted == vote.candidate and known.voted_directory in (None, vote.directory)
        return known.leader is None and (voted is None or same)

    def _is_up_to_date(self, vote: Vote) -> bool:
        return (vote.last_epoch, vote.end_offset) >= self._log.known_end

    # --- epochs and leaders ---

    def begin(self, begin: BeginEpoch, now_ms: float) -> tuple[Answer, list[Effect]]:
        """A node says that it leads."""
        effects = self._learn(begin.epoch, begin.leader, now_ms)
        return Answer(self._error(begin.epoch, to_voter=begin.to_voter), self.epoch, self.leader), effects

    def _error(self, epoch: int, *, to_voter: bool = True) -> ErrorCode:
        if epoch < self.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.NONE if to_voter else ErrorCode.INVALID_VOTER_KEY

    def end(self, end: EndEpoch, now_ms: float) -> tuple[Answer, list[Effect]]:
        """The leader gives up. Its best successor asks for votes at once, the others some time later."""
        effects = self._learn(end.epoch, end.leader, now_ms)
        error = self._error(end.epoch)
        if not error:
            self._ended_epoch = end.epoch
        if not error and self.role is Role.FOLLOWER and self._me in self.voters:
            effects += self._lose_leader(Role.UNATTACHED)
            place = end.successors.index(self._me) if self._me in end.successors else len(end.successors)
            if place == 0 and self._may_lead():
                return Answer(error, self.epoch, self.leader), effects + self._prospect(now_ms)
            self.deadline_ms = now_ms + min(RETRY_MS * 2**place, self._timing.election_ms)
        return Answer(error, self.epoch, self.leader), effects

    def answered(self, answer: Answer, now_ms: float) -> list[Effect]:
        """A voter has answered a BeginEpoch or an EndEpoch."""
        return self._learn(answer.epoch, answer.leader, now_ms)

    def _learn(self, epoch: int, leader: int | None, now_ms: float) -> list[Effect]:
        """Another node knows this epoch and its leader."""
        if epoch > self.epoch or (epoch == self.epoch and self.election.leader is None and leader is not None):
            return self._new_epoch(epoch, leader, now_ms)
        if epoch != self.epoch or epoch == self._ended_epoch or leader in (None, self._me):
            return []  # a voter that has not heard of the end of this epoch names its leader, which leads it no longer
        if leader == self.election.leader and self.role in (Role.UNATTACHED, Role.PROSPECTIVE):
            return [LeaderChanged(leader, epoch), *self._follow(now_ms)]
        return []

    def _new_epoch(self, epoch: int, leader: int | None, now_ms: float) -> list[Effect]:
        self.progress = None
        kept = self.election if epoch == self.epoch else Election(epoch)
        self.election = replace(kept, leader=leader)
        self._votes = set()
        effects: list[Effect] = [Persist(self.election), LeaderChanged(leader, epoch)]
        if leader is not None and leader != self._me:
            return effects + self._follow(now_ms)
        self.role = Role.UNATTACHED
        self._asked = self._reading = None
        self._wait_for_election(now_ms)
        return effects

    def _follow(self, now_ms: float) -> list[Effect]:
        self.role = Role.FOLLOWER
        self._has_fetched = False
        self._asked = self._reading = None
        self.leader_committed = -1
        self._wait_for_election(now_ms)
        return [Sync()]

    # --- leading ---

    def _lead(self, now_ms: float) -> list[Effect]:
        self.role = Role.LEADER
        self.election = replace(self.election, leader=self._me)
        self.progress = LeaderProgress(self._me, self.voters, self._log.end_offset, now_ms)
        # The voters hear of the leader before its disk has worked, or they begin an election meanwhile.
        announced = self._lead_on(now_ms)
        return [*announced, Persist(self.election), AppendLeaderChange(self.epoch), LeaderChanged(self._me, self.epoch)]

    def _lead_on(self, now_ms: float) -> list[Effect]:
        """Say to the voters who leads; resign if no majority fetches."""
        assert self.progress is not None
        self.progress.use(self.voters)
        if now_ms - self.progress.quorum_seen_at_ms(now_ms) > 1.5 * self._timing.fetch_ms:
            return self.resign(now_ms)
        self.deadline_ms = now_ms + self._timing.fetch_ms / 2
        return self._announced(self.voters)

    def _announced(self, voters: Set[int]) -> list[Effect]:
        return [Send(voter, BeginEpoch(self.epoch, self._me)) for voter in sorted(voters - {self._me})]

    def resign(self, now_ms: float) -> list[Effect]:
        """Give up the leadership, for a stop or without a majority. Changes nothing on a node that does not lead."""
        if self.progress is None:
            return []
        successors = self.progress.successors()
        self.progress = None
        self.role = Role.RESIGNED
        self._wait_for_election(now_ms)
        end = EndEpoch(self.epoch, self._me, successors)
        return [LeaderChanged(None, self.epoch), *(Send(voter, end) for voter in successors)]

    def fetch(self, fetch: Fetch, now_ms: float) -> tuple[FetchAnswer, list[Effect]]:
        """A replica asks for records. The answer may be held back until there are some; the effects may not."""
        error = ErrorCode.NONE
        if min(fetch.epoch, fetch.offset, fetch.last_epoch) < 0 or fetch.last_epoch > self.epoch:
            error = ErrorCode.INVALID_REQUEST
        elif fetch.epoch != self.epoch:
            old = fetch.epoch < self.epoch
            error = ErrorCode.FENCED_LEADER_EPOCH if old else ErrorCode.UNKNOWN_LEADER_EPOCH
        elif self.progress is None:
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        log = self._log
        if error or self.progress is None:
            return FetchAnswer(error, self.epoch, self.leader, fetch), []
        self.progress.fetched(fetch.replica, now_ms)
        start, snapshot = log.start_offset, log.newest_snapshot
        if snapshot is not None and self._needs(snapshot, fetch):
            return FetchAnswer(error, self.epoch, self.leader, fetch, snapshot=snapshot, log_start=start), []
        known = log.end_of_epoch(fetch.last_epoch)
        if (known[0] != fetch.last_epoch or known[1] < fetch.offset) and (fetch.last_epoch, fetch.offset) != snapshot:
            return FetchAnswer(error, self.epoch, self.leader, fetch, diverging=known, log_start=start), []
        self.progress.stored(fetch.replica, fetch.offset)
        self.progress.reached(fetch.replica, log.end_offset)
        effects = self._commit(now_ms)
        return FetchAnswer(error, self.epoch, self.leader, fetch, self.high_watermark, log_start=start), effects

    def _needs(self, snapshot: EpochEnd, fetch: Fetch) -> bool:
        """Whether a replica must read the leader's snapshot first. Source: Kafka's validateOffsetAndEpoch."""
        # The log knows no epoch that ended before its start. A replica whose last epoch ended there can have other records below the start.
        at = (fetch.last_epoch, fetch.offset)
        return fetch.last_epoch < snapshot[0] or (fetch.offset <= self._log.start_offset and at != snapshot)

    def _commit(self, now_ms: float) -> list[Effect]:
        assert self.progress is not None
        effects = self._announced(self.progress.use(self.voters))  # a connection is open when the leader ends its epoch
        committed = self.progress.committed()
        effects += [] if committed is None else self._raise_high_watermark(committed)
        if self._me not in self.voters and self._log.voters_offset < self.high_watermark:
            effects += self.resign(now_ms)  # its own removal is committed
        return effects

    def _raise_high_watermark(self, offset: int) -> list[Effect]:
        if offset <= self.high_watermark:
            return []
        self.high_watermark = offset
        return [Committed(offset)]

    # --- the log ---

    def stored(self, end_offset: int, now_ms: float) -> list[Effect]:
        """The log is on disk up to this offset."""
        if self.progress is not None:
            self.progress.stored(self._me, end_offset)
            return self._commit(now_ms)
        if self.role is not Role.FOLLOWER or self._asked is not None or end_offset != self._log.end_offset:
            return []
        if self._reading is not None:
            return []  # a second question would have the same snapshot read again, and installed on top of later records
        return [*self._raise_high_watermark(min(self.leader_committed, end_offset)), *self._fetch(now_ms)]

    def _fetch(self, now_ms: float) -> list[Effect]:
        assert self.election.leader is not None
        self.deadline_ms = now_ms + self._timing.fetch_ms / 2
        log = self._log
        wait_ms = self._timing.fetch_ms / 4
        self._asked = Fetch(self.epoch, self._me, log.end_offset, log.last_epoch, self.high_watermark, wait_ms)
        return [Send(self.election.leader, self._asked)]

    def fetched(self, answer: FetchAnswer, now_ms: float) -> list[Effect]:
        """The leader has answered."""
        effects = self._learn(answer.epoch, answer.leader, now_ms)
        # An answer to an earlier question is about another log: the own log was truncated or extended since.
        if effects or self.role is not Role.FOLLOWER or answer.asked is not self._asked or answer.error:
            return effects
        self._asked = None
        self._wait_for_election(now_ms)
        if answer.diverging is not None:
            return self._truncate(*answer.diverging)
        if answer.snapshot is not None:
            if answer.snapshot[1] < self._known_committed:
                return self._halt(answer.snapshot[1])
            assert self.election.leader is not None
            self._reading, self._committed_behind = answer.snapshot, answer.high_watermark
            return [ReadSnapshot(self.election.leader, answer.snapshot)]
        self._has_fetched = True
        self.leader_committed = answer.high_watermark
        return [Append(answer.batches)] if answer.batches else [Sync()]

    def reads(self, snapshot: EpochEnd) -> bool:
        """Whether the node reads this snapshot of its leader. If it does not, a piece of it is dropped: see below."""
        # The leader of epoch 2 sends the last piece -> the node follows the leader of epoch 3, fetches from it and acknowledges records -> the
        # piece arrives: the snapshot would take the place of these records.
        return self._reading == snapshot

    def snapshot_piece(self, now_ms: float) -> None:
        """The leader has sent a piece of a snapshot, so it is alive."""
        if self._reading is not None:
            self._wait_for_election(now_ms)

    def snapshot_failed(self, now_ms: float) -> None:
        """The snapshot could not be read: another node leads, or the leader has a newer snapshot. `tick` fetches again soon."""
        if self._reading is not None:
            self._reading = None
            self._asked = Fetch(self.epoch, self._me, self._log.end_offset, self._log.last_epoch)
            self.deadline_ms = now_ms + RETRY_MS

    def snapshot_read(self, end_offset: int) -> list[Effect]:
        """The log begins after a snapshot of everything below `end_offset`."""
        if self._reading is None:
            return []
        self._reading = None
        # The node starts with what the leader has committed: by the snapshot alone it would delete the logs of topics that were created since.
        self.leader_committed = max(self.leader_committed, self._committed_behind)
        return [*self._raise_high_watermark(end_offset), Sync()]

    def _truncate(self, epoch: int, end_offset: int) -> list[Effect]:
        log = self._log
        offset, snapshot = common_end((epoch, end_offset), log.end_of_epoch(epoch), log.end_offset), log.newest_snapshot
        if snapshot is not None and epoch < snapshot[0]:
            offset = min(offset, snapshot[1] - 1)  # the leader lacks the last record of the snapshot
        return [Truncate(offset)] if offset >= self._known_committed else self._halt(offset)

    @property
    def _known_committed(self) -> int:
        """Records below this offset are committed: they were reported to the node, or only a snapshot has them."""
        return max(self.high_watermark, self._log.start_offset)

    def _halt(self, offset: int) -> list[Effect]:
        return [
            Halt(f"the leader's log ends at {offset}, and records below {self._known_committed} are committed here")
        ]
