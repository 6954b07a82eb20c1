"""An actor at work: its mailbox, its place in the tree of parents and children, its failures and its end.

Owner: the thread of the turn; other threads only `tell`. It is what Thespian calls the actor's `_myRef`, so the methods
named in camelCase are Thespian's interface. Life: ALIVE -> (RESTARTING -> ALIVE)* -> EXITING (waits for its children)
-> DEAD.
"""

from __future__ import annotations

import copy
import enum
import logging
import traceback
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from thespian.actors import (
    Actor,
    ActorAddress,
    ActorExitRequest,
    ActorSystemMessage,
    ChildActorExited,
    DeadEnvelope,
    PoisonMessage,
    ThespianWatch,
    WakeupMessage,
    WatchMessage,
)
from thespian.system.messages.status import Thespian_ActorStatus, Thespian_StatusReq

from streamactors.actors.address import ActorRef
from streamactors.actors.cell import Cell, Executor
from streamactors.actors.dispatcher import DispatcherStopped
from streamactors.actors.elastic_pool import PoolStopped
from streamactors.actors.fd_watch import FdWatch
from streamactors.actors.handlers import Behaviour, behaviour_of
from streamactors.actors.supervision import ActorTerminated, Directive, FailureRecord, Supervision

if TYPE_CHECKING:
    from streamactors.actors.local_system import LocalSystemBase

_log = logging.getLogger("streamactors.actors")

Envelope = tuple[Any, "ActorRef | None"]


class Life(enum.Enum):
    """Where an actor is in its life."""

    ALIVE = "alive"
    RESTARTING = "restarting"  # failed; messages are held until the back-off is over
    EXITING = "exiting"  # waits for its children to exit
    DEAD = "dead"


_ALIVE: Final = Life.ALIVE


class _Restart:
    """The back-off is over."""


