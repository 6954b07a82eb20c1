"""The methods that Thespian's `Actor` calls on its `_myRef`: sending, creating children, wakeups, and refusals.

Owner: RunningActor, which has ThespianInterface as a base. The camelCase names are Thespian's.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from thespian.actors import ActorAddress, WakeupMessage

from streamactors.actors.address import ActorRef
from streamactors.actors.cell import Executor

if TYPE_CHECKING:
    from streamactors.actors.local_system import LocalSystemBase


class ThespianInterface:
    """Thespian's side of an actor's cell."""

    __slots__ = ()

    # From RunningActor:
    address: ActorRef
    base: LocalSystemBase
    _executor: Executor
    tell: Callable[[Any], None]

    def actor_send(self, target: ActorAddress, message: Any) -> None:
        try:
            mailbox = target._mailbox
        except AttributeError:
            self.base.dead_letter(target, message, self.address)
            return
        mailbox.tell((message, self.address))

    def _create_child(self, *arguments: Any) -> ActorRef:
        raise NotImplementedError

    def createActor(
        self,
        actorClass: Any,
        requirements: dict[str, Any] | None,
        globalName: str | None,
        sourceHash: str | None = None,
    ) -> ActorRef:
        return self._create_child(actorClass, requirements, globalName, sourceHash)

    def wakeupAfter(self, period: timedelta | float, payload: Any = None) -> None:
        if not isinstance(period, timedelta):
            period = timedelta(seconds=period)
        wakeup = (WakeupMessage(period, payload), self.address)
        timers = self.base.selector_of(self._executor)
        timers.call_later(period.total_seconds() * 1000.0, partial(self.tell, wakeup))

    def handleDeadLetters(self, address: ActorRef, enable: bool) -> None:
        self.base._handleDeadLetters(address, enable)

    def updateCapability(self, name: str, value: Any = None) -> None:
        self.base.updateCapability(name, value)

    def actorSystemShutdown(self) -> None:
        self.base.shutdown()

    def notifyOnSystemRegistrationChanges(self, address: ActorRef, enable: bool) -> None:
        """Do nothing: a system of one process has no convention, so no registration changes."""

    def preRegisterRemoteSystem(self, address: Any, capabilities: Any) -> None:
        """No convention here."""

    def deRegisterRemoteSystem(self, address: Any) -> None:
        """No convention here."""

    def registerSourceAuthority(self, address: ActorRef) -> None:
        self.base.no_source_loading("registerSourceAuthority")

    def notifyOnSourceAvailability(self, address: ActorRef, enable: bool) -> None:
        """Do nothing: no source is loaded here."""

    def loadActorSource(self, name: Any) -> str:
        return self.base.no_source_loading("loadActorSource")

    def unloadActorSource(self, source_hash: str) -> None:
        self.base.no_source_loading("unloadActorSource")
