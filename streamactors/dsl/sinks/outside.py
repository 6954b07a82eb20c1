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
from streamactors.stages.junctions.fan_out import Broadcast
from streamactors.stages.sinks.actor_sink import ANY_ANSWER, NO_MESSAGE, ActorSink
from streamactors.stages.sinks.actor_tell import TellSink
from streamactors.stages.sinks.later import FutureSink, LazySink, SinkFromMaterializer
from streamactors.stages.sinks.on_complete import OnComplete
from streamactors.stages.sinks.pull import PullSink
from streamactors.stages.sinks.sink_queue import SinkQueue, ToQueue
from streamactors.stages.sinks.values import Cancelled, NeverSink
from streamactors.stages.sources.hand_over import HandOver

if TYPE_CHECKING:
    from streamactors.actors.system import ActorSystem
    from streamactors.dsl.kinds import Sink
    from streamactors.engine.blueprint.attributes import Attributes


class OutsideSinks(Constructors):
    """See the module."""

    __slots__ = ()

    @classmethod
    def to_queue(cls, buffer: int | None = None) -> Sink[T, SinkQueue[T]]:
        return cls._of(ToQueue(buffer))

    @classmethod
    def actor_ref(
        cls, ref: ActorRef, *, on_complete: Any = None, on_failure: Callable[[BaseException], Any] | None = None
    ) -> Sink[Any, StreamFuture[None]]:
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
        return cls._of(ActorSink(ref, on_init, ack, on_complete, on_failure))

    @classmethod
    def on_complete(cls, fn: Callable[[BaseException | None], object]) -> Sink[object, StreamFuture[None]]:
        return cls._of(OnComplete(fn))

    @classmethod
    def cancelled(cls) -> Sink[object, StreamFuture[None]]:
        return cls._of(Cancelled())

    @classmethod
    def never(cls) -> Sink[object, StreamFuture[None]]:
        return cls._of(NeverSink())

    @classmethod
    def lazy_sink(cls, make: Callable[[], Sink[T, M2] | Awaitable[Sink[T, M2]]]) -> Sink[T, StreamFuture[M2]]:
        return cls._of(LazySink(make))

    @classmethod
    def lazy_future_sink(
        cls, make: Callable[[], Awaitable[Sink[T, M2]] | Future[Sink[T, M2]]]
    ) -> Sink[T, StreamFuture[M2]]:
        """As `lazy_sink`; `make` returns a future of the sink, or another awaitable."""
        return cls._of(LazySink(make, "lazy_future_sink"))

    @classmethod
    def future_sink(cls, future: Future[Sink[T, M2]] | Awaitable[Sink[T, M2]]) -> Sink[T, StreamFuture[M2]]:
        return cls._of(FutureSink(future))

    @classmethod
    def from_materializer(cls, make: Callable[[ActorSystem, Attributes], Sink[T, M2]]) -> Sink[T, StreamFuture[M2]]:
        return cls._of(SinkFromMaterializer(make))

    @classmethod
    def source(cls) -> Sink[T, Source[T, NotUsed]]:
        """Materialize a source of the elements, which can be run once, on any system.

        Backpressures when: the source's run does, or has not started.
        Cancels when: the source's run cancels.       Marks: done when the element is read.
        """
        return cls._of(
            MatMapped(StageModule(PullSink("source", None)), lambda reader: part(Source, StageModule(HandOver(reader))))
        )

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
        wires = tuple(((0, i), (i + 1, 0)) for i in range(len(modules)))
        return cls._of(Wired((junction, *modules), wires, ((0, 0),), (), not_used))
