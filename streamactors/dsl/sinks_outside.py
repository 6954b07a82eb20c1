"""Constructors of Sink whose elements are wanted elsewhere, or not at all: queues, actors, callbacks, several sinks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, overload

from streamactors.actors.address import ActorRef
from streamactors.actors.futures import StreamFuture
from streamactors.dsl.part import module_of, not_used, one_by_one
from streamactors.dsl.sinks_basic import sink
from streamactors.dsl.typevars import T
from streamactors.engine.blueprint import StageModule, Wired
from streamactors.engine.stage import GraphStage, NotUsed
from streamactors.errors import BuildError
from streamactors.stages.actor_sink import ANY_ANSWER, NO_MESSAGE, ActorSink
from streamactors.stages.fan_out import Broadcast
from streamactors.stages.on_complete import OnComplete
from streamactors.stages.sink_queue import SinkQueue, ToQueue
from streamactors.stages.sinks import Cancelled, NeverSink

if TYPE_CHECKING:
    from streamactors.dsl.sink import Sink


class OutsideSinks:
    """See the module."""

    __slots__ = ()

    @classmethod
    def to_queue(cls, buffer: int | None = None) -> Sink[T, SinkQueue[T]]:
        """Let somebody pull: `queue.pull()` returns the future of the next element. Any thread.

        `buffer` elements are kept ready; without it the number follows the reader, from 16 to 4,096.
        Materializes: a SinkQueue.                    Backpressures when: nobody pulls.
        Marks: done when the element behind them is pulled.
        """
        return sink(ToQueue(buffer))

    @classmethod
    def actor_ref_with_backpressure(
        cls,
        ref: ActorRef,
        *,
        on_init: Any = NO_MESSAGE,
        ack: Any = ANY_ANSWER,
        on_complete: Any = None,
        on_failure: Callable[[BaseException], Any] | None = None,
    ) -> Sink[Any, StreamFuture[None]]:
        """Tell each element to an actor; the next one goes when it has answered with `ack` (by default with anything).

        `on_init` is sent, and must be answered, before the first. At the end the actor is told `on_complete` (StreamCompleted()
        by default) or `on_failure(error)` (StreamFailed(error) by default).
        Materializes: a future that ends with the stream.   Backpressures when: the actor has not answered.
        Cancels when: the actor ends.                       Marks: done with what was answered.
        """
        return sink(ActorSink(ref, on_init, ack, on_complete, on_failure))

    @classmethod
    def on_complete(cls, fn: Callable[[BaseException | None], object]) -> Sink[object, StreamFuture[None]]:
        """Drop every element; at the end call `fn(None)`, or `fn(error)` if the stream failed.

        Materializes: a future that ends with the stream.   Marks: done when the stream has completed.
        """
        return sink(OnComplete(fn))

    @classmethod
    def cancelled(cls) -> Sink[object, StreamFuture[None]]:
        """Cancel at once.

        Materializes: a future that is done.
        """
        return sink(Cancelled())

    @classmethod
    def never(cls) -> Sink[object, StreamFuture[None]]:
        """Ask for nothing, ever.

        Materializes: a future that ends if upstream does.
        """
        return sink(NeverSink())

    @overload
    @classmethod
    def combine(
        cls, sinks: Iterable[Sink[T, Any]], /, strategy: Callable[[int], GraphStage] = Broadcast
    ) -> Sink[T, NotUsed]: ...

    @overload
    @classmethod
    def combine(cls, *sinks: Sink[T, Any], strategy: Callable[[int], GraphStage] = Broadcast) -> Sink[T, NotUsed]: ...

    @classmethod
    def combine(cls, *sinks: Any, strategy: Any = Broadcast) -> Sink[Any, NotUsed]:
        """Feed several sinks, given one by one or as a list, through a junction that `strategy(number of sinks)` makes:
        Broadcast, Balance, or your own.

        Cancels when: the junction does.
        """
        several, strategy = one_by_one(sinks, strategy)
        modules = [module_of("Sink.combine", one, (1, 0)) for one in several]
        if not modules:
            raise BuildError("Sink.combine expects at least one sink")
        junction = StageModule(strategy(len(modules)))
        if (len(junction.shape.inlets), len(junction.shape.outlets)) != (1, len(modules)):
            raise BuildError(f"Sink.combine: the strategy must give a junction of 1 inlet and {len(modules)} outlets")
        from streamactors.dsl.sink import Sink

        wires = tuple(((0, i), (i + 1, 0)) for i in range(len(modules)))
        return Sink(Wired((junction, *modules), wires, ((0, 0),), (), not_used))
