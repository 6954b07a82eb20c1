"""Rows on their way through repartition topics that are in memory: the topic whose first row has the smallest timestamp is next.

Owner: one WindowTask. Among topics with equal first timestamps the order is that of Kafka Streams: its queues are in a
binary heap (Java's PriorityQueue), which a topic enters when its first row comes and again after each row taken. The order
of a heap among equals depends on its moves, so the moves are made here in the same way."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from streamactors.windows.values import own_row


class InternalQueues:
    """The repartition topics in the memory of one task: rows wait in the order in which they were written."""

    def __init__(self) -> None:
        self._rows: dict[str, deque[Any]] = {}
        self.waiting: list[str] = []
        """The topics that have rows, as a heap."""

    def add(self, topic: str, rows: Iterable[Any]) -> None:
        """Add rows after those of a topic."""
        queue = self._rows.get(topic)
        if queue is None:
            queue = self._rows[topic] = deque()
        was_empty = not queue
        queue.extend(map(own_row, rows))  # as they would come back from the broker
        if was_empty and queue:
            if self.waiting:
                self._offer(topic)
            else:
                self.waiting.append(topic)

    def take(self) -> tuple[str, Any]:
        """Remove and return (topic, row) of the next row. Raises IndexError if there is none."""
        heap = self.waiting
        if len(heap) == 1:  # the only topic stays at the top while it has rows
            [topic] = heap
            queue = self._rows[topic]
            row = queue.popleft()
            if not queue:
                heap.clear()
            return topic, row
        topic = self._poll()
        queue = self._rows[topic]
        row = queue.popleft()
        if queue:
            self._offer(topic)
        return topic, row

    def _time(self, topic: str) -> int:
        return int(self._rows[topic][0].timestamp)

    def _offer(self, topic: str) -> None:
        heap, time = self.waiting, self._time(topic)
        heap.append(topic)
        at = len(heap) - 1
        while at > 0:
            parent = (at - 1) // 2
            if time >= self._time(heap[parent]):
                break
            heap[at] = heap[parent]
            at = parent
        heap[at] = topic

    def _poll(self) -> str:
        heap = self.waiting
        first = heap[0]
        moved = heap.pop()
        if heap:
            at, size, time = 0, len(heap), self._time(moved)
            while at < size // 2:
                child = 2 * at + 1
                if child + 1 < size and self._time(heap[child]) > self._time(heap[child + 1]):
                    child += 1
                if time <= self._time(heap[child]):
                    break
                heap[at] = heap[child]
                at = child
            heap[at] = moved
        return first
