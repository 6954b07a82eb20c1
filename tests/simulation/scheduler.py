"""A seeded world: virtual time, messages that are late or lost, partitions of the network. One seed is one run, to the byte."""

from __future__ import annotations

import random
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

DELAYS = (0.2, 0.2, 0.5, 0.5, 1.0, 1.0, 3.0, 3.0, 3.0, 20.0, 20.0, 45.0)
LOOK_EVERY = 20.0
NEVER = float("inf")


class Scheduler:
    """Runs callbacks in the order of their time. `trace` says what happened; equal seeds give equal traces."""

    def __init__(self, seed: int, *, loss: float) -> None:
        self.random = random.Random(seed)
        self.now = 0.0
        self.trace: list[str] = []
        self._loss = loss
        self._delays = DELAYS
        self._queue: list[tuple[float, int, Callable[..., object], tuple[Any, ...]]] = []
        self._number = 0
        self._apart: set[frozenset[int]] = set()

    def note(self, *words: object) -> None:
        """Add a line to the trace."""
        self.trace.append(f"{self.now:.3f} {' '.join(map(str, words))}")

    def later(self, delay: float, call: Callable[..., object], *arguments: Any) -> None:
        """Call back after a delay in virtual ms."""
        self._number = number = self._number + 1
        heappush(self._queue, (self.now + delay, number, call, arguments))

    def send(self, source: int, target: int, call: Callable[..., object], *arguments: Any) -> None:
        """Deliver a message some ms later, unless it is lost or the two are apart, now or at its arrival."""
        uniform = self.random.random
        if uniform() < self._loss:
            return
        delays = self._delays
        delay = delays[int(uniform() * len(delays))]
        if not self._apart or frozenset((source, target)) not in self._apart:
            self._number = number = self._number + 1
            heappush(self._queue, (self.now + delay, number, self._arrive, (source, target, call, arguments)))

    def _arrive(self, source: int, target: int, call: Callable[..., object], arguments: tuple[Any, ...]) -> None:
        if not self._apart or frozenset((source, target)) not in self._apart:
            call(*arguments)

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
        queue = self._queue
        while queue and queue[0][0] <= until:
            self.now, _, call, arguments = heappop(queue)
            call(*arguments)
        self.now = until

    def run_until(self, settled: Callable[[], bool], *, within: float, lasting: float) -> None:
        """Run until something has held for `lasting`, so that it does not hold by chance; at most `within` of virtual time."""
        end = self.now + within
        since = self.now if settled() else NEVER
        while self.now < end and self.now - since < lasting:
            self.run(min(self.now + LOOK_EVERY, end))
            since = min(since, self.now) if settled() else NEVER
