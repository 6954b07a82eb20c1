"""Which of our threads is this one? Asked before waiting, because a thread that waits for its own work waits for ever.

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
    """The calling thread no longer runs anything of ours."""
    _names.pop(get_ident(), None)


def current_owner() -> str | None:
    """The name of the dispatcher or pool whose thread is calling; None on any other thread."""
    return _names.get(get_ident())


def cpu_clock_of_current_thread() -> int | None:
    """The clock that counts the calling thread's processor time, readable from any thread; None where there is none."""
    return time.pthread_getcpuclockid(get_ident()) if hasattr(time, "pthread_getcpuclockid") else None


def cpu_time_s(clock: int | None) -> float:
    """The seconds of a thread's processor time; 0 where nobody counts them, or the thread has ended."""
    if clock is None:
        return 0.0
    try:
        return time.clock_gettime(clock)
    except OSError:
        return 0.0


def note_process_ending() -> None:
    """From now on a thread that cannot be started is nothing to report: Python 3.12 starts none while it shuts down."""
    global _process_is_ending
    _process_is_ending = True


def process_is_ending() -> bool:
    """Whether the interpreter has begun to shut down."""
    return _process_is_ending


def left_behind_by_fork() -> str:
    """Why something of ours refuses to work in a forked child, as the end of a sentence."""
    return f"belongs to process {os.getppid()}, from which this one was forked; make a new one after the fork"


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_names.clear)  # the child has none of these threads
