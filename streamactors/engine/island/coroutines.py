"""The asyncio loop of an actor system: coroutine functions and async iterables of stages run there.

Owner: the system. It has one loop with one thread, which starts when first needed and ends with the system. Under a virtual clock
`asyncio.sleep` and every other timer of the loop follow that clock, and `VirtualClock.advance` waits until the loop is at rest."""

from __future__ import annotations

import asyncio
import concurrent.futures
import heapq
import logging
import selectors
import threading
import weakref
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import Context
from time import perf_counter
from typing import TYPE_CHECKING, Any

from streamactors.actors.dispatching.spinning import EVENTLESS_ROUNDS, report_spin
from streamactors.actors.local_system import SystemStopped
from streamactors.actors.threads import add_current_thread, remove_current_thread
from streamactors.clock import Clock, VirtualClock
from streamactors.errors import AbruptTermination

if TYPE_CHECKING:
    from streamactors.actors.system import ActorSystem

_loops: weakref.WeakKeyDictionary[ActorSystem, SystemLoop] = weakref.WeakKeyDictionary()
_loops_lock = threading.Lock()
_log = logging.getLogger("streamactors.engine")

BLOCKED_S = 0.5
"""The longest time that one turn of the loop may take without a warning."""


def run_coroutine(system: ActorSystem, coroutine: Coroutine[Any, Any, Any]) -> concurrent.futures.Future[Any]:
    """Start a coroutine on the system's loop; `cancel()` of the future cancels it. Thread-safe."""
    return loop_of(system).start(coroutine)


def loop_of(system: ActorSystem) -> SystemLoop:
    """Return the loop of a system, started at the first call."""
    loop = _loops.get(system)
    if loop is None:
        with _loops_lock:
            loop = _loops.get(system)
            if loop is None:
                loop = SystemLoop(system.name, system.clock)
                try:
                    system.on_shutdown(loop.stop)
                except SystemStopped:  # shutdown has begun: the loop refuses every coroutine
                    loop.stop()
                _loops[system] = loop
    return loop


class SystemLoop:
    """An asyncio loop on a thread of its own."""

    def __init__(self, name: str, clock: Clock) -> None:
        self.name = f"{name}-asyncio"
        self._given = 0  # coroutines handed over
        self._begun = 0  # coroutines handed over that have begun
        self._lock = threading.Lock()
        self._stopping = False
        self._ended = False
        self.closings: dict[Callable[[], Coroutine[Any, Any, Any]], None] = {}
        """What to run when the loop ends before a stage has given back what it holds there. On the loop's thread."""
        self._asyncio = _Loop(clock, self.name)
        self._virtual = clock if isinstance(clock, VirtualClock) else None
        if self._virtual is not None:
            self._asyncio.at_rest = self._virtual.notify
            self._virtual.attach(self)
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
        self._thread.start()

    def start(self, coroutine: Coroutine[Any, Any, Any]) -> concurrent.futures.Future[Any]:
        """Run a coroutine; thread-safe. Raises AbruptTermination when the system has been shut down."""
        with self._lock:
            if not self._stopping:
                self._given += 1
                future = asyncio.run_coroutine_threadsafe(coroutine, self._asyncio)
                if self._virtual is not None:
                    self._asyncio.call_soon_threadsafe(self._has_begun)
                return future
        coroutine.close()
        raise AbruptTermination(f"{self.name} has ended with its actor system; no coroutine can be started any more")

    def _has_begun(self) -> None:
        self._begun += 1

    def stop(self) -> None:
        """Cancel every task and end the thread. Called when the system shuts down; thread-safe."""
        if self._virtual is not None:
            self._virtual.detach(self)
        with self._lock:  # every coroutine started before is cancelled; none starts afterwards
            if self._stopping:
                return
            self._stopping = True
            self._asyncio.call_soon_threadsafe(self._cancel_all)
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout=0.5)

    def _cancel_all(self) -> None:
        tasks = asyncio.all_tasks(self._asyncio)
        for task in tasks:
            task.cancel()
        last = [*tasks, *(close() for close in self.closings)]
        if last:
            asyncio.gather(*last, return_exceptions=True).add_done_callback(lambda _: self._end())
        else:
            self._end()

    def _end(self) -> None:
        self._ended = True
        self._asyncio.stop()

    def _run(self) -> None:
        add_current_thread(
            self.name
        )  # a coroutine that blocks for a stream keeps the coroutines of that stream from running
        asyncio.set_event_loop(self._asyncio)
        try:
            while not self._ended:
                # asyncio ends a loop when a coroutine raises one of these; here that would end the coroutines of all other streams, too
                with suppress(SystemExit, KeyboardInterrupt):
                    self._asyncio.run_forever()
            self._asyncio.run_until_complete(self._asyncio.shutdown_asyncgens())
        finally:
            self._asyncio.close()
            remove_current_thread()

    # ── under a virtual clock ─────────────────────────────────────────────────────────────────────────────────────

    def next_deadline_ms(self) -> float | None:
        """Return when the loop's next timer is due, None without timers."""
        return self._asyncio.next_deadline_ms()

    def clock_moved(self) -> None:
        """Make the loop look at its timers."""
        self._asyncio.selector.busy = True  # before the wake-up, or the loop would seem at rest
        try:
            self._asyncio.call_soon_threadsafe(_nothing)
        except RuntimeError:
            pass

    def quiet_since(self) -> int | None:
        """Return a number that changes with every turn of the loop; None while the loop works."""
        if self._given != self._begun or self._asyncio.selector.busy:
            return None
        return self._asyncio.selector.turns


