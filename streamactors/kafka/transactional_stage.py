"""The stages that write within the run's transaction: as ProducerStage, but marks go when the transaction has committed them.

A flow emits results, so it follows each record; a sink does not: that every record is stored is what a commit says."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from streamactors.engine.attributes import Attributes
from streamactors.engine.connection import Connection
from streamactors.engine.logic import Logic
from streamactors.engine.marks import Mark, Needs, PositionMark, merge_newer
from streamactors.engine.stage import NOT_USED
from streamactors.kafka.client_producer import is_purged
from streamactors.kafka.deliveries import Failure
from streamactors.kafka.producer_record import Message, MultiMessage, PassThroughMessage, ProducerRecord
from streamactors.kafka.producer_stage import ProducerLogic, ProducerStage
from streamactors.kafka.settings import ProducerSettings
from streamactors.kafka.transaction import NOWHERE, THE_TRANSACTION, RunTransaction, logics_behind, transaction_of


class TransactionalStage(ProducerStage):
    """Write records in the run's transaction, which commits them together with the positions they stem from.

    Emits when: the oldest element's records are acknowledged (a reader sees them after the commit).
    Backpressures when: `parallelism` elements wait, the queue is full, or a commit is on its way.
    Completes when: upstream completes and the last commit is done.   Cancels when: downstream cancels; the transaction is aborted.
    Fails when: a record cannot be delivered, the commit fails, another producer took over the transactional id; the transaction is
    aborted.   Marks: behind the commit; exact.
    """

    reads_marks = True
    owns_positions = THE_TRANSACTION

    def __init__(
        self, name: str, settings: ProducerSettings, *, envelopes: bool, results: bool, fallback: bool = False
    ) -> None:
        super().__init__(name, settings, None, envelopes=envelopes, results=results)
        self.fallback = fallback
        self.needs = Needs(f"{name}, which commits exact cuts,", exact=True)

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        return (TransactionalLogic if self.results else TransactionalSinkLogic)(self), NOT_USED


class TransactionalLogic(ProducerLogic):
    """See the stage."""

    _transaction: RunTransaction

    def __init__(self, stage: TransactionalStage) -> None:
        super().__init__(stage)
        self._fallback = stage.fallback
        self._at: PositionMark = {}  # everything before it is written, nothing behind it when `_clean`
        self._clean = True
        self._target: PositionMark | None = None  # of the cut that is asked for
        self._reported = False
        self._final = False
        self._behind: set[object] = set()
        self.follows = False
        self.carried: frozenset[Any] = frozenset()

    def bind(self) -> None:
        super().bind()
        self.carried = self.in_.carries
        self._transaction = transaction_of(self.interpreter.island.run)
        self._transaction.join(self, self._stage.settings, tells_places=self._stage.results, fallback=self._fallback)

    def on_start(self) -> None:
        self._behind = set(logics_behind(self))
        self._tell = self.async_callback(self._on_reports).invoke
        started = self.async_callback(self._on_started)
        self._producer = self._transaction.start(started.invoke)
        self._producer.listen(self._listener)

    # ── what the transaction says; any thread ─────────────────────────────────────────────────────────────────────

    def cut(self, target: PositionMark) -> None:
        self.async_callback(self._on_cut).invoke(target)

    def committed(self) -> None:
        self.async_callback(self._on_committed).invoke(None)

    def failed(self, error: BaseException) -> None:
        self.async_callback(self.fail_stage).invoke(error)

    def sinks_behind(self) -> set[object]:
        """Return the sinks that hear of a mark only when the transaction has committed it."""
        return self._behind

    # ── cutting ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _on_cut(self, target: PositionMark) -> None:
        self._target = target
        self._reported = False
        self.in_.release()
        self._try_to_cut()
        self._move_on()

    def _try_to_cut(self) -> None:
        target = self._target
        if target is None or self._reported or not (self._clean or not self.carried):
            return
        if any(self._at.get(key, NOWHERE) < place for key, place in target.items() if key[0] in self.carried):
            return
        self.in_.hold()
        if not self._full:
            self._reported = True
            self._transaction.reached(self, self._at.copy(), ended=self._completing)

    def _on_committed(self, _: None) -> None:
        # a cut was committed -> the stream ended -> its answer comes only now: what was written since waits for the next commit
        self._final = self._transaction.is_settled(self)
        if self._final or not self._completing:
            self._target = None
            self._reported = False
        if self._at:
            if self._queue:
                self._queue.append(self._at.copy())
            else:
                self.out.mark(self._at)
        self.in_.release()
        self._move_on()

    # ── in ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def on_push(self, in_: Connection) -> None:
        self._clean = False
        super().on_push(in_)
        self._try_to_cut()

    def on_mark(self, in_: Connection, mark: Mark) -> None:
        if type(mark) is dict:
            merge_newer(self._at, mark)
            self._clean = True
            if self.follows and self._target is None:
                self._target = {}
            self._try_to_cut()
        else:
            super().on_mark(in_, mark)

    def on_complete(self, in_: Connection) -> None:
        self._completing = True
        self._clean = True  # whatever came behind the last mark: nothing follows
        self._target = {}
        self._reported = False
        if self._ready:
            self._try_to_cut()

    def _on_started(self, error: BaseException | None) -> None:
        super()._on_started(error)
        if error is None and self._completing:
            self._try_to_cut()

    def _on_reports(self, _: None) -> None:
        super()._on_reports(None)
        self._try_to_cut()

    def may_complete(self) -> bool:
        return self._final

    def _failed(self, failure: Failure) -> bool:
        # aborted -> its records are purged, and a chunk that was on its way here is refused: what it failed of comes from there
        return is_purged(failure[2]) or self._transaction.is_over or super()._failed(failure)

    def on_stop(self) -> None:
        producer = getattr(self, "_producer", None)
        if producer is not None:
            producer.forget(self._listener)
        self._transaction.leave(self, self._failure)


class TransactionalSinkLogic(TransactionalLogic):
    """Sends, and lets the marks wait for the commit. What cannot be delivered fails the transaction, which tells."""

    def __init__(self, stage: TransactionalStage) -> None:
        super().__init__(stage)
        self._rest: deque[ProducerRecord] = deque()  # the queue was full

    @property
    def room(self) -> int:
        return self._stage.settings.parallelism - self._producer.outstanding

    @property
    def waits_for_reports(self) -> bool:
        return self._full or self.room <= 0

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
        refused: list[Any] = []

        def refuse(record: Any, error: BaseException) -> None:
            refused.append(record)
            if self._failure is None:
                self._failed((record, record, error))

        writes = self._transaction.writes
        taken = self._produce_all(records, writes.report, refuse)
        sent = records[:taken]
        if refused:
            sent = [record for record in sent if not any(record is each for each in refused)]
        if sent:
            writes.keep(sent)
        return taken

    def _send_rest(self) -> None:
        rest = list(self._rest)
        self._rest.clear()
        if rest:
            self._rest.extend(rest[self._send_records(rest) :])
