"""The actor system as its users see it: a context manager around one system base of its own.

Owner: the user; the process owns the default system, which is made when first needed and ends with the process. A forked
child makes a new one. No thread starts before there is work.
"""

from __future__ import annotations

import atexit
import importlib
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Final, Literal, Protocol

import thespian.actors
from thespian.actors import Actor, ActorAddress

from streamactors.actors.address import ActorRef
from streamactors.actors.dead_letters import DeadLetters
from streamactors.actors.dispatching.dispatcher import Dispatcher
from streamactors.actors.external import Promise
from streamactors.actors.futures import StreamFuture
from streamactors.actors.local_system import LocalSystemBase
from streamactors.actors.native_calls import NATIVE_CALLS
from streamactors.actors.pool.elastic_pool import ElasticPool
from streamactors.actors.running.supervision import Supervision
from streamactors.actors.shutdown_hooks import ShutdownHook
from streamactors.actors.threads import note_process_ending
from streamactors.clock import Clock
from streamactors.durations import Duration, duration_s
from streamactors.errors import ActorError
from streamactors.living import Living

_log = logging.getLogger("streamactors.actors")

AtExit = Literal["warn", "wait", "fail"]

ENDING_S: Final = 0.25
"""The time in which a stream that has its result ends its last stages."""
CLOSING_S: Final = 10.0
"""How long the end of the process waits for what streams still close, such as databases; then as long again for the calls that close them."""


class StreamToEnd(Protocol):
    """What the end of the process needs to know of a running stream."""

    endless: bool
    continues: str


