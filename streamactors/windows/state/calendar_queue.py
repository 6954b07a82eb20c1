"""A calendar queue: items ordered by time, then by bytes. Filling it and emptying it from the front are cheap.

Owner: one operator. Times are grouped into coarse buckets. A bucket stays unsorted until it is the first one; then it
becomes a heap. Nothing is removed from the middle: the caller marks an item that leaves early, and skips it when its
time has come."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final, Generic, TypeVar

T = TypeVar("T")

NEVER: Final = 1 << 70
"""A time that does not come."""


class CalendarQueue(Generic[T]):
    """`width`: milliseconds per bucket; choose a small part of the usual time between `push` and `pop`."""

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

    def fill(self, items: Iterable[tuple[int, bytes, T]]) -> int:
        """Put many items, (time, tie, item) each, without a call for each; return their number."""
        far, width, number = self._far, self._width, 0
        for number, each in enumerate(items, 1):  # noqa: B007 - the number of the last one is that of all
            bucket = far.get(each[0] // width)
            if bucket is None:
                self.push(*each)
            else:
                bucket.append(each)
        return number

    def first_time(self) -> int:
        """Return the smallest time, NEVER if the queue is empty."""
        if not self._near and not self._advance():
            return NEVER
        return self._near[0][0]

    def pop(self) -> tuple[int, bytes, T]:
        """Remove and return the first item. Raises IndexError if the queue is empty."""
        if not self._near and not self._advance():
            raise IndexError("pop from an empty calendar queue")
        return heapq.heappop(self._near)

    def pop_before(self, limit: int) -> list[tuple[int, bytes, T]]:
        """Remove and return all items with time < `limit`, in order."""
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
        """Return all items, in no order."""
        return chain(self._near, *self._far.values())

    def _advance(self) -> bool:
        """Make the next bucket the near one; False if there is none. The bucket may lie far ahead of any limit, which
        costs nothing: a later item before it goes to the near heap as well."""
        if not self._numbers:
            return False
        self._near_number = heapq.heappop(self._numbers)
        self._near = self._far.pop(self._near_number)
        heapq.heapify(self._near)
        return True
