"""The scheduler of the world that runs on the calling thread, if one does.

Owner: the process; it has at most one world at a time. Every replaced function asks here first, because threads outside the world keep
the real functions."""

from __future__ import annotations

from _thread import get_ident
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streamactors.simulation.world.scheduler import Scheduler

_running: Scheduler | None = None


def here() -> Scheduler | None:
    """Return the scheduler if the calling thread runs a world, else None."""
    scheduler = _running
    return scheduler if scheduler is not None and scheduler.thread == get_ident() else None


def enter(scheduler: Scheduler | None) -> Scheduler | None:
    """Make a scheduler the process's running one; None: no world runs. Returns the one before."""
    global _running
    before, _running = _running, scheduler
    return before