class ActorSystem:
    """Actors, their threads, timers and dead letters, isolated from every other system.

    `clock`: a VirtualClock makes every timer of the system follow a test. `max_threads` bounds the pool; it grows only
    while user code blocks.
    `at_exit`: what happens to streams that still run when the process ends. "warn" logs a warning; "wait" waits for them, except for those
    with a source that never ends (a tick, a queue, a Kafka topic without `until`); "fail" ends the process with exit code 1.
    """

    def __init__(
        self,
        name: str = "streamactors",
        *,
        clock: Clock | None = None,
        max_threads: int = 256,
        at_exit: AtExit = "warn",
    ) -> None:
        if not isinstance(name, str) or not name:
            raise ActorError(f"ActorSystem: the name must be a non-empty string, not {name!r}")
        if at_exit not in ("warn", "wait", "fail"):
            raise ActorError(f"ActorSystem: at_exit must be 'warn', 'wait' or 'fail', not {at_exit!r}")
        self._base = LocalSystemBase(name, clock, max_threads=max_threads)
        self._at_exit = at_exit
        self.streams: Callable[[], Iterable[StreamToEnd]] = tuple
        self.member: str | None = None
        """The number of this process among those of `streamactors run --processes`, which sets it; transactional ids end with it."""
        self._thespian: Any = None
        self._lock = threading.RLock()
        _systems.add(self)

    # ---- its parts ----

    @property
    def name(self) -> str:
        return self._base.name

    @property
    def clock(self) -> Clock:
        """The clock of everything in this system."""
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
        """Return a dispatcher for code that blocks or owns sockets. Made when first needed, stopped with the system."""
        return self._base.dispatcher(name)

    @property
    def dead_letters(self) -> DeadLetters:
        """Messages that no actor received: `count`, `subscribe(callback)`."""
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
        """Send a message. An answer to it is a dead letter; `ask` returns the answer."""
        self._mailbox_of(address).tell((message, self._base.nobody))

    def ask(self, address: ActorAddress, message: Any, timeout: Duration | None = "5s") -> StreamFuture[Any]:
        """Send a message and return the future of the first answer.

        It fails with AskTimeout after `timeout` (seconds, a timedelta or a string; None: never), and with ActorError
        at once if the actor is stopped or failed on the message.
        """
        mailbox = self._mailbox_of(address)
        promise = Promise(self._base, mailbox.name, None if timeout is None else duration_s(timeout, "timeout") * 1_000)
        mailbox.tell((message, ActorRef(promise)))
        return promise.future

    def _mailbox_of(self, address: ActorAddress) -> Any:
        try:
            return address._mailbox
        except AttributeError:
            raise ActorError(
                f"actor system {self.name!r}: {address!r} is not the address of an actor in this process"
            ) from None

    # ---- to be looked at ----

    def serve_dashboard(
        self,
        port: int = 0,
        *,
        host: str = "127.0.0.1",
        token: str | None = None,
        allow_changes: bool = False,
        redact: Callable[[Any], Any] | None = None,
        hosts: Iterable[str] = (),
    ) -> Any:
        """Serve a live page of the graphs that run on this system; return the Dashboard: print its `url`, which has the token, and open it.

        The page ends with the system, or by `close()`. `port` 0: a free one. `host`: loopback unless given. `token`: made unless given.
        `allow_changes`: dead letters may be sent again from the page. `redact(element)` returns what a tap shows instead of an element. `hosts`: names
        of a proxy by which the page is reached. Raises DashboardNotServed if the address is not available."""
        serving = importlib.import_module("streamactors.dashboard.serving")  # the top layer: no other module imports it
        return serving.serve(
            self,
            port=port,
            host=host,
            token=token,
            allow_changes=allow_changes,
            redact=redact,
            hosts=hosts,
        )

    # ---- life ----

    @property
    def running(self) -> bool:
        """False once shutdown has begun, and in a process forked from the one that made it."""
        return self._base.running

    def on_shutdown(self, callback: Callable[[], object]) -> ShutdownHook:
        """Call `callback()` when shutdown begins, before any actor is asked to exit; the last added runs first."""
        return self._base.on_shutdown(callback)

    def shutdown(self, timeout: Duration = 1.0, *, quiet: bool = False) -> None:
        """End every actor and every thread within `timeout` (seconds, a timedelta or a string). Idempotent.

        An actor that does not return in time is named in a warning (unless `quiet`) and its thread is abandoned. On a
        thread of the system's own it returns at once, and another thread does the work.
        """
        self._base.shutdown(duration_s(timeout, "timeout"), quiet=quiet)

    def __enter__(self) -> ActorSystem:
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shutdown()

    def __repr__(self) -> str:
        return f"<ActorSystem {self.name!r}, {'running' if self.running else 'shut down'}>"

    def _leave(self) -> bool:
        """The process ends: wait or warn as `at_exit` says. Return True when the process must fail."""
        deadline = time.monotonic() + ENDING_S
        while any(
            time.monotonic() < deadline or (self._at_exit == "wait" and not stream.endless) for stream in self.streams()
        ):
            time.sleep(0.005)
        left = list(self.streams())
        lost = sum(not stream.continues for stream in left)
        level = logging.ERROR if self._at_exit == "fail" else logging.WARNING
        for told in {stream.continues for stream in left if stream.continues}:
            _log.log(level, "a stream was still running when the process ended; %s", told)
        if lost:
            _log.log(
                level,
                "%s still running when the process ended, and the elements on the way are lost; wait with .result(), end it with a "
                "kill switch, or use ActorSystem(at_exit='wait')",
                "1 stream was" if lost == 1 else f"{lost} streams were",
            )
        return bool(left) and self._at_exit == "fail"

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

    def get(self) -> ActorSystem:
        system = self._system
        if system is not None and system.running:
            return system
        with self._lock:
            if self._system is None or not self._system.running:
                self._system = ActorSystem("default")
            return self._system

    def end(self) -> None:
        """End the system with the process."""
        system = self._system
        if system is not None:
            system.shutdown(quiet=True)

    def after_fork_in_child(self) -> None:
        self._lock = threading.RLock()
        self._system = None


_default = _Default()
_systems: Living[ActorSystem] = Living()


@atexit.register
def _process_ends() -> None:
    failing = [system._leave() for system in list(_systems) if system.running]
    note_process_ending()
    for system in list(_systems):
        if system.running and list(system.streams()):
            system.shutdown(quiet=True)
    _default.end()
    if left := NATIVE_CALLS.wait_until_closed(CLOSING_S):
        _log.warning("not closed %g s after the end of the process had begun: %s", CLOSING_S, ", ".join(left))
    if not NATIVE_CALLS.refuse(CLOSING_S):
        _log.error(
            "a call that closes state has not returned; the process ends with exit code 1 instead of being aborted"
        )
        failing.append(True)
    if any(failing):
        logging.shutdown()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(1)  # an exception here would not change the exit code


def _after_fork_in_child() -> None:
    """The child process has none of its parent's threads: inherited systems refuse to work; a new default system is made when needed."""
    _default.after_fork_in_child()
    for system in list(_systems):
        system._after_fork_in_child()
    _systems.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
