"""The Thespian system base of this package: actors in this process, messages by reference.

`thespian.actors.ActorSystem(LocalSystemBase("name"), transientUnique=True)` runs ordinary Thespian actors on it
(without transientUnique two systems would silently share one base); `streamactors.ActorSystem` does that for its users.
Owner: that system.

Where an actor runs: the creator chooses by the requirement {"dispatcher": …}, else the class by the attribute
`actor_dispatcher`; the default is the elastic pool. Choices: "pool", "own" (a dispatcher thread for this actor alone,
which ends with it), or any other name (the system's dispatcher of that name, made when first needed). The actor's
`__init__` runs on the creating thread.
"""

from __future__ import annotations

import itertools
import logging
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, NoReturn

from thespian.actors import (
    Actor,
    ActorAddress,
    ActorExitRequest,
    ChildActorExited,
    InvalidActorSpecification,
    ThespianGeneration,
)

from streamactors.actors.address import ActorRef
from streamactors.actors.cell import Executor
from streamactors.actors.dead_letters import DeadLetters
from streamactors.actors.dispatching.dispatcher import Dispatcher
from streamactors.actors.external import External, Nobody, Promise
from streamactors.actors.pool.elastic_pool import ElasticPool
from streamactors.actors.running.creation import maker_of
from streamactors.actors.running.running_actor import RunningActor
from streamactors.actors.running.supervision import Supervision
from streamactors.actors.shutdown_hooks import ShutdownHook, ShutdownHooks
from streamactors.actors.threads import current_owner, left_behind_by_fork
from streamactors.clock import Clock, SystemClock
from streamactors.errors import ActorError

_log = logging.getLogger("streamactors.actors")


class SystemStopped(ActorError):
    """An actor, dispatcher or stream was to be started in a system that has been shut down."""


