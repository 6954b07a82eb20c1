"""RunnableGraph: a graph without open ports. `run` returns its materialized value."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from streamactors.dsl.part import Part, last_is_named
from streamactors.dsl.typevars import M2, Mat
from streamactors.engine.attributes import Attributes
from streamactors.engine.blueprint.modules import Attributed, MatMapped, Module
from streamactors.engine.suggestions import FUTURE_NAMES, Suggestions
from streamactors.stages.checks import plain_function

if TYPE_CHECKING:
    from streamactors.actors.system import ActorSystem
    from streamactors.mime_bundles import Bundle


@runtime_checkable
class Elsewhere(Protocol):
    """Runs graphs in other processes than this one: SparkExecutors."""

    def materialize(self, module: Module) -> Any:
        """Start a run of a closed graph; return its materialized value."""


class RunnableGraph(Part[Mat], Suggestions):
    """A closed graph. Immutable; each call of `run` is a new run."""

    __slots__ = ()
    ports = (0, 0)
    _suggestions = dict.fromkeys(
        FUTURE_NAMES,
        "a graph has not run; source.run_with(sink) runs it and returns the future of the sink, and "
        "source.to_mat(sink, Keep.right).run() does the same",
    ) | {"run_with": "a graph has its sink already: graph.run()"}

    def run(self, system: ActorSystem | Elsewhere | None = None) -> Mat:
        """Start a run and return its materialized value at once.

        Without `system` it runs in the default system, which ends with the process; with `SparkExecutors(spark)` on a Spark cluster. Raises
        BuildError when a stage between the sources and a reader of marks does not meet the reader's needs."""
        value: Mat = system.materialize(self.module) if isinstance(system, Elsewhere) else started(self.module, system)
        return value

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> Bundle:
        """Show the graph in a notebook: its runs as they are now, or its stages as they will run."""
        from streamactors.engine.snapshot import snapshot_of, unended_runs

        runs = unended_runs(self.module)
        if not runs:
            return super()._repr_mimebundle_(include, exclude)
        bundle = snapshot_of(runs[-1])._repr_mimebundle_()
        several = f", one of {len(runs)} runs" if len(runs) > 1 else ""
        return {**bundle, "text/plain": f"{self!r}{several}\n{bundle['text/plain']}"}

    def named(self, name: str) -> RunnableGraph[Mat]:
        """Return this graph with a name of its own for metrics and pages. Its last operator gets the name, too, unless it has one."""
        named = super().named(name).module
        return RunnableGraph(Attributed(self.module if last_is_named(self.module) else named, Attributes(graph=name)))

    def to_mermaid(self) -> str:
        """Return the graph as a Mermaid flowchart: its stages as they will run, after fusing, in their islands."""
        from streamactors.engine.planning.picture import mermaid_of

        return mermaid_of(self.module)

    def map_materialized_value(self, fn: Callable[[Mat], M2]) -> RunnableGraph[M2]:
        """Return this graph with `fn(materialized value)` as its materialized value."""
        return RunnableGraph(MatMapped(self.module, plain_function("map_materialized_value", fn)))


def started(module: Module, system: ActorSystem | None) -> Any:
    """Start a run of a closed blueprint; return its materialized value."""
    from streamactors.engine.materializing.materializer import materialize

    return materialize(module, default_system() if system is None else system)


def default_system() -> ActorSystem:
    """Return the system for runs without a system of their own."""
    from streamactors.actors.system import ActorSystem

    return ActorSystem.default()
