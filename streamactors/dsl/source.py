"""Source: a part with one open outlet."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from streamactors.dsl.compose import compose
from streamactors.dsl.keep import Keep
from streamactors.dsl.operators import SourceOps
from streamactors.dsl.part import checked_combine, joined, module_of
from streamactors.dsl.runnable import RunnableGraph
from streamactors.dsl.sources_finite import FiniteSources
from streamactors.dsl.typevars import M2, M3, Mat, Out
from streamactors.engine.stage import GraphStage

if TYPE_CHECKING:
    from streamactors.actors.system import ActorSystem
    from streamactors.dsl.sink import Sink


class Source(SourceOps[Out, Mat], FiniteSources):
    """Where elements begin. Made by `Source.from_iterable(…)`, `Source.range(…)`, `Source.queue(…)` and so on."""

    __slots__ = ()
    ports = (0, 1)

    @classmethod
    def from_stage(cls, stage: GraphStage) -> Source[Any, Any]:
        """Return the source of a stage of your own; it materializes what the stage's `create` returns."""
        return Source(module_of("Source.from_stage", stage, (0, 1)))

    def to(self, sink: Sink[Out, Any]) -> RunnableGraph[Mat]:
        """Return this source feeding `sink`, ready to run; keep this source's materialized value."""
        return RunnableGraph(joined(self.module, module_of("to", sink, (1, 0))))

    def to_mat(self, sink: Sink[Out, M2], combine: Callable[[Mat, M2], M3]) -> RunnableGraph[M3]:
        """As `to`; the materialized value is `combine(this source's, the sink's)`, for instance Keep.both."""
        return RunnableGraph(joined(self.module, module_of("to_mat", sink, (1, 0)), checked_combine("to_mat", combine)))

    def run_with(self, sink: Sink[Out, M2], system: ActorSystem | None = None) -> M2:
        """Run this source into `sink` and return what the sink materializes, for most a future."""
        return self.to_mat(sink, Keep.right).run(system)

    def __rshift__(self, other: Any) -> Any:
        """`source >> flow` is `via`, `source >> sink` is `to`; beside a port of a GraphDSL it wires."""
        return compose(self, other)
