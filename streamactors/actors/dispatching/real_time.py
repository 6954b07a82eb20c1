"""Real-time timers for a dispatcher that has a virtual clock.

Owner: a part with clients that use real time: a Kafka client sends heartbeats, and expects an answer to its Fetch, in real time. The functions
run on the dispatcher, as those of its own timers do."""

from __future__ import annotations

from collections.abc import Callable

from streamactors.actors.dispatching.dispatcher import Dispatcher, DispatcherStopped
from streamactors.actors.dispatching.timing_wheel import Timer
from streamactors.clock import Clock


class RealTime:
    """Timers by real time, on a thread that starts with the first timer; `stop` ends it."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._timers = Dispatcher(f"{dispatcher.name}-real-time")

    @property
    def clock(self) -> Clock:
        return self._timers.clock

    def call_at(self, deadline_ms: float, fn: Callable[[], object]) -> Timer:
        """Run `fn()` on the dispatcher when `clock` shows `deadline_ms`. Thread-safe, and so is the timer's `cancel`."""
        return self._timers.call_at(deadline_ms, lambda: self._hand_over(fn))

    def call_later(self, delay_ms: float, fn: Callable[[], object]) -> Timer:
        """Run `fn()` on the dispatcher in `delay_ms` milliseconds of real time."""
        return self.call_at(self.clock.now_ms() + delay_ms, fn)

    def _hand_over(self, fn: Callable[[], object]) -> None:
        try:
            self._dispatcher.execute(fn)
        except DispatcherStopped:
            pass  # its timers are forgotten, too

    def stop(self) -> None:
        """Forget all timers, and end the thread."""
        self._timers.stop()


Timers = Dispatcher | RealTime
"""What sets timers: a dispatcher, by its own clock or by real time."""