class _ChildFailed:
    """A child escalated its failure."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


class Watch:
    """Tell `watcher` when you have ended; with `watching` False no longer."""

    def __init__(self, watcher: ActorRef, watching: bool) -> None:
        self.watcher = watcher
        self.watching = watching


_CONTROL: Final = frozenset((_Restart, _ChildFailed, Watch, Thespian_StatusReq))
_NEVER_DEAD_LETTERS: Final = (
    *_CONTROL,
    ActorExitRequest,
    ActorTerminated,
    ChildActorExited,
    DeadEnvelope,
    WakeupMessage,
    WatchMessage,
)


class ActorCell(Cell):
    """One actor. `thespian_errors`: a failed message is tried again and then returned as poison unless a parent's strategy rules."""

    __slots__ = (
        "_behaviour",
        "_fd_watch",
        "_held",
        "_life",
        "_make",
        "_record",
        "_strategy",
        "_thespian_errors",
        "_watchers",
        "address",
        "base",
        "children",
        "globalName",
        "instance",
        "parent",
    )

    def __init__(
        self,
        base: LocalSystemBase,
        executor: Executor,
        name: str,
        instance: Actor,
        parent: ActorCell | None,
        make: Callable[[], Actor] | None,
        strategy: Supervision | None,
        thespian_errors: bool,
    ) -> None:
        # The fields of Cell, without its `receive`: here that is a method, and a bound one would be a reference cycle
        # per actor.
        self.mailbox = deque()
        self.name = name
        self._executor = executor
        self._token = True
        self._idle = True
        self.base = base
        self.address = ActorRef(self, base.nobody)
        self.instance: Actor | None = instance
        self.parent = parent
        self.children: dict[ActorRef, ActorCell] | None = None
        self.globalName: str | None = None
        self._behaviour: Behaviour = behaviour_of(instance)
        self._life = _ALIVE
        self._make = make
        self._strategy = strategy
        self._thespian_errors = thespian_errors
        self._record: FailureRecord | None = None
        self._held: deque[Envelope] | None = None
        self._fd_watch: FdWatch | None = None
        self._watchers: list[ActorRef] | None = None
        instance._myRef = self

    # ---- messages ----

    def receive(self, envelope: Envelope) -> None:
        """Deliver one (message, sender) to the actor."""
        message, sender = envelope
        if self._life is not _ALIVE or type(message) in _CONTROL:
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

    @property
    def stopped(self) -> bool:
        return self._life is Life.DEAD

    def _schedule(self) -> None:
        try:
            super()._schedule()
        except (DispatcherStopped, PoolStopped):
            # Nothing runs any more: the system is shut down. Sending never raises, so these are dead letters like any
            # other.
            while self.mailbox:
                self._refuse_letter(*self.mailbox.popleft())
            self._token, self._idle = True, True

    def on_error(self, _cell: Cell, error: BaseException) -> None:
        """An error outside the actor's own code."""
        _log.error("%s: internal error: %s", self.name, error, exc_info=error)

    def _receive_control(self, message: Any, sender: ActorRef | None) -> None:
        """What is ours to handle, or arrives while the actor is restarting, exiting or dead."""
        if type(message) is Watch:
            self._watch_changed(message)
        elif type(message) is Thespian_StatusReq:
            if sender is not None:
                sender.tell(self._status(), self.address)
        elif self._life is Life.DEAD:
            self._refuse_letter(message, sender)
        elif type(message) is _ChildFailed:
            if self._life is _ALIVE:
                self._supervised(message.error, message, None)
        elif type(message) is _Restart:
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
        if not isinstance(message, _NEVER_DEAD_LETTERS):
            self.base.dead_letter(self.address, message, sender)

    def _after_system_message(self, message: ActorSystemMessage) -> None:
        if isinstance(message, ActorExitRequest):
            if self._life is not Life.DEAD:
                self._exit(message.isRecursive)
        elif isinstance(message, ChildActorExited):
            self._child_exited(message.childAddress)

    # ---- failures ----

    def _failed(self, error: BaseException, message: Any, sender: ActorRef | None) -> object:
        """The actor raised; return what it would have returned, if it is tried again with success."""
        if isinstance(message, ActorExitRequest):
            _log.debug("%s: ActorExitRequest raised %s; it exits all the same", self.name, error, exc_info=error)
            return None
        if self._strategy is not None or not self._thespian_errors:
            self._supervised(error, message, sender)
            return None
        _log.warning("%s: %s raised %r; trying once more", self.name, type(message).__name__, error, exc_info=error)
        try:
            return self._behaviour(copy.deepcopy(message), sender)
        except BaseException as second:  # noqa: BLE001
            _log.error("%s: %s raised %r again; returned as poison", self.name, type(message).__name__, second)
            self._poison(message, sender)
            return None

    def _poison(self, message: Any, sender: ActorRef | None) -> None:
        if sender is not None and type(message) not in _CONTROL and not isinstance(message, PoisonMessage):
            sender.tell(PoisonMessage(message, traceback.format_exc()), self.address)

    def _supervised(self, error: BaseException, message: Any, sender: ActorRef | None) -> None:
        self._poison(message, sender)
        strategy = self._strategy
        if strategy is None:
            directive, delay_ms = Directive.STOP, 0.0
        else:
            if self._record is None:
                self._record = FailureRecord()
            try:
                verdict = self._record.judge(strategy, error, self.base.clock.now_ms())
                directive, delay_ms = verdict.directive, verdict.delay_ms
            except Exception as wrong:  # noqa: BLE001 - a broken strategy must not keep a broken actor alive
                _log.error("%s: its supervision raised %s; stopped", self.name, wrong, exc_info=wrong)
                directive, delay_ms = Directive.STOP, 0.0
        if directive is Directive.RESTART and self._make is None:
            directive = Directive.STOP  # it was handed over as an instance: there is no way to make another
        after = f" in {delay_ms:.0f} ms" if directive is Directive.RESTART else ""
        _log.error("%s failed: %r; %s%s", self.name, error, directive.value, after, exc_info=error)
        if directive is Directive.RESTART:
            self._suspend(error, delay_ms)
        elif directive is Directive.STOP:
            self._exit(True)
        elif directive is Directive.ESCALATE:
            parent = self.parent
            self._exit(True)
            if parent is not None:
                parent.tell((_ChildFailed(error), None))

    def _suspend(self, error: BaseException, delay_ms: float) -> None:
        before = getattr(self.instance, "pre_restart", None)
        if before is not None:
            try:
                before(error)
            except Exception as wrong:  # noqa: BLE001
                _log.warning("%s: pre_restart raised %s", self.name, wrong, exc_info=wrong)
        self._life = Life.RESTARTING
        if self._held is None:
            self._held = deque()
        self._set_watch(None, False)
        for child in (self.children or {}).values():
            child.parent = None  # the new instance knows nothing of them: they exit for nobody
            child.stop()
        self.children = None
        self.base.timers.call_later(delay_ms, partial(self.tell, (_Restart(), None)))

    def _restart(self) -> None:
        assert self._make is not None
        try:
            instance = self._make()
            instance._myRef = self
            self.instance, self._behaviour = instance, behaviour_of(instance)
        except Exception as error:  # noqa: BLE001
            self._life = _ALIVE
            self._supervised(error, _Restart(), None)
            return
        self._life = _ALIVE
        held, self._held = self._held, None
        for envelope in held or ():
            self.receive(envelope)

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
        if self.parent is not None:
            self.parent.tell((ChildActorExited(self.address), self.base.system_address))
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

    # ---- Thespian's interface ----

    def actor_send(self, target: ActorAddress, message: Any) -> None:
        try:
            mailbox = target._mailbox
        except AttributeError:
            self.base.dead_letter(target, message, self.address)
            return
        mailbox.tell((message, self.address))

    def createActor(
        self,
        actorClass: Any,
        requirements: dict[str, Any] | None,
        globalName: str | None,
        sourceHash: str | None = None,
    ) -> ActorRef:
        if self._life is not _ALIVE or self.base.closing:
            return self.base.dead_address()
        return self.base.create_child(self, actorClass, requirements, globalName, sourceHash)

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
        """A system of one process has no convention: nothing will ever change."""

    def preRegisterRemoteSystem(self, address: Any, capabilities: Any) -> None:
        """No convention here."""

    def deRegisterRemoteSystem(self, address: Any) -> None:
        """No convention here."""

    def registerSourceAuthority(self, address: ActorRef) -> None:
        self.base.no_source_loading("registerSourceAuthority")

    def notifyOnSourceAvailability(self, address: ActorRef, enable: bool) -> None:
        """No source is ever loaded here."""

    def loadActorSource(self, name: Any) -> str:
        return self.base.no_source_loading("loadActorSource")

    def unloadActorSource(self, source_hash: str) -> None:
        self.base.no_source_loading("unloadActorSource")

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
        status = Thespian_ActorStatus(
            self.address,
            type(self.instance).__name__,
            self.base.system_address,
            self.parent.address if self.parent is not None else self.base.system_address,
        )
        for child in self.children or ():
            status.addChild(child)
        for message, sender in list(self.mailbox):
            status.addReceivedMessage(sender, self.address, message)
        return status

    def __repr__(self) -> str:
        return f"<ActorCell {self.name}, {self._life.value}, {len(self.mailbox)} waiting>"


def _no_behaviour(message: Any, sender: Any) -> None:
    """A dead actor's."""


def watch_actor(watcher: Actor, target: ActorRef) -> None:
    """Death watch: `watcher` receives ActorTerminated(target) when `target` has ended, at once if it has already."""
    watcher._myRef.watch(target)


def watch_ref(watcher: ActorRef, target: ActorRef, watching: bool = True) -> None:
    """Death watch on behalf of something with an address that is no actor: a stage of a stream."""
    target._mailbox.tell((Watch(watcher, watching), watcher))


def unwatch_actor(watcher: Actor, target: ActorRef) -> None:
    """End a death watch. An ActorTerminated that is under way still arrives."""
    watcher._myRef.watch(target, False)
