"""Locks and queues of a simulated world: waiting for one is waiting in the scheduler.

Owner: whoever made the lock in the world. After the world has ended nothing runs beside its user, so every `acquire` succeeds. `threading`
builds its conditions, events, semaphores and barriers over these two locks."""

from __future__ import annotations

import queue
from collections import deque
from math import ceil
from types import TracebackType
from typing import Any

from streamactors.simulation.world.errors import SimulationError
from streamactors.simulation.world.here import here
from streamactors.simulation.world.scheduler import A_LOCK, Scheduler
from streamactors.simulation.world.task import Task

_real_queue = queue.SimpleQueue


def until_us(scheduler: Scheduler, timeout_s: float | None) -> int | None:
    """Return when a timeout ends; None and negative numbers mean never, as in `threading`."""
    if timeout_s is None or timeout_s < 0:
        return None
    return scheduler.now_us + ceil(min(timeout_s, 1e9) * 1e6)


class Lock:
    """A `threading.Lock` of a world."""

    __slots__ = ("__weakref__", "_holder", "_home", "_waiting")

    def __init__(self) -> None:
        scheduler = here()
        maker = None if scheduler is None else scheduler.current
        self._home = "" if maker is None else maker.instance  # the instance that made it
        self._holder: object = None  # the task that took it; True when it was taken outside of tasks
        self._waiting: list[Task] = []

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """As `threading.Lock.acquire`."""
        scheduler = here()
        if scheduler is None:
            self._holder = True
            return True
        if blocking and self._holder is None and timeout != 0:
            scheduler.at_free_lock()
        task = scheduler.current
        if self._holder is None:
            self._holder = task or True
            return True
        if not blocking or timeout == 0:
            return False
        if task is None:
            raise SimulationError("a lock that a task holds is wanted outside of all tasks: it would never be free")
        until = until_us(scheduler, timeout)
        while self._holder is not None and not self._is_left():
            self._waiting.append(task)
            try:
                woken = scheduler.park(A_LOCK, until)
            finally:
                if task in self._waiting:
                    self._waiting.remove(task)
            if not woken and self._holder is not None:
                return False
        self._holder = task
        return True

    def release(self) -> None:
        """As `threading.Lock.release`; any task may call it."""
        if self._holder is None:
            scheduler = here()
            if scheduler is not None and scheduler.ending:
                return  # the task was ended where it waited for the lock, as a condition does before it goes on
            raise RuntimeError("release unlocked lock")
        self._holder = None
        self._wake()

    def _wake(self) -> None:
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            scheduler = here()
            if scheduler is not None:
                for task in waiting:
                    scheduler.wake(task)
                scheduler.has_woken()

    def locked(self) -> bool:
        """Return whether the lock is held."""
        return self._holder is not None

    def _is_left(self) -> bool:
        """Whether a crashed instance holds a lock that is not its own. What a process locks outside, such as a file, is free when it dies."""
        holder = self._holder
        return isinstance(holder, Task) and holder.gone and holder.instance != self._home

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _at_fork_reinit(self) -> None:
        self.__init__()  # type: ignore[misc]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of a world, {'free' if self._holder is None else f'held by {self._holder}'}>"


class RLock(Lock):
    """A `threading.RLock` of a world: its holder may take it again."""

    __slots__ = ("_count",)

    def __init__(self) -> None:
        super().__init__()
        self._count = 0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """As `threading.RLock.acquire`."""
        scheduler = here()
        if self._holder is not None and scheduler is not None and self._holder is (scheduler.current or True):
            self._count += 1
            return True
        if not super().acquire(blocking, timeout):
            return False
        self._count = self._count + 1 if scheduler is None else 1
        return True

    def release(self) -> None:
        """As `threading.RLock.release`."""
        scheduler = here()
        if self._holder is None or (scheduler is not None and self._holder is not (scheduler.current or True)):
            if scheduler is None or not scheduler.ending:
                raise RuntimeError("cannot release un-acquired lock")
            return
        self._count -= 1
        if self._count <= 0:
            self._count = 0
            super().release()

    def _is_owned(self) -> bool:
        scheduler = here()
        return self._holder is not None and (scheduler is None or self._holder is (scheduler.current or True))

    def _release_save(self) -> int:
        count, self._count = self._count, 0
        Lock.release(self)
        return count

    def _acquire_restore(self, count: int) -> None:
        Lock.acquire(self)
        self._count = count

    def _recursion_count(self) -> int:
        return self._count if self._is_owned() else 0


class SimpleQueue:
    """A `queue.SimpleQueue` of a world; outside the world, a real one."""

    def __new__(cls) -> Any:
        return super().__new__(cls) if here() is not None else _real_queue()

    def __class_getitem__(cls, item: object) -> type:
        return cls

    def __init__(self) -> None:
        self._items: deque[Any] = deque()
        self._waiting: list[Task] = []

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        """Add an item. Never waits."""
        self._items.append(item)
        scheduler = here()
        if scheduler is not None and self._waiting:
            waiting, self._waiting = self._waiting, []
            for task in waiting:
                scheduler.wake(task)
            scheduler.has_woken()

    put_nowait = put

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Return the oldest item. Raises queue.Empty when there is none in time."""
        scheduler = here()
        task = None if scheduler is None else scheduler.current
        until = None if scheduler is None else until_us(scheduler, timeout)
        while not self._items:
            if not block or scheduler is None or task is None:
                raise queue.Empty
            self._waiting.append(task)
            try:
                woken = scheduler.park("an item of a queue", until)
            finally:
                if task in self._waiting:
                    self._waiting.remove(task)
            if not woken and not self._items:
                raise queue.Empty
        return self._items.popleft()

    def get_nowait(self) -> Any:
        """Return the oldest item. Raises queue.Empty when there is none."""
        return self.get(block=False)

    def empty(self) -> bool:
        """Return whether there is no item."""
        return not self._items

    def qsize(self) -> int:
        """Return the number of items."""
        return len(self._items)
