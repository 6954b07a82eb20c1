"""Threads of a world: `threading.Thread` starts a task, and a lock of `threading` is the world's.

Owner: the patches. `threading` itself is unchanged; it finds other functions under the names that it starts threads and makes locks with."""

from __future__ import annotations

import _thread
import _threading_local
import importlib
import itertools
import logging
import queue
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from streamactors import log_limit
from streamactors.simulation.world import times
from streamactors.simulation.world.errors import NotSimulated
from streamactors.simulation.world.here import here
from streamactors.simulation.world.locks import Lock, RLock, SimpleQueue

_start = _thread.start_new_thread
_ident = _thread.get_ident
_real_lock = _thread.allocate_lock
_sentinel = getattr(threading, "_set_sentinel", None)
LOCK_TYPES: Final = (type(_real_lock()), type(_thread.RLock()))


def _get_ident() -> int:
    scheduler = here()
    task = None if scheduler is None else scheduler.current
    return _ident() if task is None else task.ident


def _start_new_thread(
    function: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any] | None = None
) -> int:
    scheduler = here()
    if scheduler is None:
        return _start(function, arguments, named or {})
    thread = getattr(function, "__self__", None)
    name = thread.name if isinstance(thread, threading.Thread) else getattr(function, "__qualname__", "thread")
    return scheduler.spawn(lambda: function(*arguments, **(named or {})), name).ident


def _allocate_lock() -> Any:
    return _real_lock() if here() is None else Lock()


def _allocate_rlock() -> Any:
    return _thread.RLock() if here() is None else RLock()


def _set_sentinel() -> Any:
    """The lock that is released when the calling thread ends."""
    scheduler = here()
    if scheduler is None or scheduler.current is None:
        assert _sentinel is not None
        return _sentinel()
    lock = scheduler.current.sentinel = Lock()
    return lock


def replacements() -> list[tuple[object, object]]:
    """Return (original, replacement) for what starts threads and makes locks. Raises NotSimulated on a Python that starts threads otherwise."""
    if sys.version_info >= (3, 13):
        raise NotSimulated(
            f"a world runs on Python 3.11 and 3.12; {sys.version_info.major}.{sys.version_info.minor} starts threads in another way; "
            "run the simulation with one of them"
        )
    return [
        (_start, _start_new_thread),
        (_thread.start_new, _start_new_thread),
        (_ident, _get_ident),
        (_real_lock, _allocate_lock),
        (_thread.RLock, _allocate_rlock),
        (threading.RLock, _allocate_rlock),
        (_sentinel, _set_sentinel),
        (queue.SimpleQueue, SimpleQueue),
        (threading.local, _threading_local.local),
    ]


class _InOrder:
    """The threads of an executor, in the order of their start. A set would order them by their addresses, and `shutdown` waits for one after another."""

    def __init__(self) -> None:
        self._threads: dict[threading.Thread, None] = {}
        self.add = self._threads.setdefault
        self.clear = self._threads.clear

    def __iter__(self) -> Iterator[threading.Thread]:
        return iter(list(self._threads))

    def __len__(self) -> int:
        return len(self._threads)


_new_executor = ThreadPoolExecutor.__init__


def _init_executor(executor: Any, *arguments: Any, **named: Any) -> None:
    _new_executor(executor, *arguments, **named)
    if here() is not None:
        executor._threads = _InOrder()


def _calmly(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function so that its task is not interrupted in it."""

    def calm(*arguments: Any, **named: Any) -> Any:
        scheduler = here()
        task = None if scheduler is None else scheduler.current
        if task is None:
            return function(*arguments, **named)
        task.calm += 1
        try:
            return function(*arguments, **named)
        finally:
            task.calm -= 1

    return calm


def attributes() -> list[tuple[object, str, object]]:
    """Return (class, attribute, replacement) for what counts threads or keeps state for each.

    Logging and the first `current_thread` of a task throw no dice: whether a line is logged depends on settings, and must not change the run.
    RxPY keeps a queue of work in a `threading.local` of C code, which all tasks would share."""
    rx = importlib.import_module("reactivex.scheduler.currentthreadscheduler")
    trampoline = rx.Trampoline

    class Local(_threading_local.local):
        def __init__(self) -> None:
            self.tramp = trampoline()

    return [
        (ThreadPoolExecutor, "__init__", _init_executor),
        (threading._DummyThread, "__init__", _calmly(threading._DummyThread.__init__)),
        (logging.Logger, "handle", _calmly(logging.Logger.handle)),
        (log_limit._of_process, "_causes", {}),
        (log_limit._of_process, "_now_s", times.monotonic),
        (ThreadPoolExecutor, "_counter", itertools.count().__next__),
        (rx.CurrentThreadSchedulerSingleton, "_local", Local()),
    ]
