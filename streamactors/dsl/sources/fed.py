"""Constructors of Source that are fed from outside while they run: queues and actors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, overload

from streamactors.actors.address import ActorRef
from streamactors.dsl.constructors import Constructors
from streamactors.dsl.typevars import T
from streamactors.stages.control.restart_settings import RestartSettings
from streamactors.stages.framing.server_sent_events import LONGEST_EVENT, ServerSentEvent
from streamactors.stages.network.http_events import RECONNECT, ServerSentEvents
from streamactors.stages.rate.strategies import Overflow, OverflowStrategy, checked_strategy
from streamactors.stages.sources.actor_ref import ActorRefSource, ActorRefSourceWithBackpressure
from streamactors.stages.sources.queue import (
    MOST_OFFERS,
    BackpressureQueue,
    BoundedQueue,
    BoundedSourceQueue,
    SourceQueueWithBackpressure,
)

if TYPE_CHECKING:
    from streamactors.dsl.kinds import Source
    from streamactors.engine.stage import NotUsed


class FedSources(Constructors):
    """See the module."""

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
        if overflow == OverflowStrategy.backpressure:
            return cls.queue_with_backpressure(size, max_concurrent_offers)
        if overflow is None:
            overflow = OverflowStrategy.drop_new
        return cls._of(BoundedQueue(size, checked_strategy("queue", "overflow", overflow)))

    @classmethod
    def queue_with_backpressure(
        cls, size: int, max_concurrent_offers: int = MOST_OFFERS
    ) -> Source[T, SourceQueueWithBackpressure[T]]:
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
        return cls._of(ActorRefSource(size, overflow, complete_when, fail_when))

    @classmethod
    def actor_ref_with_backpressure(
        cls,
        ack: Any,
        *,
        complete_when: Callable[[Any], bool] | None = None,
        fail_when: Callable[[Any], BaseException | None] | None = None,
    ) -> Source[T, ActorRef]:
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
        return cls._of(ServerSentEvents(url, headers, reconnect, client, max_length))

    @classmethod
    def from_observable(cls, observable: Any, overflow: str = "fail", max_buffer: int = 1_024) -> Source[T, NotUsed]:
        """Emit the elements of an RxPY observable. An observable knows no demand, so up to `max_buffer` elements wait; then "fail"
        fails the stream, "drop_head" drops the oldest element, "drop_tail" the youngest that waits, "drop_new" the new one.

        Emits when: an element waits and there is demand.   Completes when: the observable has completed and no element waits.
        Fails when: the observable fails. The subscription is disposed when downstream cancels.
        """
        from streamactors.stages.rx.from_observable import FromObservable

        return cls._of(FromObservable(observable, overflow, max_buffer))
