"""BroadcastHub: every element of one stream for any number of consumers, which join and leave while it runs.

The elements lie in a linked list of chunks. A consumer holds the link that it has read up to, so a link is freed when the slowest consumer has
passed it. The hub takes further elements when the slowest consumer is less than half a buffer behind.
Owner: the lock of the Exchange. It is held for joining, leaving, and at the end of the list, never while elements are pushed."""

from __future__ import annotations

import logging
import threading
from typing import Any

from streamactors.engine.blueprint.attributes import Attributes
from streamactors.engine.island.connection import COMPLETED, Connection
from streamactors.engine.logic import Logic, logic_of
from streamactors.engine.stage import SINK, SOURCE, GraphStage
from streamactors.errors import AbruptTermination
from streamactors.gauges import Gauge
from streamactors.log_limit import alike, log_limited
from streamactors.stages.checks import at_least, positive
from streamactors.stages.hubs.consumer import HubConsumerLogic

log = logging.getLogger("streamactors.stages.hubs")

BUFFER = 1_024


class BroadcastHubSink(GraphStage):
    """Give every element to each consumer; the slowest consumer sets the pace. Materializes the source of the consumers.

    The source can be run any number of times, at any time, on any system. The first consumer gets everything from the first element on;
    a consumer that joins others gets the elements that come after it has joined. Elements wait while there is no consumer.
    Backpressures when: the slowest consumer is `buffer` elements behind, or there are fewer than `start_after` consumers before the
    first element, or none later.
    Completes when: upstream completes; each consumer gets the rest of its elements first. A consumer that joins later completes at once.
    Cancels when: never; a consumer that cancels leaves.
    Fails when: upstream fails: all consumers fail at once, and so do those that join later.
    Marks: refused, because the consumers are other runs, which may lose elements.
    """

    shape = SINK
    name = "broadcast_hub"
    no_marks = "hands its elements to other runs"

    def __init__(self, buffer: int = BUFFER, start_after: int = 0) -> None:
        self.buffer = positive("BroadcastHub", "buffer", buffer)
        self.start_after = at_least("BroadcastHub", "start_after", start_after, 0)

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        exchange = Exchange(self)
        return _HubLogic(exchange), exchange


class _Link:
    """A chunk, and what follows it; the last link is empty and is filled by the next chunk."""

    __slots__ = ("chunk", "next")

    def __init__(self) -> None:
        self.chunk: list[Any] = []
        self.next: _Link | None = None


class Exchange:
    """Where the hub puts chunks and its consumers read them. Any thread."""

    def __init__(self, stage: BroadcastHubSink) -> None:
        self._buffer = stage.buffer
        self._missing = max(1, stage.start_after)  # consumers that must join before the hub begins
        self._lock = threading.Lock()
        self._last = _Link()  # empty
        self._end = 0  # elements put so far
        self._gauge = Gauge("broadcast_hub: elements that the slowest consumer has not taken", stage.buffer)
        self._consumers: set[_ConsumerLogic] = set()
        self._left: tuple[_Link, int, int] | None = (
            self._last,
            0,
            0,
        )  # where the last consumer has stopped; while there is none
        self._behind = 0  # consumers that must reach `_goal` before the hub takes more
        self._goal = 0
        self._over: object | None = None  # COMPLETED or the error
        self._hub: _HubLogic

    @property
    def consumers(self) -> int:
        """The number of consumers that run now."""
        return len(self._consumers)

    # ── for the hub ───────────────────────────────────────────────────────────────────────────────────────────────

    def room(self) -> int:
        """Return how many elements may be put now. 0: the hub is woken when there is room for half a buffer."""
        with self._lock:
            if self._missing or not self._consumers:
                self._behind = 0  # woken by `join`
                return 0
            room = self._buffer - (self._end - min(consumer.position for consumer in self._consumers))
            if room * 2 >= self._buffer:
                self._behind = 0
                return room
            self._goal = self._end - self._buffer // 2
            self._behind = sum(consumer.position < self._goal for consumer in self._consumers)
            return 0

    def put(self, chunk: list[Any]) -> None:
        """Append a chunk, for which there is room, and wake the consumers that wait for it."""
        with self._lock:
            last = self._last
            self._last = following = _Link()
            self._end += len(chunk)
            last.chunk = chunk
            last.next = following
            self._gauge.reached(self._end - min((each.position for each in self._consumers), default=self._end))
            waiting = [consumer for consumer in self._consumers if consumer.waits]
            for consumer in waiting:
                consumer.waits = False
        for consumer in waiting:
            consumer.wake.invoke(None)

    def end(self, over: object) -> None:
        """The stream has ended: COMPLETED or an error."""
        with self._lock:
            if self._over is not None:
                return
            self._over = over
            consumers = list(self._consumers)
        if isinstance(over, BaseException) and not isinstance(over, AbruptTermination) and not consumers:
            kind = type(over).__name__
            log_limited(
                log, logging.WARNING, (kind, alike(over)),
                "a stream has failed in a BroadcastHub without consumers: %s: %s", kind, over,
            )  # fmt: skip
        for consumer in consumers:
            consumer.wake.invoke(None)

    # ── for consumers ─────────────────────────────────────────────────────────────────────────────────────────────

    def join(self, consumer: _ConsumerLogic) -> None:
        """A consumer starts: where the last one has stopped, or with the next element when there are others."""
        with self._lock:
            consumer.link, consumer.offset, consumer.position = self._left or (self._last, 0, self._end)
            self._left = None
            self._consumers.add(consumer)
            first = self._missing == 1 or (not self._missing and len(self._consumers) == 1)
            self._missing = max(0, self._missing - 1)
        if first:
            self._hub.wake.invoke(None)

    def leave(self, consumer: _ConsumerLogic) -> None:
        """A consumer has ended."""
        with self._lock:
            if consumer not in self._consumers:
                return
            self._consumers.discard(consumer)
            if not self._consumers:
                self._left = (consumer.link, consumer.offset, consumer.position)
            free = self._passed(consumer.position, self._end)
        if free:
            self._hub.wake.invoke(None)

    def moved(self, consumer: _ConsumerLogic, n: int) -> None:
        """A consumer has taken `n` elements."""
        with self._lock:
            before = consumer.position
            consumer.position = before + n
            free = self._passed(before, consumer.position)
        if free:
            self._hub.wake.invoke(None)

    def _passed(self, before: int, now: int) -> bool:
        """A consumer went from one position to another: True when it was the last one that the hub waited for."""
        if self._behind and before < self._goal <= now:
            self._behind -= 1
            return not self._behind
        return False

    def wait(self, consumer: _ConsumerLogic) -> object | None:
        """The consumer is at the end of the list: wake it when more comes. Return the end, if the stream has ended."""
        with self._lock:
            if consumer.link.next is None and self._over is None:
                consumer.waits = True
            return self._over

    @property
    def failure(self) -> BaseException | None:
        """The error of the stream."""
        return self._over if isinstance(self._over, BaseException) else None


