"""Things ordered by time, then bytes: cheap to fill, cheap to empty from the front, however many there are.

Owner: one operator. A calendar queue: times are grouped into coarse buckets that stay unsorted until they become the
first; only that one is a heap. Nothing is taken from the middle: who leaves early is marked, and skipped when its time
comes."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from itertools import chain
from typing import Final, Generic, TypeVar

T = TypeVar("T")

NEVER: Final = 1 << 70
"""A time that does not come."""


class TimeIndex(Generic[T]):
    """`width`: milliseconds per bucket; a small part of how long things usually wait."""

    __slots__ = ("_far", "_near", "_near_number", "_numbers", "_width")

    def __init__(self, width: int) -> None:
        self._width = max(1, width)
        self._near: list[tuple[int, bytes, T]] = []
        self._near_number = -(1 << 70)
        self._far: dict[int, list[tuple[int, bytes, T]]] = {}
        self._numbers: list[int] = []

    def push(self, time: int, tie: bytes, item: T) -> None:
        """Put `item` at `time`; `tie` orders items of the same time."""
        number = time // self._width
        if number <= self._near_number:
            heapq.heappush(self._near, (time, tie, item))
            return
        bucket = self._far.get(number)
        if bucket is None:
            self._far[number] = [(time, tie, item)]
            heapq.heappush(self._numbers, number)
        else:
            bucket.append((time, tie, item))

    def first_time(self) -> int:
        """The smallest time, NEVER if there is none."""
        if not self._near and not self._advance():
            return NEVER
        return self._near[0][0]

    def pop(self) -> tuple[int, bytes, T]:
        """Remove and return the first. Raises IndexError if there is none."""
        if not self._near and not self._advance():
            raise IndexError("pop from an empty time index")
        return heapq.heappop(self._near)

    def pop_before(self, limit: int) -> list[tuple[int, bytes, T]]:
        """Remove and return everything with time < `limit`, in order."""
        found: list[tuple[int, bytes, T]] = []
        near, pop = self._near, heapq.heappop
        while near or self._advance():
            near = self._near
            while near and near[0][0] < limit:
                found.append(pop(near))
            if near:
                break
        return found

    def items(self) -> Iterator[tuple[int, bytes, T]]:
        """Everything, in no order."""
        return chain(self._near, *self._far.values())

    def _advance(self) -> bool:
        """Make the next bucket the near one; False if there is none. It may lie far ahead of any limit, which costs
        nothing: what is put before it goes to the near heap as well."""
        if not self._numbers:
            return False
        self._near_number = heapq.heappop(self._numbers)
        self._near = self._far.pop(self._near_number)
        heapq.heapify(self._near)
        return True
