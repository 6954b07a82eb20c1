"""Sink: a part with one open inlet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic

from streamactors.dsl.part import Part, module_of
from streamactors.dsl.sinks_basic import BasicSinks
from streamactors.dsl.sinks_outside import OutsideSinks
from streamactors.dsl.typevars import M2, In, Mat
from streamactors.engine.blueprint import MatMapped
from streamactors.engine.stage import GraphStage
from streamactors.stages.checks import plain_function


class Sink(Part[Mat], BasicSinks, OutsideSinks, Generic[In, Mat]):
    """Where elements end. Made by `Sink.foreach(…)`, `Sink.fold(…)` and so on."""

    __slots__ = ()
    ports = (1, 0)

    @classmethod
    def from_stage(cls, stage: GraphStage) -> Sink[Any, Any]:
        """Return the sink of a stage of your own; it materializes what the stage's `create` returns."""
        return Sink(module_of("Sink.from_stage", stage, (1, 0)))

    def map_materialized_value(self, fn: Callable[[Mat], M2]) -> Sink[In, M2]:
        """Return this sink with `fn(materialized value)` as its materialized value."""
        return Sink(MatMapped(self.module, plain_function("map_materialized_value", fn)))
