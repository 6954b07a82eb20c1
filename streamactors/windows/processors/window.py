"""The window store of a processor: values by key and time, as in Kafka Streams."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from streamactors.windows.operators.operator import TaskEnvironment
from streamactors.windows.processors.state_store import Entry, StateStore, of_key, time_bytes
from streamactors.windows.processors.store_definitions import WindowStore
from streamactors.windows.processors.task_time import TaskTime
from streamactors.windows.state.reads import StoreEntry, StoreRequest
from streamactors.windows.state.stores import Stores
from streamactors.windows.values import snapshot

_SUFFIX: Final = 12
"""Number of bytes of an entry's time and sequence, after those of its key."""


class Timed(Entry):
    """A value of a key at a time; `sequence` tells duplicates apart."""

    __slots__ = ("key", "sequence", "time", "value")

    def __init__(self, key: Any, time: int, sequence: int, value: Any) -> None:
        self.key = key
        self.time = time
        self.sequence = sequence
        self.value = value
        self.dirty = True
        self.logged = False

    def fields(self) -> list[Any]:
        return [self.key, self.time, self.sequence, self.value]


class WindowValues(StateStore[Timed]):
    """What `context.store(name)` returns for a WindowStore."""

    entry = Timed

    def __init__(
        self, definition: WindowStore, node: str, env: TaskEnvironment, time: TaskTime, stores: Stores
    ) -> None:
        super().__init__(definition, node, env, time, stores)
        self._retention = definition.retention_ms
        env.expires(self._log, definition.retention_ms)
        self._duplicates = definition.retain_duplicates
        self._sequence = 0

    @property
    def _expired_through(self) -> int:
        return self._newest - self._retention

    def put(self, key: Any, value: Any, time: int) -> None:
        """Write the value of a key at a time; None deletes it. An entry older than the retention is dropped and counted."""
        ident = self._key_bytes(key)
        self._newest = max(self._newest, time)
        if time <= self._expired_through or time < 0:
            self.env.metrics.dropped_late += 1
            return
        if self._duplicates:
            if value is None:
                return
            self._sequence += 1
        at = self._place(ident, time, self._sequence)
        if value is None:
            self._remove(at)
        else:
            self._put(at, Timed(snapshot(key), time, self._sequence, snapshot(value)))
        self._sweep(self._expired_through, self._retention)

    def get(self, key: Any, time: int) -> Any:
        """Return the value of a key at a time, or None; of duplicates the first."""
        return next((value for _, value in self.range(key, time, time)), None)

    def range(self, key: Any, first: int, last: int, *, reverse: bool = False) -> Iterator[tuple[int, Any]]:
        """Return (time, value) of a key from `first` to `last`, both included, by time."""
        ident = self._key_bytes(key)
        first = max(first, self._expired_through + 1, 0)
        if first > last:
            return iter(())
        low, high = self._place(ident, first, 0), ident + time_bytes(last) + b"\xff" * 5
        found = of_key(self._entries.scan(low, high, reverse=reverse), len(low))
        return ((entry.time, snapshot(entry.value)) for entry in found)

    def items(
        self, first: int | None = None, last: int | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[tuple[Any, int], Any]]:
        """Return ((key, time), value) of all keys, with first <= time <= last, by key and time; numbers come first, by value."""
        begin = max(self._expired_through + 1, 0 if first is None else first)
        return (
            ((snapshot(entry.key), entry.time), snapshot(entry.value))
            for entry in self._in_order(_SUFFIX, reverse=reverse)
            if begin <= entry.time and (last is None or entry.time <= last)
        )

    def entries(self, request: StoreRequest) -> Iterator[StoreEntry]:
        return (StoreEntry(key, value, time, time, None) for (key, time), value in self.items())

    def _place(self, ident: bytes, time: int, sequence: int) -> bytes:
        return ident + time_bytes(time) + (sequence & 0xFFFFFFFF).to_bytes(4, "big")

    def _state(self) -> dict[str, Any]:
        return super()._state() | {"sequence": self._sequence}

    def _restore_state(self, state: dict[str, Any]) -> None:
        super()._restore_state(state)
        self._sequence = state["sequence"]

    def _is_expired(self, entry: Timed, expired_through: int) -> bool:
        return entry.time <= expired_through

    def _at(self, entry: Timed) -> bytes:
        return self._place(self._key_bytes(entry.key), entry.time, entry.sequence)
