"""The transaction of a run: one producer, shared by all transactional sinks of the run, and the cuts at which it commits.

`engine/marks/cut_state.py` defines a cut and its moves. The parts are the transactional sinks, and the windowed stages that keep a
changelog. Here the moves become calls: parts are asked to stop, the other sinks of the run are waited for, the cut's positions are added to the
transaction, the transaction commits.

A rebalance aborts no run: the broker refuses positions of the former generation. Then the transaction is aborted, its records are written
again in a new transaction (`writes.py`), and that one commits under the new membership. If all partitions of the transaction were taken away
meanwhile, their next owners compute its results again, and it is dropped. A run that keeps state is aborted instead, and begins again in its
process (`restarts.py`).

Owner: the producer's thread. Sinks post to it, and it posts to them. Over 400 lines: the moves of a cut are one sequence on one thread; positions,
writes, restarts and counts have files of their own."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any
from uuid import uuid4

from streamactors.engine.boundary import logics_behind
from streamactors.engine.island.run import Run
from streamactors.engine.marks.cut_state import CutPart, CutPhase, CutState, Effect, Release, Settle, Stop
from streamactors.engine.marks.marks import PositionMark
from streamactors.errors import BuildError
from streamactors.kafka.client.diagnosis.delivery_errors import LostId, StaleMembership
from streamactors.kafka.client.producer import StreamProducer
from streamactors.kafka.client.traced_producer import producer_of
from streamactors.kafka.errors import ProducerFailed, RecordError
from streamactors.kafka.producer_record import ProducerRecord
from streamactors.kafka.reading.offset_tracker import OffsetTracker
from streamactors.kafka.settings import ProducerSettings
from streamactors.kafka.transactions.offsets import TakenAway, TransactionOffsets
from streamactors.kafka.transactions.ordered_cuts import refuse_other_orders, refuse_to_lose
from streamactors.kafka.transactions.other_sinks import OtherSinks
from streamactors.kafka.transactions.restarts import look_for_a_restart
from streamactors.kafka.transactions.tally import CutTally
from streamactors.kafka.transactions.writes import TransactionWrites
from streamactors.windows.state.changelogs import StateKeeper, changelogs_of

_log = logging.getLogger("streamactors.kafka")

MEMBERSHIP_CHECK_MS = 20.0
REPORTS_S = 0.1
"""How long an abort waits for the report of the record that failed the commit."""
THE_TRANSACTION = "the run's transaction"
"""The name of this owner of positions, where a graph would have two."""


class RunTransaction:
    """One producer and its transactions, shared by the transactional sinks of a run."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._settings: ProducerSettings | None = None
        self._fallback: ProducerSettings | None = None
        self.producer: StreamProducer | None = None
        self.writes = TransactionWrites(self._on_lost, self._not_delivered)
        self._cut = CutState()
        self._tally = CutTally()
        self._keepers: list[StateKeeper] = []  # the parts that are no sinks
        self._behind_keepers: set[object] = set()  # stages whose stream ends only when the last cut is committed
        self.offsets = TransactionOffsets(self._cut)
        self._again_until: float | None = None  # how long the transaction is written again after rebalances
        self._timer: Any = None
        self._others = OtherSinks(run.progress)
        self._lock = threading.Lock()
        self._left_early: list[
            tuple[CutPart, BaseException | None, bool]
        ] = []  # before another part began the transaction
        self._when_committed: list[Callable[[], None]] = []
        self._when_over: list[Callable[[], None]] = []

    def _not_delivered(self, record: ProducerRecord, error: Any) -> BaseException:
        assert self.producer is not None
        return self.producer.not_delivered(record, error)

    # ── before it starts ──────────────────────────────────────────────────────────────────────────────────────────

    def join(
        self,
        part: CutPart,
        settings: ProducerSettings,
        *,
        tells_places: bool = False,
        fallback: bool = False,
        named: bool = False,
    ) -> None:
        """A sink takes part. `fallback`: its settings count only if no other sink has any. Their id is that of a member
        with a name (`group.instance.id`), or gets an ending that no other run has.
        `tells_places`: the sink emits where its records are before they are committed.

        Raises BuildError if another sink has another transactional id."""
        if tells_places:
            self.writes.repeatable = False
        if fallback:
            unique = settings if named else settings.with_transactional_id(f"{settings.transactional_id}-{uuid4().hex}")
            self._fallback = self._fallback or unique
            self._cut.add(part)
            return
        if self._settings is not None and self._settings.transactional_id != settings.transactional_id:
            raise BuildError(
                f"one run has one transaction: transactional_id {settings.transactional_id!r} beside "
                f"{self._settings.transactional_id!r}; give both sinks the same settings, or use two graphs"
            )
        self._settings = settings
        self._cut.add(part)

    def source(
        self, source: object, tracker: OffsetTracker, group: Callable[[], Any], renew: Callable[[], None]
    ) -> None:
        """A source whose positions the transaction commits. `group()` returns the consumer's membership; `renew()` reports it as stale."""
        if not self._cut.parts:
            raise BuildError(
                "Transactional.source needs a Transactional.sink or .flow in its run, which commits its positions"
            )
        self.offsets.add(source, tracker, group, renew)
        tracker.tell_of_drains(self)

    def commits_any(self, sources: frozenset[Any]) -> bool:
        """True if one of these sources reaches a transactional sink, which then commits its positions. Known when the run is built."""
        return any(sources & part.part_state.carried for part in self._cut.parts)

    def start(self, started: Callable[[BaseException | None], None]) -> StreamProducer:
        """Connect, fence the former owner of the transactional id, begin. Each sink calls it. Returns the producer. Raises BuildError."""
        with self._lock:
            first = self.producer is None
            if self.producer is None:
                self._settings = self._settings or self._fallback
                assert self._settings is not None
                self._let_keepers_join()
                member = self._run.system.member
                if member is not None:
                    own_id = f"{self._settings.transactional_id}-{member}"
                    self._settings = self._settings.with_transactional_id(own_id)
                self._tally.id = self._settings.transactional_id or ""
                self.producer = producer_of(self._settings, errors_only=self.writes.repeatable)
        producer = self.producer
        producer.start()
        if first:
            producer.call(self._begin)
            for early in self._left_early:
                producer.call(self._on_left, *early)
        ready = producer.call(lambda: None)
        ready.add_done_callback(lambda _: started(producer.start().exception()))
        return producer

    def _let_keepers_join(self) -> None:
        """Stages that keep a changelog take part too. All sinks have joined before: the run is built, and now its stages start."""
        keepers = [
            each
            for each in changelogs_of(self._run).keepers
            if each.provider is not None and self.commits_any(each.carried)
        ]
        behind = {keeper: logics_behind(keeper.stage) for keeper in keepers}
        all_behind: set[object] = set().union(*behind.values())
        sinks = self._cut.parts
        refuse_other_orders(sinks, behind)
        for sink in sinks:
            sink.part_state.follows = sink in all_behind
        for keeper in keepers:
            keeper.part_state.follows = keeper.stage in all_behind
            self._cut.add(keeper)
        self._keepers = keepers
        self._behind_keepers = all_behind

    def takes_part(self, part: CutPart) -> bool:
        """True unless it joined after the transaction had begun."""
        return part in self._cut.parts

    def _begin(self) -> None:
        assert self.producer is not None
        if self.producer.start().exception() is None:
            self.producer.begin()
            self._arm()

    def _arm(self) -> None:
        assert self.producer is not None
        assert self._settings is not None
        self._timer = self.producer.later(
            self._settings.commit_interval_ms, lambda: self._guarded(lambda: self._carry_out(self._cut.ask()))
        )

    # ── cutting; on the producer's thread ─────────────────────────────────────────────────────────────────────────

    def draining(self) -> None:
        """A source is about to lose a partition, and waits for the commit of what is in flight; any thread."""
        self.post(lambda: self._carry_out(self._cut.ask(urgent=True)))

    def post(self, step: Callable[[], None]) -> None:
        """Take a step on the producer's thread, once there is a producer. An error of the step aborts the transaction and fails the sinks. Any thread."""
        if self.producer is not None:
            self.producer.call(self._guarded, step)

    def _guarded(self, step: Callable[[], None]) -> None:
        try:
            step()
        except Exception as error:  # noqa: BLE001
            self._abort(error)

    def write(self, records: Sequence[ProducerRecord]) -> None:
        """Write records, on the producer's thread; a record that is not delivered fails the commit."""
        assert self.producer is not None
        if records:
            self.writes.opened()
        self.producer.send_all(records, self.writes.report)
        if records:
            self.writes.keep(records)

    def when_committed(self, then: Callable[[], None]) -> None:
        """Call `then`, on the producer's thread, when the open transaction is committed; never if it is aborted."""
        self._when_committed.append(then)

    def when_over(self, then: Callable[[], None]) -> None:
        """Call `then`, on the producer's thread, when no further commit follows; any thread."""

        def note() -> None:
            self._when_over.append(then)
            self._tell_if_over()

        if self.producer is None:
            then()
        else:  # a closed producer calls nothing any more
            self.producer.call(note).add_done_callback(lambda called: then() if called.exception() else None)

    def _tell_if_over(self) -> None:
        if self._cut.is_over or self._cut.all_left:
            told, self._when_over = self._when_over, []
            for then in told:
                then()

    def reached(self, part: CutPart, at: PositionMark, *, ended: bool) -> None:
        """A part has stopped at a mark, or its stream has ended; any thread."""
        self.post(lambda: self.on_reached(part, at, ended=ended))

    def on_reached(self, part: CutPart, at: PositionMark, *, ended: bool) -> None:
        """As `reached`, on the producer's thread."""
        if ended and self._timer is not None:
            self._timer.cancel()  # at the end of a stream the cut begins at once
        effects = self._cut.reached(part, at, ended=ended)
        met = self._cut.met
        if met is not None:
            over = set(self._cut.ended)
            refuse_to_lose([keeper for keeper in self._keepers if keeper in over], met)
        self._carry_out(effects)

    def report(self) -> dict[str, Any]:
        """Return counts of the transactions, and where the cut and its parts are. Any thread."""
        return self._tally.report(self._cut.parts)

    def _carry_out(self, effects: Iterable[Effect]) -> None:
        self._tally.at(self._cut.phase)
        for effect in effects:
            match effect:
                case Stop(part, target):
                    part.cut(target)
                case Release(part):
                    part.committed()
                case Settle(target):
                    self._settle(target)

    def _settle(self, target: PositionMark) -> None:
        """Wait for the sinks beside this transaction.

        A sink that is done only at its end, as a fold is, has no results to lose before. Behind a keeper its end comes only after the commit."""
        assert self.producer is not None
        behind = set().union(*(part.sinks_behind() for part in self._cut.parts))
        behind |= {sink for sink in self._behind_keepers if getattr(sink, "done_at_end", False)}
        self._others.wait(
            self.producer,
            target,
            behind,
            lambda: self.post(self._on_settled),
            lambda error: self.post(lambda: self._abort(error)),
        )

    def _on_settled(self) -> None:
        self._others.go_on()
        if self._cut.settled():
            self._commit()

    def _commit(self) -> None:
        producer, settings = self.producer, self._settings
        self._tally.at(self._cut.phase)
        if self._cut.phase is not CutPhase.COMMITTING:
            return
        assert producer is not None
        assert settings is not None
        timeout_s = settings.transaction_timeout_ms / 1_000
        began_ns = time.time_ns()
        try:
            if self._keepers:
                # The entries of the changelogs are at the broker before the positions are. Positions are added -> the partition moves -> its next
                # owner reads the changelog, and waits for the positions -> the commit succeeds: entries that are sent now would be missed.
                producer.flush()
            self.writes.opened()
            self.offsets.send(producer, timeout_s)
            producer.commit(timeout_s)
            self.offsets.settled(began_ns)
        except StaleMembership as error:
            now = time.monotonic()
            self._again_until = self._again_until or now + timeout_s
            if self.writes.why_not_again is not None:
                raise StaleMembership(f"{error}; {self.writes.why_not_again}") from None
            if now > self._again_until or not self.writes.complete:
                raise
            self._write_again(error)
            producer.later(MEMBERSHIP_CHECK_MS, lambda: self._guarded(self._commit))
            return
        except TakenAway as error:
            if not self._may_drop:
                raise
            self._drop(error)
            return
        self._again_until = None
        self._tally.ended()
        self._on_over(producer)

    @property
    def _may_drop(self) -> bool:
        """True if the run is right without the results of this transaction: the next owners of the partitions compute them again."""
        told = self._keepers or self._cut.ended or not self.writes.repeatable or self.writes.lost is not None
        return not told and self._run.begins_anew and self.offsets.all_taken_away

    def _drop(self, error: TakenAway) -> None:
        """Continue without the results of partitions that were revoked. Another cut follows, since more of their records may be on the way."""
        producer, settings = self.producer, self._settings
        assert producer is not None
        assert settings is not None
        _log.warning("%s: %s", settings.transactional_id, error.args[0].partition(";")[0])
        producer.abort(settings.transaction_timeout_ms / 1_000)
        self._tally.aborted += 1
        self._again_until = None
        self._cut.ask(urgent=True)
        self._on_over(producer)

    def _write_again(self, error: StaleMembership) -> None:
        """The group has rebalanced under the transaction: write the same records in a new one."""
        producer, settings = self.producer, self._settings
        assert producer is not None
        assert settings is not None
        _log.info("%s; the transaction is aborted and written again", error)
        producer.abort(settings.transaction_timeout_ms / 1_000)
        producer.begin()
        self._tally.written_again += 1
        self.writes.write_again(producer)
        self.offsets.renew()

    def _on_over(self, producer: StreamProducer) -> None:
        """The transaction is committed, or dropped: the parts continue."""
        effects = self._cut.committed()
        self.writes.begin()
        stored, self._when_committed = self._when_committed, []
        for then in stored:
            then()
        if not self._cut.is_over:
            producer.begin()
        self._carry_out(effects)
        self._tell_if_over()
        if self._cut.phase is CutPhase.WRITING:
            self._arm()

    # ── the end ───────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def is_over(self) -> bool:
        """True when no further commit follows: everything is committed, or was aborted. A record that is refused then has no other cause."""
        return self._cut.is_over

    def leave(self, part: CutPart, error: BaseException | None, *, finished: bool = False) -> None:
        """A part's stage has stopped; any thread. The transaction is aborted and the other parts fail, unless everything the part has written
        is committed, or it has `finished`: handed over its last entries, and need not wait for the commit."""
        with self._lock:
            if self.producer is None:
                self._left_early.append((part, error, finished))
                return
        self.producer.call(self._on_left, part, error, finished)

    def _on_left(self, part: CutPart, error: BaseException | None, finished: bool) -> None:
        if self._cut.left(part, finished=finished):
            self._abort(
                error or ProducerFailed("a transactional sink of the run was cancelled; the transaction is aborted")
            )
        self._tell_if_over()
        if self._cut.all_left:
            assert self.producer is not None
            self.producer.close(drop=True)

    def _on_lost(self, error: BaseException) -> None:
        """A record could not be delivered; on the thread that serves the reports."""
        if self.producer is not None:
            self.producer.call(self._abort, error)

    def _look_for_the_cause(self, producer: StreamProducer) -> None:
        """A record can fail the commit before its report is served: serve the reports that are there."""
        until = time.monotonic() + REPORTS_S
        with suppress(ProducerFailed):
            while self.writes.lost is None and producer.outstanding and (left := until - time.monotonic()) > 0:
                producer.poll(left)

    def _abort(self, error: BaseException) -> None:
        if self._cut.is_over:
            return
        failed = self._cut.abort()
        self._tally.aborted += 1
        self._tally.at(self._cut.phase)
        assert self.producer is not None
        if isinstance(error, ProducerFailed):
            self._look_for_the_cause(self.producer)
        error = self.writes.lost or error
        if isinstance(error, RecordError) and isinstance(broken := self.producer.why_broken(), LostId):
            error = broken  # librdkafka refuses records without the reason when the transaction has failed
        assert self._settings is not None
        look_for_a_restart(self._run, self._settings, self.offsets, self.writes, error)
        self._others.go_on()
        if self._timer is not None:
            self._timer.cancel()
        if self.producer.start().exception() is None:
            try:
                self.producer.abort(self._settings.transaction_timeout_ms / 1_000)
            except ProducerFailed:
                pass  # fenced, or gone: the broker aborts it
        for part in failed:
            part.failed(error)
        self._tell_if_over()


def transaction_of(run: Run) -> RunTransaction:
    """Return the transaction of a run."""
    return run.shared(RunTransaction, lambda: RunTransaction(run))
