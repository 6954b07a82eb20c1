"""Rows of several inputs in one order: the smallest head timestamp goes first.

Owner: a task with several input topics; pure, time is given. An input that has nothing ready is waited for, because its
next row may be the oldest; after `max_idle_ms` without a row it is left out until it has one again (Kafka's
max.task.idle.ms). Among equal timestamps the first input goes first."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable
from typing import Protocol


class Timestamped(Protocol):
    """Anything with a timestamp in ms."""

    @property
    def timestamp(self) -> int: ...


class HeadTimeOrder:
    """`inputs` in order of precedence; `max_idle_ms` of 0 waits for nobody."""

    def __init__(self, inputs: Iterable[Hashable], max_idle_ms: int) -> None:
        self._queues: dict[Hashable, deque[Timestamped]] = {name: deque() for name in inputs}
        self._empty_since_ms: dict[Hashable, float | None] = dict.fromkeys(self._queues)
        self._max_idle_ms = max_idle_ms

    def add(self, name: Hashable, rows: Iterable[Timestamped]) -> None:
        """Rows of one input, in its order."""
        self._queues[name].extend(rows)

    def end(self, name: Hashable) -> None:
        """An input gives no more rows; what it gave still goes."""
        self._empty_since_ms[name] = float("-inf")

    def take(self, now_ms: float) -> list[Timestamped]:
        """The rows that may go now, in order. Call it again at `deadline_ms` if nothing is added before."""
        queues = self._queues
        taken: list[Timestamped] = []
        while any(queues.values()):
            waits = [self._must_wait_for(name, now_ms) for name, queue in queues.items() if not queue]
            if any(waits):
                return taken
            name = min((name for name, queue in queues.items() if queue), key=lambda name: queues[name][0].timestamp)
            taken.append(queues[name].popleft())
            if self._empty_since_ms[name] != float("-inf"):
                self._empty_since_ms[name] = None
        return taken

    def deadline_ms(self) -> float | None:
        """When the longest-empty input is given up; None if nobody is waited for."""
        if not any(self._queues.values()):
            return None
        waits = [
            since + self._max_idle_ms
            for name, since in self._empty_since_ms.items()
            if not self._queues[name] and since is not None and since != float("-inf")
        ]
        return max(waits, default=None)

    def _must_wait_for(self, name: Hashable, now_ms: float) -> bool:
        since = self._empty_since_ms[name]
        if since is None:
            since = self._empty_since_ms[name] = now_ms
        return now_ms < since + self._max_idle_ms
