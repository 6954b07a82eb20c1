"""Operators that follow the system's clock. A time is seconds, a timedelta or a string such as "250ms"."""

from __future__ import annotations

from collections.abc import Callable

from streamactors.dsl.operators.base import Ops
from streamactors.dsl.typevars import Mat, Out, U
from streamactors.durations import Duration
from streamactors.stages.defaults import BACKPRESSURE


class TimingOps(Ops[Out, Mat]):
    """Operators that delay, sample, or watch the time between elements."""

    __slots__ = ()

    def delay(self, delay: Duration, buffer: int = 1024, strategy: str = BACKPRESSURE) -> Ops[Out, Mat]:
        """Emit each element `delay` (seconds, a timedelta or a string) after it came. Up to `buffer` elements wait; then `strategy` decides (see `buffer`).

        Emits when: an element has waited long enough.   Backpressures when: `buffer` elements wait ("backpressure"), else never.
        Completes when: upstream completes and all waiting elements have been emitted.   Cancels when: downstream cancels.
        Fails when: upstream fails, at once: the waiting elements are dropped.
        Marks: in the queue. The strategies that drop remember: the dropped elements depend on timing.

        Example:
            a -1-2-3|
            a.delay('20ms')
        """
        from streamactors.stages.timing.delay import Delay

        return self._via(Delay(delay, buffer, strategy))

    def delay_with(
        self, make: Callable[[], Callable[[Out], Duration]], buffer: int = 1024, strategy: str = BACKPRESSURE
    ) -> Ops[Out, Mat]:
        """Emit each element after a delay of its own: `make()` is called once per run and returns `delay_of(element)`: seconds, a timedelta
        or a string.

        The order is kept: an element waits for those before it. Up to `buffer` elements wait; then `strategy` decides (see `buffer`).
        Emits when: the oldest element has waited long enough.   Backpressures when: `buffer` elements wait ("backpressure"), else never.
        Completes when: upstream completes and all waiting elements have been emitted.   Cancels when: downstream cancels.
        Fails when: upstream fails, at once: the waiting elements are dropped; `delay_of` raises or returns no duration.
        Marks: in the queue. The strategies that drop remember: the dropped elements depend on timing.

        Example:
            a -3-1-1|
            a.delay_with(lambda: lambda x: f'{x * 10}ms')
        """
        from streamactors.stages.timing.delay import DelayWith

        return self._via(DelayWith(make, buffer, strategy))

    def sample(self, interval: Duration) -> Ops[Out, Mat]:
        """Emit the latest element at each interval (seconds, a timedelta or a string), if one has come since the last.

        Emits when: an interval is over, an element has come in it, and there is demand.   Backpressures when: never.
        Completes when: upstream completes, after the element that waits.   Cancels when: downstream cancels.
        Marks: after the element that is emitted after them; dropped elements are done.

        Example:
            a -1-2-3-4|
            a.sample('30ms')
        """
        from streamactors.stages.timing.sampling import Sample

        return self._via(Sample(interval))

    def debounce(self, span: Duration) -> Ops[Out, Mat]:
        """Emit an element when no other has followed within `span` (seconds, a timedelta or a string).

        Emits when: `span` has passed since the latest element, and there is demand.   Backpressures when: never.
        Completes when: upstream completes, after the element that waits.   Cancels when: downstream cancels.
        Marks: after the element that is emitted after them; dropped elements are done.

        Example:
            a 12---3|
            a.debounce('20ms')
        """
        from streamactors.stages.timing.sampling import Debounce

        return self._via(Debounce(span))

    def initial_delay(self, delay: Duration) -> Ops[Out, Mat]:
        """Ask upstream for the first element only after `delay` (seconds, a timedelta or a string).

        Emits when: upstream does, once the delay is over.   Backpressures when: downstream does, or the delay is not over.
        Completes when: upstream completes.           Cancels when: downstream cancels.

        Example:
            a -1-2-3|
            a.initial_delay('30ms')
        """
        from streamactors.stages.timing.delay import InitialDelay

        return self._via(InitialDelay(delay))

    def initial_timeout(self, timeout: Duration) -> Ops[Out, Mat]:
        """Fail with StreamTimeout unless the first element comes within `timeout` (seconds, a timedelta or a string such as "5s") of
        the start.

        Emits when: upstream does.                    Backpressures when: downstream does.
        Completes when: upstream completes.           Cancels when: downstream cancels.
        Fails when: the time is over before the first element.

        Example:
            a -----1|
            a.initial_timeout('30ms')
        """
        from streamactors.stages.timing.timeouts import InitialTimeout

        return self._via(InitialTimeout(timeout))

    def completion_timeout(self, timeout: Duration) -> Ops[Out, Mat]:
        """Fail with StreamTimeout unless the stream completes within `timeout` (seconds, a timedelta or a string such as "5s") of the
        start.

        Emits when: upstream does.                    Backpressures when: downstream does.
        Completes when: upstream completes.           Cancels when: downstream cancels.
        Fails when: the time is over before the stream has completed.

        Example:
            a -1-2-3|
            a.completion_timeout('40ms')
        """
        from streamactors.stages.timing.timeouts import CompletionTimeout

        return self._via(CompletionTimeout(timeout))

    def idle_timeout(self, timeout: Duration) -> Ops[Out, Mat]:
        """Fail with StreamTimeout when no element passes for `timeout` (seconds, a timedelta or a string such as "5s").

        Emits when: upstream does.                    Backpressures when: downstream does.
        Completes when: upstream completes.           Cancels when: downstream cancels.
        Fails when: the time between two elements, or from the start to the first, exceeds the time-out.

        Example:
            a -1-2-----3|
            a.idle_timeout('30ms')
        """
        from streamactors.stages.timing.timeouts import IdleTimeout

        return self._via(IdleTimeout(timeout))

    def backpressure_timeout(self, timeout: Duration) -> Ops[Out, Mat]:
        """Fail with StreamTimeout when downstream asks for nothing for `timeout` (seconds, a timedelta or a string such as "5s").

        Emits when: upstream does.                    Backpressures when: downstream does.
        Completes when: upstream completes.           Cancels when: downstream cancels.
        Fails when: the time between an element and the demand for more, or from the start to the first demand, exceeds the time-out.

        Example:
            a -9-1-2|
            a.backpressure_timeout('30ms').max_chunk(1).map_async(1, wait)
        """
        from streamactors.stages.timing.timeouts import BackpressureTimeout

        return self._via(BackpressureTimeout(timeout))

    def keep_alive(self, max_idle: Duration, inject: Callable[[], U]) -> Ops[Out | U, Mat]:
        """Emit `inject()` whenever upstream has been silent for `max_idle` (seconds, a timedelta or a string) and downstream asks.

        Emits when: upstream does, or has been silent for that long.   Backpressures when: downstream does.
        Completes when: upstream completes.           Cancels when: downstream cancels.

        Example:
            a -1------2|
            a.keep_alive('20ms', lambda: 0)
        """
        from streamactors.stages.timing.timeouts import KeepAlive

        return self._via(KeepAlive(max_idle, inject))
