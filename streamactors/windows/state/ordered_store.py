"""Entries ordered by the bytes of their keys: what a range, a prefix or a scan from the first entry needs.

Owner: one operator or processor of one task. The order is that of the bytes, in memory as on disk."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, Protocol, TypeVar

from sortedcontainers import SortedList

T = TypeVar("T")


class OrderedStore(Protocol[T]):
    """Objects by key bytes. A scan sees the entries as of its beginning."""

    def get(self, key: bytes) -> T | None:
        """Return the object of a key, or None."""

    def put(self, key: bytes, entry: T) -> None:
        """Keep or replace the object of a key."""

    def remove(self, key: bytes) -> T | None:
        """Remove the object of a key; return it, or None if there is none."""

    def scan(
        self, low: bytes | None = None, high: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, T]]:
        """Return the entries with low <= key < high in the order of their keys; None: no bound."""

    def first(self, low: bytes | None = None) -> tuple[bytes, T] | None:
        """Return the entry with the smallest key >= low, or None; `low` None: of all."""

    def __len__(self) -> int:
        """Return the number of entries; on disk it may be an estimate."""


class MemoryOrderedStore(Generic[T]):
    """An OrderedStore of a dict and its keys in order. A new key costs nothing until the order is needed."""

    __slots__ = ("_added", "_entries", "_keys")

    def __init__(self) -> None:
        self._entries: dict[bytes, T] = {}
        self._keys: Any = SortedList()
        self._added: dict[bytes, None] = {}  # not among the sorted keys yet

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: bytes) -> T | None:
        return self._entries.get(key)

    def put(self, key: bytes, entry: T) -> None:
        if key not in self._entries:
            self._added[key] = None
        self._entries[key] = entry

    def remove(self, key: bytes) -> T | None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            if key in self._added:
                del self._added[key]
            else:
                self._keys.remove(key)
        return entry

    def scan(
        self, low: bytes | None = None, high: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, T]]:
        entries = self._entries
        return iter([(key, entries[key]) for key in self._sorted().irange(low, high, (True, False), reverse)])

    def first(self, low: bytes | None = None) -> tuple[bytes, T] | None:
        keys = self._sorted()
        key = next(keys.irange(low), None) if low is not None else keys[0] if keys else None
        return None if key is None else (key, self._entries[key])

    def _sorted(self) -> Any:
        if self._added:
            self._keys.update(self._added)
            self._added.clear()
        return self._keys


def after_prefix(prefix: bytes) -> bytes | None:
    """Return the smallest bytes after all that begin with `prefix`; None if there are none."""
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None
