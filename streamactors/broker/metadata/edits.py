"""A mapping under change: the base mapping is copied at the first change and never changed itself.

Owner: `ImageDelta` and its parts, one for each mapping of the image."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Edits(Generic[K, V]):
    """The changes of one mapping. `now` is the mapping with them, `keys` are the keys that were set or removed."""

    __slots__ = ("_copy", "keys", "now")

    def __init__(self, base: Mapping[K, V]) -> None:
        self.now = base
        self.keys: set[K] = set()
        self._copy: dict[K, V] | None = None

    def put(self, key: K, value: V) -> None:
        """Set the value of a key."""
        self._own()[key] = value
        self.keys.add(key)

    def drop(self, key: K) -> bool:
        """Remove a key; return whether it was there."""
        if key not in self.now:
            return False
        del self._own()[key]
        self.keys.add(key)
        return True

    def _own(self) -> dict[K, V]:
        if self._copy is None:
            self.now = self._copy = dict(self.now)
        return self._copy
