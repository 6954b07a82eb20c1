"""The dispatcher or pool that owns the calling thread. Checked before a wait: a thread that waits for its own work never returns.

Owner: every dispatcher and pool adds its threads when they start and removes them when they end.
"""

from __future__ import annotations

import os
import time
from threading import get_ident

_names: dict[int, str] = {}
_process_is_ending = False


def add_current_thread(name: str) -> None:
    """Note that the calling thread runs dispatcher or pool `name`."""
    _names[get_ident()] = name


def remove_current_thread() -> None:
    """Note that the calling thread no longer runs a dispatcher or pool."""
    _names.pop(get_ident(), None)


def current_owner() -> str | None:
    """Return the name of the dispatcher or pool whose thread is calling; None on any other thread."""
    return _names.get(get_ident())


def cpu_clock_of_current_thread() -> int | None:
    """Return the clock of the calling thread's processor time, readable from any thread; None if the platform has none."""
    return time.pthread_getcpuclockid(get_ident()) if hasattr(time, "pthread_getcpuclockid") else None


def cpu_time_s(clock: int | None) -> float:
    """Return a thread's processor time in seconds; 0 if the platform does not count it or the thread has ended."""
    if clock is None:
        return 0.0
    try:
        return time.clock_gettime(clock)
    except OSError:
        return 0.0


def note_process_ending() -> None:
    """From now on a thread that cannot be started is not an error: Python 3.12 starts none while it shuts down."""
    global _process_is_ending
    _process_is_ending = True


def process_is_ending() -> bool:
    """Return whether the interpreter has begun to shut down."""
    return _process_is_ending


def left_behind_by_fork() -> str:
    """Return, as the end of a sentence, why an object of the parent process refuses to work in a forked child."""
    return f"belongs to process {os.getppid()}, from which this one was forked; make a new one after the fork"


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_names.clear)  # the child has none of these threads
