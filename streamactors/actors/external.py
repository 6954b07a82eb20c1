"""Addresses that are not actors: a thread that asks and listens, the promise of one answer, and the dead letters.

Owner: the system base. Each takes (message, sender), as a mailbox does.
"""

from __future__ import annotations

import queue
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from thespian.actors import ActorAddress, ActorSystemMessage, PoisonMessage
from thespian.system.messages.status import Thespian_ActorStatus, Thespian_SystemStatus

from streamactors.actors.address import ActorRef
from streamactors.actors.dispatching.dispatcher import DispatcherStopped
from streamactors.actors.dispatching.timing_wheel import Timer
from streamactors.actors.futures import StreamFuture
from streamactors.actors.threads import current_owner
from streamactors.actors.waits import WouldBlock
from streamactors.errors import ActorError

if TYPE_CHECKING:
    from streamactors.actors.local_system import LocalSystemBase


class Nobody:
    """An address without a receiver: every message is a dead letter."""

    def __init__(self, base: LocalSystemBase, name: str | None = None) -> None:
        self._base = base
        self.name = name or f"{base.name}/nobody"

    def tell(self, envelope: tuple[Any, Any], /) -> None:
        message, sender = envelope
        if not isinstance(message, ActorSystemMessage):
            self._base.dead_letter(ActorRef(self), message, sender)


class _Inbox:
    """The mailbox of an External."""

    def __init__(self, external: External) -> None:
        self._external = external
        self.name = external.name

    def tell(self, envelope: tuple[Any, Any], /) -> None:
        self._external.deliver(*envelope)


class External:
    """A thread outside the system: Thespian's tell, ask and listen, and the object that `private()` returns."""

    def __init__(self, base: LocalSystemBase, name: str) -> None:
        self.name = name
        self._base = base
        self._answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._address = ActorRef(_Inbox(self))
        self._open = True

    def deliver(self, message: Any, sender: ActorRef | None) -> None:
        """Take a message for this thread."""
        if not self._open:
            self._base.dead_letter(self._address, message, sender)
        elif not _internal(message):
            self._answers.put(message)

    def tell(self, address: ActorAddress, message: Any) -> None:
        mailbox = getattr(address, "_mailbox", None)
        if mailbox is None:
            self._base.dead_letter(address, message, self._address)
        else:
            mailbox.tell((message, self._address))

    def ask(self, address: ActorAddress, message: Any, timeout: Any) -> Any:
        self.tell(address, message)
        return self.listen(timeout)

    def listen(self, timeout: Any) -> Any:
        """Return the next message sent to this thread, or None after `timeout` (seconds or a timedelta; None: no limit)."""
        owner = current_owner()
        if owner is not None:
            raise WouldBlock(
                f"listening on a thread of {owner!r} would keep actors from answering; send a message instead"
            )
        if isinstance(timeout, timedelta):
            timeout = timeout.total_seconds()
        try:
            return self._answers.get(timeout=None if timeout is None else max(0.0, timeout))
        except queue.Empty:
            return None

    def newPrimaryActor(self, *arguments: Any) -> ActorRef:
        return self._base.newPrimaryActor(*arguments)

    def exit_context(self) -> None:
        """From now on messages to this thread are dead letters."""
        self._open = False


class Promise:
    """The sender of one `ask`: the first answer completes its future."""

    def __init__(self, base: LocalSystemBase, target: str, timeout_ms: float | None) -> None:
        self.name = f"ask of {target}"
        self.future: StreamFuture[Any] = StreamFuture(self.name)
        self._target = target
        self._timeout_ms = timeout_ms
        self._timer: Timer | None = None
        if timeout_ms is not None:
            try:
                self._timer = base.timers.call_later(timeout_ms, self._late)
            except DispatcherStopped:
                pass  # the system is shut down: the message becomes a dead letter, and that fails the promise

    def tell(self, envelope: tuple[Any, Any], /) -> None:
        message = envelope[0]
        if isinstance(message, PoisonMessage):
            self.fail(ActorError(f"{self._target} failed on {type(message.poisonMessage).__name__}: {message.details}"))
        elif self.future.try_complete(message) and self._timer is not None:
            self._timer.cancel()

    def fail(self, error: BaseException) -> None:
        if self.future.try_fail(error) and self._timer is not None:
            self._timer.cancel()

    def _late(self) -> None:
        self.future.try_fail(AskTimeout(f"{self._target} did not answer within {self._timeout_ms:g} ms"))


class AskTimeout(ActorError, TimeoutError):
    """The actor did not answer in time."""


def _internal(message: Any) -> bool:
    """Return whether a message is the system's own and not for a listening thread."""
    if isinstance(message, PoisonMessage):
        return isinstance(message.poisonMessage, ActorSystemMessage)
    return isinstance(message, ActorSystemMessage) and not isinstance(
        message, (Thespian_SystemStatus, Thespian_ActorStatus)
    )
