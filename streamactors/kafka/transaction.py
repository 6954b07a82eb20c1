"""The transaction of a run: one producer, shared by all transactional sinks of the run, and the cuts at which it commits.

At each commit interval every sink is told to stop at its next mark. Sinks that stopped at different marks are sent on to the furthest, so
that each has written everything before the cut and nothing behind it; when the other sinks of the run have done it too, the cut's
positions are added and the transaction commits. Stages that keep a changelog take part like sinks. They let only the cuts' marks through, so
those behind them stop at every mark, unasked.

    writing ──interval──► cutting ──all at one mark──► waiting for other sinks ──► committing ──► writing
       └──── any failure, at any time ────► aborted (the run fails; the next one fences this producer)

One failure is none: the group has rebalanced, and the broker refuses positions of the former generation. Then the transaction is aborted,
what it had written is written again, and it commits under the new membership (`transaction_writes`).

Owner: the producer's thread; sinks post to it, and it posts to them. One file, for cut, commit and abort are steps of one state."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol
from uuid import uuid4

from streamactors.engine.boundary import BoundaryOutLogic
from streamactors.engine.logic import Logic
from streamactors.engine.marks import Key, Position, PositionMark, merge_newer
from streamactors.engine.run import Run
from streamactors.errors import BuildError
from streamactors.kafka.client_producer import StaleMembership, StreamProducer
from streamactors.kafka.errors import ProducerFailed
from streamactors.kafka.offsets import OffsetTracker
from streamactors.kafka.ordered_cuts import refuse_other_orders, refuse_to_lose
from streamactors.kafka.producer_record import ProducerRecord
from streamactors.kafka.settings import ProducerSettings
from streamactors.kafka.transaction_writes import TransactionWrites
from streamactors.windows.changelogs import changelogs_of
from streamactors.windows.keeper import Keeper

_log = logging.getLogger("streamactors.kafka")

OTHERS_CHECK_MS = 5.0
MEMBERSHIP_CHECK_MS = 20.0
NOWHERE: Position = (0, -1)
THE_TRANSACTION = "the run's transaction"
"""The name of this owner of positions, where a graph would have two."""


class Participant(Protocol):
    """A transactional sink, or a stage with a changelog, as the transaction sees it. The methods post to its island."""

    carried: frozenset[Any]
    follows: bool
    """Behind a stage that lets only the marks of cuts through: every mark is a cut."""

    def cut(self, target: PositionMark) -> None: ...
    def committed(self) -> None: ...
    def failed(self, error: BaseException) -> None: ...
    def sinks_behind(self) -> set[object]: ...


class RunTransaction:
    """See the module."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._settings: ProducerSettings | None = None
        self._fallback: ProducerSettings | None = None
        self.producer: StreamProducer | None = None
        self._participants: list[Participant] = []
        self.writes = TransactionWrites(self._on_lost)
        self._sources: dict[Any, tuple[OffsetTracker, Callable[[], Any], Callable[[], None]]] = {}
        self._reached: dict[Participant, PositionMark] = {}
        self._asked: set[Participant] = set()
        self._ended: set[Participant] = set()
        self._settled: set[Participant] = set()
        self._left: set[Participant] = set()
        self._cutting = False
        self._settling = False  # everybody has stopped, others are waited for
        self._over = False
        self._hurry = False  # a partition is being taken away: what is in flight must be committed
        self._again_until: float | None = None
        self._sent: dict[Key, Position] = {}
        self._timer: Any = None
        self._lock = threading.Lock()

    # ── before it starts ──────────────────────────────────────────────────────────────────────────────────────────

    def join(
        self,
        participant: Participant,
        settings: ProducerSettings,
        *,
        tells_places: bool = False,
        fallback: bool = False,
    ) -> None:
        """A sink takes part; its settings hold only if no other has any, when they are a `fallback`: then under an id that no other
        run has. `tells_places`: says where its records are before they are committed. Raises BuildError when another one names another
        transactional id."""
        if tells_places:
            self.writes.repeatable = False
        if fallback:
            unique = settings.with_transactional_id(f"{settings.transactional_id}-{uuid4().hex}")
            self._fallback = self._fallback or unique
            self._participants.append(participant)
            return
        if self._settings is not None and self._settings.transactional_id != settings.transactional_id:
            raise BuildError(
                f"one run has one transaction: transactional_id {settings.transactional_id!r} beside "
                f"{self._settings.transactional_id!r}; give both sinks the same settings, or use two graphs"
            )
        self._settings = settings
        self._participants.append(participant)

    def source(
        self, source: object, tracker: OffsetTracker, group: Callable[[], Any], renew: Callable[[], None]
    ) -> None:
        """A source whose positions the transaction commits; `group()` gives the consumer's membership, `renew()` says that it is stale."""
        if not self._participants:
            raise BuildError(
                "Transactional.source needs a Transactional.sink or .flow in its run, which commits its positions"
            )
        self._sources[source] = (tracker, group, renew)
        tracker.tell_of_drains(self)

    def commits_any(self, sources: frozenset[Any]) -> bool:
        """True if one of these sources reaches a transactional sink, which then commits its positions. Known when the run is built."""
        return any(sources & participant.carried for participant in self._participants)

    def start(self, started: Callable[[BaseException | None], None]) -> StreamProducer:
        """Connect, fence whoever had the transactional id before, begin; called by each sink. Returns the producer. Raises BuildError."""
        with self._lock:
            first = self.producer is None
            if self.producer is None:
                self._settings = self._settings or self._fallback
                assert self._settings is not None
                self._let_keepers_join()
                self.producer = StreamProducer(self._settings, errors_only=self.writes.repeatable)
        producer = self.producer
        producer.start()
        if first:
            begun = producer.call(self._begin)
            begun.add_done_callback(lambda future: None)
        ready = producer.call(lambda: None)
        ready.add_done_callback(lambda _: started(producer.start().exception()))
        return producer

    def _let_keepers_join(self) -> None:
        """Stages that keep a changelog take part; when one starts all sinks have joined, since the run is built."""
        keepers = [
            each
            for each in changelogs_of(self._run).keepers
            if each.provider is not None and self.commits_any(each.carried)
        ]
        behind = {keeper: logics_behind(keeper.stage) for keeper in keepers}
        all_behind = set().union(*behind.values())
        participants = [*self._participants, *keepers]
        for each in participants:
            each.follows = logic_of(each) in all_behind
        refuse_other_orders(participants, behind)
        self._participants = participants

    def takes_part(self, participant: Participant) -> bool:
        """True unless it came when the transaction had begun."""
        return participant in self._participants

    def _begin(self) -> None:
        assert self.producer is not None
        if self.producer.start().exception() is None:
            self.producer.begin()
            self._arm()

    def _arm(self) -> None:
        assert self.producer is not None
        assert self._settings is not None
        self._timer = self.producer.later(self._settings.commit_interval_ms, self._due)

    # ── cutting; on the producer's thread ─────────────────────────────────────────────────────────────────────────

    def _due(self) -> None:
        if self._cutting or self._over:
            return
        self._cutting = True
        self._ask()

    def draining(self) -> None:
        """A source is about to lose a partition, and waits for what is in flight; any thread."""
        producer = self.producer
        if producer is not None:
            producer.call(self.guarded, self._hasten)

    def _hasten(self) -> None:
        self._hurry = self._cutting  # its records may lie behind this cut: one more
        self._due()

    def write(self, records: Sequence[ProducerRecord]) -> None:
        """Write records, on the producer's thread; what is not delivered fails the commit."""
        assert self.producer is not None
        self.producer.send_all(records, self.writes.report)
        if records:
            self.writes.keep(records)

    def _ask(self) -> None:
        """Tell everybody to stop who gets other marks than those of cuts.

        The others are not told: results, a mark, results -> told to stop at the mark -> it would wait for one that comes only
        after the commit. And told before, it would want nothing more of the results that lie before the mark."""
        for each in self._participants:
            if not (each.follows or each in self._ended or each in self._reached or each in self._asked):
                self._asked.add(each)
                each.cut({})

    def _furthest(self) -> PositionMark:
        target: PositionMark = {}
        for at in self._reached.values():
            merge_newer(target, at)
        return target

    def reached(self, participant: Participant, at: PositionMark, *, ended: bool) -> None:
        """A sink has stopped at a mark, or its stream has ended; any thread."""
        assert self.producer is not None
        self.producer.call(self.guarded, lambda: self.on_reached(participant, at, ended=ended))

    def guarded(self, step: Callable[[], None]) -> None:
        """Whatever goes wrong on this thread, the sinks must hear of it."""
        try:
            step()
        except Exception as error:  # noqa: BLE001
            self._abort(error)

    def on_reached(self, participant: Participant, at: PositionMark, *, ended: bool) -> None:
        """As `reached`, on the producer's thread."""
        if self._over:
            return
        self._reached[participant] = at
        self._asked.discard(participant)
        if ended:
            self._ended.add(participant)
            if self._timer is not None:
                self._timer.cancel()
            self._due()  # nobody waits for the interval at the end
        self._ask()
        if self._settling or any(each not in self._reached for each in self._participants):
            return  # told to stop -> its stream ends -> it says so, and once more as an answer: one commit is enough
        target = self._furthest()
        refuse_to_lose(self._ended, target)
        behind = [each for each in self._participants if each not in self._ended and self._is_behind(each, target)]
        if behind:
            for each in behind:
                del self._reached[each]
                self._asked.add(each)
            for each in behind:
                each.cut(target)
        else:
            self._settling = True
            self._commit_when_others_are_done(target)

    def _is_behind(self, participant: Participant, target: PositionMark) -> bool:
        at = self._reached[participant]
        return any(at.get(key, NOWHERE) < place for key, place in target.items() if key[0] in participant.carried)

    def _commit_when_others_are_done(self, target: PositionMark) -> None:
        """A sink beside this transaction must have done the cut: a crash right after the commit would lose its part."""
        if self._over:
            return
        behind: set[object] = set()
        for participant in self._participants:
            behind |= participant.sinks_behind()
        for sink, (done, _) in self._run.progress.waiting_for().items():
            if sink in behind:
                continue
            carried = self._run.progress.sources_of(sink)
            if any(done.get(key, NOWHERE) < place for key, place in target.items() if key[0] in carried):
                assert self.producer is not None
                self.producer.later(
                    OTHERS_CHECK_MS, lambda: self.guarded(lambda: self._commit_when_others_are_done(target))
                )
                return
        self._commit(target)

    def _commit(self, target: PositionMark) -> None:
        if self._over:
            return
        producer, settings = self.producer, self._settings
        assert producer is not None
        assert settings is not None
        timeout_s = settings.transaction_timeout_ms / 1_000
        try:
            for source, (tracker, group, _) in self._sources.items():
                offsets = self._moved(source, tracker, target)
                if offsets:
                    producer.send_offsets(offsets, group(), timeout_s)
            producer.commit(timeout_s)
        except StaleMembership as error:
            now = time.monotonic()
            self._again_until = self._again_until or now + timeout_s
            if self.writes.why_not_again is not None:
                raise ProducerFailed(f"{error}; {self.writes.why_not_again}") from None
            if now > self._again_until or not self.writes.complete:
                raise
            self._write_again(error)
            producer.later(MEMBERSHIP_CHECK_MS, lambda: self.guarded(lambda: self._commit(target)))
            return
        self._again_until = None
        self._committed(target)

    def _moved(self, source: object, tracker: OffsetTracker, target: PositionMark) -> dict[Any, int]:
        """Return the positions of a source that this commit moves. Raises ProducerFailed for those that are not ours any more."""
        moved = {
            key[1]: place for key, place in target.items() if key[0] == source and place > self._sent.get(key, NOWHERE)
        }
        lost = [str(key) for key, place in moved.items() if not tracker.is_ours(key, place[0])]
        if lost:
            raise ProducerFailed(
                f"{', '.join(lost)} was taken away while records that stem from it were in an open transaction, which is "
                "aborted: the next owner reads them again; raise revoke_timeout_ms, or commit more often"
            )
        return {key: place[1] for key, place in moved.items()}

    def _write_again(self, error: StaleMembership) -> None:
        """The group has rebalanced under the transaction: begin it anew, with the same records."""
        producer, settings = self.producer, self._settings
        assert producer is not None
        assert settings is not None
        _log.info("%s; the transaction is aborted and written again", error)
        producer.abort(settings.transaction_timeout_ms / 1_000)
        producer.begin()
        self.writes.write_again(producer)
        for _, _, renew in self._sources.values():
            renew()

    def _committed(self, target: PositionMark) -> None:
        self._sent.update(target)
        self._settled |= self._ended
        self.writes.begin()
        self._cutting = self._settling = False
        if len(self._ended) < len(self._participants):
            assert self.producer is not None
            self.producer.begin()
        else:
            self._over = True
        for participant in self._participants:
            if participant not in self._ended:
                del self._reached[participant]
            participant.committed()
        if self._hurry:
            self._hurry = False
            self._due()
        elif not self._over:
            self._arm()

    def is_settled(self, participant: Participant) -> bool:
        """True when the stream of a participant has ended and everything it wrote is committed; any thread."""
        return participant in self._settled

    # ── the end ───────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def is_over(self) -> bool:
        """True when nothing is committed any more: all has been, or it was aborted, and what cannot be written has no other cause."""
        return self._over

    def leave(self, participant: Participant, error: BaseException | None, *, finished: bool = False) -> None:
        """A sink has stopped; any thread. If the transaction is not over it is aborted and the others fail, unless the sink is settled or
        had `finished`: said its last word, and need not wait for the commit."""
        producer = self.producer
        if producer is not None:
            producer.call(self._on_left, participant, error, finished)

    def _on_left(self, participant: Participant, error: BaseException | None, finished: bool) -> None:
        self._left.add(participant)
        if not (self._over or finished or participant in self._settled):
            self._abort(
                error or ProducerFailed("a transactional sink of the run was cancelled; the transaction is aborted")
            )
        if self._left.issuperset(self._participants):
            assert self.producer is not None
            self.producer.close(drop=True)

    def _on_lost(self, error: BaseException) -> None:
        """A record could not be delivered; whatever thread serves the reports."""
        if self.producer is not None:
            self.producer.call(self._abort, error)

    def _abort(self, error: BaseException) -> None:
        if self._over:
            return
        error = self.writes.lost or error  # what the commit failed of
        self._over = True
        if self._timer is not None:
            self._timer.cancel()
        assert self.producer is not None
        assert self._settings is not None
        if self.producer.start().exception() is None:
            try:
                self.producer.abort(self._settings.transaction_timeout_ms / 1_000)
            except ProducerFailed:
                pass  # fenced, or gone: the broker aborts it
        for participant in self._participants:
            if participant not in self._left:
                participant.failed(error)


def logic_of(participant: Participant) -> object:
    """The stage of a participant."""
    return participant.stage if isinstance(participant, Keeper) else participant


def logics_behind(first: Logic) -> set[Logic]:
    """Every stage that elements of a stage can reach, over boundaries too. To be asked while the run is whole."""
    found: set[Logic] = set()
    work: list[Logic] = [first]
    while work:
        logic = work.pop()
        following = [out.consumer for out in logic.outlets]
        if isinstance(logic, BoundaryOutLogic):
            following.append(logic.peer)
        for each in following:
            if each not in found:
                found.add(each)
                work.append(each)
    return found


def transaction_of(run: Run) -> RunTransaction:
    """Return the transaction of a run."""
    return run.shared(RunTransaction, lambda: RunTransaction(run))
