"""`>>` between parts that are not in a GraphDSL: source >> flow, flow >> flow, flow >> sink, source >> sink."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from streamactors.dsl.part import Part
from streamactors.engine.stage import GraphStage
from streamactors.engine.user_code import shortened
from streamactors.errors import BuildError

building: ContextVar[bool] = ContextVar("building", default=False)
"""True inside `with GraphDSL()`."""


class Wirable:
    """A placed part of a GraphDSL, or a port of one."""

    __slots__ = ()


def compose(left: Any, right: Any) -> Any:
    """Return `left.via(right)` or `left.to(right)`, by the ports of `right`."""
    if not isinstance(right, Part | GraphStage):
        if isinstance(right, Wirable):
            return NotImplemented  # Python then calls its __rrshift__
        raise BuildError(
            f">> expects a Flow, a Sink or a port of the graph, got {type(right).__name__} {shortened(right, 60)}"
        )
    shape = right.shape if isinstance(right, GraphStage) else right.module.shape
    if shape.outlets:
        return left.via(right)
    if building.get() and not left.module.shape.inlets:
        raise BuildError(
            f"{left} >> {right} would not become a part of the graph; g.add(…) one of them first, "
            "or join them with .to(…) to make a graph of their own"
        )
    return left.to(right)
