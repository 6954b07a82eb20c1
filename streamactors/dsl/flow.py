"""Flow: a part with one open inlet and one open outlet."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from types import MethodType
from typing import TYPE_CHECKING, Any, overload

from streamactors.actors.futures import StreamFuture
from streamactors.dsl.keep import Keep
from streamactors.dsl.operators.all_operators import FlowOps
from streamactors.dsl.operators.base import Ops
from streamactors.dsl.operators.context import FlowContextOp
from streamactors.dsl.part import checked_combine, joined, module_of, not_used
from streamactors.dsl.runnable import started
from streamactors.dsl.sink import Sink
from streamactors.dsl.suggestions import FlowSuggestions
from streamactors.dsl.typevars import M2, M3, M4, In, Mat, Out, T, U
from streamactors.engine.blueprint.modules import Module, StageModule, Wired, keep_both, keep_right
from streamactors.engine.stage import Element, NotUsed, Stage
from streamactors.stages.bases.passing import Identity

if TYPE_CHECKING:
    from streamactors.actors.system import ActorSystem
    from streamactors.dsl.source import Source
    from streamactors.engine.attributes import Attributes


class Flow(FlowOps[In, Out, Mat], FlowSuggestions):
    """Elements in, elements out. Each operator exists on the class too: `Flow.map(f).filter(g)`."""

    __slots__ = ()
    ports = (1, 1)

    @staticmethod
    def identity() -> Flow[Element, Element, NotUsed]:
        """Return the flow that passes every element on."""
        return _IDENTITY

    @staticmethod
    def of(element_type: type[T]) -> Flow[T, T, NotUsed]:
        """Return the identity for elements of a type, which only type checkers use: `Flow.of(int).map(lambda n: n + 1)`."""
        return _IDENTITY

    @staticmethod
    def from_stage(stage: Stage[T, U]) -> Flow[T, U, Any]:
        """Return the flow of a stage of your own; it materializes what the stage's `create` returns."""
        return Flow(module_of("Flow.from_stage", stage, (1, 1)))

    @overload
    @staticmethod
    def from_sink_and_source(sink: Sink[T, Any], source: Source[U, Any]) -> Flow[T, U, NotUsed]: ...

    @overload
    @staticmethod
    def from_sink_and_source(
        sink: Sink[T, M2], source: Source[U, M3], *, mat: Callable[[M2, M3], M4]
    ) -> Flow[T, U, M4]: ...

    @staticmethod
    def from_sink_and_source(sink: Any, source: Any, *, mat: Any = None) -> Flow[Any, Any, Any]:
        """Return the flow that feeds `sink` and emits the elements of `source`; the two end independently.

        `mat(the sink's, the source's)` gives the materialized value, for example Keep.both; without it there is none."""
        operator = "Flow.from_sink_and_source"
        combine = _combine(operator, mat)
        return Flow(Wired(_ends(operator, sink, source), (), ((0, 0),), ((1, 0),), lambda values: combine(*values)))

    @overload
    @staticmethod
    def from_sink_and_source_coupled(sink: Sink[T, Any], source: Source[U, Any]) -> Flow[T, U, NotUsed]: ...

    @overload
    @staticmethod
    def from_sink_and_source_coupled(
        sink: Sink[T, M2], source: Source[U, M3], *, mat: Callable[[M2, M3], M4]
    ) -> Flow[T, U, M4]: ...

    @staticmethod
    def from_sink_and_source_coupled(sink: Any, source: Any, *, mat: Any = None) -> Flow[Any, Any, Any]:
        """As `from_sink_and_source`, but the two end together: when one of them, upstream or downstream ends, the others are ended the
        same way."""
        from streamactors.stages.control.coupling import CoupledTermination

        operator = "Flow.from_sink_and_source_coupled"
        combine = _combine(operator, mat)
        parts = (StageModule(CoupledTermination()), *_ends(operator, sink, source))
        wires = (((0, 0), (1, 0)), ((2, 0), (0, 1)))
        return Flow(Wired(parts, wires, ((0, 0),), ((0, 1),), lambda values: combine(values[1], values[2])))

    # ── flows that are known later ────────────────────────────────────────────────────────────────────────────────

    @staticmethod
    def lazy_flow(make: Callable[[], Flow[T, U, M2] | Awaitable[Flow[T, U, M2]]]) -> Flow[T, U, StreamFuture[M2]]:
        """Call `make` for the flow when the first element comes.

        Materializes: a future of that flow's materialized value; it fails if there never was an element.
        Emits when: that flow does.                   Backpressures when: that flow does.
        Completes when: that flow does, or upstream completes without an element.   Cancels when: that flow or downstream cancels.
        Fails when: `make` raises, or that flow fails.
        """
        from streamactors.stages.bases.later import LazyPart

        return Flow(StageModule(LazyPart("lazy_flow", make)))

    @staticmethod
    def lazy_future_flow(
        make: Callable[[], Awaitable[Flow[T, U, M2]] | Future[Flow[T, U, M2]]],
    ) -> Flow[T, U, StreamFuture[M2]]:
        """As `lazy_flow`; `make` returns a future of the flow, or another awaitable."""
        from streamactors.stages.bases.later import LazyPart

        return Flow(StageModule(LazyPart("lazy_future_flow", make)))

    @staticmethod
    def future_flow(future: Future[Flow[T, U, M2]] | Awaitable[Flow[T, U, M2]]) -> Flow[T, U, StreamFuture[M2]]:
        """Run the elements through the flow that is a future's result.

        Materializes: a future of that flow's materialized value.
        Emits when: that flow does.                   Backpressures when: the future is not done, or that flow backpressures.
        Completes when: that flow does.               Cancels when: that flow or downstream cancels.
        Fails when: the future or that flow fails.
        """
        from streamactors.stages.bases.later import FuturePart

        return Flow(StageModule(FuturePart("future_flow", future)))

    @staticmethod
    def from_materializer(
        make: Callable[[ActorSystem, Attributes], Flow[T, U, M2]],
    ) -> Flow[T, U, StreamFuture[M2]]:
        """Make the flow when the run starts: `make(system, attributes)` returns it.

        Materializes: a future of that flow's materialized value.
        Emits when: that flow does.                   Backpressures when: that flow does.
        Completes when: that flow does.               Cancels when: that flow or downstream cancels.
        Fails when: `make` raises, or that flow fails.
        """
        from streamactors.stages.bases.later import FromMaterializer

        return Flow(StageModule(FromMaterializer(make)))

    # ── other forms of it ─────────────────────────────────────────────────────────────────────────────────────────

    def contramap(self, fn: Callable[[T], In]) -> Flow[T, Out, Mat]:
        """Return a flow that takes `fn(element)` into this one."""
        from streamactors.stages.transform.mapping import Map

        return Flow(joined(StageModule(Map(fn)), self.module, keep_right))

    def dimap(self, before: Callable[[T], In], after: Callable[[Out], U]) -> Flow[T, U, Mat]:
        """Return a flow that takes `before(element)` into this one and emits `after(result)`."""
        from streamactors.stages.transform.mapping import Map

        return Flow(joined(self.contramap(before).module, StageModule(Map(after))))

    def pre_materialize(self, system: ActorSystem | None = None) -> tuple[Mat, Flow[In, Out, NotUsed]]:
        """Run this flow now; return its materialized value and a flow through it, which can be run once, on any system."""
        from streamactors.stages.sinks.hand_in import HandIn
        from streamactors.stages.sinks.pull import PullSink
        from streamactors.stages.sources.hand_over import HandOver

        way_in = HandIn()
        graph = joined(
            joined(way_in.entrance, self.module, keep_both), StageModule(PullSink("pre_materialize", None)), keep_both
        )
        (way_in.begun, value), reader = started(graph, system)
        parts = (StageModule(way_in), StageModule(HandOver(reader)))
        return value, Flow(Wired(parts, (), ((0, 0),), ((1, 0),), not_used))

    def materialize_into_source(self, source: Source[In, Any], sink: Sink[Out, Future[T]]) -> Source[T, NotUsed]:
        """Return a source that, when it is run, runs `source` through this flow into `sink` and emits the result of the sink's future."""
        return source.via(self).materialize_into_source(sink)

    def to(self, sink: Sink[Out, Any]) -> Sink[In, Mat]:
        """Return the sink of this flow feeding `sink`; keep this flow's materialized value."""
        return Sink(joined(self.module, module_of("to", sink, (1, 0))))

    def to_mat(self, sink: Sink[Out, M2], combine: Callable[[Mat, M2], M3]) -> Sink[In, M3]:
        """As `to`; the materialized value is `combine(this flow's, the sink's)`."""
        return Sink(joined(self.module, module_of("to_mat", sink, (1, 0)), checked_combine("to_mat", combine)))

    def run_with(self, source: Source[In, M2], sink: Sink[Out, M3], system: ActorSystem | None = None) -> tuple[M2, M3]:
        """Run `source` through this flow into `sink`; return the materialized values of both."""
        return source.via(self).to_mat(sink, Keep.both).run(system)


def _ends(operator: str, sink: Any, source: Any) -> tuple[Module, Module]:
    return module_of(operator, sink, (1, 0)), module_of(operator, source, (0, 1))


def _combine(operator: str, mat: Callable[[Any, Any], Any] | None) -> Callable[[Any, Any], Any]:
    return Keep.none if mat is None else checked_combine(operator, mat)


class OnFlowAndItsClass:
    """An operator of Flow: a method of a flow, and on the class a method of the identity: `Flow.map(f)`."""

    def __init__(self, operator: Callable[..., Any]) -> None:
        self._operator = operator
        functools.update_wrapper(self, operator)  # type: ignore[arg-type]

    def __get__(self, flow: Any, owner: type) -> Any:
        return MethodType(self._operator, _IDENTITY if flow is None else flow)


_IDENTITY: Flow[Any, Any, NotUsed] = Flow(StageModule(Identity()))

for _mixin in FlowOps.__mro__:
    if issubclass(_mixin, Ops) and _mixin not in (Ops, FlowContextOp):
        for _name, _operator in vars(_mixin).items():
            if not _name.startswith("_") and callable(_operator):
                setattr(Flow, _name, OnFlowAndItsClass(_operator))
