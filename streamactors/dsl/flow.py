"""Flow: a part with one open inlet and one open outlet."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import MethodType
from typing import TYPE_CHECKING, Any

from streamactors.dsl.compose import compose
from streamactors.dsl.keep import Keep
from streamactors.dsl.operators import FlowOps
from streamactors.dsl.ops import Ops
from streamactors.dsl.part import checked_combine, joined, module_of, not_used
from streamactors.dsl.sink import Sink
from streamactors.dsl.typevars import M2, M3, In, K, Mat, Out, T, U
from streamactors.engine.blueprint import StageModule, Wired, keep_right
from streamactors.engine.stage import NotUsed, Stage
from streamactors.stages.checks import plain_function
from streamactors.stages.identity import Identity
from streamactors.stages.transform import Map

if TYPE_CHECKING:
    from streamactors.actors.system import ActorSystem
    from streamactors.dsl.source import Source
    from streamactors.dsl.with_context import FlowWithContext


class Flow(FlowOps[In, Out, Mat]):
    """Elements in, elements out. Each operator exists on the class too: `Flow.map(f).filter(g)`."""

    __slots__ = ()
    ports = (1, 1)

    @staticmethod
    def identity() -> Flow[T, T, NotUsed]:
        """Return the flow that passes everything on."""
        return _IDENTITY

    @staticmethod
    def of(element_type: type[T]) -> Flow[T, T, NotUsed]:
        """Return the identity for elements of a type, which only type checkers look at: `Flow.of(int).map(lambda n: n + 1)`."""
        return _IDENTITY

    @staticmethod
    def from_stage(stage: Stage[T, U]) -> Flow[T, U, Any]:
        """Return the flow of a stage of your own; it materializes what the stage's `create` returns."""
        return Flow(module_of("Flow.from_stage", stage, (1, 1)))

    @staticmethod
    def from_sink_and_source(sink: Sink[T, Any], source: Source[U, Any]) -> Flow[T, U, NotUsed]:
        """Return the flow that feeds `sink` and emits what `source` does; the two end independently."""
        parts = (
            module_of("Flow.from_sink_and_source", sink, (1, 0)),
            module_of("Flow.from_sink_and_source", source, (0, 1)),
        )
        return Flow(Wired(parts, (), ((0, 0),), ((1, 0),), not_used))

    def to(self, sink: Sink[Out, Any]) -> Sink[In, Mat]:
        """Return this flow feeding `sink` as a sink; keep this flow's materialized value."""
        return Sink(joined(self.module, module_of("to", sink, (1, 0))))

    def to_mat(self, sink: Sink[Out, M2], combine: Callable[[Mat, M2], M3]) -> Sink[In, M3]:
        """As `to`; the materialized value is `combine(this flow's, the sink's)`."""
        return Sink(joined(self.module, module_of("to_mat", sink, (1, 0)), checked_combine("to_mat", combine)))

    def with_context(
        self, collapse: Callable[[T, K], In], extract: Callable[[Out], U]
    ) -> FlowWithContext[T, K, Out, U, Mat]:
        """Return this flow as one of elements with contexts: `collapse(element, context)` gives what it takes, `extract(result)` the
        context of what it emits."""
        from streamactors.dsl.with_context import FlowWithContext

        element_of = plain_function("with_context: collapse", collapse)
        context_of = plain_function("with_context: extract", extract)
        before = StageModule(Map(lambda pair: element_of(*pair)))
        behind = StageModule(Map(lambda result: (result, context_of(result))))
        return FlowWithContext(joined(joined(before, self.module, keep_right), behind))

    def run_with(self, source: Source[In, M2], sink: Sink[Out, M3], system: ActorSystem | None = None) -> tuple[M2, M3]:
        """Run `source` through this flow into `sink`; return what the two materialize."""
        return source.via(self).to_mat(sink, Keep.both).run(system)

    def __rshift__(self, other: Any) -> Any:
        """`flow >> flow` is `via`, `flow >> sink` is `to`; beside a port of a GraphDSL it wires."""
        return compose(self, other)


class _AlsoOnTheClass:
    """An operator of Flow. Looked up on a flow it is that flow's method; on the class, the identity's: `Flow.map(f)`."""

    def __init__(self, operator: Callable[..., Any]) -> None:
        self._operator = operator
        functools.update_wrapper(self, operator)  # type: ignore[arg-type]

    def __get__(self, flow: Any, owner: type) -> Any:
        return MethodType(self._operator, _IDENTITY if flow is None else flow)


_IDENTITY: Flow[Any, Any, NotUsed] = Flow(StageModule(Identity()))

for _mixin in FlowOps.__mro__:
    if issubclass(_mixin, Ops) and _mixin is not Ops:
        for _name, _operator in vars(_mixin).items():
            if not _name.startswith("_") and callable(_operator):
                setattr(Flow, _name, _AlsoOnTheClass(_operator))
