"""Timers and the clock of a world, as the broker's coordinators use them.

Owner: the cluster. The steps belong to no instance of a pipeline."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamactors.simulation.world.face import Cancel, World


class SimTimer:
    """A timer that can be cancelled."""

    __slots__ = ("_cancel",)

    def __init__(self, cancel: Cancel) -> None:
        self._cancel = cancel

    def cancel(self) -> None:
        """Let the timer's function not be called. Does nothing afterwards."""
        self._cancel()


class SimTimers:
    """Sets timers by virtual time."""

    def __init__(self, world: World, what: str) -> None:
        """`what` names the timers in the trace."""
        self._world = world
        self._what = what
        self.clock = world

    def call_at(self, deadline_ms: float, fn: Callable[[], Any]) -> SimTimer:
        """Call `fn` at a time of the world's monotonic clock."""
        return self.call_later(deadline_ms - self._world.now_ms(), fn)

    def call_later(self, delay_ms: float, fn: Callable[[], Any]) -> SimTimer:
        """Call `fn` after a time."""
        return SimTimer(self._world.later(max(delay_ms, 0.0), fn, self._what))
