"""The watch of a pool: notices turns that block, and calls back at every tick while cells run.

Owner: the pool. One thread that ticks every 3 ms while any cell runs. While none runs, the thread sleeps without ticks
until a worker that takes a cell wakes it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from streamactors.actors.dispatching.spinning import FRUITLESS_CALLS, report_spin
from streamactors.actors.pool.starvation import Starvation
from streamactors.actors.threads import add_current_thread, remove_current_thread

if TYPE_CHECKING:
    from streamactors.actors.pool.elastic_pool import ElasticPool

_log = logging.getLogger("streamactors.actors")

INTERVAL_MS: Final = 3.0
_RESTS_AFTER: Final = 30  # ticks without any work, about 0.1 s
_EAGER_FOR: Final = 300  # ticks after the last starvation, about 1 s


class WatchHandle:
    """Returned by `ElasticPool.watch`; `cancel()` ends the calls."""

    __slots__ = ("_watch", "callback")

    def __init__(self, watch: PoolWatch, callback: Callable[[], object]) -> None:
        self._watch = watch
        self.callback = callback

    def cancel(self) -> None:
        self._watch.remove(self)


class PoolWatch:
    """`eager`: turns have blocked lately. Then a worker that takes a cell wakes another worker for the cells that wait."""

    def __init__(self, pool: ElasticPool, name: str) -> None:
        self.name = name
        self.rests = True
        self.eager = False
        self._pool = pool
        self._hooks: tuple[WatchHandle, ...] = ()
        self._lock = threading.RLock()
        self._wake_up = threading.Event()
        self._stopping = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread, once. Raises RuntimeError if no thread can be started now; the next call tries again."""
        with self._lock:
            if self._thread is None:
                thread = threading.Thread(target=self._run, name=self.name, daemon=True)
                thread.start()
                self._thread = thread

    def stop(self, timeout: float) -> None:
        """End the thread, if it runs."""
        self._stopping = True
        self._wake_up.set()
        if self._thread is not None and self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(timeout)

    def wake(self) -> None:
        """Start ticking again. Called by a worker that sees `rests`."""
        self.rests = False
        self._wake_up.set()

    def add(self, callback: Callable[[], object]) -> WatchHandle:
        """Call `callback()` at every tick."""
        handle = WatchHandle(self, callback)
        with self._lock:
            self._hooks = (*self._hooks, handle)
        return handle

    def remove(self, handle: WatchHandle) -> None:
        """Forget a callback."""
        with self._lock:
            self._hooks = tuple(other for other in self._hooks if other is not handle)

    def after_fork_in_child(self) -> None:
        """The thread stayed in the parent process."""
        self._lock = threading.RLock()
        self._thread = None
        self._stopping = True

    def _run(self) -> None:
        add_current_thread(self.name)
        pool = self._pool
        starvation = Starvation()
        taken_before, quiet, calm, vain = -1, 0, 0, 0
        while not self._stopping:
            if quiet >= _RESTS_AFTER:
                quiet = 0
                self._rest()
                vain = vain + 1 if pool.turns_taken == taken_before else 0
                if vain == FRUITLESS_CALLS:
                    seen = f"was woken {FRUITLESS_CALLS} times in succession and no cell had got a turn"
                    report_spin(self.name, "the watch", seen, "pool")
            time.sleep(INTERVAL_MS / 1000.0)
            taken = pool.turns_taken
            wanted = 0
            if pool.cells_waiting:
                wanted = starvation.look(taken, pool.cpu_used_s(), time.monotonic(), blocked_lately=self.eager)
            else:
                starvation.nobody_waits()
            if wanted:
                self.eager, calm = True, 0
                pool.add_workers(wanted)
            else:
                calm += 1
                if calm == _EAGER_FOR:
                    self.eager = False
            if taken == taken_before and pool.at_rest:
                quiet += 1
            else:
                quiet, taken_before = 0, taken
                self._call_hooks()
        remove_current_thread()

    def _rest(self) -> None:
        self.eager = False
        self._wake_up.clear()
        self.rests = True
        # A worker takes a cell, then looks at `rests`; the watch sets `rests`, then looks for work. So at least one of them sees
        # the other's change.
        if self._pool.at_rest and not self._stopping:
            self._wake_up.wait()
        self.rests = False

    def _call_hooks(self) -> None:
        for hook in self._hooks:
            try:
                hook.callback()
            except Exception:  # noqa: BLE001 - the other callbacks must still be called
                _log.exception("%s: a callback raised and is removed", self.name)
                hook.cancel()
