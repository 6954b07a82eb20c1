"""Deadlines that move far more often than they fire, such as sessions, which every heartbeat extends.

Owner: one coordinator, on its dispatcher's thread. Moving a deadline to a later time is one assignment: the timer stays armed for the
old deadline and is armed again for the rest. Otherwise each heartbeat would cancel a timer and set a new one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from streamactors.actors.dispatching.real_time import Timers
    from streamactors.actors.dispatching.timing_wheel import Timer

K = TypeVar("K")
E = TypeVar("E")


class _Entry(Generic[E]):
    __slots__ = ("armed_for_ms", "deadline_ms", "event", "timer")

    def __init__(self, deadline_ms: float, event: E) -> None:
        self.deadline_ms = deadline_ms
        self.armed_for_ms = deadline_ms
        self.event = event
        self.timer: Timer | None = None


class Deadlines(Generic[K, E]):
    """One deadline per key; `fire(key, event)` is called once when the deadline passes."""

    def __init__(self, timers: Timers, now_ms: Callable[[], float], fire: Callable[[K, E], object]) -> None:
        self._timers = timers
        self._now_ms = now_ms
        self._fire = fire
        self._entries: dict[K, _Entry[E]] = {}

    def set(self, key: K, delay_ms: float, event: E) -> None:
        """Set or move the deadline of a key."""
        deadline_ms = self._now_ms() + delay_ms
        entry = self._entries.get(key)
        if entry is not None and entry.armed_for_ms <= deadline_ms:
            entry.deadline_ms = deadline_ms
            entry.event = event
            return
        if entry is not None and entry.timer is not None:
            entry.timer.cancel()
        entry = self._entries[key] = _Entry(deadline_ms, event)
        self._arm(key, entry)

    def cancel(self, key: K) -> None:
        """Cancel the deadline of a key, if there is one."""
        entry = self._entries.pop(key, None)
        if entry is not None and entry.timer is not None:
            entry.timer.cancel()

    def clear(self) -> None:
        """Cancel every deadline."""
        for key in tuple(self._entries):
            self.cancel(key)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: K) -> bool:
        return key in self._entries

    def _arm(self, key: K, entry: _Entry[E]) -> None:
        entry.armed_for_ms = entry.deadline_ms
        entry.timer = self._timers.call_at(entry.deadline_ms, lambda: self._due(key, entry))

    def _due(self, key: K, entry: _Entry[E]) -> None:
        if self._entries.get(key) is not entry:
            return
        if self._now_ms() < entry.deadline_ms:
            self._arm(key, entry)
            return
        del self._entries[key]
        self._fire(key, entry.event)
