"""An actor's life, and the messages that the system itself sends to an actor's cell. The actor does not receive them.

Life: ALIVE -> (RESTARTING -> ALIVE)* -> EXITING (waits for its children) -> DEAD.
"""

from __future__ import annotations

import enum
from typing import Final

from thespian.actors import ActorExitRequest, ChildActorExited, DeadEnvelope, WakeupMessage, WatchMessage
from thespian.system.messages.status import Thespian_StatusReq

from streamactors.actors.address import ActorRef
from streamactors.actors.running.supervision import ActorTerminated


class Life(enum.Enum):
    """Where an actor is in its life."""

    ALIVE = "alive"
    RESTARTING = "restarting"  # failed; messages are held until the back-off is over
    EXITING = "exiting"  # waits for its children to exit
    DEAD = "dead"


class Restart:
    """The back-off is over."""


class ChildFailed:
    """A child escalated its failure."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


class Watch:
    """Asks an actor to send ActorTerminated to `watcher` when it has ended; with `watching` False, not to."""

    def __init__(self, watcher: ActorRef, watching: bool) -> None:
        self.watcher = watcher
        self.watching = watching


CONTROL: Final = frozenset((Restart, ChildFailed, Watch, Thespian_StatusReq))
NEVER_DEAD_LETTERS: Final = (
    *CONTROL,
    ActorExitRequest,
    ActorTerminated,
    ChildActorExited,
    DeadEnvelope,
    WakeupMessage,
    WatchMessage,
)
