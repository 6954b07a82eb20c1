"""A seeded world: virtual time, messages that are late or lost, partitions of the network. One seed is one run, to the byte."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from itertools import count
from typing import Any

DELAYS = (0.2, 0.2, 0.5, 0.5, 1.0, 1.0, 3.0, 3.0, 3.0, 20.0, 20.0, 45.0)


class Scheduler:
    """Runs callbacks in the order of their time. `trace` says what happened; equal seeds give equal traces."""

    def __init__(self, seed: int, *, loss: float) -> None:
        self.random = random.Random(seed)
        self.now = 0.0
        self.trace: list[str] = []
        self._loss = loss
        self._delays = DELAYS
        self._queue: list[tuple[float, int, Callable[..., object], tuple[Any, ...]]] = []
        self._numbers = count()
        self._apart: set[frozenset[int]] = set()

    def note(self, *words: object) -> None:
        """Add a line to the trace."""
        self.trace.append(f"{self.now:.3f} {' '.join(map(str, words))}")

    def later(self, delay: float, call: Callable[..., object], *arguments: Any) -> None:
        """Call back after a delay in virtual ms."""
        heapq.heappush(self._queue, (self.now + delay, next(self._numbers), call, arguments))

    def send(self, source: int, target: int, call: Callable[..., object], *arguments: Any) -> None:
        """Deliver a message some ms later, unless it is lost or the two are apart, now or at its arrival."""
        if self.random.random() < self._loss:
            return
        delay = self.random.choice(self._delays)

        def arrive() -> None:
            if frozenset((source, target)) not in self._apart:
                call(*arguments)

        if frozenset((source, target)) not in self._apart:
            self.later(delay, arrive)

    def separate(self, one: int, other: int) -> None:
        """Lose the messages between two nodes."""
        self._apart.add(frozenset((one, other)))

    def heal(self) -> None:
        """Let all messages through again, and lose none from now on."""
        self._apart.clear()

    def be_kind(self) -> None:
        """End all faults of the network, and all long delays."""
        self.heal()
        self._loss = 0.0
        self._delays = DELAYS[:-3]

    def run(self, until: float) -> None:
        """Run until a point of virtual time."""
        while self._queue and self._queue[0][0] <= until:
            self.now, _, call, arguments = heapq.heappop(self._queue)
            call(*arguments)
        self.now = until
