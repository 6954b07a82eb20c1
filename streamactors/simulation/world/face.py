"""What a simulated world gives to the parts that live in it: time, randomness, waiting, and the trace.

Owner: the world. A cluster, its clients and faults take everything that is not their own state from here."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Protocol

Cancel = Callable[[], None]
"""Cancels a step that has not run yet; does nothing afterwards."""


class World(Protocol):
    """One run of a simulation. All times are virtual, in milliseconds."""

    dice: random.Random
    """The only source of randomness."""

    def now_ms(self) -> float:
        """Return monotonic milliseconds."""
        ...

    def wall_ms(self) -> int:
        """Return milliseconds since 1970-01-01 UTC."""
        ...

    def sleep(self, ms: float) -> None:
        """Let the calling task wait; other tasks run."""
        ...

    def wait(self, until: Callable[[], bool], timeout_ms: float | None) -> bool:
        """Let the calling task wait until `until` holds or the time is over. Returns whether it holds. None: no limit."""
        ...

    def later(self, delay_ms: float, step: Callable[[], None], what: str, owner: str = "") -> Cancel:
        """Run a step after a time, as a task of its own; `what` names it in the trace.

        `owner` is the instance that the step belongs to: it is dropped when that instance crashes, and waits while it is paused. ""
        is outside of all instances: the cluster's timers and the network."""
        ...

    def note(self, what: str, **facts: Any) -> None:
        """Write one line to the trace."""
        ...

    def event(self, kind: str, **facts: Any) -> None:
        """Write an event to the trace, where stories and checks find it."""
        ...

    def instance(self) -> str:
        """Return the instance of the pipeline that the calling task belongs to; "" for none."""
        ...