def _nothing() -> None:
    pass


class _Selector(selectors.DefaultSelector):
    """Records whether the loop waits."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name
        self._eventless = 0  # rounds in succession without a sleep and without an event
        self.busy = True
        self.turns = 0
        self._since = perf_counter()  # when the loop last began to work
        self._warned = False
        self.virtual = False
        self.at_rest: Callable[[], None] = _nothing

    def select(self, timeout: float | None = None) -> Any:
        """Wait for events. Under a virtual clock the wait ends with an event or when the clock moves."""
        worked_s = perf_counter() - self._since
        if worked_s > BLOCKED_S and not self._warned:
            self._warned = True
            _log.warning(
                "a coroutine blocked the asyncio loop of the stream for %.1f s: every other coroutine waited; await what it does, or give "
                "map_async a plain function, which runs on a thread of its own",
                worked_s,
            )
        try:
            return self._select(timeout)
        finally:
            self._since = perf_counter()

    def _select(self, timeout: float | None) -> Any:
        if timeout is not None and timeout <= 0:
            events = super().select(timeout)
            self._eventless = 0 if events else self._eventless + 1
            if self._eventless == EVENTLESS_ROUNDS:
                report_spin(
                    self._name, "its callbacks", f"ran in {EVENTLESS_ROUNDS:,} rounds without a sleep and without an event",
                    "asyncio loop", "so a coroutine that only waits must await what it waits for",
                )  # fmt: skip
            return events
        self._eventless = 0
        ready = super().select(0)
        if ready:
            return ready
        self.busy = False
        self.at_rest()
        try:
            return super().select(None if self.virtual else timeout)
        finally:
            self.busy = True
            self.turns += 1


class _Loop(asyncio.SelectorEventLoop):
    """An asyncio loop that takes its time from a Clock."""

    def __init__(self, clock: Clock, name: str) -> None:
        self.selector = _Selector(name)
        self.selector.virtual = isinstance(clock, VirtualClock)
        self._clock = clock
        self._deadlines: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._timers_lock = threading.Lock()
        super().__init__(self.selector)

    @property
    def at_rest(self) -> Callable[[], None]:
        """Called when the loop has nothing to do."""
        return self.selector.at_rest

    @at_rest.setter
    def at_rest(self, callback: Callable[[], None]) -> None:
        self.selector.at_rest = callback

    def time(self) -> float:
        """Return the clock's monotonic time in seconds."""
        return self._clock.now_ms() / 1000.0

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """As in asyncio; remembered for `next_deadline_ms`."""
        handle = super().call_at(when, callback, *args, context=context)
        if self.selector.virtual:
            with self._timers_lock:
                heapq.heappush(self._deadlines, (when, id(handle), handle))
        return handle

    def next_deadline_ms(self) -> float | None:
        """Return when the next timer is due, None without timers."""
        with self._timers_lock:
            deadlines = self._deadlines
            while deadlines and (deadlines[0][2].cancelled() or deadlines[0][0] <= self.time()):
                heapq.heappop(deadlines)
            return deadlines[0][0] * 1000.0 if deadlines else None
