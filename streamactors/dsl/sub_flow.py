"""SubFlow: the flow that every substream of a stream runs through, until the substreams are merged again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from streamactors.dsl.operators.all_operators import SubFlowOps
from streamactors.dsl.part import module_of
from streamactors.dsl.sink import Sink
from streamactors.dsl.typevars import Mat, Out
from streamactors.engine.blueprint.modules import Module, StageModule
from streamactors.engine.suggestions import Suggestions
from streamactors.stages.bases.passing import Identity

if TYPE_CHECKING:
    from streamactors.stages.substreams.substreams import Substreams


class SubFlow(SubFlowOps[Out, Mat], Suggestions):
    """What `group_by`, `split_when` and `split_after` return. Operators apply to each substream by itself; materialized values inside
    are dropped.

        words.group_by(str.lower, max_substreams=1_000).fold(0, lambda n, _: n + 1).merge_substreams()
    """

    _suggestions = dict.fromkeys(
        ("run_with", "run", "run_iter", "run_async_iter"),
        "substreams run when they are one stream again: .merge_substreams().run_with(sink), or .to(sink) for each of them",
    )
    __slots__ = ("_cut", "_outer")
    ports = (1, 1)

    def __init__(self, outer: Any, cut: Substreams, module: Module | None = None) -> None:
        super().__init__(StageModule(Identity()) if module is None else module)
        self._outer = outer
        self._cut = cut

    def _with(self, module: Module) -> SubFlow[Any, Any]:
        return SubFlow(self._outer, self._cut, module)

    _remade = _with

    def merge_substreams(self) -> Any:
        """Return the source or flow of all substreams' results, as they come."""
        return self._outer._via(self._cut.around(self.module, None))

    def merge_substreams_with_parallelism(self, parallelism: int) -> Any:
        """As `merge_substreams`, reading the results of the oldest `parallelism` substreams only.

        Other substreams wait, and their flows start when they are read. At most 32,768 elements of `group_by` wait for them, 1,024 of a
        split. `group_by` with more keys than are read fails with TooManySubstreams when so many wait and the substreams that are read have waited
        for elements for 5 s."""
        return self._outer._via(self._cut.around(self.module, parallelism))

    def concat_substreams(self) -> Any:
        """Return the source or flow of all substreams' results, one substream after the other."""
        return self.merge_substreams_with_parallelism(1)

    def to(self, sink: Any) -> Any:
        """Send every substream to a sink of its own; materialized values of the sinks are dropped.

        Return a graph that is ready to run when the stream begins with a source, else a sink."""
        from streamactors.stages.junctions.fan_out import Broadcast
        from streamactors.stages.sinks.values import Ignore
        from streamactors.stages.transform.mapping import Filter

        module_of("to", sink, (1, 0))
        consumed: Any = self._fan_out(Broadcast(2, eager_cancel=True), sink)._via(Filter(_never))
        return consumed.merge_substreams().to(Sink(StageModule(Ignore())))


def _never(_: object) -> bool:
    return False
