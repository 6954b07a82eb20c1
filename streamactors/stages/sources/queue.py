"""Queues that feed a stream from any thread: bounded with an answer at once, and with back-pressure by futures.

Owner of the elements: the lock of the queue, until the stage takes them. A message wakes the stage; at most one is on its way."""

from __future__ import annotations

import enum
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Generator
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

from streamactors.actors.futures import StreamFuture
from streamactors.engine.attributes import Attributes
from streamactors.engine.island.connection import Connection
from streamactors.engine.logic import Logic, SourceLogic
from streamactors.engine.stage import SOURCE, GraphStage
from streamactors.engine.stage_traits import StageTraits
from streamactors.errors import BufferOverflow
from streamactors.gauges import Gauge
from streamactors.stages.checks import at_least, positive
from streamactors.stages.rate.strategies import OverflowStrategy, make_room
from streamactors.stages.sources.queue_results import DROPPED, ENQUEUED, QUEUE_CLOSED, Failure, QueueOfferResult

T = TypeVar("T")


class _State(enum.Enum):
    OPEN = "open"
    COMPLETING = "completing"  # complete() was called; the elements inside are still emitted
    CLOSED = "closed"  # the stage has ended


class _Queue(Generic[T]):
    """Base of the two queues: the elements, the end, and waking the stage."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._lock = threading.Lock()
        self._elements: deque[T] = deque()
        self._gauge = Gauge("a queue: elements that were offered", capacity)
        self._state = _State.OPEN
        self._error: BaseException | None = None
        self._told = False  # a message to the stage is on its way
        self._logic: _QueueLogic
        self._completion: StreamFuture[None] = StreamFuture("the end of a queue's stream")

    def complete(self) -> None:
        """Complete the stream after the elements in the queue. Later calls have no effect."""
        with self._lock:
            if self._state is not _State.OPEN:
                return
            self._state = _State.COMPLETING
        self._tell()

    def fail(self, error: BaseException) -> None:
        """Fail the stream at once; the elements in the queue are lost. Later calls have no effect."""
        with self._lock:
            if self._state is not _State.OPEN:
                return
            self._state = _State.COMPLETING
            self._error = error
            self._elements.clear()
        self._tell()

    def size(self) -> int:
        """Return the number of elements that the stream has not taken yet."""
        return len(self._elements)

    @property
    def is_completed(self) -> bool:
        """True when no further element can be offered."""
        return self._state is not _State.OPEN

    def watch_completion(self) -> StreamFuture[None]:
        """Return a future that ends when the stream has completed or cancelled, and fails when the stream has failed."""
        return self._completion

    def __len__(self) -> int:
        return len(self._elements)

    # ── for the stage ─────────────────────────────────────────────────────────────────────────────────────────────

    def _tell(self) -> None:
        if not self._told:
            self._told = True
            self._logic.wake.invoke(None)

    def _take(self, n: int) -> tuple[list[T], bool]:
        """Return up to n elements, and whether the stream ends after them."""
        with self._lock:
            self._told = False
            elements = self._elements
            chunk: list[T] = []
            while elements and len(chunk) < n:
                chunk.append(elements.popleft())
                self._admit()
            return chunk, self._state is _State.COMPLETING and self._drained()

    def _admit(self) -> None:
        """There is room for another element. The lock is held."""

    def _drained(self) -> bool:
        return not self._elements

    def _close(self, error: BaseException | None) -> None:
        """The stage has stopped."""
        with self._lock:
            self._state = _State.CLOSED
            self._error = self._error or error
            self._elements.clear()
        if self._error is None:
            self._completion.try_complete(None)
        else:
            self._completion.try_fail(self._error)

    def _refusal(self) -> QueueOfferResult:
        return QUEUE_CLOSED if self._error is None else Failure(self._error)


class BoundedSourceQueue(_Queue[T]):
    """Materialized by `Source.queue(size, overflow)`."""

    def __init__(self, capacity: int, overflow: OverflowStrategy = OverflowStrategy.drop_new) -> None:
        super().__init__(capacity)
        self._overflow = overflow

    def offer(self, element: T) -> QueueOfferResult:
        """Put an element in and say at once how it went. Any thread.

        ENQUEUED, also where others were dropped for it; DROPPED when full ("drop_new"); QUEUE_CLOSED; or a Failure, when the queue
        has failed, which with "fail" it does when an element finds no room."""
        with self._lock:
            if self._state is not _State.OPEN:
                return self._refusal()
            room = len(self._elements) < self._capacity or make_room(self._overflow, self._elements)
            if room:
                self._elements.append(element)
                self._gauge.reached(len(self._elements))
        if room:
            self._tell()
            return ENQUEUED
        if self._overflow == OverflowStrategy.drop_new:
            return DROPPED
        self.fail(
            BufferOverflow(
                f"queue: {self._capacity} elements are kept and another came; make the queue larger, or choose an overflow that "
                "drops or back-pressures"
            )
        )
        return self._refusal()


class _Offer(StreamFuture[QueueOfferResult]):
    """The result of an offer. Cancelled while it waits for room, it takes its element back."""

    def __init__(self, withdraw: Callable[[_Offer], bool]) -> None:
        super().__init__("an offer to a queue")
        self._withdraw = withdraw

    def cancel(self) -> bool:
        """Withdraw the element and return True; return False when it is in the queue already."""
        return self._withdraw(self) and Future.cancel(self)

    def __await__(self) -> Generator[Any, None, QueueOfferResult]:
        if self.done():  # no suspension: a cancellation must not hide that the element is in
            return self.result(0)
        return (yield from super().__await__())


class SourceQueueWithBackpressure(_Queue[T]):
    """Materialized by `Source.queue_with_backpressure(size)`."""

    def __init__(self, capacity: int, max_concurrent_offers: int) -> None:
        super().__init__(capacity)
        self._max_waiting = max_concurrent_offers
        self._waiting: OrderedDict[_Offer, T] = OrderedDict()
        self._offers = Gauge("a queue with back-pressure: offers that wait", max_concurrent_offers)
        self._admitted: list[_Offer] = []

    def offer(self, element: T) -> StreamFuture[QueueOfferResult]:
        """Put an element in; the future ends with ENQUEUED when there is room for it, with QUEUE_CLOSED or a Failure otherwise.

        The future fails with BufferOverflow at once when `max_concurrent_offers` others wait. An offer that is cancelled while it waits, as by
        `asyncio.timeout` around its `await`, is withdrawn: its element never enters the stream. `cancel()` returns False once the element
        is in. Any thread."""
        future = _Offer(self._withdraw)
        answer: QueueOfferResult | None = None
        with self._lock:
            if self._state is not _State.OPEN:
                answer = self._refusal()
            elif len(self._elements) < self._capacity:
                self._elements.append(element)
                self._gauge.reached(len(self._elements))
                answer = ENQUEUED
            elif len(self._waiting) < self._max_waiting:
                self._waiting[future] = element
                self._offers.reached(len(self._waiting))
            else:
                future.set_exception(
                    BufferOverflow(
                        f"{self._max_waiting} offers wait for room in the queue already; await an offer before the next one, "
                        "or raise max_concurrent_offers"
                    )
                )
                return future
        if answer is not None:
            future.set_result(answer)
        if answer is None or answer is ENQUEUED:
            self._tell()
        return future

    def _take(self, n: int) -> tuple[list[T], bool]:
        taken = super()._take(n)
        admitted, self._admitted = self._admitted, []
        for future in admitted:
            future.set_result(ENQUEUED)
        return taken

    def _admit(self) -> None:
        waiting = self._waiting
        while waiting and len(self._elements) < self._capacity:
            future, element = waiting.popitem(last=False)
            self._elements.append(element)
            self._admitted.append(future)

    def _withdraw(self, offer: _Offer) -> bool:
        """Return True if the offer waited, and waits no longer."""
        with self._lock:
            return self._waiting.pop(offer, self) is not self

    def _drained(self) -> bool:
        return not self._elements and not self._waiting

    def _close(self, error: BaseException | None) -> None:
        super()._close(error)
        with self._lock:
            waiting, self._waiting = self._waiting, OrderedDict()
        for future in waiting:
            future.set_result(self._refusal())

    def fail(self, error: BaseException) -> None:
        """Fail the stream at once; elements in the queue, or waiting for room, are lost. Later calls have no effect."""
        super().fail(error)
        with self._lock:
            waiting, self._waiting = self._waiting, OrderedDict()
        for future in waiting:
            future.set_result(self._refusal())


class BoundedQueue(GraphStage):
    """The stage of `Source.queue`."""

    traits = StageTraits(endless=True)
    shape = SOURCE
    name = "queue"

    def __init__(self, size: int, overflow: str = OverflowStrategy.drop_new) -> None:
        self._size = positive("queue", "size", size)
        self._overflow = OverflowStrategy(overflow)

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        queue: BoundedSourceQueue[Any] = BoundedSourceQueue(self._size, self._overflow)
        return _QueueLogic(queue), queue


class BackpressureQueue(GraphStage):
    """The stage of `Source.queue_with_backpressure` and `Source.from_writer`."""

    traits = StageTraits(endless=True)
    shape = SOURCE
    name = "queue_with_backpressure"

    def __init__(self, size: int, max_concurrent_offers: int) -> None:
        self._size = positive(self.name, "size", size)
        self._max_offers = at_least(self.name, "max_concurrent_offers", max_concurrent_offers, 1)

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        queue: SourceQueueWithBackpressure[Any] = SourceQueueWithBackpressure(self._size, self._max_offers)
        return _QueueLogic(queue), queue


class _QueueLogic(SourceLogic):
    def __init__(self, queue: _Queue[Any]) -> None:
        self._queue = queue
        self._failure: BaseException | None = None
        queue._logic = self
        self.wake = self.async_callback(self._look)

    def _look(self, _: None) -> None:
        self.on_pull(self.out)

    def on_pull(self, out: Connection) -> None:
        chunk, over = self._queue._take(out.asked)
        if chunk:
            out.push(chunk)
        if over:
            if self._queue._error is not None:
                self.fail_stage(self._queue._error)
            else:
                self.complete_stage()

    def fail_stage(self, error: BaseException) -> None:
        self._failure = error
        super().fail_stage(error)

    def on_stop(self) -> None:
        self._queue._close(self._failure)

    def snapshot_state(self) -> str:
        return f"{len(self._queue)} queued"
