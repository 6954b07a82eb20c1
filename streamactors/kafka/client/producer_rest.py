"""Tells a virtual clock when a producer is at rest: no call runs, and no delivery report is outstanding.

librdkafka's producer has threads and timers of its own, and runs by real time. `VirtualClock.advance` therefore asks the producer."""

from __future__ import annotations

import threading
from collections.abc import Callable

from streamactors.clock import VirtualClock


class ProducerRest:
    """See the module. `serving`: whether the producer's thread waits for reports."""

    def __init__(self, name: str, serving: Callable[[], bool]) -> None:
        self.name = name
        self._serving = serving
        self._lock = threading.Lock()
        self._clocks: list[VirtualClock] = []
        self._closed = False
        self._calls = 0  # those that have not returned
        self._ended_calls = 0

    def attach_to(self, clock: VirtualClock) -> None:
        """Virtual time waits for the producer's calls and reports until the producer is closed."""
        with self._lock:
            if not self._closed and clock not in self._clocks:
                self._clocks.append(clock)
                clock.attach_outside(self)

    def counted(self, call: Callable[[], None]) -> Callable[[], None]:
        """Return `call` as a call that virtual time waits for, from now until it has returned."""
        self._count(1)

        def counted_call() -> None:
            try:
                call()
            finally:
                self._count(-1)

        return counted_call

    def _count(self, change: int) -> None:
        with self._lock:
            self._calls += change
            self._ended_calls += change < 0

    def at_rest(self) -> int | None:
        """Return the number of calls that have returned; None while a call runs or reports are outstanding. See `streamactors.clock.Outside`."""
        return None if self._calls or self._serving() else self._ended_calls

    def end(self) -> None:
        """The producer is closed: virtual time no longer waits for it."""
        with self._lock:
            self._closed = True
            for clock in self._clocks:
                clock.detach_outside(self)
            self._clocks.clear()
