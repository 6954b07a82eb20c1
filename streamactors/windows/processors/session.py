"""The session store of a processor: values by key, start and end, as in Kafka Streams."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from streamactors.windows.operators.operator import TaskEnvironment
from streamactors.windows.processors.state_store import Entry, StateStore, of_key, time_bytes
from streamactors.windows.processors.store_definitions import SessionStore
from streamactors.windows.processors.task_time import TaskTime
from streamactors.windows.state.reads import StoreEntry, StoreRequest
from streamactors.windows.state.stores import Stores
from streamactors.windows.values import snapshot

_SUFFIX: Final = 16
"""Number of bytes of an entry's end and start, after those of its key."""


class Spanned(Entry):
    """A value of a key from `start` to `end`."""

    __slots__ = ("end", "key", "start", "value")

    def __init__(self, key: Any, start: int, end: int, value: Any) -> None:
        self.key = key
        self.start = start
        self.end = end
        self.value = value
        self.dirty = True
        self.logged = False

    def fields(self) -> list[Any]:
        return [self.key, self.start, self.end, self.value]


class SessionValues(StateStore[Spanned]):
    """What `context.store(name)` returns for a SessionStore."""

    entry = Spanned

    def __init__(
        self, definition: SessionStore, node: str, env: TaskEnvironment, time: TaskTime, stores: Stores
    ) -> None:
        super().__init__(definition, node, env, time, stores)
        self._retention = definition.retention_ms
        env.expires(self._log, definition.retention_ms)

    @property
    def _expired_through(self) -> int:
        return self._newest - self._retention

    def put(self, key: Any, start: int, end: int, value: Any) -> None:
        """Write the value of a session; None removes it. A session older than the retention is dropped and counted."""
        ident = self._key_bytes(key)
        self._newest = max(self._newest, end)
        if end <= self._expired_through or start < 0 or end < start:
            self.env.metrics.dropped_late += 1
            return
        at = _place(ident, start, end)
        if value is None:
            self._remove(at)
        else:
            self._put(at, Spanned(snapshot(key), start, end, snapshot(value)))
        self._sweep(self._expired_through, self._retention)

    def remove(self, key: Any, start: int, end: int) -> None:
        """Remove a session; nothing happens if there is none."""
        self._remove(_place(self._key_bytes(key), start, end))

    def get(self, key: Any, start: int, end: int) -> Any:
        """Return the value of a session, or None."""
        if end <= self._expired_through:
            return None
        entry = self._entries.get(_place(self._key_bytes(key), start, end))
        return None if entry is None else snapshot(entry.value)

    def find(
        self, key: Any, first_end: int = 0, last_start: int | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[int, int, Any]]:
        """Return (start, end, value) of the key's sessions with end >= `first_end` and start <= `last_start`, by end and start."""
        ident = self._key_bytes(key)
        low = _place(ident, 0, max(first_end, self._expired_through + 1, 0))
        found = of_key(self._entries.scan(low, ident + b"\xff" * 17, reverse=reverse), len(low))
        return (
            (entry.start, entry.end, snapshot(entry.value))
            for entry in found
            if last_start is None or entry.start <= last_start
        )

    def items(self, *, reverse: bool = False) -> Iterator[tuple[tuple[Any, int, int], Any]]:
        """Return ((key, start, end), value) of all sessions, by key, end and start; numbers come first, by value."""
        hidden = self._expired_through
        return (
            ((snapshot(entry.key), entry.start, entry.end), snapshot(entry.value))
            for entry in self._in_order(_SUFFIX, reverse=reverse)
            if entry.end > hidden
        )

    def entries(self, request: StoreRequest) -> Iterator[StoreEntry]:
        return (StoreEntry(key, value, end, start, end) for (key, start, end), value in self.items())

    def _is_expired(self, entry: Spanned, expired_through: int) -> bool:
        return entry.end <= expired_through

    def _at(self, entry: Spanned) -> bytes:
        return _place(self._key_bytes(entry.key), entry.start, entry.end)


def _place(ident: bytes, start: int, end: int) -> bytes:
    return ident + time_bytes(end) + time_bytes(start)
