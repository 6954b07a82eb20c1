"""The maps, filters and scans downstream of a Kafka source, run inside it: one generated loop over librdkafka's messages.

The loop wraps a record when it comes to it and drops the wrapper when the steps are done with it. So one wrapper is filled again for each
record, or each wrapper dies young, and the garbage collector never counts it. Owner: a lane, on its island."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from streamactors.engine.fusing.flow import push_first
from streamactors.engine.fusing.loop import CAN_REFILL, FusedLoop
from streamactors.engine.island.connection import Connection
from streamactors.engine.island.interpreter import Interpreter
from streamactors.engine.island.pace import Pace
from streamactors.kafka.client.runs import columns
from streamactors.kafka.committable import GATHERING, GatheredOffsets
from streamactors.kafka.record import PASSING, wrap_lazily


class FusedSteps:
    """The loop of one run of a source. `first`: what scans emit before their first element."""

    pace: Pace

    def __init__(self, loop: FusedLoop, max_chunk: int | None) -> None:
        self._loop = loop
        self._loop_over_messages = loop.refilling(PASSING) if CAN_REFILL else None
        self._gathering = loop.refilling(GATHERING) if CAN_REFILL and not loop.scans else None
        self._state = loop.fresh()
        self._max_chunk = max_chunk
        self.first: list[Any] = []

    def begin(self, interpreter: Interpreter) -> BaseException | None:
        """Prepare the loop when the stage starts; return the error that ends the stage at once."""
        self.pace = Pace(interpreter, self._max_chunk)
        error = None
        if self._loop.scans:
            self.first, error = self._loop.zeros(self._state)
        return error

    def push_first(self, out: Connection) -> bool:
        """Push what scans emit first, as far as downstream asks; return True when all of it is out."""
        self.first = push_first(self.first, out)
        return not self.first

    def room(self, asked: int) -> int:
        """Return how many records the next slice may have."""
        return min(asked, self.pace.limit)

    @property
    def can_gather(self) -> bool:
        """True if `gather` may be called."""
        return self._gathering is not None

    def gather(self, messages: list[Any], found: GatheredOffsets) -> tuple[int, BaseException | None]:
        """Run the steps over a slice and add the offsets that they leave to `found`; return how many messages were not taken, and the error
        that stopped the stage."""
        assert self._gathering is not None
        counter: Any = iter(messages)
        error = self._gathering(counter, [], self.pace.begin(), found)
        left: int = counter.__length_hint__()
        self.pace.end(len(messages) - left)
        return left, error

    def run(
        self, messages: list[Any], made: Callable[[Iterator[Any], Iterator[Any]], Any] | None
    ) -> tuple[list[Any], int, BaseException | None]:
        """Run the steps over a slice; return the results, how many messages were not taken, and the error that stopped the stage.

        `made` makes the elements of the values and the messages; None: the elements are records."""
        counter: Any = iter(messages)  # its length hint tells how many messages are left
        loop = self._loop
        if made is not None:
            feed = iter(made(*columns(messages, counter)))
        elif self._loop_over_messages is not None:
            loop, feed = self._loop_over_messages, counter
        else:
            feed = wrap_lazily(*columns(messages, counter))
        results: list[Any] = []
        error = loop(feed, results, self.pace.begin(), self._state)
        left: int = counter.__length_hint__()
        self.pace.end(len(messages) - left)
        return results, left, error
