"""Producer ids: blocks of a thousand from the controller, handed out one by one.

Owner: the data plane. A block is durable in the metadata log before its first id is used, so no id is ever given twice;
what is left of a block when the broker stops is lost, as in Apache Kafka (KIP-730)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from streamactors.broker.controller.command import AllocateProducerIds, ProducerIdBlock

if TYPE_CHECKING:
    from streamactors.broker.node import Node


class ProducerIds:
    """Hands out ids."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._next = 0
        self._end = 0
        self._waiting: deque[Callable[[int | None], object]] = deque()

    def next(self, then: Callable[[int | None], object]) -> None:
        """Call `then(producer_id)` with a new id, now or when the controller has given a new block; None: it cannot."""
        if self._next < self._end:
            self._next += 1
            then(self._next - 1)
            return
        self._waiting.append(then)
        if len(self._waiting) == 1:
            self._node.controller.submit(AllocateProducerIds(), self._got)

    def _got(self, answer: object) -> None:
        waiting, self._waiting = self._waiting, deque()
        if not isinstance(answer, ProducerIdBlock):
            for then in waiting:
                then(None)
            return
        self._next, self._end = answer.first, answer.first + answer.size
        for then in waiting:
            self.next(then)
