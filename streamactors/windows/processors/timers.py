"""The timers of a processor: at most one per key and time, kept in a store, so they survive restarts.

A timer is due when the stream time of the task has reached it. Due timers are called by ascending time, those of equal time by key bytes.
A timer that is set while timers are called, for a time that has been reached already, is called after the next row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from streamactors.windows.operators.operator import TaskEnvironment
from streamactors.windows.processors.state_store import Entry, StateStore, time_bytes
from streamactors.windows.processors.store_definitions import StoreDefinition
from streamactors.windows.processors.task_time import TaskTime
from streamactors.windows.state.stores import Stores
from streamactors.windows.values import snapshot

NEVER: Final = 1 << 70
"""A time that does not come."""


class Timer(Entry):
    """One timer."""

    __slots__ = ("at", "key")

    def __init__(self, key: Any, at: int) -> None:
        self.key = key
        self.at = at
        self.dirty = True
        self.logged = False

    def fields(self) -> list[Any]:
        return [self.key, self.at]


class TimerDefinition(StoreDefinition):
    """The store of a processor's timers."""

    kind = "timer"


class Timers(StateStore[Timer]):
    """The timers of one processor of one task."""

    entry = Timer

    def __init__(self, store: str, node: str, env: TaskEnvironment, time: TaskTime, stores: Stores) -> None:
        super().__init__(TimerDefinition(store), node, env, time, stores)
        self._first: int | None = None  # the time of the first timer; None: not known

    def set(self, key: Any, at: int) -> None:
        """Set a timer; nothing happens if it is set already."""
        place = self._place(key, at)
        if self._entries.get(place) is None:
            self._put(place, Timer(snapshot(key), at))
            if self._first is not None:
                self._first = min(self._first, at)

    def cancel(self, key: Any, at: int) -> bool:
        """Cancel a timer. Returns False if it is not set."""
        self._first = None
        return self._remove(self._place(key, at)) is not None

    def next_ms(self) -> int:
        """Return the time of the first timer, NEVER if there is none."""
        if self._first is None:
            first = self._entries.first()
            self._first = NEVER if first is None else first[1].at
        return self._first

    def call_due(self, now_ms: int, on_timer: Callable[[Any, int], None]) -> None:
        """Call `on_timer(key, at)` of each timer that is due, and forget it."""
        if self.next_ms() > now_ms:
            return
        due = list(self._entries.scan(None, time_bytes(now_ms + 1)))
        self._first = None
        for place, timer in due:
            if self._remove(place) is not None:  # else an earlier one has cancelled it
                on_timer(timer.key, timer.at)

    def _place(self, key: Any, at: int) -> bytes:
        return time_bytes(at) + (b"" if key is None else self._key_bytes(key))

    def _at(self, entry: Timer) -> bytes:
        return self._place(entry.key, entry.at)
