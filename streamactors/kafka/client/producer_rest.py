"""Tells a virtual clock when a producer is at rest: no call runs, and no delivery report is outstanding.

librdkafka's producer has threads and timers of its own, and runs by real time. `VirtualClock.advance` therefore asks the producer."""

from __future__ import annotations

from collections.abc import Callable

from streamactors.actors.outside_calls import OutsideCalls


class ProducerRest(OutsideCalls):
    """Tells a virtual clock when the producer is at rest. `serving`: whether the producer's thread waits for reports."""

    def __init__(self, name: str, serving: Callable[[], bool]) -> None:
        super().__init__(name)
        self._serving = serving

    def at_rest(self) -> int | None:
        """Return the number of calls that have returned; None while a call runs or reports are outstanding."""
        return None if self._serving() else super().at_rest()
