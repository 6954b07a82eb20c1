"""An elastic pool of threads on which cells (stream islands, actors) take turns.

Owner: an actor system. One queue of cells that want a turn; an idle cell costs no thread. A worker that makes cells
runnable serves them itself when its turn ends, so busy cells hand over without a thread switch; any other thread wakes
a parked worker.

The watch finds turns that block: when cells wait, no worker takes one and the workers use no processor time, the watch
wakes or starts workers, twice as many each time. For the next second every worker that leaves cells waiting wakes
another. A turn that computes is given 10 ms first (`starvation.py`).
(Starting a thread whenever none is idle would be a race: a worker that has been woken but does not run yet counts as
idle, so a dozen sleeping cells would end up on one thread.)
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from threading import get_ident
from typing import Final

from streamactors.actors.cell import Cell, OnDeadLetter, OnError, Receive, log_dead_letter, log_error
from streamactors.actors.dispatching.spinning import FRUITLESS_CALLS, report_spin
from streamactors.actors.pool.pool_watch import PoolWatch, WatchHandle
from streamactors.actors.threads import (
    add_current_thread,
    cpu_clock_of_current_thread,
    cpu_time_s,
    left_behind_by_fork,
    process_is_ending,
    remove_current_thread,
)
from streamactors.clock import Clock, SystemClock, VirtualClock
from streamactors.errors import ActorError

_log = logging.getLogger("streamactors.actors")

_WORKER_IDLE_S: Final = 5.0


class PoolStopped(ActorError):
    """A cell wanted a turn on a pool that has been stopped."""


class _Worker:
    """A thread of the pool. `wake_up` is a lock used as a semaphore: held, except while another thread wakes the worker."""

    __slots__ = ("cell", "cpu_clock", "ident", "wake_up")

    def __init__(self) -> None:
        self.wake_up = threading.Lock()
        self.wake_up.acquire()
        self.cell: Cell | None = None
        self.ident = get_ident()
        self.cpu_clock = cpu_clock_of_current_thread()


class ElasticPool:
    """Runs cells on few threads; adds threads while turns block, up to `max_threads`."""

    def __init__(self, name: str, clock: Clock | None = None, *, max_threads: int = 256) -> None:
        if max_threads < 1:
            raise ValueError(f"pool {name!r}: max_threads must be at least 1, not {max_threads!r}")
        self.name = name
        self.clock: Clock = SystemClock() if clock is None else clock
        self.max_threads = max_threads
        self._virtual = self.clock if isinstance(self.clock, VirtualClock) else None
        self._queue: deque[Cell] = deque()
        self._parked: list[_Worker] = []
        self._workers: dict[int, _Worker] = {}
        self._starting = 0
        self._taken = 0
        self._vain = 0  # wake-ups without work since the turn that is number `_vain_since`
        self._vain_since = 0
        self._lock = threading.RLock()  # guards starting and ending of threads; never taken on the way of a message
        self._stopping = False
        self._why_stopped = "is stopped; its cells take no more turns"
        self._watch = PoolWatch(self, f"{name}-watch")
        self._warned_full = False
        if self._virtual is not None:
            self._virtual.attach(self, carries=True)

    # ---- cells ----

    def spawn(
        self,
        receive: Receive,
        name: str,
        on_error: OnError = log_error,
        on_dead_letter: OnDeadLetter = log_dead_letter,
    ) -> Cell:
        """Make a cell; it takes its turns on this pool whenever it has messages."""
        return Cell(self, receive, name, on_error, on_dead_letter)

    def submit(self, cell: Cell) -> None:
        """Queue a cell for a turn. Thread-safe. Raises PoolStopped after `stop`."""
        if self._stopping:
            raise PoolStopped(f"pool {self.name!r} {self._why_stopped}")
        self._queue.append(cell)
        # A worker looks at the queue when its turn ends; if the turn blocks, the watch does.
        if get_ident() not in self._workers or (self._watch.eager and self._parked):
            self._wake_one()

    def in_thread(self) -> bool:
        """Whether the caller is on one of the pool's threads."""
        return get_ident() in self._workers

    @property
    def threads(self) -> int:
        """Threads alive now, idle ones included."""
        return len(self._workers) + self._starting

    def watch(self, callback: Callable[[], object]) -> WatchHandle:
        """Call `callback()` every 3 ms or so, on a thread of the pool's own, while any cell is running, and only then.

        It must return quickly. An error is logged and ends its calls.
        """
        return self._watch.add(callback)

    # ---- what the watch looks at ----

    @property
    def turns_taken(self) -> int:
        """Number of turns begun; approximate while several threads work."""
        return self._taken

    @property
    def cells_waiting(self) -> int:
        """Number of cells that wait for a turn."""
        return len(self._queue)

    @property
    def at_rest(self) -> bool:
        """True when no cell waits or runs."""
        return not self._queue and not self._starting and len(self._parked) == len(self._workers)

    def cpu_used_s(self) -> float:
        """Return the processor time that the threads now inside a turn have used since they were started."""
        return sum(map(cpu_time_s, [worker.cpu_clock for worker in list(self._workers.values()) if worker.cell]))

    def add_workers(self, count: int) -> None:
        """Wake parked workers or start new ones: one per waiting cell, at most `count`."""
        for _ in range(min(count, len(self._queue))):
            try:
                self._parked.pop().wake_up.release()
            except IndexError:
                if not self._start_worker():
                    return

    # ---- threads ----

    def _wake_one(self) -> None:
        try:
            worker = self._parked.pop()
        except IndexError:
            if self._stopping:
                raise PoolStopped(f"pool {self.name!r} {self._why_stopped}") from None
            if not (self._workers or self._starting):
                self._start_worker()
            elif self._watch.rests:
                self._watch.wake()
            return
        worker.wake_up.release()

    def _start_worker(self) -> bool:
        with self._lock:
            if self._stopping:
                return False
            if self.threads >= self.max_threads:
                if not self._warned_full:
                    self._warned_full = True
                    _log.warning(
                        "pool %r: all %d threads are busy or blocked and cells wait; raise max_threads or block less",
                        self.name,
                        self.max_threads,
                    )
                return False
            self._starting += 1
            number = self.threads
        try:
            self._watch.start()
            threading.Thread(target=self._run_worker, name=f"{self.name}-{number}", daemon=True).start()
        except RuntimeError as error:
            with self._lock:
                self._starting -= 1
            level = logging.DEBUG if process_is_ending() else logging.ERROR
            _log.log(level, "pool %r: cannot start thread %d: %s", self.name, number, error)
            return False
        return True

    def _run_worker(self) -> None:
        worker = _Worker()
        add_current_thread(self.name)
        with self._lock:
            self._workers[worker.ident] = worker
            self._starting -= 1
        try:
            self._work(worker)
        finally:
            self._workers.pop(worker.ident, None)
            remove_current_thread()

    def _work(self, worker: _Worker) -> None:
        queue, parked, watch = self._queue, self._parked, self._watch
        while not self._stopping:
            try:
                cell = queue.popleft()
            except IndexError:
                if self._park(worker):
                    continue
                return
            self._taken += 1
            if watch.rests:
                watch.wake()
            if watch.eager and queue and parked:
                self._wake_one()
            worker.cell = cell
            while cell.run_turn():
                if self._stopping or not cell.belongs_to(self):
                    self._leave_to(cell)
                    break
                if queue:
                    queue.append(cell)
                    break
                self._taken += 1
            worker.cell = None

    def _leave_to(self, cell: Cell) -> None:
        """A cell wants another turn, but it has moved to another executor or the pool stops.

        When the turn was longer than the shutdown, no worker looks at the queue again; `resubmit` then raises PoolStopped."""
        try:
            cell.resubmit()
        except PoolStopped:
            self._queue.append(cell)

    def _park(self, worker: _Worker) -> bool:
        """Sleep until woken. False: the worker was idle for long enough, is no longer listed, and must end."""
        self._parked.append(worker)
        idle_too_long = False
        # `submit` appends to the queue, then looks for a parked worker; a worker parks, then looks at the queue. So at
        # least one of them sees the other's change.
        if not self._queue and not self._stopping:
            if self._virtual is not None:
                self._virtual.notify()
            if worker.wake_up.acquire(timeout=_WORKER_IDLE_S):
                if not self._queue:
                    self._woken_in_vain()
                return True
            idle_too_long = True
        try:
            self._parked.remove(worker)
        except ValueError:  # another thread has just removed it in order to wake it
            worker.wake_up.acquire()
            return True
        return not (idle_too_long and not self._queue and self._leave(worker))

    def _woken_in_vain(self) -> None:
        """Another worker has taken the cell, or there was none: then no turn begins, however often workers are woken."""
        if self._taken != self._vain_since:
            self._vain_since, self._vain = self._taken, 0
        self._vain += 1
        if self._vain == FRUITLESS_CALLS and not self._stopping:
            report_spin(
                self.name, "a worker", f"was woken {FRUITLESS_CALLS} times in succession and no cell waited", "pool"
            )

    def _leave(self, worker: _Worker) -> bool:
        """Take an unparked worker off the books; False if it is the last one, which stays."""
        with self._lock:
            if len(self._workers) + self._starting <= 1:
                return False
            del self._workers[worker.ident]
        if self._queue and not self._stopping:
            self._wake_one()  # a cell was submitted meanwhile and found no parked worker
        return True

    def stop(self, timeout: float = 1.0) -> list[str]:
        """End every thread after its turn; return the names of the cells whose turn does not end in `timeout` seconds.

        Cells still in the queue get no turn. A worker that calls `stop` does not wait for itself.
        """
        with self._lock:
            self._stopping = True
        deadline = time.monotonic() + timeout
        me = get_ident()
        while True:
            while self._parked:
                try:
                    self._parked.pop().wake_up.release()
                except IndexError:
                    break
            if (
                not [ident for ident in list(self._workers) if ident != me] and not self._starting
            ):  # workers leave meanwhile
                break
            if time.monotonic() > deadline:
                break
            time.sleep(0.001)
        if self._virtual is not None:
            self._virtual.detach(self)
        self._watch.stop(max(0.05, deadline - time.monotonic()))
        return [cell.name for ident, worker in self._workers.copy().items() if ident != me and (cell := worker.cell)]

    def abandoned(self) -> list[Cell]:
        """Return, after `stop`, the cells that waited for a turn and will get none."""
        return list(self._queue)

    def after_fork_in_child(self) -> None:
        """The workers stayed in the parent process: refuse every cell."""
        self._lock = threading.RLock()
        self._stopping = True
        self._why_stopped = left_behind_by_fork()
        self._starting = 0
        self._queue.clear()
        self._workers.clear()
        self._parked.clear()
        self._watch.after_fork_in_child()

    # ---- virtual time ----

    def next_deadline_ms(self) -> float | None:
        """A pool has no timers."""
        return None

    def clock_moved(self) -> None:
        """Nothing here depends on the time."""

    def quiet_since(self) -> int | None:
        """Return the number of turns taken; None while a cell waits or runs."""
        return self._taken if self.at_rest else None

    def __repr__(self) -> str:
        return f"<ElasticPool {self.name!r}, {self.threads} threads, {len(self._queue)} cells waiting>"
