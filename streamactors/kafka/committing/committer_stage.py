"""The stage that commits offsets in hand in batches, and passes marks on after the offsets before them are committed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any

from streamactors.engine.attributes import Attributes
from streamactors.engine.island.causes import NonFailureCancellation
from streamactors.engine.island.connection import MAX_ASKED, Connection
from streamactors.engine.logic import FlowLogic, Logic
from streamactors.engine.marks.marks import BLURS, Mark, merge_newer
from streamactors.engine.stage import NOT_USED, Stage
from streamactors.engine.stage_traits import StageTraits
from streamactors.engine.supervision import Directive, directive_for
from streamactors.errors import BuildError
from streamactors.kafka.committable import CommittableOffsetBatch, GatheredOffsets, all_committed
from streamactors.kafka.committing.commit_routes import CommitRoutes, routes_of
from streamactors.kafka.settings import CommitterSettings

_INTERVAL = "interval"
CHUNKS_AHEAD = 4
"""The demand if a source gathers the offsets: the elements are whole chunks of offsets."""


class CommitterStage(Stage[Any, CommittableOffsetBatch]):
    """Commit offsets; emit each batch when the broker has it.

    Emits when: a batch is committed: at `max_batch` offsets, or `max_interval_ms` after its first one or mark.
    Backpressures when: `parallelism` batches are being committed.   Completes when: upstream completes and all is committed.
    Cancels when: downstream cancels.   Fails when: a commit fails after its retries; upstream fails, after the offsets before the failure are committed.
    Supervision: resume and restart continue after a failed commit or a failed `offset` function.   Marks: after their batch; blurs.
    """

    handling = BLURS
    traits = StageTraits(reads_marks=True)

    def __init__(self, name: str, settings: CommitterSettings, offset: Callable[[Any], Any] | None) -> None:
        self.name = name
        self.settings = settings
        self.offset = offset

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        return CommitterLogic(self), NOT_USED


class _Flush:
    """A batch that is being committed, and the marks after it."""

    __slots__ = ("batch", "done", "error", "marks")

    def __init__(self, batch: CommittableOffsetBatch, marks: list[Mark]) -> None:
        self.batch = batch
        self.marks = marks
        self.done = False
        self.error: BaseException | None = None


class CommitterLogic(FlowLogic):
    """See the stage."""

    _routes: CommitRoutes
    _tell: Callable[[tuple[_Flush, BaseException | None]], None]

    def __init__(self, stage: CommitterStage) -> None:
        self._stage = stage
        self._batch = CommittableOffsetBatch()
        self._marks: list[Mark] = []  # after the offsets of the batch
        self._flushes: deque[_Flush] = deque()
        self._completing = False
        self._gathers = False  # the elements are GatheredOffsets
        self._cut_off = False  # a stage downstream of this one has failed
        self._drain: Callable[[None], None] = lambda _: None

    def bind(self) -> None:
        super().bind()
        self._routes = routes_of(self.interpreter.island.run)
        self._routes.committer(self, self.in_.carries)

    def on_start(self) -> None:
        self._tell = self.async_callback(self._on_committed).invoke
        self._drain = self.async_callback(self._acknowledge).invoke

    def gather(self) -> bool:
        """Called by the source before this stage when the run starts: True if the source may push GatheredOffsets, one element for a chunk."""
        if self._stage.offset is not None:
            return False
        self._gathers = True
        return True

    # ── in ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def on_pull(self, out: Connection) -> None:
        self._move_on()

    def on_push(self, in_: Connection) -> None:
        if self._gathers:
            self._take_gathered(in_)
        else:
            chunk, offset = in_.grab(self._room()), self._stage.offset
            self._add(chunk if offset is None else self._offsets(offset, chunk))
            self._flush_when_full()
        self._move_on()

    def _take_gathered(self, in_: Connection) -> None:
        """Take a chunk of gathered offsets. What is left when `parallelism` batches are being committed goes back to the inlet."""
        left: GatheredOffsets = in_.grab(1)[0]
        while left and len(self._flushes) < self._stage.settings.parallelism:
            found, left = left.cut(self._room())
            self._add(found)
            self._flush_when_full()
        if left:
            in_.unread([left])

    def _room(self) -> int:
        return max(1, self._stage.settings.max_batch - self._batch.size)

    def _flush_when_full(self) -> None:
        if self._batch.size >= self._stage.settings.max_batch:
            self._flush()
        else:
            self._arm()

    def _offsets(self, offset: Callable[[Any], Any], chunk: list[Any]) -> list[Any]:
        """Return what the user's function returns for the elements. When it fails, the offsets found before are committed."""
        found = []
        for element in chunk:
            try:
                found.append(offset(element))
            except BaseException as error:
                if directive_for(self, error, element, offset) is Directive.STOP:
                    self._add(found)
                    self._flush()
                    raise
        return found

    def _add(self, found: list[Any]) -> None:
        if not found:
            return
        try:
            self._batch.add_all(found)
        except BuildError as error:
            if directive_for(self, error, found[0], self._stage.offset) is Directive.STOP:
                self._flush()
                raise

    def on_mark(self, in_: Connection, mark: Mark) -> None:
        if type(mark) is dict:
            if self._marks and type(self._marks[-1]) is dict:
                merge_newer(self._marks[-1], mark)
            else:
                self._marks.append(mark.copy())
            self._arm()
        elif self._batch.size or self._marks:
            self._marks.append(mark)
        elif self._flushes:
            self._flushes[-1].marks.append(mark)
        else:
            self.out.mark(mark)

    def _arm(self) -> None:
        if not self._batch.size and not self._marks:
            return
        if self._routes.drains:
            self._acknowledge()
        if not self.is_timer_active(_INTERVAL):
            self.schedule_once(_INTERVAL, self._stage.settings.max_interval_ms)

    def draining(self) -> None:
        """A revocation waits until what is in flight is done; any thread."""
        self._drain(None)

    def _acknowledge(self, _: None = None) -> None:
        """Acknowledge what the batch has gathered by now. The revocation commits it, and the consumer answers no other commit meanwhile."""
        self._batch.acknowledge()
        for mark in self._marks:
            if type(mark) is dict:
                self._routes.progress.done(self, mark)

    def on_timer(self, key: object) -> None:
        self._flush()
        self._move_on()

    def on_complete(self, in_: Connection) -> None:
        self._completing = True
        self._flush()
        self._move_on()

    def on_fail(self, in_: Connection, error: BaseException) -> None:
        self._flush()  # a restart need not repeat what was done before the failure
        self.fail_stage(error)

    def on_cancel(self, out: Connection, cause: BaseException) -> None:
        self._cut_off = not isinstance(cause, NonFailureCancellation)
        super().on_cancel(out, cause)

    def on_stop(self) -> None:
        if self.failure is None and not self._cut_off:
            self._routes.progress.sink_ended(self)
        elif self.inside:  # in a RestartSource: what this Committer has not done comes again
            self._routes.progress.forget(self)

    # ── committing ────────────────────────────────────────────────────────────────────────────────────────────────

    def _flush(self) -> None:
        self.cancel_timer(_INTERVAL)
        batch, marks = self._batch, self._marks
        if not batch.size and not marks:
            return
        self._batch, self._marks = CommittableOffsetBatch(), []
        consumers = set(batch.acknowledge().values())
        for mark in marks:
            if type(mark) is dict:
                self._routes.progress.done(self, mark)
                consumers |= self._routes.commits(mark)
        flush = _Flush(batch, marks)
        self._flushes.append(flush)

        all_committed(consumers, self._stage.settings.max_retries).add_done_callback(partial(self._ended, flush))

    def _ended(self, flush: _Flush, future: Future[None]) -> None:
        """Any thread: the commit of a batch has ended."""
        self._tell((flush, future.exception()))

    def _on_committed(self, what: tuple[_Flush, BaseException | None]) -> None:
        flush, error = what
        flush.error = error
        flush.done = True
        if flush.error is not None:
            decider = self.attributes.decider
            if decider is None or decider(flush.error) is Directive.STOP:
                self.fail_stage(flush.error)
                return
        self._move_on()

    # ── out ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _move_on(self) -> None:
        out, flushes = self.out, self._flushes
        while flushes and flushes[0].done:
            flush = flushes[0]
            if flush.batch.size and flush.error is None:
                if not out.asked:
                    break
                out.push([flush.batch])
            for mark in flush.marks:
                out.mark(mark)
            flushes.popleft()
        if self._completing:
            if not flushes:
                self.complete_stage()
        elif len(flushes) < self._stage.settings.parallelism:
            due, most = self.in_.due, CHUNKS_AHEAD if self._gathers else MAX_ASKED
            self.in_.want(most if due * 2 <= most else due)

    def snapshot_state(self) -> str:
        return f"{self._batch.size} gathered, {len(self._flushes)} batches being committed"
