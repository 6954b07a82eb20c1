"""BroadcastHub: every element of one stream for any number of consumers, which join and leave while it runs.

The elements lie in a linked list of chunks. A consumer holds the link that it has read up to, so a link is freed when the slowest consumer has
passed it. The hub takes further elements when the slowest consumer is less than half a buffer behind.
Owner: the lock of the Exchange. It is held for joining, leaving, and at the end of the list, never while elements are pushed."""

from __future__ import annotations

from typing import Any

from streamactors.engine.attributes import Attributes
from streamactors.engine.island.connection import COMPLETED, Connection
from streamactors.engine.logic import Logic, logic_of
from streamactors.engine.stage import SINK, SOURCE, GraphStage
from streamactors.engine.stage_traits import StageTraits
from streamactors.gauges import Gauge
from streamactors.stages.checks import at_least, positive
from streamactors.stages.hubs.shared import BUFFER, Hub, HubConsumerLogic, HubSinkLogic


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
    traits = StageTraits(no_marks="hands its elements to other runs")

    def __init__(self, buffer: int = BUFFER, start_after: int = 0) -> None:
        self.buffer = positive("BroadcastHub", "buffer", buffer)
        self.start_after = at_least("BroadcastHub", "start_after", start_after, 0)

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        exchange = Exchange(self)
        return _HubLogic(self, exchange), exchange


class _Link:
    """A chunk, and what follows it; the last link is empty and is filled by the next chunk."""

    __slots__ = ("chunk", "next")

    def __init__(self) -> None:
        self.chunk: list[Any] = []
        self.next: _Link | None = None


class Exchange(Hub["_ConsumerLogic"]):
    """Where the hub puts chunks and its consumers read them. Any thread."""

    kind = "BroadcastHub"

    def __init__(self, stage: BroadcastHubSink) -> None:
        super().__init__(stage.start_after, stage.buffer)
        self._last = _Link()  # empty
        self._end = 0  # elements put so far
        self._gauge = Gauge("broadcast_hub: elements that the slowest consumer has not taken", stage.buffer)
        # where the last consumer has stopped; while there is none
        self._left: tuple[_Link, int, int] | None = (self._last, 0, 0)
        self._behind = 0  # consumers that must reach `_goal` before the hub takes more
        self._goal = 0

    # ── for the hub ───────────────────────────────────────────────────────────────────────────────────────────────

    def room(self) -> int:
        """Return how many elements may be put now. 0: the hub is woken when there is room for half a buffer."""
        with self._lock:
            if self._missing or not self._consumers:
                self._behind = 0  # woken by `join`
                return 0
            room = self._buffer - (self._end - min(consumer.position for consumer in self._consumers.values()))
            if room * 2 >= self._buffer:
                self._behind = 0
                return room
            self._goal = self._end - self._buffer // 2
            self._behind = sum(consumer.position < self._goal for consumer in self._consumers.values())
            return 0

    def put(self, chunk: list[Any]) -> None:
        """Append a chunk, for which there is room, and wake the consumers that wait for it."""
        with self._lock:
            last = self._last
            self._last = following = _Link()
            self._end += len(chunk)
            last.chunk = chunk
            last.next = following
            self._gauge.reached(
                self._end - min((each.position for each in self._consumers.values()), default=self._end)
            )
            waiting = [consumer for consumer in self._consumers.values() if consumer.waits]
            for consumer in waiting:
                consumer.waits = False
        for consumer in waiting:
            consumer.wake.invoke(None)

    # ── for consumers ─────────────────────────────────────────────────────────────────────────────────────────────

    def _joined(self, consumer: _ConsumerLogic) -> None:
        """A consumer starts where the last one has stopped, or with the next element when there are others."""
        consumer.link, consumer.offset, consumer.position = self._left or (self._last, 0, self._end)
        self._left = None

    def leave(self, consumer: _ConsumerLogic) -> None:
        """A consumer has ended."""
        with self._lock:
            if self._consumers.pop(consumer.id, None) is None:
                return
            if not self._consumers:
                self._left = (consumer.link, consumer.offset, consumer.position)
            free = self._passed(consumer.position, self._end)
        if free:
            self.logic.wake.invoke(None)

    def moved(self, consumer: _ConsumerLogic, n: int) -> None:
        """A consumer has taken `n` elements."""
        with self._lock:
            before = consumer.position
            consumer.position = before + n
            free = self._passed(before, consumer.position)
        if free:
            self.logic.wake.invoke(None)

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


class _HubLogic(HubSinkLogic[Exchange]):
    def _look(self, _: None) -> None:
        room = self.hub.room()
        if room:
            self.inlets[0].want(room)

    def on_push(self, in_: Connection) -> None:
        chunk = in_.grab(in_.ready)
        if chunk:
            self.hub.put(chunk)
        room = self.hub.room()
        if room or in_.due:
            in_.want(max(room, in_.due))

    def on_complete(self, in_: Connection) -> None:
        self.hub.end(COMPLETED)
        super().on_complete(in_)


class BroadcastHubConsumer(GraphStage):
    """Emit the elements of a running BroadcastHub.

    Emits when: the hub has an element and there is demand.   Completes when: the hub's stream completes.
    Fails when: the hub's stream fails, at once.
    """

    shape = SOURCE
    name = "broadcast_hub_source"
    traits = StageTraits(endless=True)

    def __init__(self, exchange: Exchange) -> None:
        self.hub = exchange


@logic_of(BroadcastHubConsumer)
class _ConsumerLogic(HubConsumerLogic[Exchange]):
    link: _Link
    offset: int  # elements of the link's chunk that were taken
    position: int  # elements of the hub before the next one to take

    def __init__(self, stage: BroadcastHubConsumer) -> None:
        super().__init__(stage, waits=False)

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
