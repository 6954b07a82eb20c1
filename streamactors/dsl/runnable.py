"""RunnableGraph: a graph without open ports. Running it gives its materialized value."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from streamactors.dsl.part import Part
from streamactors.dsl.typevars import M2, Mat
from streamactors.engine.blueprint import MatMapped
from streamactors.engine.picture import mermaid_of
from streamactors.engine.run import materialize
from streamactors.stages.checks import plain_function

if TYPE_CHECKING:
    from streamactors.actors.system import ActorSystem


class RunnableGraph(Part[Mat]):
    """A closed graph. Immutable; each `run` starts it afresh."""

    __slots__ = ()
    ports = (0, 0)

    def run(self, system: ActorSystem | None = None) -> Mat:
        """Start a run and return its materialized value at once.

        Without `system` it runs in a default one, which ends with the process. Raises BuildError when a stage that reads
        marks cannot get what it needs of the stages on the way."""
        value: Mat = materialize(self.module, system if system is not None else default_system())
        return value

    def to_mermaid(self) -> str:
        """Return the graph as a Mermaid flowchart: its stages as they will run, after fusing, in their islands."""
        return mermaid_of(self.module)

    def map_materialized_value(self, fn: Callable[[Mat], M2]) -> RunnableGraph[M2]:
        """Return this graph with `fn(materialized value)` as its materialized value."""
        return RunnableGraph(MatMapped(self.module, plain_function("map_materialized_value", fn)))


def default_system() -> ActorSystem:
    """Return the system that runs what is not given one."""
    from streamactors.actors.system import ActorSystem

    return ActorSystem.default()
