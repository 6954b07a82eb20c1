"""A calendar queue: items ordered by time, then by bytes. Filling it and emptying it from the front are cheap.

Owner: one operator. Times are grouped into coarse buckets. A bucket stays unsorted until it is the first one; then it
becomes a heap. Nothing is removed from the middle: the caller marks an item that leaves early, and skips it when its
time has come."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Final, Generic, TypeVar

T = TypeVar("T")

NEVER: Final = 1 << 70
"""A time that does not come."""


class CalendarQueue(Generic[T]):
    """`width`: milliseconds per bucket; choose a small part of the usual time between `push` and `pop`."""

    __slots__ = ("_far", "_near", "_near_number", "_numbers", "_tie_of", "_time_of", "_untied", "_width")

    def __init__(self, width: int) -> None:
        self._width = max(1, width)
        self._near: list[tuple[int, bytes, T]] = []
        self._near_number = -(1 << 70)
        self._far: dict[int, list[tuple[int, bytes, T]]] = {}
        self._numbers: list[int] = []
        self._untied: dict[int, list[T]] = {}
        """Items of `fill`, in the buckets of their times."""
        self._time_of: Callable[[T], int] | None = None
        self._tie_of: Callable[[T], bytes] | None = None

    def push(self, time: int, tie: bytes, item: T) -> None:
        """Put `item` at `time`; `tie` orders items of the same time."""
        number = time // self._width
        if number <= self._near_number:
            heapq.heappush(self._near, (time, tie, item))
            return
        bucket = self._far.get(number)
        if bucket is None:
            self._far[number] = [(time, tie, item)]
            if number not in self._untied:
                heapq.heappush(self._numbers, number)
        else:
            bucket.append((time, tie, item))

    def fill(
        self, items: Iterable[T], time_of: Callable[[T], int], tie_of: Callable[[T], bytes], from_time: int
    ) -> int:
        """Put those of the items whose times are not before `from_time`; return their number. The ties are made when a bucket becomes the first."""
        self._time_of, self._tie_of = time_of, tie_of
        untied, width, count = self._untied, self._width, 0
        for item in items:
            time = time_of(item)
            if time < from_time:
                continue
            count += 1
            number = time // width
            bucket = untied.get(number)
            if bucket is not None:
                bucket.append(item)
            elif number <= self._near_number:
                self.push(time, tie_of(item), item)
            else:
                untied[number] = [item]
                if number not in self._far:
                    heapq.heappush(self._numbers, number)
        return count

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
        return chain(self._near, *self._far.values(), *map(self._tied, self._untied.values()))

    def _advance(self) -> bool:
        """Make the next bucket the near one; False if there is none. The bucket may lie far ahead of any limit, which
        costs nothing: a later item before it goes to the near heap as well."""
        if not self._numbers:
            return False
        self._near_number = heapq.heappop(self._numbers)
        self._near = self._far.pop(self._near_number, [])
        self._near += self._tied(self._untied.pop(self._near_number, ()))
        heapq.heapify(self._near)
        return True

    def _tied(self, items: Iterable[T]) -> list[tuple[int, bytes, T]]:
        time_of, tie_of = self._time_of, self._tie_of
        return [(time_of(item), tie_of(item), item) for item in items] if time_of and tie_of else []
