"""Operators that watch the time between signals: the four timeouts, which fail with StreamTimeout, and keep_alive.

Each has one timer that is set again only when it fires, so a busy stream only reads the clock once per chunk. Marks pass at
once and exactly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamactors.durations import Duration
from streamactors.engine.island.connection import Connection
from streamactors.engine.logic import logic_of
from streamactors.engine.marks.marks import EXACT
from streamactors.engine.stage import In, Out, Stage
from streamactors.engine.user_code import blame
from streamactors.errors import StreamTimeout
from streamactors.stages.bases.passing import PassingLogic
from streamactors.stages.checks import plain_function, span_ms


class _Timeout(Stage[In, In]):
    handling = EXACT

    def __init__(self, timeout: Duration) -> None:
        self.timeout_ms = span_ms(self.label, "timeout", timeout)


class _TimeoutLogic(PassingLogic):
    stage: _Timeout[Any]

    def on_start(self) -> None:
        self.schedule_once("timeout", self.stage.timeout_ms)

    def missed(self, what: str) -> None:
        """Fail: the time is over."""
        self.fail_stage(StreamTimeout(f"{self.name}: {what} within {self.stage.timeout_ms:g} ms"))


class InitialTimeout(_Timeout[In]):
    """The stage of `Source.initial_timeout`."""


@logic_of(InitialTimeout)
class _InitialTimeoutLogic(_TimeoutLogic):
    def on_push(self, in_: Connection) -> None:
        self.cancel_timer("timeout")
        super().on_push(in_)

    def on_timer(self, key: object) -> None:
        self.missed("no first element")


class CompletionTimeout(_Timeout[In]):
    """The stage of `Source.completion_timeout`."""


@logic_of(CompletionTimeout)
class _CompletionTimeoutLogic(_TimeoutLogic):
    def on_timer(self, key: object) -> None:
        self.missed("not completed")


class IdleTimeout(_Timeout[In]):
    """The stage of `Source.idle_timeout`."""


@logic_of(IdleTimeout)
class _IdleTimeoutLogic(_TimeoutLogic):
    def on_start(self) -> None:
        super().on_start()
        self._last_ms = self.interpreter.now_ms()

    def on_push(self, in_: Connection) -> None:
        self._last_ms = self.interpreter.now_ms()
        super().on_push(in_)

    def on_timer(self, key: object) -> None:
        left_ms = self._last_ms + self.stage.timeout_ms - self.interpreter.now_ms()
        if left_ms > 0:
            self.schedule_once("timeout", left_ms)
        else:
            self.missed("no element")


class BackpressureTimeout(_Timeout[In]):
    """The stage of `Source.backpressure_timeout`."""


@logic_of(BackpressureTimeout)
class _BackpressureTimeoutLogic(_TimeoutLogic):
    def on_start(self) -> None:
        super().on_start()
        self._since_ms = self.interpreter.now_ms()  # without demand

    def on_push(self, in_: Connection) -> None:
        super().on_push(in_)
        if not self.out.asked:
            self._since_ms = self.interpreter.now_ms()
            if not self.is_timer_active("timeout"):
                self.schedule_once("timeout", self.stage.timeout_ms)

    def on_timer(self, key: object) -> None:
        if self.out.asked:
            return  # set again when demand is used up
        left_ms = self._since_ms + self.stage.timeout_ms - self.interpreter.now_ms()
        if left_ms > 0:
            self.schedule_once("timeout", left_ms)
        else:
            self.missed("no demand")


class KeepAlive(Stage[In, Out]):
    """The stage of `Source.keep_alive`."""

    handling = EXACT

    def __init__(self, max_idle: Duration, inject: Callable[[], Any]) -> None:
        self.max_idle_ms = span_ms("keep_alive", "max_idle", max_idle)
        self.inject = plain_function("keep_alive", inject)


@logic_of(KeepAlive)
class _KeepAliveLogic(PassingLogic):
    one_result_each = False
    stage: KeepAlive[Any, Any]

    def on_start(self) -> None:
        self._last_ms = self.interpreter.now_ms()
        self.schedule_once("idle", self.stage.max_idle_ms)
        self.in_.want(1)  # one ahead, so that a ready element is emitted before an injected one

    def on_push(self, in_: Connection) -> None:
        self._last_ms = self.interpreter.now_ms()
        if not self.is_timer_active("idle"):
            self.schedule_once("idle", self.stage.max_idle_ms)  # it fired while downstream was silent
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
        if self.out.asked or self._last_ms + self.stage.max_idle_ms > self.interpreter.now_ms():
            self._emit_or_wait()  # else at the next demand

    def _emit_or_wait(self) -> None:
        now_ms = self.interpreter.now_ms()
        if self._last_ms + self.stage.max_idle_ms <= now_ms:
            try:
                element = self.stage.inject()
            except BaseException as error:
                blame(error, self.name, function=self.stage.inject)
                raise
            self.out.push([element])
            self._last_ms = now_ms
        self.schedule_once("idle", self._last_ms + self.stage.max_idle_ms - now_ms)
