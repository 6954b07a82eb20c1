"""The contract of sinks that write batches: a mark is done when the batch with the elements before it was written."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Any

from streamactors.durations import Duration
from streamactors.engine.island.connection import Connection
from streamactors.engine.logic import logic_of
from streamactors.engine.marks.marks import Mark
from streamactors.engine.sink import SinkLogic
from streamactors.engine.supervision import Directive, directive_for
from streamactors.engine.user_code import shortened
from streamactors.errors import BuildError
from streamactors.gauges import Gauge
from streamactors.log_limit import alike, log_limited
from streamactors.stages.asynchronous.calls import Call, Calls
from streamactors.stages.bases.emitting import keep
from streamactors.stages.checks import function, is_coroutine_function, positive, span_ms
from streamactors.stages.restart_settings import RestartSettings
from streamactors.stages.sinks.values import SinkStage

_log = logging.getLogger("streamactors.stages")


class Batches(SinkStage):
    """The stage of `Sink.batches`."""

    name = "batches"

    def __init__(
        self,
        write: Callable[[list[Any]], Any],
        max: int = 500,
        within: Duration = "1s",
        retry: RestartSettings | None = None,
        parallelism: int = 1,
    ) -> None:
        self.write = function(self.name, write)
        self._settings(max, within, retry, parallelism)

    def _settings(self, max: int, within: Duration, retry: RestartSettings | None, parallelism: int = 1) -> None:
        self.max = positive(self.name, "max", max)
        self.within_ms = span_ms(self.name, "within", within)
        if retry is not None and not isinstance(retry, RestartSettings):
            raise BuildError(
                f"{self.name}: retry must be RestartSettings(min_backoff, max_backoff, …) or None, got {shortened(retry, 60)}"
            )
        self.retry = retry
        self.parallelism = positive(self.name, "parallelism", parallelism)


class _Batch:
    """The elements of one batch, the marks after them, and how often it was tried."""

    __slots__ = ("attempts", "done", "elements", "marks")

    def __init__(self) -> None:
        self.elements: list[Any] = []
        self.marks: list[Mark] = []
        self.attempts = 0
        self.done = False


@logic_of(Batches)
class BatchesLogic(SinkLogic):
    """Batches being written are in `_writing`, oldest first; `_next` is being gathered.

    `keep_going` holds the stage after its upstream has completed, until the last batch is written."""

    stage: Batches
    keep_going = True
    here = False
    """True when `writer` returns at once, with a future."""

    def __init__(self, stage: Batches) -> None:
        super().__init__(stage)
        self._next = _Batch()
        self._gauge = Gauge(f"{stage.label}: elements that wait to be written", stage.max * (1 + stage.parallelism))
        self._writing: deque[_Batch] = deque()
        self._due = False  # the time of `_next` is over, or upstream has completed
        self._completing = False
        self._written = 0

    def writer(self) -> Callable[[list[Any]], Any]:
        """Return the function that writes a batch in this run."""
        return self.stage.write

    def on_start(self) -> None:
        self._fn = self.writer()
        write = self._write_async if is_coroutine_function(self._fn) else self._write
        self._calls = Calls(self, write, self._ended, here=self.here)
        self._move_on()

    def _write(self, batch: _Batch) -> Any:
        return self._fn(batch.elements.copy())

    async def _write_async(self, batch: _Batch) -> Any:
        return await self._fn(batch.elements.copy())

    # ── gathering ─────────────────────────────────────────────────────────────────────────────────────────────────

    def on_push(self, in_: Connection) -> None:
        elements = self._next.elements
        chunk = in_.grab(self.stage.max - len(elements))
        if chunk:
            if not elements:
                self.schedule_once("within", self.stage.within_ms)
            elements += chunk
            self._gauge.reached(len(elements) + sum(len(batch.elements) for batch in self._writing))
        self._move_on()

    def on_timer(self, key: object) -> None:
        if key == "within":
            self._due = bool(self._next.elements)
            self._move_on()
        else:
            self._calls.start([Call(key)])  # a batch that is tried again

    def _move_on(self) -> None:
        """Write the next batch if it is time, and ask for what it lacks."""
        batch, stage = self._next, self.stage
        full = len(batch.elements) >= stage.max
        if batch.elements and (full or self._due) and len(self._writing) < stage.parallelism:
            self.cancel_timer("within")
            self._due = self._completing
            self._writing.append(batch)
            self._next = _Batch()
            self._calls.start([Call(batch)])
            full = False
        if self._completing:
            if not self._writing and not self._next.elements:
                self.succeed(self._written)
        elif not full:
            self.in_.want(stage.max - len(self._next.elements))

    def on_mark(self, in_: Connection, mark: Mark) -> None:
        if self._next.elements:
            keep(self._next.marks, mark)
        elif self._writing:
            keep(self._writing[-1].marks, mark)
        else:
            self.mark_done(mark)

    def on_complete(self, in_: Connection) -> None:
        self._completing = self._due = True
        self._move_on()

    # ── written ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _ended(self, calls: list[Call]) -> None:
        for call in calls:
            batch: _Batch = call.element
            if call.error is not None and not self._given_up(batch, call.error):
                continue
            if call.error is None:
                self._written += len(batch.elements)
            batch.done = True
        if self.stopped or self.failure is not None:
            return
        writing = self._writing
        while writing and writing[0].done:
            for mark in writing.popleft().marks:
                self.mark_done(mark)
        self._move_on()

    def _given_up(self, batch: _Batch, error: BaseException) -> bool:
        """`write` raised: try it again later and return False, or fail the stage, or drop the batch and return True."""
        batch.attempts += 1
        retry = self.stage.retry
        if retry is not None and isinstance(error, Exception):
            allowed = retry.max_restarts is None or batch.attempts <= retry.max_restarts
            if allowed and (retry.restart_on is None or retry.restart_on(error)):
                delay_ms = retry.delay_ms(batch.attempts - 1)
                log_limited(
                    _log, logging.WARNING, (self.name, alike(error)),
                    "%s: writing %d elements failed (attempt %d): %s: %s; again in %.0f ms",
                    self.name, len(batch.elements), batch.attempts, type(error).__name__, error, delay_ms,
                )  # fmt: skip
                self.schedule_once(batch, delay_ms)
                return False
        if directive_for(self, error, batch.elements, self._fn) is Directive.STOP:
            self.fail_stage(error)
            return False
        return True

    def on_stop(self) -> None:
        self._calls.stop()
        super().on_stop()

    def snapshot_state(self) -> str:
        return f"{len(self._next.elements)} of {self.stage.max} elements, {len(self._writing)} batches being written"