class LocalSystemBase:
    """The actors of one system, what they run on, and Thespian's interface to them."""

    def __init__(self, name: str = "streamactors", clock: Clock | None = None, *, max_threads: int = 256) -> None:
        self.name = name
        self.clock: Clock = SystemClock() if clock is None else clock
        self.pool = ElasticPool(f"{name}-pool", self.clock, max_threads=max_threads)
        self.timers = Dispatcher(f"{name}-timers", self.clock)
        self.dead_letters = DeadLetters(name, self.clock)
        self.capabilities: dict[str, Any] = {
            "Python Version": tuple(sys.version_info),
            "Thespian Generation": ThespianGeneration,
            "Thespian Version": str(time.time_ns() // 1_000_000),
            "Thespian ActorSystem Name": "streamactors",
            "Thespian ActorSystem Version": 1,
            "Thespian Watch Supported": True,
            "AllowRemoteActorSources": "No",
        }
        self.nobody = ActorRef(Nobody(self))
        self.system_address = ActorRef(Nobody(self, f"{name}/system"))
        self._external = External(self, f"{name}/external")
        self._cells: dict[RunningActor, None] = {}  # in the order of their start, in which they are asked to exit
        self._empty = threading.Event()
        self._numbers = itertools.count(1)
        self._lock = threading.RLock()
        self._global_names: dict[str, ActorRef] = {}
        self._dispatchers: dict[str, Dispatcher] = {}
        self._dead_letter_handlers: tuple[ActorRef, ...] = ()
        self._hooks = ShutdownHooks()
        self._ending = False  # shutdown has begun: the hooks run, and actors still work
        self._closing = False  # the actors are asked to exit
        self._why_closed = "is shut down"
        self._closed = threading.Event()

    # ---- creating actors ----

    def spawn(
        self,
        actor: Actor | type[Actor] | Callable[[], Actor],
        name: str | None = None,
        *,
        dispatcher: str | None = None,
        supervision: Supervision | None = None,
    ) -> ActorRef:
        """Start an actor without a parent: an instance, or a class or function that makes one.

        Its errors go straight to `supervision` (default: it is stopped); nothing is tried twice. Thread-safe.
        """
        if isinstance(actor, Actor):
            instance, make = actor, None
        else:
            instance, make = actor(), actor
        return self._start(instance, None, make, name, dispatcher, supervision, False).address

    def create_child(
        self,
        parent: RunningActor | None,
        actor_class: Any,
        requirements: dict[str, Any] | None,
        global_name: str | None,
        source_hash: str | None = None,
    ) -> ActorRef:
        """Thespian's createActor. Without a parent an error is raised; a parent gets ChildActorExited instead."""
        if source_hash:
            self.no_source_loading("createActor(sourceHash=…)")
        if not global_name:
            return self._create(parent, actor_class, requirements)
        with self._lock:
            known = self._global_names.get(global_name)
            if known is None:
                known = self._create(parent, actor_class, requirements)
                if isinstance(known._mailbox, RunningActor):
                    known._mailbox.globalName = global_name
                    self._global_names[global_name] = known
            return known

    def _create(self, parent: RunningActor | None, actor_class: Any, requirements: dict[str, Any] | None) -> ActorRef:
        try:
            make = maker_of(actor_class, requirements, self.capabilities, self.name)
            instance = make()
        except Exception as error:
            if parent is None:
                raise
            _log.error("%s: cannot create its child %s: %s", parent.name, actor_class, error, exc_info=error)
            address = self.dead_address(getattr(actor_class, "__name__", str(actor_class)))
            parent.tell((ChildActorExited(address), self.system_address))
            return address
        dispatcher = (requirements or {}).get("dispatcher")
        strategy = getattr(parent.instance, "supervision", None) if parent is not None else None
        strategy = strategy if isinstance(strategy, Supervision) else None
        return self._start(instance, parent, make, None, dispatcher, strategy, True).address

    def _start(
        self,
        instance: Actor,
        parent: RunningActor | None,
        make: Callable[[], Actor] | None,
        name: str | None,
        dispatcher: str | None,
        strategy: Supervision | None,
        thespian_errors: bool,
    ) -> RunningActor:
        if self._closing:
            raise SystemStopped(
                f"cannot start {type(instance).__name__}: actor system {self.name!r} {self._why_closed}"
            )
        where = dispatcher or str(getattr(instance, "actor_dispatcher", "pool"))
        if name is None:
            name = f"{self.name}/{type(instance).__name__}-{next(self._numbers)}"
        executor: Executor = self.pool if where == "pool" else self._executor(where, name)
        cell = RunningActor(self, executor, name, instance, parent, make, strategy, thespian_errors)
        self._cells[cell] = None
        if parent is not None:
            if parent.children is None:
                parent.children = {}
            parent.children[cell.address] = cell
        if self._closing:
            cell.stop()  # shutdown may have listed the actors before this one was added
        return cell

    def _executor(self, where: str, actor_name: str) -> Dispatcher:
        if not isinstance(where, str) or not where:
            raise InvalidActorSpecification(
                actor_name, f'its dispatcher must be "pool", "own" or a name, not {where!r}'
            )
        if where == "own":
            return Dispatcher(actor_name, self.clock)
        return self.dispatcher(where)

    def dispatcher(self, name: str) -> Dispatcher:
        """Return the system's dispatcher of that name, made when first needed; it is stopped with the system."""
        with self._lock:
            if self._closing:
                raise SystemStopped(f"no dispatcher {name!r}: actor system {self.name!r} {self._why_closed}")
            dispatcher = self._dispatchers.get(name)
            if dispatcher is None:
                dispatcher = self._dispatchers[name] = Dispatcher(f"{self.name}-{name}", self.clock)
            return dispatcher

    def selector_of(self, executor: Executor) -> Dispatcher:
        """Return the dispatcher that keeps the timers and descriptors of an actor that runs on `executor`."""
        return executor if isinstance(executor, Dispatcher) else self.timers

    def dead_address(self, name: str = "never created") -> ActorRef:
        """Return an address whose messages are dead letters."""
        return ActorRef(Nobody(self, f"{self.name}/{name}"))

    @property
    def closing(self) -> bool:
        """True when shutdown asks the actors to exit."""
        return self._closing

    @property
    def actors(self) -> list[ActorRef]:
        """The actors that are alive now."""
        return [cell.address for cell in list(self._cells)]

    # ---- the end of actors ----

    def forget(self, cell: RunningActor) -> None:
        """Remove an actor that has ended from the system's tables. On the actor's own thread."""
        self._cells.pop(cell, None)
        if cell.globalName:
            with self._lock:
                if self._global_names.get(cell.globalName) is cell.address:
                    del self._global_names[cell.globalName]
        if cell.address in self._dead_letter_handlers:
            self._handleDeadLetters(cell.address, False)
        own = cell.home
        if isinstance(own, Dispatcher) and own not in self._dispatchers.values() and own is not self.timers:
            cell._executor = self.pool  # the pool turns messages sent from now on into dead letters
            if own.running:
                own.execute(own.stop)
            else:
                own.stop(0)
        if self._closing and not self._cells:
            self._empty.set()

    def dead_letter(self, address: ActorAddress, message: Any, sender: ActorRef | None) -> None:
        """Give a message that no actor receives to subscribers and to actors that handle dead letters; fail the `ask` that sent it."""
        envelope = self.dead_letters.publish(address, message)
        for handler in self._dead_letter_handlers:
            handler._mailbox.tell((envelope, sender))
        if sender is not None and isinstance(sender._mailbox, Promise):
            sender._mailbox.fail(ActorError(f"{address} is stopped and did not answer {type(message).__name__}"))

    # ---- Thespian's interface of a base ----

    def newPrimaryActor(
        self,
        actorClass: Any,
        requirements: dict[str, Any] | None,
        globalName: str | None,
        sourceHash: str | None = None,
    ) -> ActorRef:
        return self.create_child(None, actorClass, requirements, globalName, sourceHash)

    def tell(self, address: ActorAddress, message: Any) -> None:
        self._external.tell(address, message)

    def ask(self, address: ActorAddress, message: Any, timeout: Any) -> Any:
        return self._external.ask(address, message, timeout)

    def listen(self, timeout: Any) -> Any:
        return self._external.listen(timeout)

    def external_clone(self) -> External:
        return External(self, f"{self.name}/external-{next(self._numbers)}")

    def updateCapability(self, name: str, value: Any = None) -> None:
        with self._lock:
            if value is None:
                self.capabilities.pop(name, None)
            else:
                self.capabilities[name] = value

    def _handleDeadLetters(self, address: ActorRef, enable: bool) -> None:
        with self._lock:
            others = tuple(other for other in self._dead_letter_handlers if other is not address)
            self._dead_letter_handlers = (*others, address) if enable else others

    def loadActorSource(self, name: Any) -> str:
        return self.no_source_loading("loadActorSource")

    def unloadActorSource(self, source_hash: str) -> None:
        self.no_source_loading("unloadActorSource")

    def no_source_loading(self, what: str) -> NoReturn:
        """Refuse to load code from an archive."""
        raise ActorError(f"{what}: actor system {self.name!r} loads no code from archives; import the module instead")

    # ---- shutdown ----

    @property
    def running(self) -> bool:
        """False once shutdown has begun, and in a process forked from the one that made the system."""
        return not self._ending

    def on_shutdown(self, callback: Callable[[], object]) -> ShutdownHook:
        """Call `callback()` when shutdown begins, before any actor is asked to exit; the last added runs first."""
        hook = self._hooks.add(callback)
        if hook is None:
            raise SystemStopped(f"too late for a shutdown callback: actor system {self.name!r} {self._why_closed}")
        return hook

    def shutdown(self, timeout: float = 1.0, *, quiet: bool = False) -> None:
        """Ask every actor to exit and end every thread within `timeout` seconds; a warning names what blocks.

        On a thread of the system's own it returns at once and a thread of its own does the work. Idempotent: a second
        call waits for the first.
        """
        if current_owner() is not None:
            threading.Thread(target=self.shutdown, args=(timeout,), name=f"{self.name}-shutdown", daemon=True).start()
            return
        with self._lock:
            first, self._ending = not self._ending, True
        if not first:
            self._closed.wait(timeout)
            return
        self._hooks.run()
        with self._lock:
            self._closing = True
        deadline = time.monotonic() + timeout
        try:
            blocked = self._end_actors_and_threads(timeout, deadline)
        finally:
            self._closed.set()
        if blocked:
            _log.log(
                logging.DEBUG if quiet else logging.WARNING,
                "actor system %r: shut down, but these do not return and keep their threads: %s",
                self.name,
                ", ".join(sorted(blocked)),
            )

    def after_fork_in_child(self) -> None:
        """This process is a fork without the system's threads: make every use raise an error, because none of them would ever answer."""
        self._lock = threading.RLock()
        self._hooks = ShutdownHooks()
        self._ending = self._closing = True
        self._why_closed = left_behind_by_fork()
        self._closed.set()
        own = {executor for cell in self._cells if isinstance(executor := cell.home, Dispatcher)}
        for dispatcher in {*own, *self._dispatchers.values(), self.timers}:
            dispatcher.after_fork_in_child()
        self.pool.after_fork_in_child()
        self._cells = {}

    def _end_actors_and_threads(self, timeout: float, deadline: float) -> list[str]:
        """Wait half of the time for the actors to exit and the rest for slow threads; return the names of what blocks."""
        for cell in list(self._cells):
            if cell.parent is None:
                cell.tell((ActorExitRequest(), self.system_address))
        if self._cells:
            self._empty.wait(timeout * 0.5)
        own = {executor for cell in list(self._cells) if isinstance(executor := cell.home, Dispatcher)}
        dispatchers = {*own, *self._dispatchers.values()}
        for dispatcher in dispatchers:
            dispatcher.stop(0)
        blocked = [
            dispatcher.doing
            for dispatcher in dispatchers
            if not dispatcher.stop(max(0, deadline - 0.3 * timeout - time.monotonic()))
        ]
        blocked += self.pool.stop(max(0, deadline - 0.1 * timeout - time.monotonic()))
        waiting = dict.fromkeys(
            self.pool.abandoned()
        )  # also a cell that blocked its own thread first and then moved to the pool
        for left in dict.fromkeys([*self._cells, *waiting]):
            if isinstance(left, RunningActor) and (left in waiting or left.name not in blocked):
                left.bury()
        if not self.timers.stop(max(0.01, deadline - time.monotonic())):
            blocked.append(self.timers.doing)
        return blocked
