"""One simulated broker with one replica: the real rules of leader and follower around a log in memory.

A log is a list of (epoch, value). What a broker syncs survives everything; the rest survives the death of the process, and not a
power cut. The file has over 400 lines because leader and follower act on the same log and network of one node."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from streamactors.broker.errors import ErrorCode
from streamactors.broker.log.partition.leader_epochs import LeaderEpochs
from streamactors.broker.protocol.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionFetched
from streamactors.broker.replication.follower_state import (
    AskedFetch,
    Extend,
    Following,
    Got,
    LocalLog,
    TruncateTo,
    judge,
)
from streamactors.broker.replication.leader_state import LeaderState, Proposal
from streamactors.broker.replication.sessions.follower_session import FollowerSession
from streamactors.broker.replication.sessions.session_cache import SessionCache
from tests.simulation.replication_controller import BROKERS, CONTROLLER, NO_LEADER, Image

if TYPE_CHECKING:
    from tests.simulation.replication_world import World

HEARTBEAT: Final = 20.0
LAG: Final = 70.0
REQUEST_TIMEOUT: Final = 50.0
PER_FETCH: Final = 12
NEWEST: Final = 17  # version of Fetch
TOPIC: Final = bytes(16)
Session = FollowerSession[int, tuple[AskedFetch, int]]
Served = tuple[ErrorCode, int, Got | None, list[tuple[int, int]]]
"""The error of the session, its number, and what is said of the partition, if anything, with records."""


class Violated(AssertionError):
    """An invariant does not hold."""


class Rules:
    """What a broken version of the rules replaces."""

    leader: Callable[..., LeaderState] = LeaderState
    judge = staticmethod(judge)
    checks_broker_epoch = True
    forgets_epochs_at_truncation = False
    fails_writes_with_the_leadership = True


class Node:
    """A broker with one replica."""

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.id = number
        self.rules = world.rules
        self.log: list[tuple[int, int]] = []
        self.epochs = LeaderEpochs()
        self.synced = 0
        self.saved_high_watermark = 0
        self.high_watermark = 0
        self.life = 0
        self.alive = False
        self.lost = False  # records, in a power cut, and the controller still takes it for in sync
        self.speed = world.random.uniform(0.8, 1.25)  # of its clock
        self.forget()

    def forget(self) -> None:
        """Lose what is only in memory."""
        self.version = -1
        self.broker_epoch = -1
        self.image = Image(leader=NO_LEADER, isr=())
        self.leader: LeaderState | None = None
        self.sessions = SessionCache(2, lambda cached, session: None, self.world.random)
        self.session: Session = FollowerSession()
        self.fetched_from = NO_LEADER
        self.asked = 0  # number of the fetch under way
        self.following: Following | None = None
        self.asked_at = float("-inf")  # when the fetch under way was sent
        self.waiting: list[tuple[int, int, int]] = []  # value, offset, epoch of writes without an answer

    @property
    def clock(self) -> float:
        return self.world.now * self.speed

    # --- life ---

    def start(self, *, clean: bool) -> None:
        self.alive = True
        self.life += 1
        self.world.note("start", self.id)
        self.try_register(self.life, clean)
        self.world.later(1.0, self.loop, self.life)
        self.world.later(1.0, self.beat, self.life)

    def try_register(self, life: int, clean: bool) -> None:
        if self.life == life and self.alive and self.broker_epoch < 0:
            self.world.send(self.id, CONTROLLER, lambda: self.world.controller.register(self.id, life, clean=clean))
            self.world.later(REQUEST_TIMEOUT, self.try_register, life, clean)

    def registered(self, life: int, epoch: int, version: int) -> None:
        if self.life == life and self.alive and self.broker_epoch < 0:
            self.broker_epoch = epoch
            self.follow(version)

    def stop(self, *, power: bool) -> None:
        self.alive = False
        self.life += 1
        self.world.note("power cut" if power else "kill", self.id)
        if power and len(self.log) > self.synced:
            self.lost = True
            del self.log[self.synced :]
            self.epochs.truncate_to(len(self.log))
        self.forget()
        self.high_watermark = min(self.saved_high_watermark, len(self.log))

    def sync(self) -> None:
        self.synced = len(self.log)
        self.saved_high_watermark = self.high_watermark

    # --- metadata ---

    def catch_up(self) -> None:
        if self.alive and self.broker_epoch >= 0:
            self.follow(min(self.version + self.world.random.randint(1, 3), len(self.world.controller.images) - 1))

    def follow(self, version: int) -> None:
        """Apply the images up to a version."""
        first = version if self.version < 0 else self.version + 1
        for each in range(first, version + 1):
            self.version = each
            self.apply(self.world.controller.images[each])

    def apply(self, image: Image) -> None:
        before, self.image = self.image, image
        for session in self.sessions:
            session.touch_all()
        mine = self.broker_epoch == image.brokers.get(self.id, (0, True))[0]
        if image.leader == self.id and mine:
            if self.leader is None or self.leader.epoch != image.leader_epoch:
                self.lose_leadership()
                self.epochs.assign(image.leader_epoch, len(self.log))
                self.leader = self.rules.leader(
                    self.id,
                    epoch=image.leader_epoch,
                    start_offset=len(self.log),
                    replicas=BROKERS,
                    isr=image.isr,
                    partition_epoch=image.partition_epoch,
                    now_ms=self.clock,
                )
                self.world.note("leads", self.id, image.leader_epoch, len(self.log))
            else:
                self.leader.learn(BROKERS, image.isr, image.partition_epoch)
            self.following = None
            self.advance()
            return
        self.lose_leadership()
        if self.following is None or image.leader_epoch != before.leader_epoch or image.leader != before.leader:
            self.following = Following(image.leader_epoch)
            if image.leader != before.leader:
                self.asked_at = float("-inf")  # a fetch to another leader is under way

    def lose_leadership(self) -> None:
        self.leader = None
        if self.rules.fails_writes_with_the_leadership:
            self.waiting.clear()

    # --- leading ---

    def eligible(self, replica: int, broker_epoch: int) -> bool:
        epoch, fenced = self.image.brokers.get(replica, (-1, True))
        return not fenced and (epoch == broker_epoch or not self.rules.checks_broker_epoch)

    def advance(self) -> None:
        state = self.leader
        assert state is not None
        reached = state.high_watermark(
            len(self.log), now_ms=self.clock, lag_ms=LAG, min_isr=self.world.min_isr, eligible=self.eligible
        )
        if reached > self.high_watermark:
            self.high_watermark = reached
            self.touch_sessions()
            self.world.committed_by(self)
        self.answer_writes()

    def answer_writes(self) -> None:
        for value, offset, _ in [each for each in self.waiting if each[1] < self.high_watermark]:
            self.world.acknowledge(value, offset)
        self.waiting = [each for each in self.waiting if each[1] >= self.high_watermark]

    def write(self, value: int) -> None:
        state = self.leader
        if state is None or len(state.isr) < self.world.min_isr:
            return
        self.log.append((state.epoch, value))
        self.touch_sessions()
        self.waiting.append((value, len(self.log) - 1, state.epoch))
        self.advance()

    def touch_sessions(self) -> None:
        """The partition has changed: the next answer of every session is about it."""
        for session in self.sessions:
            for cached in session.entries.values():
                if session.touch(cached) and self.leader is not None:
                    self.leader.heard(session.replica_id, session.used_ms)

    def serve_session(self, request: FetchRequest) -> Served:
        """Answer a fetch of a session, or one that asks for a session."""
        entered = self.sessions.enter(request, NEWEST, self.clock)
        if isinstance(entered, ErrorCode):
            return entered, 0, None, []
        known = self.image.brokers.get(request.replica_id, (-1, True))[0]
        if entered is not None and request.replica_epoch < known:
            entered.touch_all()
        if entered is not None and not entered.changed:
            return ErrorCode.NONE, entered.id, None, []
        asked = request.topics[0].partitions[0] if entered is None else entered.take()[0].asked
        got, records = self.serve(
            request.replica_id,
            request.replica_epoch,
            AskedFetch(asked.current_leader_epoch, asked.offset),
            asked.last_fetched_epoch,
        )
        session = entered if entered is not None else self.sessions.open(request, NEWEST, self.clock)
        if session is None:
            return ErrorCode.NONE, 0, got, records
        (cached,) = session.entries.values()
        says: PartitionFetched[Any] = PartitionFetched(
            0, got.error, got.high_watermark, -1, got.log_start_offset, b"x" * len(records), diverging=got.diverging
        )
        joins = self.leader is None or request.replica_id not in self.leader.isr
        if got.error or got.diverging is not None or records or joins or entered is None:
            session.give_back(cached)
        return ErrorCode.NONE, session.id, got if session.has_news(cached, says) else None, records

    def serve(
        self, replica: int, broker_epoch: int, asked: AskedFetch, last_epoch: int
    ) -> tuple[Got, list[tuple[int, int]]]:
        """Answer a fetch as the broker does."""
        state = self.leader
        if state is None:
            return Got(ErrorCode.NOT_LEADER_OR_FOLLOWER), []
        if asked.leader_epoch != state.epoch:
            older = asked.leader_epoch < state.epoch
            return Got(ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH), []
        known = self.image.brokers.get(replica, (-1, True))[0]
        if self.rules.checks_broker_epoch and broker_epoch < known:
            return Got(ErrorCode.NOT_LEADER_OR_FOLLOWER), []
        if last_epoch >= 0:
            epoch, end = self.epochs.end_offset(last_epoch, len(self.log))
            if epoch < 0:
                return Got(ErrorCode.OFFSET_OUT_OF_RANGE), []
            if epoch < last_epoch or end < asked.offset:
                return Got(ErrorCode.NONE, self.high_watermark, 0, (epoch, end)), []
        if asked.offset > len(self.log):
            return Got(ErrorCode.OFFSET_OUT_OF_RANGE), []
        state.fetched(replica, broker_epoch, asked.offset, len(self.log), self.clock)
        self.advance()
        self.propose(state.growth(replica, self.high_watermark, self.eligible))
        return Got(ErrorCode.NONE, self.high_watermark, 0), self.log[asked.offset : asked.offset + PER_FETCH]

    def propose(self, proposal: Proposal | None) -> None:
        if proposal is None or self.leader is None:
            return
        self.leader.propose(proposal)
        self.world.note("proposes", self.id, proposal)
        self.send_proposal(self.life, self.leader, proposal)

    def send_proposal(self, life: int, state: LeaderState, proposal: Proposal) -> None:
        if self.life != life or self.leader is not state or state.proposed != proposal or not state.in_flight:
            return
        epoch = self.broker_epoch
        known = zip(proposal.isr, proposal.broker_epochs, strict=True)
        epochs = {each: epoch for each, epoch in known if each not in (*state.isr, self.id)}

        def answer(word: str) -> None:
            if self.id not in self.world.deaf:
                self.world.send(CONTROLLER, self.id, self.proposal_answered, life, state, proposal, word)

        def arrive() -> None:
            if self.world.powered(self.id, life):
                self.world.controller.alter(self.id, epoch, proposal, epochs, answer)

        self.world.send(self.id, CONTROLLER, arrive)
        self.world.later(REQUEST_TIMEOUT, self.send_proposal, life, state, proposal)

    def proposal_answered(self, life: int, state: LeaderState, proposal: Proposal, word: str) -> None:
        if self.life != life or self.leader is not state or state.proposed != proposal:
            return
        if word == "done":
            state.learn(BROKERS, proposal.isr, proposal.partition_epoch + 1)
            self.advance()
        else:
            state.refused(proposal, certain=word == "ineligible")

    # --- following ---

    def loop(self, life: int) -> None:
        if self.life != life or not self.alive:
            return
        wait = 8.0
        if self.leader is not None:
            self.propose(self.leader.shrinkage(len(self.log), self.clock, LAG))
        elif self.following is not None and self.world.now - self.asked_at > REQUEST_TIMEOUT:
            wait = self.world.random.choice((1.0, 2.0, 4.0))
            if self.following.due(self.clock):
                self.ask(self.following)
        self.world.later(wait, self.loop, life)

    def ask_again(self, life: int) -> None:
        following = self.following
        if self.life == life and following is not None and following.due(self.clock) and self.asked_at < 0:
            self.ask(following)

    def ask(self, following: Following) -> None:
        leader = self.world.nodes.get(self.image.leader)
        if leader is None:
            return
        asked = AskedFetch(following.leader_epoch, len(self.log))
        life = self.life
        if self.fetched_from != leader.id or self.asked_at >= 0:
            # another leader, or no answer: what the session has there is not known
            if self.fetched_from != leader.id:
                self.fetched_from, self.session = leader.id, FollowerSession()
            self.session.failed()
        self.asked += 1
        number = self.asked
        told = self.session.request({0: (asked, self.epochs.latest)}, ())
        partitions = [
            FetchPartition(0, each.leader_epoch, each.offset, last, 0, 1) for each, last in told.named.values()
        ]
        topics = [FetchTopic("", TOPIC, partitions)] if partitions else []
        request = FetchRequest(
            self.id, 0, 1, PER_FETCH, 0, told.session_id, told.epoch, topics, "", self.broker_epoch, ()
        )

        def arrive() -> None:
            if leader.alive:
                self.world.send(leader.id, self.id, self.answered, life, number, asked, leader.serve_session(request))

        self.asked_at = self.world.now
        self.world.send(self.id, leader.id, arrive)

    def answered(self, life: int, number: int, asked: AskedFetch, served: Served) -> None:
        """Take the answer of a leader. One that comes after the next request does not count for the session, and is judged like any other."""
        if self.life != life:
            return
        error, session_id, got, records = served
        if number == self.asked and self.asked_at >= 0:  # else another broker leads now
            if error:
                self.session.failed(error)
            else:
                self.session.answered(session_id)
            self.asked_at = float("-inf")
            self.world.later(self.world.random.choice((1.0, 2.0)), self.ask_again, life)
        if got is not None:
            self.fetched(asked, got, records)

    def fetched(self, asked: AskedFetch, got: Got, records: list[tuple[int, int]]) -> None:
        if self.following is None:
            return
        log = LocalLog(0, len(self.log), lambda epoch: self.epochs.end_offset(epoch, len(self.log)))
        action = self.rules.judge(self.following, asked, got, log, self.clock)
        match action:
            case Extend(high_watermark, _):
                for entry in records:
                    if entry[0] != self.epochs.latest:
                        self.epochs.assign(entry[0], len(self.log))
                    self.log.append(entry)
                self.high_watermark = max(self.high_watermark, min(high_watermark, len(self.log)))
            case TruncateTo(offset):
                self.truncate(offset)
            case _:
                pass
        self.world.check(self)

    def truncate(self, offset: int) -> None:
        if offset < len(self.log):
            self.world.note("truncates", self.id, len(self.log), offset)
        del self.log[offset:]
        if not self.rules.forgets_epochs_at_truncation:
            self.epochs.truncate_to(len(self.log))
        self.synced = min(self.synced, len(self.log))
        self.high_watermark = min(self.high_watermark, len(self.log))

    # --- heartbeats ---

    def beat(self, life: int) -> None:
        if self.life != life or not self.alive:
            return
        if self.broker_epoch >= 0:
            epoch, version = self.broker_epoch, self.version
            self.world.send(self.id, CONTROLLER, lambda: self.world.controller.heartbeat(self.id, epoch, version))
            self.catch_up()
        self.world.later(HEARTBEAT, self.beat, life)
