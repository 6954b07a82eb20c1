"""The stage that writes within the run's transaction: as ProducerStage, but its marks go when the transaction has committed them."""

from __future__ import annotations

from typing import Any

from streamactors.engine.attributes import Attributes
from streamactors.engine.connection import Connection
from streamactors.engine.logic import Logic
from streamactors.engine.marks import Mark, Needs, PositionMark, merge_newer
from streamactors.engine.stage import NOT_USED
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
        return TransactionalLogic(self), NOT_USED


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
        self._transaction.join(self, self._stage.settings, fallback=self._fallback)

    def on_start(self) -> None:
        self._behind = set(logics_behind(self))
        self._tell = self.async_callback(self._on_reports).invoke
        started = self.async_callback(self._on_started)
        self._producer = self._transaction.start(started.invoke)
        self._producer.listen(self._on_reports_elsewhere)

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
        if not self._unsent:
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

    def on_stop(self) -> None:
        if self._producer is not None:
            self._producer.forget(self._on_reports_elsewhere)
        self._transaction.leave(self, self._failure)
