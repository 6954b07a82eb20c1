"""Constructors of Source whose elements other code sends while they run: queues and actors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, overload

from streamactors.actors.address import ActorRef
from streamactors.dsl.constructors import Constructors
from streamactors.dsl.typevars import T
from streamactors.stages.defaults import LONGEST_EVENT, MOST_OFFERS, RECONNECT

if TYPE_CHECKING:
    from streamactors.dsl.kinds import Source
    from streamactors.engine.stage import NotUsed
    from streamactors.stages.framing.server_sent_events import ServerSentEvent
    from streamactors.stages.rate.strategies import Overflow
    from streamactors.stages.restart_settings import RestartSettings
    from streamactors.stages.sources.queue import BoundedSourceQueue, SourceQueueWithBackpressure


class FedSources(Constructors):
    """Constructors of sources whose elements other code sends while they run."""

    __slots__ = ()

    @overload
    @classmethod
    def queue(cls, size: int, overflow: Overflow | None = None) -> Source[T, BoundedSourceQueue[T]]: ...

    @overload
    @classmethod
    def queue(
        cls, size: int, overflow: Literal["backpressure"], max_concurrent_offers: int = MOST_OFFERS
    ) -> Source[T, SourceQueueWithBackpressure[T]]: ...

    @classmethod
    def queue(cls, size: int, overflow: Any = None, max_concurrent_offers: int = MOST_OFFERS) -> Source[Any, Any]:
        """Emit the elements offered to the materialized queue, on any thread. `offer(x)` returns at once: ENQUEUED, DROPPED when
        the queue is full, QUEUE_CLOSED, or a Failure.

        The default overflow "drop_new" drops x. To make room for x, "drop_head" drops the oldest element kept, "drop_tail" the
        youngest, "drop_buffer" all; "fail" fails the stream with BufferOverflow; "backpressure" gives `queue_with_backpressure`.
        Emits when: there is demand and the queue has an element.   Completes when: `complete()` was called and the queue is empty.
        Fails when: `fail(error)` is called, or the queue is full ("fail").

        Example:
            a -1-2-3|
            queue, elements = Source.queue(8).pre_materialize(system)
            a.run_with(Sink.foreach(queue.offer)).add_done_callback(lambda done: queue.complete())
            elements
        """
        from streamactors.stages.rate.strategies import OverflowStrategy, checked_strategy
        from streamactors.stages.sources.queue import BoundedQueue

        if overflow == OverflowStrategy.backpressure:
            return cls.queue_with_backpressure(size, max_concurrent_offers)
        if overflow is None:
            overflow = OverflowStrategy.drop_new
        return cls._of(BoundedQueue(size, checked_strategy("queue", "overflow", overflow)))

    @classmethod
    def queue_with_backpressure(
        cls, size: int, max_concurrent_offers: int = MOST_OFFERS
    ) -> Source[T, SourceQueueWithBackpressure[T]]:
        """Emit the elements offered to the materialized queue. `offer(x)` returns a future that ends when there is room for x.

        Offers from several coroutines or threads wait in their order, at most `max_concurrent_offers` of them (1,024 unless set otherwise); one
        more fails with BufferOverflow. The queue so holds at most `size` + `max_concurrent_offers` elements.
        Emits when: there is demand and the queue has an element.   Completes when: `complete()` was called and the queue is empty.
        Fails when: `fail(error)` is called.

        Example:
            a -1-2-3|
            queue, elements = Source.queue_with_backpressure(8).pre_materialize(system)
            a.run_with(Sink.foreach_async(1, queue.offer)).add_done_callback(lambda done: queue.complete())
            elements
        """
        from streamactors.stages.sources.queue import BackpressureQueue

        return cls._of(BackpressureQueue(size, max_concurrent_offers))

    @classmethod
    def actor_ref(
        cls,
        size: int,
        overflow: Overflow = "drop_new",
        *,
        complete_when: Callable[[Any], bool] | None = None,
        fail_when: Callable[[Any], BaseException | None] | None = None,
    ) -> Source[T, ActorRef]:
        """Emit the messages sent to the materialized ActorRef; up to `size` are held while there is no demand.

        Emits when: there is demand and a message is held.   Backpressures when: never; `overflow` decides when `size` are held.
        Completes when: StreamCompleted, ActorExitRequest or a message for which `complete_when` is true comes; held messages first.
        Fails when: StreamFailed(error) comes, or `fail_when(message)` returns an error; with overflow "fail", when `size` are held.

        Example:
            a -1-2-3|
            actor, elements = Source.actor_ref(8).pre_materialize(system)
            a.run_with(Sink.actor_ref(actor))
            elements
        """
        from streamactors.stages.sources.actor_ref import ActorRefSource

        return cls._of(ActorRefSource(size, overflow, complete_when, fail_when))

    @classmethod
    def actor_ref_with_backpressure(
        cls,
        ack: Any,
        *,
        complete_when: Callable[[Any], bool] | None = None,
        fail_when: Callable[[Any], BaseException | None] | None = None,
    ) -> Source[T, ActorRef]:
        """Emit the messages sent to the materialized ActorRef; each sender gets `ack` when its message has been pushed.

        Emits when: there is demand and a message has come.   Backpressures when: `ack` is not sent yet.
        Completes when: StreamCompleted, ActorExitRequest or a message for which `complete_when` is true comes; a held message first.
        Fails when: StreamFailed(error) comes, or `fail_when(message)` returns an error; a message comes before the `ack` of the one before.

        Example:
            a -1-2-3|
            actor, elements = Source.actor_ref_with_backpressure(ack='taken').pre_materialize(system)
            a.run_with(Sink.actor_ref_with_backpressure(actor, ack='taken'))
            elements
        """
        from streamactors.stages.sources.actor_ref import ActorRefSourceWithBackpressure

        return cls._of(ActorRefSourceWithBackpressure(ack, complete_when, fail_when))

    @classmethod
    def server_sent_events(
        cls,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        reconnect: RestartSettings | None = RECONNECT,
        client: Callable[[], Any] | None = None,
        max_length: int = LONGEST_EVENT,
    ) -> Source[ServerSentEvent, NotUsed]:
        r"""Emit the events that an HTTP server sends (`text/event-stream`), with httpx.

        When the connection ends or breaks, it is made again after the back-off of `reconnect`, or after the time that the server has
        asked for, and the request carries the id of the last event; `reconnect=None` never does that. `client()` makes the
        httpx.AsyncClient, for headers, certificates and timeouts of your own.
        Emits when: there is demand and an event has come.   Completes when: the server answers 204, or ends and `reconnect` is None.
        Fails when: the server answers with an error or another type, or `reconnect` allows no further attempt (ConnectionFailed).
        Cancels when: downstream does; the connection is closed.

        Example:
            import httpx

            from streamactors import Sink, Source

            def answer(request):
                events = "data: one\n\ndata: two\n\n"
                return httpx.Response(200, headers={"content-type": "text/event-stream"}, text=events)

            def client():
                return httpx.AsyncClient(transport=httpx.MockTransport(answer))

            events = Source.server_sent_events("http://localhost/events", reconnect=None, client=client)
            print(events.map(lambda event: event.data).run_with(Sink.to_list()).result(timeout=5))
        """
        from streamactors.stages.network.http_events import ServerSentEvents

        return cls._of(ServerSentEvents(url, headers, reconnect, client, max_length))

    @classmethod
    def from_observable(cls, observable: Any, overflow: str = "fail", max_buffer: int = 1_024) -> Source[T, NotUsed]:
        """Emit the elements of an RxPY observable. An observable knows no demand, so up to `max_buffer` elements wait; then "fail"
        fails the stream, "drop_head" drops the oldest element, "drop_tail" the youngest that waits, "drop_new" the new one.

        Emits when: an element waits and there is demand.   Completes when: the observable has completed and no element waits.
        Fails when: the observable fails. The subscription is disposed when downstream cancels.

        Example:
            Source.from_observable(reactivex.of(1, 2, 3))
        """
        from streamactors.stages.rx.from_observable import FromObservable

        return cls._of(FromObservable(observable, overflow, max_buffer))
