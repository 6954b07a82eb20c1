"""Operators that follow the system's clock. Spans are ms, a parameter named `timeout` is seconds; both may be a timedelta or a text such
as "1.5s"."""

from __future__ import annotations

from collections.abc import Callable

from streamactors.clock import Duration, Timeout
from streamactors.dsl.operators.base import Ops
from streamactors.dsl.typevars import Mat, Out, U
from streamactors.stages.rate.buffer import BACKPRESSURE
from streamactors.stages.timing.delay import Delay, DelayWith, InitialDelay
from streamactors.stages.timing.sampling import Debounce, Sample
from streamactors.stages.timing.timeouts import (
    BackpressureTimeout,
    CompletionTimeout,
    IdleTimeout,
    InitialTimeout,
    KeepAlive,
)


class TimingOps(Ops[Out, Mat]):
    """See the module."""

    __slots__ = ()

    def delay(self, delay: Duration, buffer: int = 1024, strategy: str = BACKPRESSURE) -> Ops[Out, Mat]:
        return self._via(Delay(delay, buffer, strategy))

    def delay_with(
        self, make: Callable[[], Callable[[Out], Duration]], buffer: int = 1024, strategy: str = BACKPRESSURE
    ) -> Ops[Out, Mat]:
        return self._via(DelayWith(make, buffer, strategy))

    def sample(self, interval: Duration) -> Ops[Out, Mat]:
        return self._via(Sample(interval))

    def debounce(self, span: Duration) -> Ops[Out, Mat]:
        return self._via(Debounce(span))

    def initial_delay(self, delay: Duration) -> Ops[Out, Mat]:
        return self._via(InitialDelay(delay))

    def initial_timeout(self, timeout: Timeout) -> Ops[Out, Mat]:
        return self._via(InitialTimeout(timeout))

    def completion_timeout(self, timeout: Timeout) -> Ops[Out, Mat]:
        return self._via(CompletionTimeout(timeout))

    def idle_timeout(self, timeout: Timeout) -> Ops[Out, Mat]:
        return self._via(IdleTimeout(timeout))

    def backpressure_timeout(self, timeout: Timeout) -> Ops[Out, Mat]:
        return self._via(BackpressureTimeout(timeout))

    def keep_alive(self, max_idle: Duration, inject: Callable[[], U]) -> Ops[Out | U, Mat]:
        return self._via(KeepAlive(max_idle, inject))
