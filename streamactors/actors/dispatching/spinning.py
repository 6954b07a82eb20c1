"""Spinning: a dispatcher that wakes again and again although there is nothing to do, and so uses a whole core.

Owner: the process; written by the threads of dispatchers. There are two kinds. A descriptor is reported as ready and its callback, which
returns the amount of its work, does none, FRUITLESS_CALLS times in succession. Or the loop does not sleep for SLEEPLESS_ROUNDS rounds,
because a function queues itself again or a timer is due at once, while no descriptor and no cell has work. Each is logged once per
dispatcher and callback, and `spins` lists it for the tests of the project."""

from __future__ import annotations

import logging
import threading
from typing import Final, NamedTuple

_log = logging.getLogger("streamactors.actors")

FRUITLESS_CALLS: Final = 100
SLEEPLESS_ROUNDS: Final = 2_000
_MOST_NAMES: Final = 1_000

_lock = threading.RLock()
_spins: dict[tuple[str, str], Spin] = {}


class Spin(NamedTuple):
    """A callback that ran in vain."""

    dispatcher: str
    callback: str
    seen: str

    def __str__(self) -> str:
        return f"dispatcher {self.dispatcher!r}: {self.callback} {self.seen}"


def spins() -> list[Spin]:
    """Return what was found since `forget_spins`."""
    with _lock:
        return list(_spins.values())


def forget_spins() -> None:
    """Start a new list for `spins`."""
    with _lock:
        _spins.clear()


def report_spin(dispatcher: str, callback: str, seen: str) -> None:
    """Log a spin, and list it; once per dispatcher and callback."""
    found = Spin(dispatcher, callback, seen)
    with _lock:
        if (dispatcher, callback) in _spins or len(_spins) >= _MOST_NAMES:
            return
        _spins[dispatcher, callback] = found
    _log.warning("%s; the thread uses a whole core, this is a bug", found)
