"""Operators that follow the system's clock. Durations are ms, a timedelta, or a text such as "1.5s"."""

from __future__ import annotations

from collections.abc import Callable

from streamactors.clock import Duration
from streamactors.dsl.ops import Ops
from streamactors.dsl.typevars import Mat, Out, U
from streamactors.stages.buffer import BACKPRESSURE
from streamactors.stages.delay import Delay
from streamactors.stages.timed import InitialDelay
from streamactors.stages.timeouts import BackpressureTimeout, CompletionTimeout, IdleTimeout, InitialTimeout, KeepAlive


class TimedOps(Ops[Out, Mat]):
    """See the module."""

    __slots__ = ()

    def delay(self, delay: Duration, buffer: int = 1024, strategy: str = BACKPRESSURE) -> Ops[Out, Mat]:
        """Emit each element `delay` after it came. Up to `buffer` elements wait; `strategy` (see `buffer`) is for one more.

        Emits when: an element has waited long enough.   Backpressures when: `buffer` elements wait ("backpressure"), else never.
        Completes when: upstream completes and all that waits has been emitted.   Cancels when: downstream cancels.
        A failure of upstream overtakes what waits.
        """
        return self._via(Delay(delay, buffer, strategy))

    def initial_delay(self, delay: Duration) -> Ops[Out, Mat]:
        """Ask upstream for the first element only after `delay`.

        Emits when: upstream does, once the delay is over.   Backpressures when: downstream does, or the delay is not over.
        Completes when: upstream completes.           Cancels when: downstream cancels.
        """
        return self._via(InitialDelay(delay))

    def initial_timeout(self, timeout: Duration) -> Ops[Out, Mat]:
        """Fail with StreamTimeout unless the first element comes within `timeout` of the start.

        Emits when: upstream does.                    Backpressures when: downstream does.
        Completes when: upstream completes.           Cancels when: downstream cancels.
        """
        return self._via(InitialTimeout(timeout))

    def completion_timeout(self, timeout: Duration) -> Ops[Out, Mat]:
        """Fail with StreamTimeout unless the stream completes within `timeout` of the start.

        Emits when: upstream does.                    Backpressures when: downstream does.
        Completes when: upstream completes.           Cancels when: downstream cancels.
        """
        return self._via(CompletionTimeout(timeout))

    def idle_timeout(self, timeout: Duration) -> Ops[Out, Mat]:
        """Fail with StreamTimeout when no element passes for `timeout`.

        Emits when: upstream does.                    Backpressures when: downstream does.
        Completes when: upstream completes.           Cancels when: downstream cancels.
        """
        return self._via(IdleTimeout(timeout))

    def backpressure_timeout(self, timeout: Duration) -> Ops[Out, Mat]:
        """Fail with StreamTimeout when downstream asks for nothing for `timeout`.

        Emits when: upstream does.                    Backpressures when: downstream does.
        Completes when: upstream completes.           Cancels when: downstream cancels.
        """
        return self._via(BackpressureTimeout(timeout))

    def keep_alive(self, max_idle: Duration, inject: Callable[[], U]) -> Ops[Out | U, Mat]:
        """Emit `inject()` whenever upstream has been silent for `max_idle` and downstream asks.

        Emits when: upstream does, or has been silent for that long.   Backpressures when: downstream does.
        Completes when: upstream completes.           Cancels when: downstream cancels.
        """
        return self._via(KeepAlive(max_idle, inject))
