"""Thespian's classes, under this package's name: the rest of streamactors imports them from here.

Thespian itself is named only inside `streamactors.actors`, so that its version and quirks concern one package.
"""

from __future__ import annotations

from thespian.actors import (
    Actor,
    ActorAddress,
    ActorExitRequest,
    ActorSystemMessage,
    ActorTypeDispatcher,
    ChildActorExited,
    DeadEnvelope,
    InvalidActorAddress,
    InvalidActorSpecification,
    NoCompatibleSystemForActor,
    PoisonMessage,
    ThespianWatch,
    WakeupMessage,
    WatchMessage,
    requireCapability,
)
from thespian.troupe import troupe

__all__ = [
    "Actor",
    "ActorAddress",
    "ActorExitRequest",
    "ActorSystemMessage",
    "ActorTypeDispatcher",
    "ChildActorExited",
    "DeadEnvelope",
    "InvalidActorAddress",
    "InvalidActorSpecification",
    "NoCompatibleSystemForActor",
    "PoisonMessage",
    "ThespianWatch",
    "WakeupMessage",
    "WatchMessage",
    "requireCapability",
    "troupe",
]
