"""Producer ids, from blocks of a thousand that the controller reserves.

Owner: the data plane. A block is durable in the metadata log before its first id is used, so ids are unique. The rest of a block
is lost when the broker stops, as in Apache Kafka (KIP-730)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from streamactors.broker.controller.command import AllocateProducerIds, ProducerIdBlock


class ProducerIds:
    """Allocates ids."""

    def __init__(self, submit: Callable[[AllocateProducerIds, Callable[[Any], object]], object]) -> None:
        self._submit = submit
        self._next = 0
        self._end = 0
        self._waiting: deque[Callable[[int | None], object]] = deque()

    def next(self, then: Callable[[int | None], object]) -> None:
        """Call `then` with a new id, now or when the controller has reserved a block. Call it with None if that fails."""
        if self._next < self._end:
            self._next += 1
            then(self._next - 1)
            return
        self._waiting.append(then)
        if len(self._waiting) == 1:
            self._submit(AllocateProducerIds(), self._got)

    def _got(self, answer: object) -> None:
        waiting, self._waiting = self._waiting, deque()
        if not isinstance(answer, ProducerIdBlock):
            for then in waiting:
                then(None)
            return
        self._next, self._end = answer.first, answer.first + answer.size
        for then in waiting:
            self.next(then)
