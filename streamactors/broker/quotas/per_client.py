"""What each client has used, by a key that clients choose themselves: a client id, an address. Pure: the caller brings the time.

An entry that equals a new one is forgotten. The search for such entries runs when their number has doubled, so its cost per client does not grow
with the number of clients."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final, Generic, Protocol, TypeVar

FEW: Final = 1_000
"""With at most this many entries, none is checked for being droppable."""


class Spent(Protocol):
    """An entry."""

    def is_as_new(self, now_ms: float) -> bool:
        """Whether the entry equals a new one, so that it can be dropped."""
        ...


K = TypeVar("K", bound=Hashable)
V = TypeVar("V", bound=Spent)


class PerClient(Generic[K, V]):
    """Entries by key, made by `make` when they are first asked for."""

    __slots__ = ("_entries", "_look_at", "_make")

    def __init__(self, make: Callable[[], V]) -> None:
        self._make = make
        self._entries: dict[K, V] = {}
        self._look_at = FEW

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: K) -> bool:
        return key in self._entries

    def of(self, key: K, now_ms: float) -> V:
        """Return the entry of a key."""
        entry = self._entries.get(key)
        if entry is None:
            if len(self._entries) >= self._look_at:
                self._entries = {each: old for each, old in self._entries.items() if not old.is_as_new(now_ms)}
                self._look_at = max(FEW, 2 * len(self._entries))
            entry = self._entries[key] = self._make()
        return entry
