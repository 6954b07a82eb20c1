"""Flow.retry: runs each element through a flow; after a failure the flow is made again and gets the same element again.

One element at a time is inside the flow. The element is followed by a mark of the stage's own: when this mark comes out, the flow has emitted
everything that it makes of the element. Results are kept until then, so a failed attempt emits nothing."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

from streamactors.durations import Duration
from streamactors.engine.blueprint.modules import Joined, Module, StageModule, keep_right
from streamactors.engine.island.causes import NonFailureCancellation
from streamactors.engine.island.connection import Connection
from streamactors.engine.logic import logic_of
from streamactors.engine.marks.marks import EXACT, Mark
from streamactors.engine.materializing.materializer import attach
from streamactors.engine.planning.plan import plan_of
from streamactors.engine.stage import In, Out, Stage
from streamactors.errors import BuildError
from streamactors.stages.bases.inner import AroundInner, part_module
from streamactors.stages.checks import at_least, span_ms
from streamactors.stages.control.one_at_a_time import warn_of_lost_parallelism
from streamactors.stages.control.redelivery import Redelivered
from streamactors.stages.errors.failed_element import FailedElement
from streamactors.stages.errors.recovering import On, failures
from streamactors.stages.restart_settings import RestartSettings

log = logging.getLogger("streamactors.stages.retry")

LONGEST_BACKOFF: Final = timedelta(minutes=1)
"""The longest delay, where the first one is shorter and no RestartSettings says more."""
RESULTS_AT_ONCE: Final = 1_024

_NOTHING: Any = object()


def backoff_settings(backoff: Duration | RestartSettings) -> RestartSettings:
    """Return settings whose delays begin at `backoff` and double, up to a minute or `backoff`, whichever is longer."""
    if isinstance(backoff, RestartSettings):
        return backoff
    first = timedelta(milliseconds=span_ms("retry", "backoff", backoff))
    return RestartSettings(first, max(first, LONGEST_BACKOFF))


class RetryingFlow(Stage[In, Out]):
    """Run each element through the flow built so far. After a failure make the flow again and give it the same element, up to `attempts` times.

    `backoff` (seconds, a timedelta or a string): the delay before the second attempt; it doubles, up to a minute. `on`: the exceptions that are tried
    again; others fail the stream. `dead_letters`: a sink of FailedElement(element, error, attempts) for elements whose last attempt has failed,
    such as `Producer.dead_letter_sink`; without it the last error fails the stream. One element at a time is inside the flow, and a failed attempt
    emits nothing. A stage that remembers earlier elements is refused, because the flow is made again.
    """

    name = "retry"
    handling = EXACT

    def __init__(
        self,
        flow: Module,
        attempts: int,
        backoff: Duration | RestartSettings,
        on: On = Exception,
        *,
        keep: bool = False,
    ) -> None:
        at_least("retry", "attempts", attempts, 1)
        self.attempts = attempts
        self.settings = backoff_settings(backoff)
        self.on: Callable[[BaseException], Any] = failures("retry", on)
        self.keep = keep
        """True emits a FailedElement; False fails with the last error."""
        self.flow = part_module("retry", flow, (1, 1))
        for node in plan_of(self.flow).nodes:
            if node.stage.handling.remembers:
                raise BuildError(
                    f"retry makes its flow again after a failure, and stage '{node.label}' remembers earlier elements; "
                    "put it before or after the flow that is retried"
                )

        warn_of_lost_parallelism("retry", self.flow)

    def instance(self) -> tuple[Module, Redelivered]:
        """Return the flow with a stage before it, whose marks come out after the results of an element."""
        entry = Redelivered("retry")
        return Joined(StageModule(entry), self.flow, keep_right), entry


@logic_of(RetryingFlow)
class _RetryingLogic(AroundInner):
    stage: RetryingFlow[Any, Any]
    replaces_inside = True

    def __init__(self, stage: RetryingFlow[Any, Any]) -> None:
        super().__init__(stage)
        self._element: Any = (
            _NOTHING  # inside the flow, waiting for its next attempt, or with results that wait for demand
        )
        self._work: Any = None  # what the interpreter worked on when the element came
        self._results: deque[Any] = deque()
        self._done = False  # the element's results are complete
        self._sent = False
        self._failed = 0  # attempts of the element
        self._number = 0  # of attempts so far: the position of the mark after the element
        self._key: Any = None

    # ── elements ──────────────────────────────────────────────────────────────────────────────────────────────────

    def on_pull(self, out: Connection) -> None:
        if out is self._into:
            self._send()
        elif out is self.outlets[0]:
            self._emit()

    def on_push(self, in_: Connection) -> None:
        if in_ is self._from:
            self._results.extend(in_.grab(RESULTS_AT_ONCE))
            in_.want(RESULTS_AT_ONCE)
        elif in_ is self.inlets[0] and self._element is _NOTHING and self.outlets[0].asked:
            self._element = in_.grab(1)[0]
            self._work = self.interpreter.working_on
            self._failed = 0
            in_.hold()  # the marks after the element wait for its results
            self._send()

    def _send(self) -> None:
        if self._element is _NOTHING or self._sent or self._done or self.is_timer_active("retry"):
            return
        if self._into is None:
            module, entry = self.stage.instance()
            self._key = (entry, 0)
            (self._into,), (self._from,), _ = attach(self, module)
            self._from.want(RESULTS_AT_ONCE)
        if self._into.can_push:
            self._sent = True
            self._number += 1
            self._into.push([self._element])
            self._into.mark({self._key: (1, self._number)})

    def on_mark(self, in_: Connection, mark: Mark) -> None:
        if in_ is self.inlets[0]:
            self.outlets[0].mark(mark)
        elif in_ is self._from and self._sent and isinstance(mark, dict) and mark.get(self._key) == (1, self._number):
            self._finish_element()

    def _finish_element(self) -> None:
        self._sent = False
        self._done = True
        self._emit()

    def _emit(self) -> None:
        """Emit the results of an element as far as there is demand, then ask for the next element."""
        out = self.outlets[0]
        if self._done:
            if self._results and out.asked:
                n = min(out.asked, len(self._results))
                out.push([self._results.popleft() for _ in range(n)])
            if self._results:
                return
            self._done = False
            self._element = _NOTHING
            self.inlets[0].release()
        if self._element is _NOTHING and out.asked and not self.inlets[0].in_closed:
            self.inlets[0].want(1)

    # ── failures ──────────────────────────────────────────────────────────────────────────────────────────────────

    def on_timer(self, key: object) -> None:
        self.interpreter.work_on(self._work)
        self._send()

    def _attempt_failed(self, error: BaseException) -> None:
        self._let_go(error)
        if self._element is _NOTHING or self._done or not self.stage.on(error):
            self.fail_stage(error)
            return
        self._results.clear()
        self._sent = False
        self._failed += 1
        attempts = self.stage.attempts
        if self._failed < attempts:
            delay_ms = self.stage.settings.delay_ms(self._failed - 1)
            shown = f"{type(error).__name__}: {error}"
            log.info(
                "%s: attempt %d of %d failed with %s, next in %.0f ms",
                self.name,
                self._failed,
                attempts,
                shown,
                delay_ms,
            )
            self.schedule_once("retry", delay_ms)
        elif self.stage.keep:
            self._results.append(FailedElement(self._element, error, self._failed))
            self._finish_element()
        else:
            error.add_note(f"retry: attempt {self._failed} of {attempts}")
            self.fail_stage(error)

    # ── ends ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def on_complete(self, in_: Connection) -> None:
        if in_ is self.inlets[0] and self._into is not None:
            self._into.complete()  # the flow may run sinks of its own, which have to end
        elif in_ is self.inlets[0] or in_ is self._from:
            self.complete_stage()

    def on_fail(self, in_: Connection, error: BaseException) -> None:
        if in_ is self._from:
            self._attempt_failed(error)
        elif in_ is self.inlets[0]:
            self.fail_stage(error)

    def on_cancel(self, out: Connection, cause: BaseException) -> None:
        if out is self.outlets[0]:
            self._let_go(None if isinstance(cause, NonFailureCancellation) else cause)
            super().on_cancel(out, cause)
        elif out is self._into and not isinstance(cause, NonFailureCancellation):
            self._attempt_failed(cause)

    def _let_go(self, error: BaseException | None) -> None:
        """Close the connections of the running flow, and forget them."""
        super()._let_go(error)
        self._into = self._from = None

    def snapshot_state(self) -> str:
        return f"attempt {self._failed + 1}" if self._element is not _NOTHING else ""
