"""Entries ordered by the bytes of their keys: what a range, a prefix or a scan from the first entry needs.

Owner: one operator or processor of one task. The order is that of the bytes, in memory as on disk."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from itertools import chain
from typing import Generic, Protocol, TypeVar

T = TypeVar("T")


class OrderedStore(Protocol[T]):
    """Objects by key bytes. A scan sees the entries of the moment at which it began."""

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


class OrderedKeys:
    """Keys in order. Adding and removing cost nothing until somebody looks; then a key costs a search and a short move.

    The keys lie in runs of at most 2 * RUN keys, each sorted, one behind the other."""

    RUN = 1_000

    __slots__ = ("_added", "_lasts", "_runs")

    def __init__(self) -> None:
        self._runs: list[list[bytes]] = []
        self._lasts: list[bytes] = []
        self._added: dict[bytes, None] = {}  # not in a run yet

    def add(self, key: bytes) -> None:
        """Add a key that is not there."""
        self._added[key] = None

    def remove(self, key: bytes) -> None:
        """Remove a key that is there."""
        if key in self._added:
            del self._added[key]
            return
        number = bisect_left(self._lasts, key)
        run = self._runs[number]
        del run[bisect_left(run, key)]
        if not run:
            del self._runs[number], self._lasts[number]
        else:
            self._lasts[number] = run[-1]

    def between(self, low: bytes | None, high: bytes | None) -> list[bytes]:
        """Return the keys with low <= key < high, in order; None: no bound."""
        self._arrange()
        lasts, runs = self._lasts, self._runs
        first = 0 if low is None else bisect_left(lasts, low)
        found: list[bytes] = []
        for number in range(first, len(runs)):
            run = runs[number]
            begin = bisect_left(run, low) if number == first and low is not None else 0
            if high is not None and lasts[number] >= high:
                found += run[begin : bisect_left(run, high)]
                break
            found += run[begin:] if begin else run
        return found

    def first(self, low: bytes | None = None) -> bytes | None:
        """Return the smallest key >= low, or None; `low` None: of all."""
        self._arrange()
        if low is None:
            return self._runs[0][0] if self._runs else None
        number = bisect_left(self._lasts, low)
        if number == len(self._runs):
            return None
        run = self._runs[number]
        return run[bisect_left(run, low)]

    def _arrange(self) -> None:
        """Put the added keys into the runs."""
        added = self._added
        if not added:
            return
        self._added = {}
        if len(added) > 16 + len(self._runs) * self.RUN // 8:
            keys = sorted(chain(added, *self._runs))
            self._runs = [keys[at : at + self.RUN] for at in range(0, len(keys), self.RUN)]
            self._lasts = [run[-1] for run in self._runs]
            return
        for key in added:
            self._insert(key)

    def _insert(self, key: bytes) -> None:
        if not self._runs:
            self._runs, self._lasts = [[key]], [key]
            return
        number = min(bisect_left(self._lasts, key), len(self._runs) - 1)
        run = self._runs[number]
        insort(run, key)
        if len(run) > 2 * self.RUN:
            half = run[self.RUN :]
            del run[self.RUN :]
            self._runs.insert(number + 1, half)
            self._lasts.insert(number + 1, half[-1])
        self._lasts[number] = run[-1]


class MemoryOrderedStore(Generic[T]):
    """An OrderedStore of a dict and its keys in order."""

    __slots__ = ("_entries", "_keys")

    def __init__(self) -> None:
        self._entries: dict[bytes, T] = {}
        self._keys = OrderedKeys()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: bytes) -> T | None:
        return self._entries.get(key)

    def put(self, key: bytes, entry: T) -> None:
        if key not in self._entries:
            self._keys.add(key)
        self._entries[key] = entry

    def remove(self, key: bytes) -> T | None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._keys.remove(key)
        return entry

    def scan(
        self, low: bytes | None = None, high: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, T]]:
        found = self._keys.between(low, high)
        entries = self._entries
        return iter([(key, entries[key]) for key in (reversed(found) if reverse else found)])

    def first(self, low: bytes | None = None) -> tuple[bytes, T] | None:
        key = self._keys.first(low)
        return None if key is None else (key, self._entries[key])


def after_prefix(prefix: bytes) -> bytes | None:
    """Return the smallest bytes behind all that begin with `prefix`; None if nothing lies behind."""
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None
