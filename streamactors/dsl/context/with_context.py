"""SourceWithContext and FlowWithContext: streams whose elements carry a context. Functions see only the element.

(Source.from_iterable(records)
    .with_context(lambda record: record.offset)      # elements: records, contexts: offsets
    .map(lambda record: record.value)                # elements: values, contexts: still the offsets
    .as_source())                                    # pairs (value, offset)"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from streamactors.dsl.context.all_operators import FlowContextOps, SourceContextOps
from streamactors.dsl.flow import Flow
from streamactors.dsl.part import checked_combine, joined, module_of
from streamactors.dsl.runnable import RunnableGraph
from streamactors.dsl.source import Source
from streamactors.dsl.typevars import M2, M3, Ctx, CtxIn, In, K, Mat, Out, T
from streamactors.engine.stage import NotUsed

if TYPE_CHECKING:
    from streamactors.actors.system import ActorSystem
    from streamactors.dsl.sink import Sink


class SourceWithContext(SourceContextOps[Out, Ctx, Mat]):
    """A source of elements with contexts. Made by `Source.with_context(extract)`."""

    __slots__ = ()
    ports = (0, 1)

    def as_source(self) -> Source[tuple[Out, Ctx], Mat]:
        """Return the plain source of the pairs (element, context).

        Example:
            a -1-----2|
            a.with_context(str).as_source()
        """
        return Source(self.module)

    def to(self, sink: Sink[tuple[Out, Ctx], Any]) -> RunnableGraph[Mat]:
        """Return this source feeding a sink of pairs; keep this source's materialized value.

        Example:
            a -1--2|
            a.with_context(str).to(Sink.foreach(seen.append)).run()
        """
        return RunnableGraph(joined(self.module, module_of("to", sink, (1, 0))))

    def to_mat(self, sink: Sink[tuple[Out, Ctx], M2], combine: Callable[[Mat, M2], M3]) -> RunnableGraph[M3]:
        """As `to`; the materialized value is `combine(this source's, the sink's)`.

        Example:
            a -1--2|
            a.with_context(str).to_mat(Sink.to_list(), Keep.right).run()
        """
        return RunnableGraph(joined(self.module, module_of("to_mat", sink, (1, 0)), checked_combine("to_mat", combine)))

    def run_with(self, sink: Sink[tuple[Out, Ctx], M2], system: ActorSystem | None = None) -> M2:
        """Run this source into a sink of pairs and return the sink's materialized value.

        Example:
            a -1--2|
            a.with_context(str).run_with(Sink.count())
        """
        return self.as_source().run_with(sink, system)


class FlowWithContext(FlowContextOps[In, CtxIn, Out, Ctx, Mat]):
    """A flow of elements with contexts. Made by `FlowWithContext.identity()` or `Flow.with_context(…)`."""

    __slots__ = ()
    ports = (1, 1)

    @staticmethod
    def identity() -> FlowWithContext[T, K, T, K, NotUsed]:
        """Return the flow that passes pairs on, to continue it with operators.

        Example:
            a -1--2|
            a.with_context(str).via(FlowWithContext.identity().map(lambda x: x * 10)).as_source()
        """
        return FlowWithContext(Flow.identity().module)

    @staticmethod
    def of(element_type: type[T], context_type: type[K]) -> FlowWithContext[T, K, T, K, NotUsed]:
        """Return the identity for elements and contexts of these types, which only type checkers look at.

        Example:
            a -1--2|
            a.with_context(str).via(FlowWithContext.of(int, str).filter(lambda x: x > 1)).as_source()
        """
        return FlowWithContext(Flow.identity().module)

    @staticmethod
    def from_pairs(
        flow: Flow[tuple[In, CtxIn], tuple[Out, Ctx], Mat],
    ) -> FlowWithContext[In, CtxIn, Out, Ctx, Mat]:
        """Return a flow of pairs (element, context) as a flow with context. It must keep each context with its element.

        Example:
            a -1--2|
            swap = FlowWithContext.from_pairs(Flow.map(lambda pair: (pair[0] * 10, pair[1])))
            a.with_context(str).via(swap).as_source()
        """
        return FlowWithContext(module_of("FlowWithContext.from_pairs", flow, (1, 1)))

    def as_flow(self) -> Flow[tuple[In, CtxIn], tuple[Out, Ctx], Mat]:
        """Return the plain flow of the pairs (element, context).

        Example:
            a -1--2|
            a.map(lambda x: (x, str(x))).via(FlowWithContext.identity().map(lambda x: x * 10).as_flow())
        """
        return Flow(self.module)
