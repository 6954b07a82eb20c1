"""The connections of a traced run, and what lies on the way of sampled records: which connections are exact, and where a way ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from streamactors.engine.blueprint.graph import Edge
from streamactors.engine.boundary import BoundaryIn, BoundaryOut
from streamactors.engine.island.traced import TracedConnection, TracedInterpreter

if TYPE_CHECKING:
    from streamactors.engine.island.connection import Connection
    from streamactors.engine.island.interpreter import Interpreter
    from streamactors.engine.logic import Logic
    from streamactors.engine.marks.marks import Mark
    from streamactors.engine.planning.plan import Plan
    from streamactors.tracing.run_trace import RunTrace


def traced_connections(plan: Plan, interpreters: list[Interpreter], *, inside: bool) -> list[Connection]:
    """Return the connections of a plan: one per edge, then those of its open ports. `inside`: of a graph inside another stage."""
    made = [TracedConnection(cast("TracedInterpreter", interpreters[island])) for island in plan.connections]
    for connection in made:
        connection.inside = inside
        connection.begun_for = connection.interpreter.working_on
    exact = _exact_edges(plan)
    for number, edge in enumerate(plan.edges):
        node = plan.nodes[edge[1][0]]
        made[number].exact = edge in exact
        made[number].stage = "" if isinstance(node.stage, BoundaryIn | BoundaryOut) else plan.parts[edge[1][0]].name
    return list[Any](made)


def end_ways(plan: Plan, trace: RunTrace, logics: list[Logic]) -> None:
    """A source none of whose marks reaches a sink: its records are done where the first stage stops the marks."""
    marks = plan.marks
    reaching = frozenset[int]().union(*marks.sinks.values())
    for (source, out_port), (target, in_port) in plan.edges:
        carried = marks.carries.get(((source, out_port), (target, in_port)), frozenset())
        stage = plan.nodes[target].stage
        if carried and carried.isdisjoint(reaching) and not stage.handling.passes and stage.shape.outlets:
            logics[target].on_mark = _Stopping(trace)  # type: ignore[method-assign]  # the stage only drops them


class _Stopping:
    """What a stage does with marks that it does not pass."""

    def __init__(self, trace: RunTrace) -> None:
        self._trace = trace

    def __call__(self, in_: Connection, mark: Mark) -> None:
        if isinstance(mark, dict):
            self._trace.done(mark)


def _exact_edges(plan: Plan) -> set[Edge]:
    """Return the edges on which what lies between two marks stems from nothing else: every stage upstream is exact."""
    nodes = plan.nodes
    halves = {in_half: out_half for out_half, in_half in plan.boundaries}
    incoming: dict[int, list[Edge]] = {}
    for edge in plan.edges:
        incoming.setdefault(edge[1][0], []).append(edge)
    open_inlets = {node for node, _ in plan.inlets}
    exact = set(plan.edges)
    moved = True
    while moved:
        moved = False
        for edge in list(exact):
            node = edge[0][0]
            stage = nodes[node].stage
            before = incoming.get(halves.get(node, node), ())
            fine = (stage.handling.exact or not stage.shape.inlets) and node not in open_inlets
            if not fine or not exact.issuperset(before):
                exact.discard(edge)
                moved = True
    return exact
