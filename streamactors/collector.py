"""Python's cyclic garbage collector, kept away from work that makes many objects and few cycles. Reference counting goes on.

The collector begins to look whenever 700 more objects have been made than freed. A chunk of records has more, so it looks at each chunk several
times and finds nothing: a quarter of the CPU time of a task with JSON and windows, 40 % of a restore. What is changed here is changed for the
whole process, so only processes of our own change it for good."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

THRESHOLDS: Final = (50_000, 20, 50)
"""New objects before a collection of the youngest, and younger collections before one of each older generation."""


def collect_seldom() -> None:
    """Let the collector look rarely from now on, and never at what is there: in a process that only runs broker or stages."""
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)


class _Shared:
    """A change that several threads may want at once: the first makes it, the last undoes it."""

    def __init__(self, make: Callable[[], Callable[[], None]]) -> None:
        self._make = make
        self._undo: Callable[[], None] | None = None
        self._wanted = 0
        self._lock = threading.Lock()

    @contextmanager
    def __call__(self) -> Iterator[None]:
        with self._lock:
            if not self._wanted:
                self._undo = self._make()
            self._wanted += 1
        try:
            yield
        finally:
            with self._lock:
                self._wanted -= 1
                if not self._wanted and self._undo is not None:
                    self._undo()


def _pause() -> Callable[[], None]:
    was_enabled = gc.isenabled()
    gc.disable()
    return gc.enable if was_enabled else gc.disable


def _look_rarely() -> Callable[[], None]:
    before = gc.get_threshold()
    if before[0]:  # else the user has switched the collector off
        gc.set_threshold(*map(max, before, THRESHOLDS))
    return lambda: gc.set_threshold(*before)


collector_paused: Final = _Shared(_pause)
"""`with collector_paused():` the collector does not look at all. One that the user has switched off stays off."""
collecting_seldom: Final = _Shared(_look_rarely)
"""`with collecting_seldom():` the collector looks rarely. Thresholds of the user that are higher stay."""
