"""Thespian's classes, under this package's name: the rest of streamactors imports them from here.

Thespian itself is named only inside `streamactors.actors`, so that its version and quirks concern one package.
"""

from __future__ import annotations

from thespian.actors import Actor as Actor
from thespian.actors import ActorAddress as ActorAddress
from thespian.actors import ActorExitRequest as ActorExitRequest
from thespian.actors import ActorSystemMessage as ActorSystemMessage
from thespian.actors import ActorTypeDispatcher as ActorTypeDispatcher
from thespian.actors import ChildActorExited as ChildActorExited
from thespian.actors import DeadEnvelope as DeadEnvelope
from thespian.actors import InvalidActorAddress as InvalidActorAddress
from thespian.actors import InvalidActorSpecification as InvalidActorSpecification
from thespian.actors import NoCompatibleSystemForActor as NoCompatibleSystemForActor
from thespian.actors import PoisonMessage as PoisonMessage
from thespian.actors import ThespianWatch as ThespianWatch
from thespian.actors import WakeupMessage as WakeupMessage
from thespian.actors import WatchMessage as WatchMessage
from thespian.actors import requireCapability as requireCapability
from thespian.troupe import troupe as troupe
