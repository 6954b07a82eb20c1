"""Operators that call a function for several elements at a time: map_async, map_async_unordered, map_async_partitioned, ask.

The function may be a coroutine function (it runs on the system's asyncio loop) or a plain one (it runs on the system's pool, and may
block); a plain one may also return a future or an awaitable. None is a result like any other."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, ClassVar

from streamactors.durations import Duration
from streamactors.engine.island.connection import Connection
from streamactors.engine.logic import FlowLogic, logic_of
from streamactors.engine.marks.marks import BLURS, EXACT, Epochs, Handling, Mark
from streamactors.engine.stage import In, Out, Stage
from streamactors.engine.stage_traits import StageTraits
from streamactors.engine.supervision import Directive, directive_for
from streamactors.engine.user_code import blame, shortened
from streamactors.errors import BuildError, CircuitOpen
from streamactors.gauges import Gauge
from streamactors.stages.asynchronous.attempts import Attempts, retry_settings
from streamactors.stages.asynchronous.call_timeout import timed
from streamactors.stages.asynchronous.calls import Call, Calls
from streamactors.stages.asynchronous.circuit_breaker import CircuitBreaker
from streamactors.stages.asynchronous.own_loop import OwnLoop
from streamactors.stages.bases.emitting import keep
from streamactors.stages.checks import asyncio_loop, function, positive, span_ms
from streamactors.stages.errors.failed_element import FailedElement
from streamactors.stages.restart_settings import RestartSettings
from streamactors.tracing import switch


class MapAsync(Stage[In, Out]):
    """The stage of `Source.map_async`."""

    traits = StageTraits(ends_with_inputs=True)
    handling: Handling = EXACT

    def __init__(
        self,
        parallelism: int,
        fn: Callable[[Any], Any],
        loop: asyncio.AbstractEventLoop | None = None,
        retry: RestartSettings | None = None,
        breaker: CircuitBreaker | None = None,
        timeout: Duration | None = None,
        *,
        gives_up: bool = False,
    ) -> None:
        self.parallelism = positive(self.label, "parallelism", parallelism)
        self.fn = function(self.label, fn)
        self.loop = asyncio_loop(self.label, loop)
        self.retry = retry_settings(self.label, retry)
        if not isinstance(breaker, CircuitBreaker | None):
            raise BuildError(
                f"{self.label}: breaker must be a CircuitBreaker, got {type(breaker).__name__} {shortened(breaker, 60)}"
            )
        self.breaker = breaker
        self.timeout_ms = None if timeout is None else span_ms(self.label, "timeout", timeout)
        self.gives_up = gives_up
        """True emits a FailedElement for an element whose last attempt has failed."""


class MapAsyncUnordered(MapAsync[In, Out]):
    """The stage of `Source.map_async_unordered`."""

    handling = BLURS


class AsyncLogic(FlowLogic):
    """Starts calls and counts those inside; subclasses decide when results leave."""

    here: ClassVar[bool] = False

    _inside = 0
    _completing = False
    _attempts: Attempts | None = None
    _breaker: CircuitBreaker | None = None

    def __init__(self, stage: Any) -> None:
        super().__init__(stage)
        self._parallelism = stage.parallelism
        self._gives_up: bool = getattr(stage, "gives_up", False)
        self._gauge = Gauge(f"{stage.label}: elements inside", stage.parallelism)
        self._fn = self.function()

    def function(self) -> Callable[[Any], Any]:
        """Return the function that is called with each element."""
        fn: Callable[[Any], Any] = self.stage.fn
        return fn

    def bind(self) -> None:
        super().bind()
        loop = getattr(self.stage, "loop", None)
        self._own_loop = None if loop is None else OwnLoop(self, loop)
        retry: RestartSettings | None = getattr(self.stage, "retry", None)
        if retry is not None:
            self._attempts = Attempts(self, retry)

    def on_start(self) -> None:
        fn = self._fn
        timeout_ms: float | None = getattr(self.stage, "timeout_ms", None)
        if timeout_ms is not None:
            fn = timed(self, fn, timeout_ms)  # inside the breaker, which counts it as a failure
        self._breaker = getattr(self.stage, "breaker", None)
        if self._breaker is not None:
            fn = self._breaker(fn)
        self._calls = Calls(self, fn, self._on_ended, here=self.here, own_loop=self._own_loop)
        if self._own_loop is not None:
            self._own_loop.start()

    def on_timer(self, key: object) -> None:
        if isinstance(key, Call):
            self._call_again(key)
        else:
            assert self._own_loop is not None
            self._own_loop.look(self._calls.any_running)

    def _call_again(self, call: Call) -> None:
        assert self._attempts is not None
        self._attempts.waiting -= 1
        if call.context is None:
            self._calls.start([call])
        else:  # the attempt belongs to the trace of the first one
            call.context.run(self._calls.start, [call])

    def on_pull(self, out: Connection) -> None:
        self._move_on()

    def on_push(self, in_: Connection) -> None:
        calls = [Call(element) for element in in_.grab(self._parallelism - self._inside)]
        self._inside += len(calls)
        self._gauge.reached(self._inside)
        self.enter(calls)
        self._move_on()

    def _on_ended(self, calls: list[Call]) -> None:
        """Calls have ended; on the island."""
        failure: BaseException | None = None
        if self._attempts is not None:
            try:
                calls = [call for call in calls if call.error is None or not self._attempts.again(call)]
            except BaseException as worse:  # noqa: BLE001  # of the user's `restart_on`
                failure, calls = worse, []
        for call in calls:
            if call.error is not None and failure is None:
                failure = self.judge(call)
        self.left(calls)
        if failure is None:
            self._move_on()
        else:
            self.emit()  # the results before the failure
            self.fail_stage(failure)

    def judge(self, call: Call) -> BaseException | None:
        """A call failed: return the error that stops the stage, None when the element is given up, or supervision drops it."""
        error = call.error
        assert error is not None
        # CircuitOpen: no call was made, so the element is not at fault
        if self._gives_up and isinstance(error, Exception) and not isinstance(error, CircuitOpen):
            blame(error, self.name, call.element, self._fn)
            call.value = FailedElement(call.element, error, max(call.failed, 1), self.stage.label)
            call.error = None
            return None
        try:
            if call.context is None:
                directive = directive_for(self, error, call.element, self._fn)
            else:
                directive = call.context.run(self._directive_in_trace, error, call.element)
            if directive is Directive.STOP:
                return error
            if directive is Directive.RESTART:
                self.restart(call)
            else:
                call.dropped = True
        except BaseException as worse:  # noqa: BLE001  # the decider's own, or that of a restart
            return worse
        return None

    def _directive_in_trace(self, error: BaseException, element: Any) -> Directive:
        """As `directive_for`, in the context of the call, whose span hears of an error that stops the stage, too."""
        directive = directive_for(self, error, element, self._fn)
        if directive is Directive.STOP and switch.installed is not None:
            switch.installed.raised(error)
        return directive

    def restart(self, call: Call) -> None:
        """Supervision sets the stage back to its first state, because `call` failed; a stage without a state drops the element."""
        call.dropped = True

    def _move_on(self) -> None:
        self.emit()
        if self._completing and not self._inside:
            self.complete_stage()
        elif self._inside < self._parallelism:
            self.in_.want(self._parallelism - self._inside)

    def enter(self, calls: list[Call]) -> None:
        """Start new calls."""
        raise NotImplementedError  # pragma: no cover

    def left(self, calls: list[Call]) -> None:
        """Calls have ended, with a result or an error."""

    def emit(self) -> None:
        """Push the results that may leave."""
        raise NotImplementedError  # pragma: no cover

    def on_complete(self, in_: Connection) -> None:
        self._completing = True
        if not self._inside:
            self.complete_stage()

    def on_stop(self) -> None:
        self._calls.stop()
        if self._own_loop is not None:
            self._own_loop.end()

    def outside_wait(self) -> str:
        return "until its calls return"

    def snapshot_state(self) -> str:
        text = f"{self._inside} of {self._parallelism} calls"
        if self._attempts is not None and self._attempts.waiting:
            text += f", {self._attempts.waiting} between two attempts"
        if self._breaker is not None:
            text += f", circuit {self._breaker.name} is {self._breaker.state}"
        return text


@logic_of(MapAsync)
class OrderedLogic(AsyncLogic):
    def __init__(self, stage: Any) -> None:
        super().__init__(stage)
        self._queue: deque[Any] = deque()  # calls and marks

    def enter(self, calls: list[Call]) -> None:
        self._queue += calls
        self._calls.start(calls)

    def emit(self) -> None:
        out, queue = self.out, self._queue
        results: list[Any] = []
        while queue:
            head = queue[0]
            if type(head) is not Call:
                if results:
                    out.push(results)
                    results = []
                out.mark(head)
            elif not head.done or (head.error is not None and not head.dropped):
                break
            else:
                if not head.dropped:
                    if len(results) == out.asked:
                        break
                    results.append(head.value)
                self._inside -= 1
            queue.popleft()
        if results:
            out.push(results)

    def on_mark(self, in_: Connection, mark: Mark) -> None:
        if self._queue:
            keep(self._queue, mark)
        else:
            self.out.mark(mark)


@logic_of(MapAsyncUnordered)
class UnorderedLogic(AsyncLogic):
    def __init__(self, stage: MapAsyncUnordered[Any, Any]) -> None:
        super().__init__(stage)
        self._epochs = Epochs()
        self._ready: deque[Call] = deque()

    def enter(self, calls: list[Call]) -> None:
        for call in calls:
            call.token = self._epochs.enter()
        self._calls.start(calls)

    def left(self, calls: list[Call]) -> None:
        self._ready += calls

    def emit(self) -> None:
        out, ready = self.out, self._ready
        results: list[Any] = []
        while ready:
            call = ready[0]
            if call.error is not None and not call.dropped:
                break  # the stage fails
            if not call.dropped:
                if len(results) == out.asked:
                    break
                results.append(call.value)
            ready.popleft()
            self._inside -= 1
            marks = self._epochs.leave(call.token)
            if marks:
                if results:
                    out.push(results)
                    results = []
                for mark in marks:
                    out.mark(mark)
        if results:
            out.push(results)

    def on_mark(self, in_: Connection, mark: Mark) -> None:
        for ripe in self._epochs.mark(mark.copy() if isinstance(mark, dict) else mark):
            self.out.mark(ripe)
