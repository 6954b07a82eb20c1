"""The schedules of one task by the time at which they are due next: a binary heap.

Owner: Punctuation; pure. Kafka Streams keeps its schedules in Java's PriorityQueue and compares their times only, so the order of schedules that
are due at the same time depends on how that heap moves its entries. `ties_by_heap` gives the same order: entries move up and down as
in Java. Without it the schedule that was made first comes first. A heap of heapq moves its entries in another way."""

from __future__ import annotations

from itertools import count
from typing import Any

Due = tuple[int, int, Any]
"""(time in ms, number of the schedule, the schedule)."""


class ScheduleQueue:
    """A priority queue of (time, schedule)."""

    def __init__(self, *, ties_by_heap: bool) -> None:
        self._compared = 1 if ties_by_heap else 2
        self._heap: list[Due] = []
        self._numbers = count()

    def add(self, at_ms: int, scheduled: Any) -> None:
        """Add a schedule that is new."""
        self.put((at_ms, next(self._numbers), scheduled))

    def put(self, due: Due) -> None:
        """Add an entry; one that comes again keeps its number."""
        heap, at = self._heap, len(self._heap)
        heap.append(due)
        while at > 0 and self._before(due, heap[(at - 1) // 2]):
            heap[at] = heap[(at - 1) // 2]
            at = (at - 1) // 2
        heap[at] = due

    def first(self) -> Due | None:
        """Return the entry that is due first, None if there is none."""
        return self._heap[0] if self._heap else None

    def pop(self) -> Due:
        """Remove and return the entry that is due first. Raises IndexError if there is none."""
        heap = self._heap
        first, last = heap[0], heap.pop()
        if not heap:
            return first
        at, size = 0, len(heap)
        while at < size // 2:
            child = 2 * at + 1
            if child + 1 < size and self._before(heap[child + 1], heap[child]):
                child += 1
            if not self._before(heap[child], last):
                break
            heap[at] = heap[child]
            at = child
        heap[at] = last
        return first

    def _before(self, one: Due, other: Due) -> bool:
        return one[: self._compared] < other[: self._compared]
