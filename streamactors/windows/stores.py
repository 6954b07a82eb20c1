"""Where operators keep their state: one small interface, in memory for now.

Owner: one operator of one task. Cells and rows are live objects that operators change in place and mark dirty; a store
that keeps them elsewhere hands out objects of the same attributes and writes the dirty ones back. Nothing else of an
operator knows where its state is."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, MutableMapping
from typing import Any, Generic, Protocol, TypeVar

Ident = str | bytes
T = TypeVar("T")


class WindowStore(Protocol[T]):
    """Cells by window start, then key: closing a window takes its cells away together."""

    def window(self, start: int) -> MutableMapping[Ident, T]:
        """The cells of a window, created on demand."""

    def peek(self, start: int) -> MutableMapping[Ident, T] | None:
        """The cells of a window, None if there is none."""

    def first(self) -> int | None:
        """The smallest start there is."""

    def take_first(self) -> tuple[int, MutableMapping[Ident, T]]:
        """Remove the window with the smallest start and return it with its cells."""

    def windows(self) -> Iterator[tuple[int, MutableMapping[Ident, T]]]:
        """All windows, in no order."""


class Stores(Protocol):
    """Makes the stores of one task."""

    def windowed(self, name: str) -> WindowStore[Any]:
        """A store of cells by window and key."""

    def keyed(self, name: str) -> MutableMapping[Ident, Any]:
        """A store of one object per key."""


class MemoryWindowStore(Generic[T]):
    """WindowStore of dicts; a heap knows the smallest start."""

    __slots__ = ("_by_start", "_starts")

    def __init__(self) -> None:
        self._by_start: dict[int, dict[Ident, T]] = {}
        self._starts: list[int] = []

    def window(self, start: int) -> dict[Ident, T]:
        cells = self._by_start.get(start)
        if cells is None:
            cells = self._by_start[start] = {}
            heapq.heappush(self._starts, start)
        return cells

    def peek(self, start: int) -> dict[Ident, T] | None:
        return self._by_start.get(start)

    def first(self) -> int | None:
        return self._starts[0] if self._starts else None

    def take_first(self) -> tuple[int, dict[Ident, T]]:
        start = heapq.heappop(self._starts)
        return start, self._by_start.pop(start)

    def windows(self) -> Iterator[tuple[int, dict[Ident, T]]]:
        return iter(self._by_start.items())


class MemoryStores:
    """Everything in dicts of this process."""

    def windowed(self, name: str) -> MemoryWindowStore[Any]:
        return MemoryWindowStore()

    def keyed(self, name: str) -> dict[Ident, Any]:
        return {}
