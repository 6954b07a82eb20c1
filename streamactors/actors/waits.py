"""Waits of threads, and which of them would never end: the work that such a thread waits for is its own.

Threads of dispatchers, pools and the systems' asyncio loops have owners (threads.py). A user's own asyncio loop is needed while a stage runs
coroutines on it (`loop=`). Owner: the process. Any thread."""

from __future__ import annotations

import asyncio
import builtins
import logging
import threading
import weakref
from collections.abc import Callable
from time import monotonic
from typing import Any, Protocol

from streamactors.actors.threads import current_owner
from streamactors.errors import ActorError
from streamactors.log_limit import log_limited

_log = logging.getLogger("streamactors.actors")

LOOK_S = 1.0
"""The time between two looks of a waiting thread at the loops that its stream needs."""


class WouldBlock(ActorError):
    """A thread tried to wait for work that it may have to do itself, or that nothing can do."""


class _Stage(Protocol):
    """A running stage, as this table sees it."""

    name: str
    stopped: bool
    interpreter: Any


_needed: weakref.WeakKeyDictionary[Any, tuple[asyncio.AbstractEventLoop, weakref.ref[Any]]] = (
    weakref.WeakKeyDictionary()
)
_waiting: dict[Callable[[], object], None] = {}  # what makes each waiting thread look again
_lock = threading.Lock()


def need_loop(key: Any, loop: asyncio.AbstractEventLoop, stage: _Stage) -> None:
    """Note that `stage` needs `loop` until it stops, until `forget_loop(key)`, or until `key`, the object that needs it, is collected."""
    with _lock:
        _needed[key] = loop, weakref.ref(stage)
        waiting = list(_waiting)
    for look_again in waiting:
        look_again()


def forget_loop(key: Any) -> None:
    """The stage has ended, or what it waited for has."""
    with _lock:
        _needed.pop(key, None)


def _needs() -> list[tuple[asyncio.AbstractEventLoop, _Stage]]:
    if not _needed:
        return []
    with _lock:
        known = [(loop, stage()) for loop, stage in _needed.values()]
    return [(loop, stage) for loop, stage in known if stage is not None and not stage.stopped]


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def refuse_here(what: str, instead: str = "await it instead") -> None:
    """Raise WouldBlock where the calling thread must not wait. `what` begins the sentence, the call and its object; `instead` ends it on a loop."""
    owner, loop = current_owner(), _running_loop()
    if owner is not None and loop is not None:
        raise WouldBlock(
            f"{what} was called on the asyncio loop {owner!r}, which may have to produce it: the call would wait for itself; {instead}"
        )
    if owner is not None:
        raise WouldBlock(
            f"{what} was called on a thread of {owner!r}, which may have to produce it: the call would wait for itself; return it from the "
            "function of map_async, which waits for it, or use add_done_callback"
        )
    for needed, stage in _needs() if loop is not None else ():
        if needed is loop:
            raise WouldBlock(
                f"{what} was called on the asyncio loop that {stage.name} needs, which may have to produce it: it would wait for "
                f"itself; {instead}"
            )


def _tell_blocked(what: str, waited_s: float) -> None:
    """Warn that a call holds up the asyncio loop of its thread."""
    log_limited(
        _log,
        logging.WARNING,
        ("blocked", what),
        "%s has blocked the asyncio loop of its thread for %.0f s, with everything that runs on it; await it instead",
        what,
        waited_s,
    )


def wait_until(
    done: Callable[[], bool],
    sleep: Callable[[float | None], object],
    wake: Callable[[], object],
    what: str,
    run: Any,
    timeout: float | None,
) -> bool:
    """Wait until `done()` is true; return False after `timeout` seconds. `sleep(seconds)` returns early after `wake()`, also one before it.

    Raises WouldBlock where the thread must not wait, and when a loop that `run` needs does not run at two looks."""
    if done() or timeout == 0:
        return done()
    began, told = (
        monotonic(),
        _running_loop() is None or hasattr(builtins, "__IPYTHON__"),
    )  # a notebook's cells have a loop to themselves
    end = None if timeout is None else began + timeout
    stopped_since: float | None = None
    with _lock:
        _waiting[wake] = None
    try:
        while not done():
            refuse_here(what)
            now = monotonic()
            if end is not None and now >= end:
                return False
            mine = [need for need in _needs() if run is not None and need[1].interpreter.island.run is run]
            stopped = [stage for loop, stage in mine if not loop.is_running() and not loop.is_closed()]
            if not stopped:
                stopped_since = None
            elif stopped_since is None:
                stopped_since = now  # it may be about to start
            elif now - stopped_since >= LOOK_S:
                raise WouldBlock(
                    f"{what} would never return: the asyncio loop that {stopped[0].name} needs does not run; await the result in "
                    "that loop (loop.run_until_complete), or run the loop in a thread of its own"
                )
            if not told and now - began >= LOOK_S:
                told = True
                _tell_blocked(what, now - began)
            nap = LOOK_S if mine or _running_loop() is not None else None
            if end is not None:
                nap = end - now if nap is None else min(nap, end - now)
            sleep(nap)
        return True
    finally:
        with _lock:
            _waiting.pop(wake, None)
