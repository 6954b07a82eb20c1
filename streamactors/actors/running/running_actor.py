"""RunningActor: an actor's mailbox, its place in the tree of parents and children, its failures and its end.

Owner: the thread of the turn; other threads only `tell`. Thespian knows it as the actor's `_myRef`, so the methods
named in camelCase are Thespian's interface. Life: ALIVE -> (RESTARTING -> ALIVE)* -> EXITING (waits for its children)
-> DEAD.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from thespian.actors import (
    Actor,
    ActorAddress,
    ActorExitRequest,
    ActorSystemMessage,
    ChildActorExited,
    ThespianWatch,
    WatchMessage,
)
from thespian.system.messages.status import Thespian_ActorStatus, Thespian_StatusReq

from streamactors.actors.address import ActorRef
from streamactors.actors.cell import Cell, Executor
from streamactors.actors.dispatching.dispatcher import DispatcherStopped
from streamactors.actors.pool.elastic_pool import PoolStopped
from streamactors.actors.running.failing import Envelope, FailingActor
from streamactors.actors.running.fd_watch import FdWatch
from streamactors.actors.running.handlers import behaviour_of
from streamactors.actors.running.life import CONTROL, NEVER_DEAD_LETTERS, ChildFailed, Life, Restart
from streamactors.actors.running.life import Watch as Watch
from streamactors.actors.running.supervision import ActorTerminated, Supervision
from streamactors.actors.running.thespian_interface import ThespianInterface

if TYPE_CHECKING:
    from streamactors.actors.local_system import LocalSystemBase

_log = logging.getLogger("streamactors.actors")

_ALIVE: Final = Life.ALIVE


class RunningActor(ThespianInterface, FailingActor):
    """One actor.

    `thespian_errors`: a message that fails is tried again and then returned as poison, unless the parent has a strategy.
    """

    __slots__ = ("_fd_watch", "_too_late", "_watchers", "globalName", "home")

    def __init__(
        self,
        base: LocalSystemBase,
        executor: Executor,
        name: str,
        instance: Actor,
        parent: RunningActor | None,
        make: Callable[[], Actor] | None,
        strategy: Supervision | None,
        thespian_errors: bool,
    ) -> None:
        self._begin(executor, name)
        self.home = executor
        self.base = base
        self.address = ActorRef(self, base.nobody)
        self.instance = instance
        self.parent = parent
        self.children = None
        self.globalName: str | None = None
        self._behaviour = behaviour_of(instance)
        self._life = _ALIVE
        self._make = make
        self._strategy = strategy
        self._thespian_errors = thespian_errors
        self._record = None
        self._held = None
        self._fd_watch: FdWatch | None = None
        self._watchers: list[ActorRef] | None = None
        # A static function of the actor's class. It gets the messages that were sent after the actor's end and are no dead letters.
        self._too_late: Callable[[Any], None] | None = getattr(instance, "refuse_letter", None)
        instance._myRef = self

    # ---- messages ----

    def receive(self, envelope: Envelope) -> None:
        """Deliver one (message, sender) to the actor."""
        message, sender = envelope
        if self._life is not _ALIVE or type(message) in CONTROL:
            self._receive_control(message, sender)
            return
        try:
            result = self._behaviour(message, sender)
        except BaseException as error:  # noqa: BLE001 - SystemExit in an actor ends neither the thread nor the process
            result = self._failed(error, message, sender)
        if result is not None or self._fd_watch is not None:
            self._set_watch(result, type(message) is WatchMessage)
        if isinstance(message, ActorSystemMessage):
            self._after_system_message(message)

    def stop(self) -> None:
        """Ask the actor to exit, its children included. Thread-safe."""
        self.tell((ActorExitRequest(), self.base.system_address))

    def end(self) -> None:
        """Exit at once, without a message; only from within the actor's own turn."""
        if self._life is _ALIVE:
            self._exit(recursive=True)

    def move(self, executor: Executor) -> None:
        """Take the turns after this one on another executor; only from within the actor's own turn.

        For an actor that waits on a dispatcher of its own, its `home`. While it has nothing to wait for it moves to the pool, where it
        shares a thread with the actors that it feeds."""
        self._executor = executor

    @property
    def stopped(self) -> bool:
        return self._life is Life.DEAD

    def _schedule(self) -> None:
        try:
            super()._schedule()
        except (DispatcherStopped, PoolStopped):
            # The system is shut down. Sending never raises, so the messages become dead letters.
            self.bury()

    def resubmit(self) -> None:
        try:
            super().resubmit()
        except (DispatcherStopped, PoolStopped):
            self._token = self._idle = True  # so that later messages become dead letters, too
            self.bury()

    def bury(self) -> None:
        """Turn the messages in the mailbox into dead letters. Thread-safe; called when the actor gets no more turns."""
        while True:
            try:
                envelope = self.mailbox.popleft()
            except IndexError:
                return
            self._refuse_letter(*envelope)
            if isinstance(envelope[0], ActorExitRequest) and self._life is not Life.DEAD:
                self._life = Life.DEAD
                self.base.forget(self)

    def on_error(self, _cell: Cell, error: BaseException) -> None:
        """An error outside the actor's own code."""
        _log.error("%s: internal error: %s", self.name, error, exc_info=error)

    def _receive_control(self, message: Any, sender: ActorRef | None) -> None:
        """Handle a message of the system, or one that arrives while the actor is restarting, exiting or dead."""
        if type(message) is Watch:
            self._watch_changed(message)
        elif type(message) is Thespian_StatusReq:
            if sender is not None:
                sender.tell(self._status(), self.address)
        elif self._life is Life.DEAD:
            self._refuse_letter(message, sender)
        elif type(message) is ChildFailed:
            if self._life is _ALIVE:
                self._supervised(message.error, message, None)
        elif type(message) is Restart:
            if self._life is Life.RESTARTING:
                self._restart()
        elif isinstance(message, ChildActorExited):
            if self._life is Life.EXITING:
                self._tell_while_exiting(message, sender)
            self._child_exited(message.childAddress)
        elif isinstance(message, ActorExitRequest):
            if self._life is Life.RESTARTING:
                self._exit(message.isRecursive)
        elif self._life is Life.RESTARTING and self._held is not None:
            self._held.append((message, sender))
        else:
            self._refuse_letter(message, sender)

    def _tell_while_exiting(self, message: Any, sender: ActorRef | None) -> None:
        if self.instance is not None:
            try:
                self._behaviour(message, sender)
            except Exception as error:  # noqa: BLE001
                _log.warning("%s: %s while exiting raised %s", self.name, type(message).__name__, error, exc_info=error)

    def _refuse_letter(self, message: Any, sender: ActorRef | None) -> None:
        if self._too_late is not None:
            self._too_late(message)
        elif not isinstance(message, NEVER_DEAD_LETTERS):
            self.base.dead_letter(self.address, message, sender)

    def _after_system_message(self, message: ActorSystemMessage) -> None:
        if isinstance(message, ActorExitRequest):
            if self._life is not Life.DEAD:
                self._exit(message.isRecursive)
        elif isinstance(message, ChildActorExited):
            self._child_exited(message.childAddress)

    # ---- the end ----

    def _exit(self, recursive: bool) -> None:
        if self._life is Life.EXITING:
            return
        self._life = Life.EXITING
        self._set_watch(None, False)
        if self.children:
            if recursive:
                for child in self.children.values():
                    child.stop()
                return
            for child in self.children.values():
                child.parent = None
        self._die()

    def _child_exited(self, address: ActorAddress) -> None:
        if self.children is not None:
            self.children.pop(address, None)
        if self._life is Life.EXITING and not self.children:
            self._die()

    def _die(self) -> None:
        self._life = Life.DEAD
        self.children = None
        self.base.forget(self)
        held, self._held = self._held, None
        for message, sender in held or ():
            self._refuse_letter(message, sender)
        parent = self.parent  # it may let go of this actor meanwhile, on a thread of its own
        if parent is not None:
            parent.tell((ChildActorExited(self.address), self.base.system_address))
        watchers, self._watchers = self._watchers, None
        for watcher in watchers or ():
            watcher.tell(ActorTerminated(self.address), self.base.system_address)
        # The cycles actor -> _myRef -> actor end here, so a dead actor is freed at once.
        self.parent = None
        self.instance = None
        self._behaviour = _no_behaviour
        self._make = None
        self._fd_watch = None

    def _watch_changed(self, message: Watch) -> None:
        if self._life is Life.DEAD:
            if message.watching:
                message.watcher.tell(ActorTerminated(self.address), self.base.system_address)
            return
        watchers = self._watchers = [watcher for watcher in self._watchers or () if watcher is not message.watcher]
        if message.watching:
            watchers.append(message.watcher)

    def _create_child(
        self,
        actor_class: Any,
        requirements: dict[str, Any] | None,
        global_name: str | None,
        source_hash: str | None,
    ) -> ActorRef:
        if self._life is not _ALIVE or self.base.closing:
            return self.base.dead_address()  # as in Thespian: an actor that exits makes no more children
        return self.base.create_child(self, actor_class, requirements, global_name, source_hash)

    # ---- watching ----

    def watch(self, target: ActorRef, watching: bool = True) -> None:
        """Have ActorTerminated(target) sent to this actor when the target has ended."""
        target._mailbox.tell((Watch(self.address, watching), self.address))

    def _set_watch(self, result: object, answered: bool) -> None:
        filenos = result.filenos if isinstance(result, ThespianWatch) else ()
        if self._fd_watch is None:
            if not filenos:
                return
            self._fd_watch = FdWatch(self.base.selector_of(self._executor), self.name, self._fds_ready)
        self._fd_watch.watch(filenos, answered=answered)

    def _fds_ready(self, ready: list[int]) -> None:
        self.tell((WatchMessage(ready), self.base.system_address))

    def _status(self) -> Thespian_ActorStatus:
        parent = self.parent
        status = Thespian_ActorStatus(
            self.address,
            type(self.instance).__name__,
            self.base.system_address,
            parent.address if parent is not None else self.base.system_address,
        )
        for child in self.children or ():
            status.addChild(child)
        for message, sender in list(self.mailbox):
            status.addReceivedMessage(sender, self.address, message)
        return status

    def __repr__(self) -> str:
        return f"<RunningActor {self.name}, {self._life.value}, {len(self.mailbox)} waiting>"


def _no_behaviour(message: Any, sender: Any) -> None:
    """The behaviour of a dead actor."""


def watch_actor(watcher: Actor, target: ActorRef) -> None:
    """Death watch: `watcher` receives ActorTerminated(target) when `target` has ended, at once if it has already."""
    watcher._myRef.watch(target)


def watch_ref(watcher: ActorRef, target: ActorRef, watching: bool = True) -> None:
    """Death watch for a watcher that is not an actor but has an address: a stage of a stream."""
    target._mailbox.tell((Watch(watcher, watching), watcher))


def unwatch_actor(watcher: Actor, target: ActorRef) -> None:
    """End a death watch. An ActorTerminated that was sent already still arrives."""
    watcher._myRef.watch(target, False)
