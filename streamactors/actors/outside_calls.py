"""Calls on threads that run by real time: a virtual clock waits for them before it moves on.

Used by parts that call a blocking library on a thread of their own, such as a producer or the connection of a database."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from streamactors.clock import Clock, VirtualClock

P = ParamSpec("P")
R = TypeVar("R")


class OutsideCalls:
    """The calls of one part. See `streamactors.clock.Outside`. Any thread."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._lock = threading.Lock()
        self._clocks: list[VirtualClock] = []
        self._closed = False
        self._calls = 0  # those that have not returned
        self._ended_calls = 0

    def attach_to(self, clock: Clock) -> None:
        """Virtual time waits for the calls until `end`. A clock of the machine waits for nothing."""
        with self._lock:
            if isinstance(clock, VirtualClock) and not self._closed and clock not in self._clocks:
                self._clocks.append(clock)
                clock.attach_outside(self)

    def counted(self, call: Callable[P, R]) -> Callable[P, R]:
        """Return `call` as one call that virtual time waits for, from now until it has returned."""
        self._count(1)

        def counted_call(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                return call(*args, **kwargs)
            finally:
                self._count(-1)

        return counted_call

    def _count(self, change: int) -> None:
        with self._lock:
            self._calls += change
            self._ended_calls += change < 0

    def at_rest(self) -> int | None:
        """Return the number of calls that have returned; None while a call runs."""
        return None if self._calls else self._ended_calls

    def end(self) -> None:
        """The part has ended: virtual time no longer waits for it."""
        with self._lock:
            self._closed = True
            for clock in self._clocks:
                clock.detach_outside(self)
            self._clocks.clear()
