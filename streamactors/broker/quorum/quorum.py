"""Carries out what `RaftState` decides, for a quorum of one as for a quorum of several: the log, the vote file and the time.

Owner: the controller, on the thread of its dispatcher, which may wait for the disk. Effects are carried out one after the other,
in the order in which the state machine asked for them. The effects of a later step come after those of an earlier one."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Set
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Final

from streamactors.actors.dispatching.timing_wheel import Timer
from streamactors.broker.errors import BrokerError, StorageError, StorageShortage
from streamactors.broker.quorum.leader_fetches import LeaderFetches, Reply
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
    Fetch,
    FetchAnswer,
    FetchSnapshot,
    Request,
    SnapshotPiece,
    Vote,
    VoteAnswer,
)
from streamactors.broker.quorum.raft.raft_state import RaftState
from streamactors.broker.quorum.raft.roles import Role, Timing
from streamactors.broker.quorum.replica_log import VotersLog
from streamactors.broker.quorum.snapshot_transfer import SnapshotReader, piece_of
from streamactors.broker.quorum.voter_set import VoterSet

if TYPE_CHECKING:
    from streamactors.actors.dispatching.real_time import Timers
    from streamactors.broker.controller.controller import Controller

AGAIN_MS: Final = 1_000.0
"""How long an effect waits that found no descriptor or no space."""
SHORTAGE_LASTS_MS: Final = 10_000.0
"""After this time a leader that cannot store records lets another voter lead."""

_log = logging.getLogger("streamactors.broker.quorum")


def _nobody(voter: int, request: Request) -> None:
    """The only voter has no other voter to ask."""
    raise AssertionError(f"{request} for voter {voter}")


class Quorum:
    """One replica of the metadata log. `send` passes a request to another voter; its answer comes back to `answered`."""

    def __init__(
        self,
        timers: Timers,
        now_ms: Callable[[], float],
        log: VotersLog,
        owner: Controller,
        send: Callable[[int, Request], object] = _nobody,
        *,
        me: int,
        voters: Set[int],
        timing: Timing,
        random: Random,
        acquaintances: Set[int] = frozenset(),
    ) -> None:
        """A node without a vote asks the `acquaintances`, too, who leads. Raises StorageError if the vote file cannot be read."""
        self._timers = timers
        self._now_ms = now_ms
        self._log = log
        self._owner = owner
        self._send = send
        self._me = me
        self._timing = timing
        self._state = RaftState(me, voters, log.read_election(), log, timing, random, now_ms(), acquaintances)
        self._timer: Timer | None = None
        self._effects: deque[Effect] = deque()
        self._busy = False
        self._stopped = False
        self._short_since_ms: float | None = None  # when the leader last began to find no descriptor or no space
        self._leader_change = 0  # the offset of the record with which the own epoch began
        self._fetches = LeaderFetches(self, log, timers, now_ms)
        self._reader = SnapshotReader(me, send)

    # --- life ---

    def start(self) -> None:
        """Begin. The only voter of a quorum leads when this returns. Raises StorageError."""
        self._carry_out(self._state.start(self._now_ms()))

    def stop(self) -> None:
        """Give up a leadership, and leave the quorum. Fetches that wait are dropped with their connections."""
        if not self._stopped and self._state.voters != {self._me}:
            self._guarded(self._state.resign(self._now_ms()))
        self._end()

    def _end(self) -> None:
        self._stopped = True
        self._effects.clear()
        self._fetches.stop()
        if self._timer is not None:
            self._timer.cancel()

    # --- what is known ---

    @property
    def epoch(self) -> int:
        return self._state.epoch

    @property
    def leader(self) -> int | None:
        """The leader, None if none is known."""
        return self._state.leader

    @property
    def high_watermark(self) -> int:
        return self._state.high_watermark

    @property
    def voters(self) -> Set[int]:
        return self._state.voters

    @property
    def known_high_watermark(self) -> int:
        """The high watermark of the leader's log, as far as this node knows it; -1 if it leads and has committed nothing yet."""
        if self._state.role is Role.LEADER:
            return self.high_watermark if self.leads else -1
        return max(self.high_watermark, self._state.leader_committed)

    @property
    def leads(self) -> bool:
        """Whether this node leads and the first record of its epoch is committed: then everything before it is committed too."""
        return self._state.role is Role.LEADER and self.high_watermark > self._leader_change

    @property
    def in_touch(self) -> bool:
        """Whether this node leads, and a majority has asked it within the fetch timeout: then no other node can lead yet."""
        progress, now_ms = self._state.progress, self._now_ms()
        return progress is not None and now_ms - progress.quorum_seen_at_ms(now_ms) <= self._timing.fetch_ms

    # --- the leader's records ---

    def append(self, records: Iterable[Any]) -> int:
        """Append records as one batch; return the offset of the last one. Only on the leader. Raises StorageError, after which this node has left
        the quorum, and StorageShortage, after which nothing has changed.

        The owner is notified when they are committed. In a quorum of one that is before this method returns."""
        assert self._state.role is Role.LEADER
        return self._append(lambda: self._log.append(records, self.epoch))

    def append_voters(self, voters: VoterSet) -> int:
        """Append the record that names the voters, who count at once; return its offset. Only on the leader. Raises StorageError."""
        assert self._state.role is Role.LEADER
        return self._append(lambda: self._log.append_voters(voters, self.epoch))

    def _append(self, append: Callable[[], int]) -> int:
        end_offset = self._log.end_offset
        try:
            offset = append()
            self._sync_or_undo(end_offset)
        except StorageShortage:
            self._is_short()
            raise
        except StorageError as error:
            self.halt(error)  # the other voters elect another leader, whose disk works
            raise
        self._short_since_ms = None
        self._carry_out(self._state.stored(self._log.end_offset, self._now_ms()))
        return offset

    def _sync_or_undo(self, end_offset: int) -> None:
        """Bring appended records to the disk; if no descriptor is left, remove them again. Raises StorageError."""
        try:
            self._log.sync()
        except StorageShortage as error:
            try:
                self._log.truncate(end_offset)
            except StorageShortage as worse:
                raise StorageError(str(worse)) from error
            raise

    def _is_short(self) -> None:
        """The leader could not store a record. If that lasts, another voter leads."""
        now_ms = self._now_ms()
        if self._short_since_ms is None:
            self._short_since_ms = now_ms
        elif now_ms - self._short_since_ms >= SHORTAGE_LASTS_MS and len(self._state.voters) > 1:
            self._short_since_ms = None
            _log.warning(
                "this node no longer leads the metadata log, because it has stored no record for %.0f s",
                SHORTAGE_LASTS_MS / 1000,
            )
            self._guarded(self._state.resign(now_ms))

    @property
    def voter_set(self) -> VoterSet | None:
        """The voters that the log names, with their folders and addresses; None if it names none."""
        return self._log.voter_set

    @property
    def end_offset(self) -> int:
        """The offset that the next record gets."""
        return self._log.end_offset

    @property
    def state(self) -> RaftState:
        """The rules. A change of the voters is judged by them."""
        return self._state

    # --- the other voters ---

    def asked(self, request: Request, reply: Reply) -> None:
        """Answer a request of another replica. A fetch that finds nothing new is answered when something is new."""
        if self._stopped:
            return
        state, now_ms = self._state, self._now_ms()
        answer: Answer
        match request:
            case Vote():
                answer, effects = state.vote(request, now_ms)
            case BeginEpoch():
                answer, effects = state.begin(request, now_ms)
            case EndEpoch():
                answer, effects = state.end(request, now_ms)
            case Fetch():
                self._fetch(request, reply)
                return
            case FetchSnapshot():
                try:
                    reply(piece_of(self._log, state, request))
                except StorageShortage:
                    pass  # the other node asks again
                except StorageError as error:
                    self.halt(error)
                return
        self._guarded(effects)
        if not self._stopped and not self._effects:  # a vote that is not on the disk is not given
            reply(answer)

    def answered(self, voter: int, answer: Answer) -> None:
        """Take the answer of another voter to a request that was sent."""
        if self._stopped:
            return
        state, now_ms = self._state, self._now_ms()
        match answer:
            case VoteAnswer():
                self._guarded(state.voted(voter, answer, now_ms))
            case FetchAnswer():
                self._guarded(state.fetched(answer, now_ms))
            case SnapshotPiece():
                self._got_piece(voter, answer)
            case _:
                self._guarded(state.answered(answer, now_ms))

    def _fetch(self, fetch: Fetch, reply: Reply) -> None:
        known = min(self.known_high_watermark, fetch.high_watermark)
        answer, effects = self._state.fetch(fetch, self._now_ms())
        self._guarded(effects)
        if not self._stopped:
            self._fetches.take(fetch, answer, known, reply)

    def _got_piece(self, voter: int, piece: SnapshotPiece) -> None:
        state, now_ms = self._state, self._now_ms()
        if not state.reads(piece.asked.snapshot):
            return
        content = self._reader.got(voter, piece)
        if content is None:
            state.snapshot_piece(now_ms)
            return
        if not content:
            state.snapshot_failed(now_ms)
            self._set_timer()
            return
        epoch, end_offset = piece.asked.snapshot
        try:
            self._log.install(epoch, end_offset, content)
        except StorageShortage:
            state.snapshot_failed(now_ms)
            self._set_timer()
            return
        except BrokerError as error:
            self.halt(error)
            return
        self._guarded(state.snapshot_read(end_offset))

    # --- effects ---

    def _tick(self) -> None:
        self._guarded(self._state.tick(self._now_ms()))

    def _guarded(self, effects: Iterable[Effect]) -> None:
        """Carry out effects; a disk that fails ends this node's part in the quorum."""
        try:
            self._carry_out(effects)
        except BrokerError as error:
            self.halt(error)

    def halt(self, error: BrokerError) -> None:
        """End this node's part in the quorum: its disk fails, or the broker cannot follow."""
        _log.error("this node no longer takes part in the quorum of the metadata log: %s", error)
        self._end()
        self._owner.halted(error)

    def _carry_out(self, effects: Iterable[Effect]) -> None:
        self._effects.extend(effects)
        if self._busy:
            return  # the call that is under way carries them out
        self._busy = True
        try:
            while self._effects:
                effect, began_ms = self._effects.popleft(), self._now_ms()
                try:
                    self._do(effect)
                except StorageShortage:
                    # Of several batches some may be in the log: the state learns its end, and asks for the others again.
                    if self._state.role is Role.LEADER:
                        self._is_short()
                    self._effects.appendleft(Sync() if isinstance(effect, Append) else effect)
                    self._wait_for_disk()
                    return
                now_ms = self._now_ms()
                self._state.was_busy(now_ms - began_ms)
                if isinstance(effect, Sync):
                    self._effects.extend(self._state.stored(self._log.end_offset, now_ms))
        finally:
            self._busy = False
        if self._stopped:
            return
        self._fetches.answer_news()
        self._set_timer()

    def _do(self, effect: Effect) -> None:
        log = self._log
        match effect:
            case Persist(election):
                if not self._is_overtaken():
                    log.write_election(election)
            case Send(target, request):
                self._send(target, request)
            case AppendLeaderChange(epoch):
                state = self._state
                if state.role is not Role.LEADER or state.epoch != epoch:
                    return  # it has resigned while the record found no space
                self._leader_change = log.append_leader_change(self._me, state.voters, state.granting, epoch)
                self._effects.appendleft(Sync())
            case Append(batches):
                log.append_batches(batches)
                self._effects.appendleft(Sync())
            case Truncate(offset):
                log.truncate(offset)
                self._effects.appendleft(Sync())
            case ReadSnapshot(leader, snapshot):
                self._reader.begin(self.epoch, leader, snapshot)
            case Sync():
                log.sync()
            case Committed(high_watermark):
                self._owner.committed(high_watermark)
            case LeaderChanged(leader, epoch):
                self._owner.leader_changed(leader, epoch)
            case Halt(reason):
                raise StorageError(f"{reason}; restore the folder of the metadata log from another node")

    def _wait_for_disk(self) -> None:
        """Carry out the effects that are left when there may be a descriptor, or space, again."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._timers.call_later(AGAIN_MS, partial(self._guarded, ()))

    def _is_overtaken(self) -> bool:
        """Whether another election is to be written before any other node or the log can tell the two apart.

        The only voter votes for itself and leads in one step, and two writes of the file would double the time of a start."""
        for each in self._effects:
            if not isinstance(each, LeaderChanged):
                return isinstance(each, Persist)
        return False

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._state.voters == {self._me} and self._state.role is Role.LEADER:
            return  # the only voter has no other voter to watch
        self._timer = self._timers.call_later(max(self._state.deadline_ms - self._now_ms(), 0.0), self._tick)
