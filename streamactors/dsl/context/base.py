"""ContextOps: the base of the operators on elements with a context. Written once for SourceWithContext and FlowWithContext:
`ContextOps[U, Ctx, Mat]` in a signature is the class that it is called on, as `Ops` does in operators/base.py."""

from __future__ import annotations

from typing import Any, Generic

from streamactors.dsl.part import Part, joined, not_used
from streamactors.dsl.typevars import Ctx, Mat, Out
from streamactors.engine.blueprint.modules import Module, StageModule, Wired
from streamactors.engine.stage import GraphStage


class ContextOps(Part[Mat], Generic[Out, Ctx, Mat]):
    """A part whose open outlet emits pairs (element, context)."""

    __slots__ = ()

    def _with(self, module: Module) -> ContextOps[Any, Any, Any]:
        return type(self)(module)

    def _fan_out(self, junction: GraphStage, *sinks: Module) -> ContextOps[Any, Any, Mat]:
        """Return this part feeding `junction`, whose outlet 0 is the open one and whose other outlets feed `sinks`."""
        fork = Wired(
            (StageModule(junction), *sinks),
            tuple(((0, i), (i, 0)) for i in range(1, len(sinks) + 1)),
            ((0, 0),),
            ((0, 0),),
            not_used,
        )
        return self._with(joined(self.module, fork))

    def _via(self, stage: GraphStage) -> ContextOps[Any, Any, Mat]:
        return self._with(joined(self.module, StageModule(stage)))
