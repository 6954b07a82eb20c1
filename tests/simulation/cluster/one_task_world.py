"""A world of one task: the test itself. Waiting runs the steps that are due, and moves the time."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from itertools import count
from typing import Any

WALL_MS = 1_700_000_000_000


class OneTaskWorld:
    """A World without tasks of its own."""

    def __init__(self, seed: int = 0) -> None:
        self.dice = random.Random(seed)
        self.trace: list[str] = []
        self.owner = ""
        self.crashed: set[str] = set()
        self._now_ms = 0.0
        self._steps: list[tuple[float, int, Callable[[], None], str, str]] = []
        self._numbers = count()
        self._cancelled: set[int] = set()

    def now_ms(self) -> float:
        return self._now_ms

    def wall_ms(self) -> int:
        return WALL_MS + int(self._now_ms)

    def sleep(self, ms: float) -> None:
        self.wait(lambda: False, ms)

    def wait(self, until: Callable[[], bool], timeout_ms: float | None) -> bool:
        limit = None if timeout_ms is None else self._now_ms + timeout_ms
        while not until():
            if not self._steps or (limit is not None and self._steps[0][0] > limit):
                if limit is None:
                    raise AssertionError("it waits for ever: no step is left")
                self._now_ms = max(self._now_ms, limit)
                return until()
            self._run_one()
        return True

    def _run_one(self) -> None:
        due_ms, number, step, what, owner = heapq.heappop(self._steps)
        self._now_ms = max(self._now_ms, due_ms)
        if number in self._cancelled:
            self._cancelled.discard(number)
        elif owner not in self.crashed or not owner:
            self.trace.append(f"{self._now_ms:.3f} {what}")
            step()

    def later(self, delay_ms: float, step: Callable[[], None], what: str, owner: str = "") -> Callable[[], None]:
        number = next(self._numbers)
        heapq.heappush(self._steps, (self._now_ms + delay_ms, number, step, what, owner))
        return lambda: self._cancelled.add(number)

    def note(self, what: str, **facts: Any) -> None:
        self.trace.append(f"{self._now_ms:.3f} {what} {facts}")

    def event(self, kind: str, **facts: Any) -> None:
        self.note(kind, **facts)

    def instance(self) -> str:
        return self.owner
