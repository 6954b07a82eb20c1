"""The objects of a kind that are alive, for readers that do not hold them: metrics, the page, the end of the process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar
from weakref import ref

T = TypeVar("T")


class Living(Generic[T]):
    """A weak set that one thread may read while others add to it. `weakref.WeakSet` raises RuntimeError then.

    Any thread. Two calls of C code do the work, a set's `add` and `copy`, and no other thread comes between."""

    __slots__ = ("_refs",)

    def __init__(self) -> None:
        self._refs: set[ref[T]] = set()

    def add(self, one: T) -> None:
        """Hold `one` for as long as it is alive."""
        self._refs.add(ref(one, self._refs.discard))

    def discard(self, one: T) -> None:
        """Forget `one`."""
        self._refs.discard(ref(one))

    def clear(self) -> None:
        """Forget all."""
        self._refs.clear()

    def __iter__(self) -> Iterator[T]:
        """Yield what was alive when the iteration began and still is."""
        return (one for each in self._refs.copy() if (one := each()) is not None)

    def __len__(self) -> int:
        return len(self._refs)
