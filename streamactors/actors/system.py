"""The actor system as its users see it: a context manager around one system base of its own.

Owner: the user; the process owns the default system, which is made when first needed, ends with the process and starts
afresh in a forked child. Nothing here starts a thread before there is work.
"""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import Any

import thespian.actors
from thespian.actors import Actor, ActorAddress

from streamactors.actors.address import ActorRef
from streamactors.actors.dead_letters import DeadLetters
from streamactors.actors.dispatcher import Dispatcher
from streamactors.actors.elastic_pool import ElasticPool
from streamactors.actors.external import Promise
from streamactors.actors.futures import StreamFuture
from streamactors.actors.local_system import LocalSystemBase
from streamactors.actors.shutdown_hooks import ShutdownHook
from streamactors.actors.supervision import Supervision
from streamactors.actors.threads import note_process_ending
from streamactors.clock import Clock, Duration, duration_ms
from streamactors.errors import ActorError


class ActorSystem:
    """Actors, their threads, timers and dead letters, isolated from every other system.

    `clock`: a VirtualClock makes every timer of the system follow a test. `max_threads` bounds the pool; it grows only
    while user code blocks.
    """

    def __init__(self, name: str = "streamactors", *, clock: Clock | None = None, max_threads: int = 256) -> None:
        if not isinstance(name, str) or not name:
            raise ActorError(f"ActorSystem: the name must be a non-empty text, not {name!r}")
        self._base = LocalSystemBase(name, clock, max_threads=max_threads)
        self._thespian: Any = None
        self._lock = threading.RLock()
        _systems.add(self)

    # ---- what it is made of ----

    @property
    def name(self) -> str:
        return self._base.name

    @property
    def clock(self) -> Clock:
        """What time it is for everything in this system."""
        return self._base.clock

    @property
    def pool(self) -> ElasticPool:
        """The threads on which stream islands and actors take turns."""
        return self._base.pool

    @property
    def timers(self) -> Dispatcher:
        """The dispatcher that keeps the system's timers. Nothing that blocks may run on it."""
        return self._base.timers

    def dispatcher(self, name: str) -> Dispatcher:
        """A dispatcher for what blocks or owns sockets, made when first asked for and stopped with the system."""
        return self._base.dispatcher(name)

    @property
    def dead_letters(self) -> DeadLetters:
        """Messages nobody received: `count`, `subscribe(callback)`."""
        return self._base.dead_letters

    @property
    def base(self) -> LocalSystemBase:
        """The Thespian system base."""
        return self._base

    @property
    def thespian(self) -> Any:
        """The same system as a `thespian.actors.ActorSystem`, for code written against Thespian."""
        with self._lock:
            if self._thespian is None:
                self._thespian = thespian.actors.ActorSystem(self._base, transientUnique=True)
            return self._thespian

    # ---- actors ----

    def create_actor(
        self,
        actor_class: type[Actor] | str,
        *,
        requirements: dict[str, Any] | None = None,
        global_name: str | None = None,
        dispatcher: str | None = None,
    ) -> ActorRef:
        """Create a Thespian actor without a parent, with Thespian's treatment of errors; `__init__` may raise.

        `dispatcher`: "pool", "own", or the name of a dispatcher of this system; None leaves it to the class.
        """
        if dispatcher is not None:
            requirements = {**(requirements or {}), "dispatcher": dispatcher}
        return self._base.create_child(None, actor_class, requirements, global_name)

    def spawn(
        self,
        actor: Actor | type[Actor] | Callable[[], Actor],
        name: str | None = None,
        *,
        dispatcher: str | None = None,
        supervision: Supervision | None = None,
    ) -> ActorRef:
        """Start an actor given as an instance, a class or a factory. A few µs; thread-safe.

        Its errors are judged by `supervision` (default: it is stopped and the error logged); no message is tried twice.
        An instance cannot be restarted, a class or factory can.
        """
        return self._base.spawn(actor, name, dispatcher=dispatcher, supervision=supervision)

    def tell(self, address: ActorAddress, message: Any) -> None:
        """Send a message. An answer to it is a dead letter; use `ask` for one."""
        self._mailbox_of(address).tell((message, self._base.nobody))

    def ask(self, address: ActorAddress, message: Any, timeout: Duration | None = "5s") -> StreamFuture[Any]:
        """Send a message and return the future of the first answer.

        It fails with AskTimeout after `timeout` (milliseconds, a timedelta or a text; None: never), and with ActorError
        at once if the actor is stopped or failed on the message.
        """
        mailbox = self._mailbox_of(address)
        promise = Promise(self._base, mailbox.name, None if timeout is None else duration_ms(timeout))
        mailbox.tell((message, ActorRef(promise)))
        return promise.future

    def _mailbox_of(self, address: ActorAddress) -> Any:
        try:
            return address._mailbox
        except AttributeError:
            raise ActorError(
                f"actor system {self.name!r}: {address!r} is no address of an actor in this process"
            ) from None

    # ---- life ----

    @property
    def running(self) -> bool:
        """False once shutdown has begun, and in a process forked from the one that made it."""
        return self._base.running

    def on_shutdown(self, callback: Callable[[], object]) -> ShutdownHook:
        """Call `callback()` when shutdown begins, before any actor is asked to exit; the last added runs first."""
        return self._base.on_shutdown(callback)

    def shutdown(self, timeout: float = 1.0, *, quiet: bool = False) -> None:
        """End every actor and every thread within `timeout` seconds. Idempotent.

        An actor that does not return in time is named in a warning (unless `quiet`) and its thread left behind. On a
        thread of the system's own it returns at once, and another thread does the work.
        """
        self._base.shutdown(timeout, quiet=quiet)

    def __enter__(self) -> ActorSystem:
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shutdown()

    def __repr__(self) -> str:
        return f"<ActorSystem {self.name!r}, {'running' if self.running else 'shut down'}>"

    # ---- the default system ----

    @staticmethod
    def default() -> ActorSystem:
        """The system of this process that streams run on unless they are given one. Made when first needed."""
        return _default.get()

    def _after_fork_in_child(self) -> None:
        self._lock = threading.RLock()
        self._base.after_fork_in_child()


class _Default:
    """The default system of this process."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._system: ActorSystem | None = None
        self._ends_with_process = False

    def get(self) -> ActorSystem:
        system = self._system
        if system is not None and system.running:
            return system
        with self._lock:
            if self._system is None or not self._system.running:
                self._system = ActorSystem("default")
                if not self._ends_with_process:
                    self._ends_with_process = True
                    atexit.register(self._end)
            return self._system

    def _end(self) -> None:
        note_process_ending()
        system = self._system
        if system is not None:
            system.shutdown(quiet=True)

    def after_fork_in_child(self) -> None:
        self._lock = threading.RLock()
        self._system = None


_default = _Default()
_systems: weakref.WeakSet[ActorSystem] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    """The child has none of its parent's threads: its systems are over there, and the default one is made anew."""
    _default.after_fork_in_child()
    for system in list(_systems):
        system._after_fork_in_child()
    _systems.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
