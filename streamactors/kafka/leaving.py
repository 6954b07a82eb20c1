"""Partitions that are being taken away from several computations, each of which takes their rows in order of time.

Owner: the source's changelogs, one for each revocation. What such a computation holds would be waited for in vain, and its rows cannot
just be dropped, for all must come to one position. So each says how far it is and takes nothing more, but to meet the others: in a
transaction all come to where the furthest is. From there on nothing is in flight. Without a transaction they do not meet: what the last one
has not taken is read again by the next owner. Rules: marks K-16, windows T-4."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from streamactors.engine.marks import Key, Position, PositionMark


class Leaving:
    """`give_back(partition, place)` is called when all `readers` have said how far they are; one that never says so, as it is not
    there yet, leaves all as it was. `meet`: they come to one position."""

    def __init__(self, readers: int, give_back: Callable[[Any, Position], None], *, meet: bool) -> None:
        self._missing = readers
        self._give_back = give_back
        self._choose: Callable[[Position, Position], Position] = max if meet else min
        self._stands: dict[Key, Position] = {}
        self._lock = threading.Lock()

    def stands(self, stands: PositionMark) -> None:
        """A reader has stopped here; any thread."""
        with self._lock:
            for key, place in stands.items():
                self._stands[key] = self._choose(self._stands.get(key, place), place)
            self._missing -= 1
            if self._missing:
                return
        for (_, partition), place in self._stands.items():
            self._give_back(partition, place)
