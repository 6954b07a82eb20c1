"""PartitionHub: each element of one stream for one of any number of consumers, which join and leave while it runs.

Every consumer has a queue. The elements in all queues count towards the hub's buffer. Elements that a consumer leaves in its queue are
routed again, among the consumers that are left.
Owner of the queues: the lock of the Counter. The user's function runs on the hub's island, outside the lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamactors.engine.attributes import Attributes
from streamactors.engine.island.connection import COMPLETED, Connection
from streamactors.engine.logic import Logic, logic_of
from streamactors.engine.stage import SINK, SOURCE, GraphStage
from streamactors.engine.stage_traits import StageTraits
from streamactors.engine.supervision import failure_of
from streamactors.errors import StreamError
from streamactors.gauges import Gauge
from streamactors.stages.checks import at_least, plain_function, positive
from streamactors.stages.hubs.shared import BUFFER, Hub, HubConsumerLogic, HubSinkLogic, log


class ConsumerInfo:
    """The consumers of a PartitionHub, as the function that routes sees them."""

    def __init__(self, sizes: dict[int, int]) -> None:
        self.sizes = sizes  # of the queues; the hub adds what it has routed since
        self.consumer_ids: tuple[int, ...] = tuple(sizes)
        """The ids of the consumers, in the order in which they joined. An id is never used again."""

    @property
    def size(self) -> int:
        """The number of consumers, at least 1."""
        return len(self.consumer_ids)

    def queue_size(self, consumer_id: int) -> int:
        """Return how many elements wait for a consumer."""
        return self.sizes.get(consumer_id, 0)


Route = Callable[[ConsumerInfo, Any], int]
"""Returns the id of the consumer that gets an element; a negative number drops the element."""


class PartitionHubSink(GraphStage):
    """Give each element to the consumer whose id the function returns; a negative number drops the element.

    `make()` is called once per run and returns `route(info, element)`; `info` knows the consumers. Materializes the source of the consumers,
    which can be run any number of times. Elements that a consumer has not taken when it cancels are routed again,
    unless upstream has completed: then they are dropped, with a warning.
    Backpressures when: `buffer` elements wait in all, or there are fewer than `start_after` consumers before the first element, or none
    later.
    Completes when: upstream completes; each consumer gets the rest of its elements first. A consumer that joins later completes at once.
    Cancels when: never; a consumer that cancels leaves.
    Fails when: upstream or `route` fails, or the id is not that of a consumer: all consumers fail at once.
    Supervision: resume and restart drop the element.
    Marks: refused, because the consumers are other runs, which may lose elements.
    """

    shape = SINK
    name = "partition_hub"
    traits = StageTraits(no_marks="hands its elements to other runs")

    def __init__(self, make: Callable[[], Route], start_after: int = 0, buffer: int = BUFFER) -> None:
        self.make = plain_function("PartitionHub", make)
        self.start_after = at_least("PartitionHub", "start_after", start_after, 0)
        self.buffer = positive("PartitionHub", "buffer", buffer)

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        counter = Counter(self)
        return _HubLogic(self, counter), counter


class Counter(Hub["_ConsumerLogic"]):
    """Where the hub puts elements and its consumers take theirs. Any thread."""

    kind = "PartitionHub"

    def __init__(self, stage: PartitionHubSink) -> None:
        super().__init__(stage.start_after, stage.buffer)
        self.queues: dict[int, list[Any]] = {}
        self._waiting = 0  # elements in all queues
        self._gauge = Gauge("partition_hub: elements that wait for consumers", stage.buffer)
        self._returned: list[Any] = []  # left by consumers, to be routed again
        self._full = False  # the hub waits for room

    # ── for the hub ───────────────────────────────────────────────────────────────────────────────────────────────

    def info(self) -> ConsumerInfo | None:
        """Return the consumers as they are now; None while elements must wait for one."""
        with self._lock:
            if self._missing or not self._consumers:
                return None
            return ConsumerInfo({id_: len(queue) for id_, queue in self.queues.items()})

    def room(self) -> int:
        """Return how many elements may be put now. 0: the hub is woken when half of the buffer is free."""
        with self._lock:
            if self._missing or not self._consumers:
                return 0  # woken by `join`
            room = self._buffer - self._waiting - len(self._returned)
            self._full = room * 2 < self._buffer
            return 0 if self._full else room

    def put(self, routed: dict[int, list[Any]]) -> list[Any]:
        """Put elements into the queues of consumers; return those whose consumer has left meanwhile."""
        left: list[Any] = []
        woken: list[_ConsumerLogic] = []
        with self._lock:
            for id_, elements in routed.items():
                consumer = self._consumers.get(id_)
                if consumer is None:
                    left += elements
                    continue
                self._waiting += len(elements)
                self.queues[id_] += elements
                self._gauge.reached(self._waiting)
                if consumer.waits:
                    consumer.waits = False
                    woken.append(consumer)
        for consumer in woken:
            consumer.wake.invoke(None)
        return left

    def returned(self) -> list[Any]:
        """Take the elements that consumers have left in their queues."""
        with self._lock:
            elements, self._returned = self._returned, []
            return elements

    def keep(self, elements: list[Any]) -> None:
        """Keep elements until there is a consumer."""
        with self._lock:
            self._returned = elements + self._returned

    def try_complete(self) -> bool:
        """Complete the stream, unless elements wait for a consumer."""
        with self._lock:
            if self._returned:
                return False
        self.end(COMPLETED)
        return True

    # ── for consumers ─────────────────────────────────────────────────────────────────────────────────────────────

    def _joined(self, consumer: _ConsumerLogic) -> None:
        self.queues[consumer.id] = []

    def leave(self, consumer: _ConsumerLogic) -> None:
        """A consumer has ended: what waits for it is routed again."""
        with self._lock:
            if self._consumers.pop(consumer.id, None) is None:
                return
            rest = self.queues.pop(consumer.id)
            self._waiting -= len(rest)
            open_ = self._over is None
            if open_:
                self._returned += rest
        if rest and open_:
            self.logic.wake.invoke(None)
        elif rest and self._over is COMPLETED:
            log.warning(
                "a consumer of a completed PartitionHub has cancelled: %d elements for it are dropped", len(rest)
            )

    def take(self, consumer: _ConsumerLogic, n: int) -> list[Any]:
        """Return up to n elements of a consumer; if there are none, wake the consumer when there are."""
        with self._lock:
            queue = self.queues[consumer.id]
            taken = queue[:n]
            del queue[:n]
            self._waiting -= len(taken)
            consumer.waits = not queue
            room = self._full and (self._waiting + len(self._returned)) * 2 <= self._buffer
            self._full = self._full and not room
        if room:
            self.logic.wake.invoke(None)
        return taken

    def over_for(self, consumer: _ConsumerLogic) -> bool:
        """True when nothing more can come for a consumer."""
        with self._lock:
            return self._over is COMPLETED and not self.queues[consumer.id]


@logic_of(PartitionHubSink)
class _HubLogic(HubSinkLogic[Counter]):
    stage: PartitionHubSink
    _upstream_done = False

    def on_start(self) -> None:
        self._route = plain_function("PartitionHub: make()", self.stage.make())

    def _look(self, _: None) -> None:
        self._send(self.hub.returned())
        room = self.hub.room()
        if room and not self._upstream_done:
            self.inlets[0].want(room)

    def on_push(self, in_: Connection) -> None:
        self._send(in_.grab(in_.ready))
        room = self.hub.room()
        if room or in_.due:
            in_.want(max(room, in_.due))

    def _send(self, elements: list[Any]) -> None:
        while elements:
            info = self.hub.info()
            if info is None:
                self.hub.keep(elements)
                break
            elements = self.hub.put(self._routed(info, elements))
        if self._upstream_done:
            self._end_when_routed()

    def _routed(self, info: ConsumerInfo, elements: list[Any]) -> dict[int, list[Any]]:
        route, sizes = self._route, info.sizes
        routed: dict[int, list[Any]] = {}
        for element in elements:
            try:
                id_ = route(info, element)
                if id_ >= 0:
                    if id_ not in sizes:
                        raise StreamError(
                            f"PartitionHub: there is no consumer {id_!r}; the ids are {info.consumer_ids}"
                        )
                    sizes[id_] += 1
                    routed.setdefault(id_, []).append(element)
            except BaseException as error:  # noqa: BLE001  # the user's function
                failure = failure_of(self, error, element, route)
                if failure is not None:
                    self.hub.put(routed)
                    self.hub.end(failure)
                    self.fail_stage(failure)
                    return {}
        return routed

    def on_complete(self, in_: Connection) -> None:
        self._upstream_done = True
        self.keep_going = True  # until the elements that wait for a consumer are routed
        self._end_when_routed()

    def _end_when_routed(self) -> None:
        if self.hub.try_complete():
            self.complete_stage()


class PartitionHubConsumer(GraphStage):
    """Emit the elements that a running PartitionHub routes to this consumer.

    Emits when: the hub has an element for it and there is demand.   Completes when: the hub's stream completes.
    Fails when: the hub's stream fails, at once.
    """

    shape = SOURCE
    name = "partition_hub_source"
    traits = StageTraits(endless=True)

    def __init__(self, counter: Counter) -> None:
        self.hub = counter


@logic_of(PartitionHubConsumer)
class _ConsumerLogic(HubConsumerLogic[Counter]):
    def __init__(self, stage: PartitionHubConsumer) -> None:
        super().__init__(stage, waits=True)

    def on_pull(self, out: Connection) -> None:
        counter = self.hub
        if counter.failure is not None:
            self.fail_stage(counter.failure)
            return
        if out.can_push:
            chunk = counter.take(self, out.asked)
            if chunk:
                out.push(chunk)
        if counter.over_for(self):
            self.complete_stage()
