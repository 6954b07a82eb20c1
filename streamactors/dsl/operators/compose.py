"""Operators that put parts together: via, async_boundary, map_materialized_value."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, overload

from streamactors.dsl.compose import Wirable, compose
from streamactors.dsl.operators.base import Ops
from streamactors.dsl.part import checked_combine, joined, module_of
from streamactors.dsl.typevars import M2, M3, Mat, Out, U
from streamactors.engine.blueprint.modules import AsyncBoundary, MatMapped
from streamactors.engine.stage import GraphStage, Stage
from streamactors.stages.checks import plain_function, positive

if TYPE_CHECKING:
    from streamactors.dsl.kinds import Flow, Sink, WithSink


class ComposeOps(Ops[Out, Mat]):
    """`via` and its kin: a part followed by a flow, a sink or an asynchronous boundary."""

    __slots__ = ()

    @overload
    def __rshift__(self, other: Flow[Out, U, Any] | Stage[Any, U]) -> Ops[U, Mat]: ...

    @overload
    def __rshift__(self, other: Sink[Out, Any]) -> WithSink[Mat]: ...

    @overload
    def __rshift__(self, other: Wirable | GraphStage) -> Any: ...

    def __rshift__(self, other: Any) -> Any:
        """`part >> flow` is `via`, `part >> sink` is `to`; beside a port of a GraphDSL it wires."""
        return compose(self, other)

    def via(self, flow: Flow[Out, U, Any] | Stage[Any, U]) -> Ops[U, Mat]:
        """Append a flow, or a stage of your own; keep this part's materialized value.

        Example:
            a -1-2-3|
            a.via(Flow.map(lambda x: x + 1))
        """
        return self._with(joined(self.module, module_of("via", flow, (1, 1))))

    def via_mat(self, flow: Flow[Out, U, M2], combine: Callable[[Mat, M2], M3]) -> Ops[U, M3]:
        """As `via`; the materialized value is `combine(this part's, the flow's)`, for example Keep.both.

        Example:
            a -1-2|
            a.via_mat(Flow.map(lambda x: x * 10).watch_termination(), Keep.right).to(Sink.ignore()).run()
        """
        return self._with(joined(self.module, module_of("via_mat", flow, (1, 1)), checked_combine("via_mat", combine)))

    def async_boundary(self, buffer: int | None = None, *, process: bool = False) -> Ops[Out, Mat]:
        """Run the following stages in another actor.

        `buffer` is the number of elements that may be in transit; without it the number follows the consumer, from 16 to
        4,096. Completion arrives after the elements, a failure overtakes them.

        `process=True` runs the stages up to the next boundary in a worker process, on a core of its own. Sinks, junctions and stages
        with a materialized value stay in this process. Elements must be of the codec's types, or NumPy or Arrow arrays. When the process
        dies, another continues after the last mark if the run reads marks; otherwise the stream fails with WorkerDied.

        Example:
            a -1-2-3|
            a.async_boundary().map(lambda x: x + 1)
        """
        if buffer is not None:
            positive("async_boundary", "buffer", buffer)
        return self._via(AsyncBoundary(buffer, process))

    def map_materialized_value(self, fn: Callable[[Mat], M2]) -> Ops[Out, M2]:
        """Return this part with `fn(materialized value)` as its materialized value.

        Example:
            a -1-2|
            a.map_materialized_value(lambda value: seen.append('run'))
        """
        return self._with(MatMapped(self.module, plain_function("map_materialized_value", fn)))
