"""Runs Python's cyclic garbage collector less often, for work that creates many objects and few cycles. Reference counting is not affected.

The collector runs whenever 700 more objects have been created than freed. A chunk of records has more, so the collector runs several times for
each chunk and finds nothing: a quarter of the CPU time of a task with JSON and windows, 40 % of a restore. Its settings belong to the whole
process, so only processes that streamactors has started change them for good."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

THRESHOLDS: Final = (50_000, 20, 50)
"""New objects before a collection of the youngest, and younger collections before one of each older generation."""
_are_frozen = False
"""Whether objects of this process have been frozen, by `collect_seldom` or by the user."""


def collect_seldom() -> None:
    """Run the collector rarely from now on, and never on objects that exist already. For processes that only run a broker or stages."""
    global _are_frozen
    _are_frozen = True
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
    return _resume if was_enabled else gc.disable


def _resume() -> None:
    """Switch the collector on. What was created meanwhile goes to the oldest generation: the next young collection would look at all of it,
    which takes a sixth of the time of a restore. Frozen objects stay frozen, so where there are any this is not done. To count them Python walks
    over all of them, milliseconds each time: that they are there is remembered."""
    global _are_frozen
    _are_frozen = _are_frozen or gc.get_freeze_count() > 0
    if not _are_frozen:
        gc.freeze()
        gc.unfreeze()
    gc.enable()


def _look_rarely() -> Callable[[], None]:
    before = gc.get_threshold()
    if before[0]:  # else the user has switched the collector off
        gc.set_threshold(*map(max, before, THRESHOLDS))
    return lambda: gc.set_threshold(*before)


collector_paused: Final = _Shared(_pause)
"""`with collector_paused():` the collector does not run at all. If the user has switched it off, it stays off."""
collecting_seldom: Final = _Shared(_look_rarely)
"""`with collecting_seldom():` the collector runs rarely. Higher thresholds of the user are kept."""
