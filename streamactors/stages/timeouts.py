"""Operators that watch the time between signals: the four timeouts, which fail with StreamTimeout, and keep_alive.

Each has one timer that is set again only when it fires, so a stream that flows pays a look at the clock per chunk. Marks pass at
once, exactly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamactors.clock import Duration
from streamactors.engine.connection import Connection
from streamactors.engine.logic import Logic
from streamactors.engine.marks import EXACT
from streamactors.engine.stage import In, Out, Stage
from streamactors.engine.user_code import blame
from streamactors.errors import StreamTimeout
from streamactors.stages.checks import plain_function, span_ms
from streamactors.stages.passing import PassingLogic


class _Timeout(Stage[In, In]):
    handling = EXACT

    def __init__(self, timeout: Duration) -> None:
        self._timeout_ms = span_ms(self.label, "timeout", timeout)


class _TimeoutLogic(PassingLogic):
    def __init__(self, timeout_ms: float) -> None:
        self.timeout_ms = timeout_ms

    def on_start(self) -> None:
        self.schedule_once("timeout", self.timeout_ms)

    def missed(self, what: str) -> None:
        """Fail: the time is over."""
        self.fail_stage(StreamTimeout(f"{self.name}: {what} within {self.timeout_ms:g} ms"))


class InitialTimeout(_Timeout[In]):
    """Fail unless the first element comes within `timeout` of the start.

    Emits when: upstream does.                    Backpressures when: downstream does.
    Completes when: upstream completes.           Cancels when: downstream cancels.
    Fails when: the time is over before the first element, with StreamTimeout.
    Marks: at once, exact.
    """

    def logic(self) -> Logic:
        return _InitialTimeoutLogic(self._timeout_ms)


class _InitialTimeoutLogic(_TimeoutLogic):
    def on_push(self, in_: Connection) -> None:
        self.cancel_timer("timeout")
        super().on_push(in_)

    def on_timer(self, key: object) -> None:
        self.missed("no first element")


class CompletionTimeout(_Timeout[In]):
    """Fail unless the stream completes within `timeout` of the start.

    Emits when: upstream does.                    Backpressures when: downstream does.
    Completes when: upstream completes.           Cancels when: downstream cancels.
    Fails when: the time is over before that, with StreamTimeout.
    Marks: at once, exact.
    """

    def logic(self) -> Logic:
        return _CompletionTimeoutLogic(self._timeout_ms)


class _CompletionTimeoutLogic(_TimeoutLogic):
    def on_timer(self, key: object) -> None:
        self.missed("not completed")


class IdleTimeout(_Timeout[In]):
    """Fail when no element passes for `timeout`.

    Emits when: upstream does.                    Backpressures when: downstream does.
    Completes when: upstream completes.           Cancels when: downstream cancels.
    Fails when: the time between two elements, or from the start to the first, exceeds the timeout, with StreamTimeout.
    Marks: at once, exact.
    """

    def logic(self) -> Logic:
        return _IdleTimeoutLogic(self._timeout_ms)


class _IdleTimeoutLogic(_TimeoutLogic):
    def on_start(self) -> None:
        super().on_start()
        self._last_ms = self.interpreter.now_ms()

    def on_push(self, in_: Connection) -> None:
        self._last_ms = self.interpreter.now_ms()
        super().on_push(in_)

    def on_timer(self, key: object) -> None:
        left_ms = self._last_ms + self.timeout_ms - self.interpreter.now_ms()
        if left_ms > 0:
            self.schedule_once("timeout", left_ms)
        else:
            self.missed("no element")


class BackpressureTimeout(_Timeout[In]):
    """Fail when downstream asks for nothing for `timeout`.

    Emits when: upstream does.                    Backpressures when: downstream does.
    Completes when: upstream completes.           Cancels when: downstream cancels.
    Fails when: the time between an element and the demand for more, or from the start to the first, exceeds the timeout, with
    StreamTimeout.
    Marks: at once, exact.
    """

    def logic(self) -> Logic:
        return _BackpressureTimeoutLogic(self._timeout_ms)


class _BackpressureTimeoutLogic(_TimeoutLogic):
    def on_start(self) -> None:
        super().on_start()
        self._since_ms = self.interpreter.now_ms()  # without demand

    def on_push(self, in_: Connection) -> None:
        super().on_push(in_)
        if not self.out.asked:
            self._since_ms = self.interpreter.now_ms()
            if not self.is_timer_active("timeout"):
                self.schedule_once("timeout", self.timeout_ms)

    def on_timer(self, key: object) -> None:
        if self.out.asked:
            return  # set again when demand is used up
        left_ms = self._since_ms + self.timeout_ms - self.interpreter.now_ms()
        if left_ms > 0:
            self.schedule_once("timeout", left_ms)
        else:
            self.missed("no demand")


class KeepAlive(Stage[In, Out]):
    """Emit `inject()` whenever upstream has been silent for `max_idle` and downstream asks.

    Emits when: upstream does, or has been silent for that long.   Backpressures when: downstream does.
    Completes when: upstream completes.           Cancels when: downstream cancels.
    Marks: at once, exact.
    """

    handling = EXACT

    def __init__(self, max_idle: Duration, inject: Callable[[], Any]) -> None:
        self._max_idle_ms = span_ms("keep_alive", "max_idle", max_idle)
        self._inject = plain_function("keep_alive", inject)

    def logic(self) -> Logic:
        return _KeepAliveLogic(self._max_idle_ms, self._inject)


class _KeepAliveLogic(PassingLogic):
    def __init__(self, max_idle_ms: float, inject: Callable[[], Any]) -> None:
        self._max_idle_ms = max_idle_ms
        self._inject = inject

    def on_start(self) -> None:
        self._last_ms = self.interpreter.now_ms()
        self.schedule_once("idle", self._max_idle_ms)
        self.in_.want(1)  # one ahead, so that an element goes before what is made up

    def on_push(self, in_: Connection) -> None:
        self._last_ms = self.interpreter.now_ms()
        if not self.is_timer_active("idle"):
            self.schedule_once("idle", self._max_idle_ms)  # it fired while downstream was silent
        if self.out.asked:
            super().on_push(in_)
            if not self.out.asked:
                in_.want(1)

    def on_pull(self, out: Connection) -> None:
        if not self.in_.ready and not self.is_timer_active("idle"):
            self._emit_or_wait()
        if out.can_push:
            self.in_.want(out.asked)

    def on_timer(self, key: object) -> None:
        if self.out.asked or self._last_ms + self._max_idle_ms > self.interpreter.now_ms():
            self._emit_or_wait()  # else at the next demand

    def _emit_or_wait(self) -> None:
        now_ms = self.interpreter.now_ms()
        if self._last_ms + self._max_idle_ms <= now_ms:
            try:
                element = self._inject()
            except BaseException as error:
                blame(error, self.name, function=self._inject)
                raise
            self.out.push([element])
            self._last_ms = now_ms
        self.schedule_once("idle", self._last_ms + self._max_idle_ms - now_ms)
