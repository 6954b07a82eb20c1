"""MergeHub: a source of the elements of any number of streams, which join and leave while it runs.

    producer ── chunks ──►  Entrance: one queue  ── chunks ──►  the hub's source
             ◄── credits ──                      ◄── demand ──

Each producer may have `per_producer_buffer` elements in the queue, so the buffer of a hub is bounded by its producers. The queue is
first in, first out over chunks, so a fast producer cannot keep the others out.
Owner of the queue: the lock of the Entrance. One message at a time wakes the hub."""

from __future__ import annotations

import enum
import threading
from collections import deque
from typing import Any

from streamactors.engine.attributes import Attributes
from streamactors.engine.island.connection import Connection
from streamactors.engine.logic import Logic, SourceLogic, logic_of
from streamactors.engine.sink import SinkLogic
from streamactors.engine.stage import SOURCE, GraphStage
from streamactors.engine.stage_traits import StageTraits
from streamactors.gauges import Gauge
from streamactors.stages.checks import positive
from streamactors.stages.sinks.values import SinkStage

PER_PRODUCER = 256


class _State(enum.Enum):
    OPEN = "open"
    DRAINING = "draining"  # no new producers; the hub completes when those there are have completed
    CLOSED = "closed"  # the hub has ended


class MergeHubSource(GraphStage):
    """Emit the elements of every stream that is run into the materialized sink, in the order in which they come.

    The sink can be run any number of times, at any time, on any system. A stream that fails does not fail the hub.
    Emits when: a producer's element has come and there is demand.
    Backpressures when: a producer has `per_producer_buffer` elements in the hub; this producer waits.
    Completes when: never, or, with a draining control, when that was used and all producers have completed.
    Cancels when: downstream cancels: all producers are cancelled, and so is each stream that is run into the sink later.
    """

    shape = SOURCE
    name = "merge_hub"
    traits = StageTraits(endless=True)

    def __init__(self, per_producer_buffer: int = PER_PRODUCER) -> None:
        self.buffer = positive("MergeHub", "per_producer_buffer", per_producer_buffer)

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        entrance = HubEntrance(self.buffer)
        return _HubLogic(entrance), entrance


class HubEntrance:
    """Where the producers of one running hub put their elements. Any thread."""

    def __init__(self, buffer: int) -> None:
        self.buffer = buffer
        self._lock = threading.Lock()
        self._queue: deque[tuple[_ProducerLogic, list[Any]]] = deque()
        self._held = 0
        self._gauge = Gauge("merge_hub: elements of its producers", 0)  # `buffer` for each producer
        self._producers: dict[_ProducerLogic, None] = {}  # in the order of their start
        self._state = _State.OPEN
        self._told = False  # a message to the hub is on its way
        self._hub: _HubLogic

    def drain(self) -> None:
        """Refuse new producers; the hub completes when those there are have completed."""
        with self._lock:
            if self._state is not _State.OPEN:
                return
            self._state = _State.DRAINING
        self._wake()

    @property
    def producers(self) -> int:
        """The number of streams that run into the hub now."""
        return len(self._producers)

    # ── for producers ─────────────────────────────────────────────────────────────────────────────────────────────

    def join(self, producer: _ProducerLogic) -> bool:
        """Admit a producer; False when the hub accepts no further producers."""
        with self._lock:
            if self._state is not _State.OPEN:
                return False
            self._producers[producer] = None
            self._gauge.bound = max(self._gauge.bound, self.buffer * len(self._producers))
            return True

    def put(self, producer: _ProducerLogic, chunk: list[Any]) -> None:
        """Take a chunk, for which the producer has credit."""
        with self._lock:
            if self._state is _State.CLOSED:
                return
            self._queue.append((producer, chunk))
            self._held += len(chunk)
            self._gauge.reached(self._held)
        self._wake()

    def complete(self, producer: _ProducerLogic) -> int:
        """A producer's stream has completed: return the elements emitted since its last grant, and grant each element from now on."""
        with self._lock:
            producer.completing = True
            return producer.emitted(0)

    def leave(self, producer: _ProducerLogic) -> None:
        """A producer has ended."""
        with self._lock:
            self._producers.pop(producer, None)
            last = self._state is _State.DRAINING and not self._producers
        if last:
            self._wake()

    def _wake(self) -> None:
        if not self._told:
            self._told = True
            self._hub.wake.invoke(None)

    # ── for the hub ───────────────────────────────────────────────────────────────────────────────────────────────

    def take(self, n: int) -> list[Any]:
        """Return up to n elements; grant their producers credit for them."""
        queue = self._queue
        chunk: list[Any] = []
        taken: dict[_ProducerLogic, int] = {}
        with self._lock:
            while queue and len(chunk) < n:
                producer, elements = queue.popleft()
                room = n - len(chunk)
                if len(elements) > room:
                    queue.appendleft((producer, elements[room:]))
                    elements = elements[:room]
                chunk = chunk + elements if chunk else elements
                taken[producer] = taken.get(producer, 0) + len(elements)
            self._held -= len(chunk)
            grants = [(producer, producer.emitted(count)) for producer, count in taken.items()]
        for producer, credits in grants:
            if credits:
                producer.grant.invoke(credits)
        return chunk

    def close(self) -> None:
        """The hub has ended: cancel every producer."""
        with self._lock:
            self._state = _State.CLOSED
            self._queue.clear()
            self._held = 0
            producers = list(self._producers)
        for producer in producers:
            producer.cancel.invoke(None)

    def drained(self) -> bool:
        """True when nothing can come any more."""
        with self._lock:
            return self._state is _State.DRAINING and not self._producers and not self._queue

    def awake(self) -> None:
        """The hub has received the message: later elements need another one."""
        self._told = False


