"""The stages that write within the run's transaction: as ProducerStage, but a mark passes only when the transaction has committed it.

A flow emits a result per element, so it waits for the acknowledgement of each record. A sink does not: a commit says that every record is
stored."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import repeat
from typing import Any

from streamactors.engine.attributes import Attributes
from streamactors.engine.boundary import logics_behind
from streamactors.engine.hops.held import HeldStamps
from streamactors.engine.hops.stamp import Stamp
from streamactors.engine.island.causes import NonFailureCancellation
from streamactors.engine.island.connection import Connection
from streamactors.engine.logic import Logic
from streamactors.engine.marks.marks import Mark, Needs, PositionMark
from streamactors.engine.marks.part_state import PartPhase, PartState
from streamactors.engine.stage import NOT_USED
from streamactors.engine.stage_traits import StageTraits
from streamactors.kafka.client.diagnosis.delivery_errors import is_purged
from streamactors.kafka.on_fenced import restarts_of
from streamactors.kafka.producer_record import Message, MultiMessage, PassThroughMessage, ProducerRecord
from streamactors.kafka.settings import ProducerSettings
from streamactors.kafka.transactions.run_transaction import THE_TRANSACTION, RunTransaction, transaction_of
from streamactors.kafka.writing.deliveries import Failure
from streamactors.kafka.writing.producer_stage import ProducerLogic, ProducerStage


class TransactionalStage(ProducerStage):
    """Write records in the run's transaction, which commits them together with the positions they stem from.

    Emits when: the oldest element's records are acknowledged (a reader sees them after the commit).
    Backpressures when: `parallelism` elements wait, the queue is full, or a commit is on its way.
    Completes when: upstream completes and the last commit is done.   Cancels when: downstream cancels; the transaction is aborted.
    Fails when: a record cannot be delivered, the commit fails, another producer took over the transactional id; the transaction is
    aborted.   Marks: after the commit; exact.
    """

    def __init__(
        self,
        name: str,
        settings: ProducerSettings,
        *,
        envelopes: bool,
        results: bool,
        fallback: bool = False,
        named: bool = False,
    ) -> None:
        super().__init__(name, settings, None, envelopes=envelopes, results=results)
        self.fallback, self.named = fallback, named
        self.traits = StageTraits(
            reads_marks=True,
            owns_positions=THE_TRANSACTION,
            needs=Needs(f"{name}, which commits exact cuts,", exact=True),
            restarts=(restarts_of(settings.on_fenced),),
        )

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        return (TransactionalLogic if self.results else TransactionalSinkLogic)(self), NOT_USED


class TransactionalLogic(ProducerLogic):
    """See the stage."""

    _transaction: RunTransaction
    part_state: PartState

    def __init__(self, stage: TransactionalStage) -> None:
        super().__init__(stage)
        self._fallback, self._named = stage.fallback, stage.named
        self._behind: set[object] = set()
        self._stamps = HeldStamps(self, "transaction")

    def bind(self) -> None:
        super().bind()
        self.part_state = PartState(self.in_.carries)
        self._transaction = transaction_of(self.interpreter.island.run)
        stage = self._stage
        self._transaction.join(
            self, stage.settings, tells_places=stage.results, fallback=self._fallback, named=self._named
        )

    def on_start(self) -> None:
        self._behind = set(logics_behind(self))
        self._tell = self.async_callback(self._on_reports).invoke
        started = self.async_callback(self._on_started)
        self._producer = self._transaction.start(started.invoke)
        self._producer.listen(self._listener)

    # ── calls of the transaction; any thread ──────────────────────────────────────────────────────────────────────

    def cut(self, target: PositionMark) -> None:
        self.async_callback(self._on_cut).invoke(target)

    def committed(self) -> None:
        self.async_callback(self._on_committed).invoke(None)

    def failed(self, error: BaseException) -> None:
        self.async_callback(self.fail_stage).invoke(error)

    def sinks_behind(self) -> set[object]:
        """Return the sinks that see a mark only when the transaction has committed it."""
        return self._behind

    # ── cutting ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _on_cut(self, target: PositionMark) -> None:
        self.part_state.ask(target)
        if self.part_state.phase is PartPhase.ASKED:
            self.in_.release()
            self._try_to_stop()
        self._move_on()

    def _try_to_stop(self) -> None:
        if self._ready and self.part_state.may_stop:
            self.in_.hold()
            if not self._full:
                self._transaction.reached(self, self.part_state.stop(), ended=self.part_state.ended)

    def _on_committed(self, _: None) -> None:
        if not self.part_state.committed():
            return
        at = self.part_state.stopped_at
        if at:
            self._pass(*self._stamps.passed(at), at)
        self.in_.release()
        self._try_to_stop()
        self._move_on()

    def _pass(self, *marks: Mark) -> None:
        """Let marks pass, after what waits before them."""
        for mark in marks:
            if self._queue:
                self._queue.append(mark)
            else:
                self.out.mark(mark)

    # ── in ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def on_push(self, in_: Connection) -> None:
        self.part_state.took()
        self._transaction.writes.opened()
        super().on_push(in_)
        self._try_to_stop()

    def on_mark(self, in_: Connection, mark: Mark) -> None:
        if type(mark) is dict:
            self.part_state.mark(mark)
            self._try_to_stop()
        elif type(mark) is Stamp:
            self._pass(*self._stamps.hold(mark))
        else:
            super().on_mark(in_, mark)

    def on_complete(self, in_: Connection) -> None:
        self._completing = True
        self.part_state.end()
        self._try_to_stop()

    def _on_started(self, error: BaseException | None) -> None:
        super()._on_started(error)
        self._try_to_stop()

    def _on_reports(self, _: None) -> None:
        super()._on_reports(None)
        self._try_to_stop()

    def may_complete(self) -> bool:
        return self.part_state.phase is PartPhase.OVER

    def _failed(self, failure: Failure) -> bool:
        # aborted -> the records are purged, and the next chunk is refused: the transaction reports the cause
        return is_purged(failure[2]) or self._transaction.is_over or super()._failed(failure)

    def cancel_stage(self, cause: BaseException) -> None:
        if not isinstance(cause, NonFailureCancellation):
            self._failure = cause
        super().cancel_stage(cause)

    def on_stop(self) -> None:
        producer = getattr(self, "_producer", None)
        if producer is not None:
            producer.forget(self._listener)
        self._transaction.leave(self, self._failure)


class TransactionalSinkLogic(TransactionalLogic):
    """Sends records; marks wait for the commit. A record that cannot be delivered fails the transaction, which fails this stage."""

    def __init__(self, stage: TransactionalStage) -> None:
        super().__init__(stage)
        self._rest: deque[ProducerRecord] = deque()  # the queue was full

    @property
    def room(self) -> int:
        return self._stage.settings.parallelism - self._producer.outstanding

    @property
    def waits_for_reports(self) -> bool:
        return self._full or self.room * 4 < self.widest  # so little room that no more is asked for

    def _send(self, chunk: list[Any]) -> int:
        records = chunk
        if self._stage.envelopes:
            records = [record for envelope in chunk for record in self._records_of(envelope)]
        self._rest.extend(records[self._send_records(records) :])
        return len(chunk)

    def _records_of(self, envelope: Any) -> Sequence[ProducerRecord]:
        if type(envelope) is Message:
            return (envelope.record,)
        if type(envelope) is MultiMessage:
            return envelope.records
        return () if type(envelope) is PassThroughMessage else (envelope,)

    def _send_records(self, records: list[Any]) -> int:
        refused: set[int] = set()

        def refuse(n: int, error: BaseException) -> None:
            refused.add(n)
            if self._failure is None:
                self._failed((records[n], records[n], error))

        writes = self._transaction.writes
        taken = self._produce(records, repeat(writes.report), refuse)
        sent = [record for n, record in enumerate(records[:taken]) if n not in refused] if refused else records[:taken]
        if sent:
            writes.keep(self._producer.as_sent(sent))
        return taken

    def _send_rest(self) -> None:
        rest = list(self._rest)
        self._rest.clear()
        if rest:
            self._rest.extend(rest[self._send_records(rest) :])
