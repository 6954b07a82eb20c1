"""Constructors of Sink that pass elements to queues, actors or several sinks, or drop them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, overload

from streamactors.actors.address import ActorRef
from streamactors.actors.futures import StreamFuture
from streamactors.dsl.constructors import Constructors
from streamactors.dsl.kinds import Source, part
from streamactors.dsl.part import module_of, not_used, one_by_one
from streamactors.dsl.typevars import M2, T
from streamactors.engine.blueprint.modules import MatMapped, StageModule, Wired
from streamactors.engine.stage import GraphStage, NotUsed
from streamactors.errors import BuildError
from streamactors.stages.defaults import ANY_ANSWER, NO_MESSAGE

if TYPE_CHECKING:
    from streamactors.actors.system import ActorSystem
    from streamactors.dsl.kinds import Sink
    from streamactors.engine.attributes import Attributes
    from streamactors.stages.sinks.sink_queue import SinkQueue


class OutsideSinks(Constructors):
    """Sinks that hand elements to other code, actors or other streams."""

    __slots__ = ()

    @classmethod
    def to_queue(cls, buffer: int | None = None) -> Sink[T, SinkQueue[T]]:
        """Materialize a queue to pull elements from: `queue.pull()` returns the future of the next element. Any thread.

        `buffer` elements are kept ready; without it the number follows the reader, from 16 to 4,096.
        Materializes: a SinkQueue.                    Backpressures when: `pull` is not called.
        Marks: done when the element after them is pulled.

        Example:
            a -1-2-3|
            queue = a.run_with(Sink.to_queue())
            queue.pull()
        """
        from streamactors.stages.sinks.sink_queue import ToQueue

        return cls._of(ToQueue(buffer))

    @classmethod
    def actor_ref(
        cls, ref: ActorRef, *, on_complete: Any = None, on_failure: Callable[[BaseException], Any] | None = None
    ) -> Sink[Any, StreamFuture[None]]:
        """Send each element to an actor and wait for nothing: a slow actor's mailbox grows. `actor_ref_with_backpressure` waits.

        At the end the actor gets `on_complete` (StreamCompleted() by default) or `on_failure(error)` (StreamFailed(error) by default).
        Materializes: a future that ends with the stream.   Backpressures when: never.
        Cancels when: the actor ends.                       Marks: done when the element has been sent.

        Example:
            a -1-2-3|
            a.run_with(Sink.actor_ref(listener))
        """
        from streamactors.stages.sinks.actor_tell import TellSink

        return cls._of(TellSink(ref, on_complete, on_failure))

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
        """Send each element to an actor; the next is sent when the actor has answered with `ack` (by default with any message).

        `on_init` is sent before the first element, and must be answered. At the end the actor gets `on_complete` (StreamCompleted()
        by default) or `on_failure(error)` (StreamFailed(error) by default).
        Materializes: a future that ends with the stream.   Backpressures when: the actor has not answered.
        Cancels when: the actor ends.                       Marks: done when the actor has answered.

        Example:
            a -1-2-3|
            a.run_with(Sink.actor_ref_with_backpressure(listener, ack='taken'))
        """
        from streamactors.stages.sinks.actor_sink import ActorSink

        return cls._of(ActorSink(ref, on_init, ack, on_complete, on_failure))

    @classmethod
    def on_complete(cls, fn: Callable[[BaseException | None], object]) -> Sink[object, StreamFuture[None]]:
        """Drop every element; at the end call `fn(None)`, or `fn(error)` if the stream failed.

        Materializes: a future that ends with the stream.   Marks: done when the stream has completed.
        Fails when: the function raises.

        Example:
            a -1-2-3|
            a.run_with(Sink.on_complete(lambda error: None))
        """
        from streamactors.stages.sinks.on_complete import OnComplete

        return cls._of(OnComplete(fn))

    @classmethod
    def cancelled(cls) -> Sink[object, StreamFuture[None]]:
        """Cancel at once.

        Materializes: a future that is done.

        Example:
            a -1-2-3|
            a.run_with(Sink.cancelled())
        """
        from streamactors.stages.sinks.values import Cancelled

        return cls._of(Cancelled())

    @classmethod
    def never(cls) -> Sink[object, StreamFuture[None]]:
        """Never ask for an element.

        Materializes: a future that ends if upstream does.

        Example:
            a ---|
            a.run_with(Sink.never())
        """
        from streamactors.stages.sinks.values import NeverSink

        return cls._of(NeverSink())

    @classmethod
    def lazy_sink(cls, make: Callable[[], Sink[T, M2] | Awaitable[Sink[T, M2]]]) -> Sink[T, StreamFuture[M2]]:
        """Call `make` for the sink when the first element comes. `make` may return a future or another awaitable of it.

        Materializes: a future of that sink's materialized value; it fails if there never was an element.
        Backpressures when: that sink does.           Cancels when: that sink does.
        Fails when: `make` raises, or that sink fails.

        Example:
            a -1-2-3|
            a.run_with(Sink.lazy_sink(lambda: Sink.count()))
        """
        from streamactors.stages.bases.later import LazyPart

        return cls._of(LazyPart("lazy_sink", make, sink=True))

    @classmethod
    def lazy_future_sink(
        cls, make: Callable[[], Awaitable[Sink[T, M2]] | Future[Sink[T, M2]]]
    ) -> Sink[T, StreamFuture[M2]]:
        """As `lazy_sink`; `make` returns a future of the sink, or another awaitable.

        Example:
            a -1-2-3|
            async def later():
                await wait(2)
                return Sink.foreach(seen.append)

            a.run_with(Sink.lazy_future_sink(later))
        """
        from streamactors.stages.bases.later import LazyPart

        return cls._of(LazyPart("lazy_future_sink", make, sink=True))

    @classmethod
    def future_sink(cls, future: Future[Sink[T, M2]] | Awaitable[Sink[T, M2]]) -> Sink[T, StreamFuture[M2]]:
        """Send the elements to the sink that is a future's result.

        Materializes: a future of that sink's materialized value.
        Backpressures when: the future is not done, or that sink backpressures.   Cancels when: that sink does.
        Fails when: the future or that sink fails.

        Example:
            a -1-2-3|
            b ----x|
            sink = b.map(lambda x: Sink.foreach(seen.append)).run_with(Sink.head())
            a.run_with(Sink.future_sink(sink))
        """
        from streamactors.stages.bases.later import FuturePart

        return cls._of(FuturePart("future_sink", future, sink=True))

    @classmethod
    def from_materializer(cls, make: Callable[[ActorSystem, Attributes], Sink[T, M2]]) -> Sink[T, StreamFuture[M2]]:
        """Make the sink when the run starts: `make(system, attributes)` returns it.

        Materializes: a future of that sink's materialized value.
        Backpressures when: that sink does.           Cancels when: that sink does.
        Fails when: `make` raises, or that sink fails.

        Example:
            a -1-2-3|
            a.run_with(Sink.from_materializer(lambda system, attributes: Sink.count()))
        """
        from streamactors.stages.bases.later import FromMaterializer

        return cls._of(FromMaterializer(make, sink=True))

    @classmethod
    def source(cls) -> Sink[T, Source[T, NotUsed]]:
        """Materialize a source of the elements, which can be run once, on any system.

        Backpressures when: the source's run does, or has not started.
        Cancels when: the source's run cancels.       Marks: done when the element is read.

        Example:
            a -1-2-3|
            a.run_with(Sink.source())
        """
        from streamactors.stages.sinks.pull import PullSink
        from streamactors.stages.sources.hand_over import HandOver

        return cls._of(
            MatMapped(StageModule(PullSink("source", None)), lambda reader: part(Source, StageModule(HandOver(reader))))
        )

    @overload
    @classmethod
    def combine(
        cls, sinks: Iterable[Sink[T, Any]], /, strategy: Callable[[int], GraphStage] | None = None
    ) -> Sink[T, NotUsed]: ...

    @overload
    @classmethod
    def combine(cls, *sinks: Sink[T, Any], strategy: Callable[[int], GraphStage] | None = None) -> Sink[T, NotUsed]: ...

    @classmethod
    def combine(cls, *sinks: Any, strategy: Any = None) -> Sink[Any, NotUsed]:
        """Feed several sinks, given one by one or as a list, through a junction that `strategy(number of sinks)` makes:
        Broadcast (the default), Balance, or your own.

        Cancels when: the junction does.

        Example:
            a -1-2-3|
            a.to(Sink.combine(Sink.foreach(seen.append), Sink.ignore())).run()
        """
        from streamactors.stages.junctions.fan_out import Broadcast

        several, strategy = one_by_one(sinks, strategy)
        modules = [module_of("Sink.combine", one, (1, 0)) for one in several]
        if not modules:
            raise BuildError("Sink.combine expects at least one sink")
        junction = StageModule((strategy or Broadcast)(len(modules)))
        if (len(junction.shape.inlets), len(junction.shape.outlets)) != (1, len(modules)):
            raise BuildError(f"Sink.combine: the strategy must give a junction of 1 inlet and {len(modules)} outlets")
        wires = tuple(((0, i), (i + 1, 0)) for i in range(len(modules)))
        return cls._of(Wired((junction, *modules), wires, ((0, 0),), (), not_used))