class _HubLogic(Logic):
    def __init__(self, exchange: Exchange) -> None:
        super().__init__()
        self._exchange = exchange
        exchange._hub = self
        self.wake = self.async_callback(self._look)

    def _look(self, _: None) -> None:
        room = self._exchange.room()
        if room:
            self.inlets[0].want(room)

    def on_push(self, in_: Connection) -> None:
        chunk = in_.grab(in_.ready)
        if chunk:
            self._exchange.put(chunk)
        room = self._exchange.room()
        if room or in_.due:
            in_.want(max(room, in_.due))

    def on_complete(self, in_: Connection) -> None:
        self._exchange.end(COMPLETED)
        super().on_complete(in_)

    def on_fail(self, in_: Connection, error: BaseException) -> None:
        self._exchange.end(error)
        super().on_fail(in_, error)

    def on_stop(self) -> None:
        self._exchange.end(AbruptTermination("a BroadcastHub was stopped before its stream ended"))

    def snapshot_state(self) -> str:
        return f"{self._exchange.consumers} consumers"


class BroadcastHubConsumer(GraphStage):
    """Emit the elements of a running BroadcastHub.

    Emits when: the hub has an element and there is demand.   Completes when: the hub's stream completes.
    Fails when: the hub's stream fails, at once.
    """

    shape = SOURCE
    name = "broadcast_hub_source"
    endless = True

    def __init__(self, exchange: Exchange) -> None:
        self.exchange = exchange


@logic_of(BroadcastHubConsumer)
class _ConsumerLogic(HubConsumerLogic[Exchange]):
    link: _Link
    offset: int  # elements of the link's chunk that were taken
    position: int  # elements of the hub before the next one to take

    def __init__(self, stage: BroadcastHubConsumer) -> None:
        super().__init__(stage, stage.exchange, waits=False)

    def on_pull(self, out: Connection) -> None:
        exchange = self.hub
        if exchange.failure is not None:
            self.fail_stage(exchange.failure)
            return
        taken = 0
        while out.can_push:
            following = self.link.next
            if following is None:
                break
            rest = self.link.chunk[self.offset :] if self.offset else self.link.chunk
            if len(rest) > out.asked:
                rest = rest[: out.asked]
                self.offset += len(rest)
            else:
                self.link, self.offset = following, 0
            taken += len(rest)
            out.push(rest)
        if taken:
            exchange.moved(self, taken)
        over = exchange.wait(self)
        if self.link.next is not None:
            if out.can_push:
                out.again()  # the hub has put a chunk since the loop saw the end of the list
        elif over is COMPLETED:
            self.complete_stage()
        elif over is not None:
            self.fail_stage(exchange.failure)  # type: ignore[arg-type]
