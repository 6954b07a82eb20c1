"""RetryFlow: runs each element through a flow, and again, after a growing back-off, while the user's function asks for it.

One element at a time is inside the flow, which must emit exactly one result for each: so a result is known to belong to its element. Elements
and marks wait in the connection meanwhile; marks pass exactly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamactors.engine.blueprint.modules import Module
from streamactors.engine.island.causes import NonFailureCancellation
from streamactors.engine.island.connection import Connection
from streamactors.engine.logic import logic_of
from streamactors.engine.marks.marks import EXACT, Mark
from streamactors.engine.materializing.materializer import attach
from streamactors.engine.stage import In, Out, Stage
from streamactors.engine.user_code import blame, shortened
from streamactors.errors import BuildError, StreamError
from streamactors.stages.bases.inner import AroundInner, part_module
from streamactors.stages.checks import plain_function
from streamactors.stages.control.one_at_a_time import warn_of_lost_parallelism
from streamactors.stages.restart_settings import RestartSettings

_NOTHING: Any = object()


class Retrying(Stage[In, Out]):
    """Run each element through `flow`. `decide(element, result)` returns None to emit the result, else the element to try next.

    Attempts are delayed by the back-off of `settings`; after `settings.max_restarts` retries the result is emitted as it is.
    The flow must emit one result for each element. One element at a time is inside it.
    Emits when: the flow has a result and `decide` returns None, or the retries are used up.
    Backpressures when: downstream does, an element is inside the flow, or a back-off runs.
    Completes when: upstream completes and the last element's result has been emitted.   Cancels when: downstream cancels.
    Fails when: the flow fails, completes or cancels early, or emits more than one result for an element; `decide` raises.
    """

    name = "retry_flow"
    handling = EXACT

    def __init__(self, settings: RestartSettings, flow: Any, decide: Callable[[Any, Any], Any]) -> None:
        if not isinstance(settings, RestartSettings):
            raise BuildError(
                f"RetryFlow expects RestartSettings, got {type(settings).__name__} {shortened(settings, 60)}"
            )
        self.settings = settings
        self.inner: Module = part_module("RetryFlow", flow, (1, 1))
        self.decide = plain_function("RetryFlow", decide)
        warn_of_lost_parallelism("RetryFlow", self.inner)


@logic_of(Retrying)
class _RetryLogic(AroundInner):
    stage: Retrying[Any, Any]
    _into: Connection
    _from: Connection

    def __init__(self, stage: Retrying[Any, Any]) -> None:
        super().__init__(stage)
        self._element: Any = _NOTHING  # inside the flow, or waiting for its next attempt
        self._sent = False
        self._retries = 0

    def on_start(self) -> None:
        (self._into,), (self._from,), _ = attach(self, self.stage.inner)
        self._from.want(1)

    def on_pull(self, out: Connection) -> None:
        if out is self.outlets[0]:
            if self._element is _NOTHING:
                self.inlets[0].want(1)
        elif not self._sent and self._element is not _NOTHING and not self.is_timer_active("retry"):
            self._send()

    def on_push(self, in_: Connection) -> None:
        if in_ is self._from:
            self._result(in_)
        elif self._element is _NOTHING and self.outlets[0].asked:
            self._element = in_.grab(1)[0]
            self._retries = 0
            in_.hold()  # the marks after it wait for its result
            self._send()

    def _send(self) -> None:
        if self._into.can_push:
            self._sent = True
            self._into.push([self._element])
            self._from.want(1)

    def _result(self, in_: Connection) -> None:
        result = in_.grab(1)[0]
        in_.want(1)
        if not self._sent:
            raise StreamError(
                "RetryFlow: the flow has emitted a result for which no element was sent; it must emit exactly one for each"
            )
        self._sent = False
        element, settings = self._element, self.stage.settings
        try:
            again = self.stage.decide(element, result)
        except BaseException as error:
            blame(error, self.name, element, self.stage.decide)
            raise
        most = settings.max_restarts
        if again is None or (most is not None and self._retries >= most):
            self._element = _NOTHING
            self.outlets[0].push([result])
            self.inlets[0].release()
            if self.outlets[0].asked:
                self.inlets[0].want(1)
            return
        self._element = again
        delay_ms = settings.delay_ms(self._retries)
        self._retries += 1
        self.schedule_once("retry", delay_ms)

    def on_timer(self, key: object) -> None:
        self._send()

    def on_mark(self, in_: Connection, mark: Mark) -> None:
        if in_ is self.inlets[0]:
            self.outlets[0].mark(mark)

    def on_complete(self, in_: Connection) -> None:
        if in_ is self.inlets[0] or (self.inlets[0].in_closed and self._element is _NOTHING):
            self.complete_stage()
        else:
            raise StreamError(
                "RetryFlow: the flow has completed before its upstream; it must emit one result for each element"
            )

    def on_cancel(self, out: Connection, cause: BaseException) -> None:
        if out is self.outlets[0]:
            self._let_go(None if isinstance(cause, NonFailureCancellation) else cause)
            super().on_cancel(out, cause)
        elif isinstance(cause, NonFailureCancellation):
            raise StreamError("RetryFlow: the flow has cancelled; it must emit one result for each element")
        else:
            self.fail_stage(cause)

    def snapshot_state(self) -> str:
        return f"retry {self._retries}" if self._retries else ""
