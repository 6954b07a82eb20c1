"""Spinning: a thread that wakes again and again although there is nothing to do, and so uses a whole core.

Owner: the process; written by the threads of dispatchers, pools and asyncio loops. A dispatcher has two kinds. A descriptor is reported as ready and its callback, which
returns the amount of its work, does none, FRUITLESS_CALLS times in succession. Or the loop does not sleep for SLEEPLESS_ROUNDS rounds,
because a function queues itself again or a timer is due at once, while no descriptor and no cell has work. A thread of a pool is woken
FRUITLESS_CALLS times while no cell gets a turn. An asyncio loop makes EVENTLESS_ROUNDS rounds without a sleep and without an event, and what streams
exchange with their coroutines are events. Each is logged once per thread and callback, and `spins` lists it for the tests of the project."""

from __future__ import annotations

import logging
import threading
from typing import Final, NamedTuple

_log = logging.getLogger("streamactors.actors")

FRUITLESS_CALLS: Final = 100
SLEEPLESS_ROUNDS: Final = 2_000
EVENTLESS_ROUNDS: Final = 20_000
_MOST_NAMES: Final = 1_000

_lock = threading.RLock()
_spins: dict[tuple[str, str], Spin] = {}


class Spin(NamedTuple):
    """A callback that ran with nothing to do. `dispatcher` is the name of the dispatcher, pool or loop, `kind` is which of these."""

    dispatcher: str
    callback: str
    seen: str
    kind: str = "dispatcher"

    def __str__(self) -> str:
        return f"{self.kind} {self.dispatcher!r}: {self.callback} {self.seen}"


def spins() -> list[Spin]:
    """Return what was found since `forget_spins`."""
    with _lock:
        return list(_spins.values())


def forget_spins() -> None:
    """Start a new list for `spins`."""
    with _lock:
        _spins.clear()


def report_spin(
    dispatcher: str, callback: str, seen: str, kind: str = "dispatcher", why: str = "this is a bug"
) -> None:
    """Log a spin, and list it; once per dispatcher and callback."""
    found = Spin(dispatcher, callback, seen, kind)
    with _lock:
        if (dispatcher, callback) in _spins or len(_spins) >= _MOST_NAMES:
            return
        _spins[dispatcher, callback] = found
    _log.warning("%s; the thread uses a whole core, %s", found, why)
