"""Constructors of Source that are fed from outside while they run: queues and actors."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, overload

from streamactors.actors.address import ActorRef
from streamactors.dsl.sources_finite import source
from streamactors.errors import BuildError
from streamactors.stages.actor_ref import ActorRefSource, ActorRefSourceWithBackpressure
from streamactors.stages.queue import BackpressureQueue, BoundedQueue, BoundedSourceQueue, SourceQueueWithBackpressure
from streamactors.stages.strategies import OverflowStrategy

if TYPE_CHECKING:
    from streamactors.dsl.source import Source
    from streamactors.engine.stage import NotUsed

Overflow = Literal["drop_head", "drop_tail", "drop_buffer", "drop_new", "fail"]


class FedSources:
    """See the module."""

    __slots__ = ()

    @overload
    @classmethod
    def queue(cls, size: int, overflow: Overflow | None = None) -> Source[Any, BoundedSourceQueue[Any]]: ...

    @overload
    @classmethod
    def queue(
        cls, size: int, overflow: Literal["backpressure"], max_concurrent_offers: int = 1
    ) -> Source[Any, SourceQueueWithBackpressure[Any]]: ...

    @classmethod
    def queue(cls, size: int, overflow: Any = None, max_concurrent_offers: int = 1) -> Source[Any, Any]:
        """Emit what is offered to the materialized queue, from any thread. `offer(x)` answers at once: ENQUEUED, DROPPED when
        the queue is full, QUEUE_CLOSED, or a Failure.

        That is "drop_new", the default. To make room for x, "drop_head" drops the oldest element kept, "drop_tail" the youngest,
        "drop_buffer" all; "fail" fails the stream with BufferOverflow. With "backpressure" it is `queue_with_backpressure`.
        Emits when: there is demand and the queue has an element.   Completes when: `complete()` was called and the queue is empty.
        Fails when: `fail(error)` is called, or the queue is full ("fail").
        """
        if overflow == OverflowStrategy.backpressure:
            return cls.queue_with_backpressure(size, max_concurrent_offers)
        if overflow is None:
            overflow = OverflowStrategy.drop_new
        if overflow not in tuple(OverflowStrategy):
            raise BuildError(f"queue: overflow must be one of {', '.join(OverflowStrategy)}, got {overflow!r}")
        return source(BoundedQueue(size, overflow))

    @classmethod
    def queue_with_backpressure(
        cls, size: int, max_concurrent_offers: int = 1
    ) -> Source[Any, SourceQueueWithBackpressure[Any]]:
        """Emit what is offered to the materialized queue. `offer(x)` returns a future, which ends when there is room for x;
        more than `max_concurrent_offers` waiting at a time fail with BufferOverflow.

        Emits when: there is demand and the queue has an element.   Completes when: `complete()` was called and the queue is empty.
        Fails when: `fail(error)` is called.
        """
        return source(BackpressureQueue(size, max_concurrent_offers))

    @classmethod
    def actor_ref(
        cls,
        size: int,
        overflow: Overflow = "drop_new",
        *,
        complete_when: Callable[[Any], bool] | None = None,
        fail_when: Callable[[Any], BaseException | None] | None = None,
    ) -> Source[Any, ActorRef]:
        """Emit the messages told to the materialized ActorRef, of which `size` are held while there is no demand.

        Emits when: there is demand and a message is held.   Backpressures when: never; when full, `overflow` rules.
        Completes when: StreamCompleted or ActorExitRequest is told, or what `complete_when` says True to; what is held goes out first.
        Fails when: StreamFailed(error) is told, or `fail_when` gives an error for a message; with overflow "fail" when full.
        """
        return source(ActorRefSource(size, overflow, complete_when, fail_when))

    @classmethod
    def actor_ref_with_backpressure(
        cls,
        ack: Any,
        *,
        complete_when: Callable[[Any], bool] | None = None,
        fail_when: Callable[[Any], BaseException | None] | None = None,
    ) -> Source[Any, ActorRef]:
        """Emit the messages told to the materialized ActorRef; each sender is sent `ack` when its element has gone downstream.

        Emits when: there is demand and a message has come.   Backpressures when: `ack` is not sent yet.
        Completes when: StreamCompleted or ActorExitRequest is told, or what `complete_when` says True to; what is held goes out first.
        Fails when: StreamFailed(error) is told, or `fail_when` gives an error; when a message does not wait for the `ack` before it.
        """
        return source(ActorRefSourceWithBackpressure(ack, complete_when, fail_when))

    @classmethod
    def from_observable(cls, observable: Any, overflow: str = "fail", max_buffer: int = 1_024) -> Source[Any, NotUsed]:
        """Emit what an RxPY observable emits, on whatever thread. It knows no demand, so `max_buffer` elements may wait; then
        "fail" fails the stream, "drop_head" drops the oldest, "drop_tail" the newest that waits, "drop_new" the one that comes.

        Emits when: the observable has emitted and there is demand.   Completes when: the observable has and none waits.
        Fails when: the observable fails. Its subscription is disposed when downstream cancels.
        """
        from streamactors.stages.rx.from_observable import FromObservable

        return source(FromObservable(observable, overflow, max_buffer))
