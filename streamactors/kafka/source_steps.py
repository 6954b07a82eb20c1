"""The maps, filters and scans behind a Kafka source, run inside it: one generated loop over librdkafka's messages.

A record is wrapped when the loop comes to it and forgotten when its step is done: it is filled anew, or dies young in the cache it was
made in, and never counts for the garbage collector. Owner: the source stage, on its island."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from streamactors.engine.connection import Connection
from streamactors.engine.fused_loop import CAN_REFILL, FusedLoop
from streamactors.engine.fusing import push_first
from streamactors.engine.interpreter import Interpreter
from streamactors.engine.pace import Pace
from streamactors.kafka.received_runs import columns
from streamactors.kafka.record import PASSING, KeptRecord, wrap_lazily


class SourceSteps:
    """One run of a loop. `first`: what scans emit before their first element."""

    pace: Pace

    def __init__(self, loop: FusedLoop, max_chunk: int | None) -> None:
        self._loop = loop
        self._loop_over_messages = loop.refilling(PASSING) if CAN_REFILL else None
        self._state = loop.fresh()
        self._max_chunk = max_chunk
        self.first: list[Any] = []

    def begin(self, interpreter: Interpreter) -> BaseException | None:
        """The stage starts; return the error that ends it at once."""
        self.pace = Pace(interpreter, self._max_chunk)
        error = None
        if self._loop.scans:
            self.first, error = self._loop.zeros(self._state)
        return error

    def push_first(self, out: Connection) -> bool:
        """Push what comes before the first element, as far as it is asked for; True when that is all out."""
        self.first = push_first(self.first, out)
        return not self.first

    def room(self, asked: int) -> int:
        """Return how many records the next slice may have."""
        return min(asked, self.pace.limit)

    def run_records(self, records: list[Any], counter: Iterator[Any]) -> tuple[list[Any], int, BaseException | None]:
        """As `run`, over records that are wrapped or still librdkafka's messages; `counter` is an iterator over them."""
        loop = self._loop_over_messages
        if loop is None or type(records[0]) is KeptRecord:
            return self.run(wrap_lazily(*columns(records, counter)), counter, len(records))
        return self._run(loop, counter, counter, len(records))

    def run(self, feed: Iterable[Any], counter: Iterator[Any], n: int) -> tuple[list[Any], int, BaseException | None]:
        """Run the loop over a slice of n records; return the results, how many records were not taken, and what stopped the stage.

        `counter`: the list iterator under the feed, whose length hint tells how many are left."""
        return self._run(self._loop, iter(feed), counter, n)

    def _run(
        self, loop: FusedLoop, feed: Iterator[Any], counter: Iterator[Any], n: int
    ) -> tuple[list[Any], int, BaseException | None]:
        results: list[Any] = []
        error = loop(feed, results, self.pace.begin(), self._state)
        left: int = counter.__length_hint__()  # type: ignore[attr-defined]
        self.pace.end(n - left)
        return results, left, error