class _HubLogic(SourceLogic):
    def __init__(self, entrance: HubEntrance) -> None:
        super().__init__()
        self._entrance = entrance
        entrance._hub = self
        self.wake = self.async_callback(self._look)

    def _look(self, _: None) -> None:
        self._entrance.awake()
        self.on_pull(self.out)

    def on_pull(self, out: Connection) -> None:
        if out.can_push:
            chunk = self._entrance.take(out.asked)
            if chunk:
                out.push(chunk)
        if self._entrance.drained():
            self.complete_stage()

    def on_stop(self) -> None:
        self._entrance.close()

    def snapshot_state(self) -> str:
        return f"{self._entrance.producers} producers"


class MergeHubProducer(SinkStage):
    """The sink that a MergeHub materializes.

    Materializes: a future that ends when the hub has emitted all elements, or takes no more; it fails when the stream fails.
    Backpressures when: as many elements as the hub holds per producer wait in it.   Cancels when: the hub has ended.
    Marks: refused, because the hub's stream is another run, which may lose elements.
    """

    name = "merge_hub_sink"
    traits = StageTraits(no_marks="hands its elements to another run")

    def __init__(self, entrance: HubEntrance) -> None:
        self.entrance = entrance


@logic_of(MergeHubProducer)
class _ProducerLogic(SinkLogic):
    def __init__(self, stage: MergeHubProducer) -> None:
        super().__init__(stage)
        self._entrance = stage.entrance
        self._credit = self._entrance.buffer
        self._inside = 0  # elements in the hub's queue; the island's own count
        self._gone = 0  # emitted since the last grant; under the entrance's lock, as the next
        self.completing = False
        self.grant = self.async_callback(self._granted)
        self.cancel = self.async_callback(self._cancelled)

    def on_start(self) -> None:
        if self._entrance.join(self):
            self.in_.want(self._credit)
        else:
            self.succeed(None)

    def on_push(self, in_: Connection) -> None:
        chunk = in_.grab(self._credit)
        if chunk:
            self._credit -= len(chunk)
            self._inside += len(chunk)
            self._entrance.put(self, chunk)
        in_.want(self._credit)

    def emitted(self, n: int) -> int:
        """The hub has emitted `n` elements; return the credits to grant. Under the entrance's lock, on any thread.

        Credits are granted when half of the buffer is free."""
        self._gone += n
        if not self.completing and self._gone * 2 < self._entrance.buffer:
            return 0
        credits, self._gone = self._gone, 0
        return credits

    def _granted(self, n: int) -> None:
        self._credit += n
        self._inside -= n
        if not self.completing:
            self.in_.want(self._credit)
        elif not self._inside:
            self._leave()

    def on_complete(self, in_: Connection) -> None:
        self.keep_going = True  # until the hub has emitted everything
        self._granted(self._entrance.complete(self))

    def _leave(self) -> None:
        self._entrance.leave(self)
        self.succeed(None)

    def _cancelled(self, _: None) -> None:
        self.succeed(None)

    def on_stop(self) -> None:
        self._entrance.leave(self)
        super().on_stop()

    def snapshot_state(self) -> str:
        return f"{self._inside} in the hub"
