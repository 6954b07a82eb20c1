"""Sink: a part with one open inlet."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic

from streamactors.dsl.part import Part, joined, module_of
from streamactors.dsl.runnable import started
from streamactors.dsl.sinks.all_sinks import SinkConstructors
from streamactors.dsl.suggestions import SinkSuggestions
from streamactors.dsl.typevars import M2, In, Mat, T
from streamactors.engine.blueprint.modules import MatMapped, StageModule, keep_both, keep_right
from streamactors.engine.stage import GraphStage, NotUsed
from streamactors.stages.checks import plain_function

if TYPE_CHECKING:
    from streamactors.actors.system import ActorSystem


class Sink(Part[Mat], SinkConstructors, SinkSuggestions, Generic[In, Mat]):
    """The end of a stream. Made by `Sink.foreach(…)`, `Sink.fold(…)` and so on."""

    __slots__ = ()
    ports = (1, 0)

    @classmethod
    def from_stage(cls, stage: GraphStage) -> Sink[Any, Any]:
        """Return the sink of a stage of your own; it materializes what the stage's `create` returns."""
        return Sink(module_of("Sink.from_stage", stage, (1, 0)))

    def map_materialized_value(self, fn: Callable[[Mat], M2]) -> Sink[In, M2]:
        """Return this sink with `fn(materialized value)` as its materialized value."""
        return Sink(MatMapped(self.module, plain_function("map_materialized_value", fn)))

    def contramap(self, fn: Callable[[T], In]) -> Sink[T, Mat]:
        """Return a sink that takes `fn(element)` into this one."""
        from streamactors.stages.transform.mapping import Map

        return Sink(joined(StageModule(Map(fn)), self.module, keep_right))

    def pre_materialize(self, system: ActorSystem | None = None) -> tuple[Mat, Sink[In, NotUsed]]:
        """Run this sink now; return its materialized value and a sink that feeds it, which can be run once, on any system."""
        from streamactors.stages.sinks.hand_in import HandIn

        way_in = HandIn()
        graph = joined(way_in.entrance, self.module, keep_both)
        way_in.begun, value = started(graph, system)
        return value, Sink(StageModule(way_in))
