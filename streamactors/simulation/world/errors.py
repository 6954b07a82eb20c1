"""The errors of a simulated world, and what ends its tasks.

SimulationError
├── NotSimulated    code in the world asked for something that no simulation can repeat
├── WorldStuck      every task waits, and no timer is set
└── WorldLimit      the run took too many steps, or too much virtual time"""

from __future__ import annotations

from streamactors.errors import StreamActorsError


class SimulationError(StreamActorsError):
    """A simulated run cannot continue, or its world was used wrongly."""


class NotSimulated(SimulationError):
    """Code in the world asked for something that no simulation can repeat: a socket, a process, a real sleep."""


class WorldStuck(SimulationError):
    """Every task waits for another, and no timer is set. The error names each task and the line where it waits."""


class WorldLimit(SimulationError):
    """The run took more steps or more virtual time than its world allows."""


class TaskEnded(BaseException):
    """Raised in a task that the world ends: after the run, or when the task belongs to a crashed instance.

    A BaseException, because `except Exception` in a task must not keep the task alive."""
