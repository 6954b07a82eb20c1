"""The plan of a run: a blueprint flattened, fused and cut into islands, with the plan of its marks.

Made once per blueprint and kept with it, since blueprints never change. Flattening uses an explicit stack, so a chain of ten
thousand operators needs no deeper recursion than one operator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from streamactors.engine.attributes import NONE, Attributes
from streamactors.engine.blueprint.graph import NO_NODE, Edge, Flat, PortOf, StageNode
from streamactors.engine.blueprint.modules import (
    AsyncBoundary,
    Attributed,
    Joined,
    MatMapped,
    Module,
    StageModule,
    Wired,
)
from streamactors.engine.boundary import BoundaryIn, BoundaryOut
from streamactors.engine.fusing.chains import fuse
from streamactors.engine.planning.cycles import warn_of_endless_cycles
from streamactors.engine.planning.mark_plan import MarkPlan, plan_marks
from streamactors.engine.planning.sides import side_sinks
from streamactors.engine.stage import NOT_USED
from streamactors.engine.workers.halves import WorkerIn, WorkerOut
from streamactors.engine.workers.regions import WorkerRegion, gather_regions
from streamactors.errors import BuildError
from streamactors.tracing import switch

if TYPE_CHECKING:
    from streamactors.engine.logic import Logic

LONGEST_NAME = 80


@dataclass(slots=True)
class PlannedNode:
    """A node as a run uses it: how to make its logic, and the numbers of its connections."""

    create: Callable[[Attributes], tuple[Logic, Any]]
    attributes: Attributes
    name: str
    island: int
    inlets: list[int]
    outlets: list[int]


@dataclass(slots=True)
class Plan:
    """Nodes, edges between their ports, and how to compute the materialized value."""

    nodes: list[StageNode]
    edges: list[tuple[PortOf, PortOf]]
    inlets: list[PortOf]
    outlets: list[PortOf]
    mat: list[tuple[str, Any]]
    islands: list[str]  # the name of each: its stages
    marks: MarkPlan
    parts: list[PlannedNode]
    connections: list[int]  # the island of each: one per edge, then one per open outlet, then one per open inlet
    boundaries: list[tuple[int, int]]  # the nodes of their halves, upstream first
    sides: dict[int, list[int]]  # the side sinks of each fan-out that waits for them
    endless: bool  # one of the sources never ends by itself
    restarts: Any  # the back-off with which an aborted run begins again; None: it does not
    continues: str = ""  # what continues a run that the end of the process interrupts
    traced: bool = False  # made while traces were installed

    def evaluate(self, values: list[Any]) -> Any:
        """Return the materialized value, given those of the nodes."""
        return evaluate(self.mat, values)


def evaluate(mat: list[tuple[str, Any]], values: list[Any]) -> Any:
    """Return what a program for the materialized value (`Flat.mat`) makes of the nodes' values."""
    stack: list[Any] = []
    for op, argument in mat:
        if op == "leaf":
            stack.append(values[argument] if argument != NO_NODE else NOT_USED)
        elif op == "join":
            right = stack.pop()
            stack[-1] = argument(stack[-1], right)
        elif op == "map":
            stack[-1] = argument(stack[-1])
        else:
            count, combine = argument
            parts = stack[len(stack) - count :]
            del stack[len(stack) - count :]
            stack.append(combine(parts))
    return stack[-1]


def flat_of(module: Module) -> Flat:
    """Return a module flattened, neither fused nor cut: for readers of a graph that do not run it here."""
    return Flat(*_flatten(module))


def plan_of(module: Module) -> Plan:
    """Return the plan of a module, made at the first call, and again when traces were installed or removed since. Raises BuildError when a
    reader of marks cannot get what it needs."""
    if module.plan is None or module.plan.traced is not (switch.installed is not None):
        module.plan = _make(module)
    plan: Plan = module.plan
    return plan


def _make(module: Module) -> Plan:
    nodes, edges, inlets, outlets, mat = _flatten(module)
    graph = gather_regions(fuse(Flat(nodes, edges, inlets, outlets, mat)))
    nodes, edges, outlets = _cut(graph.nodes, graph.edges, graph.outlets)
    islands = _number_islands(nodes, edges, graph.inlets + outlets)
    names = [_island_name(nodes, island) for island in range(islands)]
    traced = switch.installed is not None
    marks = plan_marks(nodes, edges, partial=bool(outlets), followed=traced)
    parts, connections = _number_connections(nodes, edges, outlets, graph.inlets)
    halves = [(node.stage.peer_node, i) for i, node in enumerate(nodes) if isinstance(node.stage, BoundaryIn)]
    sides = side_sinks(nodes, edges)
    warn_of_endless_cycles(nodes, edges)
    endless = any(node.stage.traits.endless for node in nodes)
    continues = next(filter(None, (getattr(node.stage, "continues", "") for node in nodes)), "")
    restarts = [each for node in nodes for each in node.stage.traits.restarts]
    return Plan(
        nodes,
        edges,
        graph.inlets,
        outlets,
        graph.mat,
        names,
        marks,
        parts,
        connections,
        halves,
        sides,
        endless,
        restarts[0] if restarts and None not in restarts else None,
        continues,
        traced,
    )


def _number_connections(
    nodes: list[StageNode], edges: list[Edge], outlets: list[PortOf], inlets: list[PortOf]
) -> tuple[list[PlannedNode], list[int]]:
    parts = [
        PlannedNode(
            node.stage.create,
            node.attributes,
            node.label,
            node.island,
            [-1] * len(node.stage.shape.inlets),
            [-1] * len(node.stage.shape.outlets),
        )
        for node in nodes
    ]
    islands: list[int] = []
    ends: list[tuple[PortOf | None, PortOf | None]] = [*edges]
    ends += [(outlet, None) for outlet in outlets]
    ends += [(None, inlet) for inlet in inlets]
    for number, (source, target) in enumerate(ends):
        for end in (source, target):
            if end is not None:
                node, port = end
                (parts[node].outlets if end is source else parts[node].inlets)[port] = number
                island = parts[node].island
        islands.append(island)
    return parts, islands


def _island_name(nodes: list[StageNode], island: int) -> str:
    """Return the name of an island's actor: the labels of its stages."""
    labels = ", ".join(node.label for node in nodes if node.island == island)
    return f"stream {labels}" if len(labels) <= LONGEST_NAME else f"stream {labels[:LONGEST_NAME]}…"


def _flatten(root: Module) -> Any:
    nodes: list[StageNode] = []
    edges: list[tuple[PortOf, PortOf]] = []
    mat: list[tuple[str, Any]] = []
    ports: list[tuple[list[PortOf], list[PortOf]]] = []  # of the modules finished so far
    work: list[tuple[bool, Module, Attributes]] = [(False, root, NONE)]
    while work:
        finished, module, attributes = work.pop()
        if isinstance(module, StageModule):
            attributes = module.attributes.under(attributes)
            index = len(nodes)
            nodes.append(StageNode(module.stage, attributes))
            ports.append(
                (
                    [(index, i) for i in range(len(module.shape.inlets))],
                    [(index, o) for o in range(len(module.shape.outlets))],
                )
            )
            mat.append(("leaf", index))
        elif isinstance(module, Attributed):
            work.append((False, module.inner, module.attributes.under(attributes)))
        elif isinstance(module, MatMapped):
            if finished:
                mat.append(("map", module.fn))
            else:
                work.append((True, module, attributes))
                work.append((False, module.inner, attributes))
        elif isinstance(module, Joined):
            if finished:
                right = ports.pop()
                left = ports.pop()
                edges.append((left[1][0], right[0][0]))
                ports.append((left[0] + right[0][1:], left[1][1:] + right[1]))
                mat.append(("join", module.combine))
            else:
                inner = replace(attributes, name=None) if attributes.name is not None else attributes
                work.append((True, module, attributes))
                work.append((False, module.right, inner))
                work.append((False, module.left, inner))
        elif isinstance(module, Wired):
            count = len(module.parts)
            if finished:
                of_parts = ports[len(ports) - count :]
                del ports[len(ports) - count :]
                for (from_part, from_port), (to_part, to_port) in module.wires:
                    edges.append((of_parts[from_part][1][from_port], of_parts[to_part][0][to_port]))
                ports.append(
                    (
                        [of_parts[part][0][port] for part, port in module.inlets],
                        [of_parts[part][1][port] for part, port in module.outlets],
                    )
                )
                mat.append(("wired", (count, module.combine)))
            else:
                inner = replace(attributes, name=None) if attributes.name is not None else attributes
                work.append((True, module, attributes))
                work.extend((False, part, inner) for part in reversed(module.parts))
        else:  # pragma: no cover
            raise BuildError(f"cannot plan a {type(module).__name__}")
    inlets, outlets = ports.pop()
    return nodes, edges, inlets, outlets, mat


def _cut(
    nodes: list[StageNode], edges: list[Edge], outlets: list[PortOf]
) -> tuple[list[StageNode], list[Edge], list[PortOf]]:
    """Replace each AsyncBoundary by its two halves; the edge between them is a pair of mailboxes, not a connection."""
    for index in range(len(nodes)):
        stage = nodes[index].stage
        if isinstance(stage, AsyncBoundary):
            attributes = nodes[index].attributes
            buffer = stage.buffer if stage.buffer is not None else attributes.buffer
            out_half, in_half = _halves(stage, index, buffer, attributes.buffer)
            nodes[index] = StageNode(out_half, attributes)
            nodes.append(StageNode(in_half, attributes))
            before, behind = (index, 0), (len(nodes) - 1, 0)
            edges = [((behind if source == before else source), target) for source, target in edges]
            outlets = [behind if outlet == before else outlet for outlet in outlets]
    return nodes, edges, outlets


def _halves(
    boundary: AsyncBoundary, index: int, buffer: int | None, default: int | None
) -> tuple[BoundaryOut, BoundaryIn]:
    if isinstance(boundary, WorkerRegion):
        before = WorkerOut(boundary.members, boundary.handling, buffer)
        behind = boundary.buffer_behind if boundary.buffer_behind is not None else default
        return before, WorkerIn(before, index, behind)
    out_half = BoundaryOut()
    return out_half, BoundaryIn(out_half, index, buffer)


def _number_islands(nodes: list[StageNode], edges: list[tuple[PortOf, PortOf]], open_ports: list[PortOf]) -> int:
    """Number the islands: nodes connected without a boundary share one. Open ports belong to island 0, the parent's."""
    parent = list(range(len(nodes)))

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    for (source, _), (target, _) in edges:
        parent[root(source)] = root(target)
    for opened, _ in open_ports:
        parent[root(opened)] = root(open_ports[0][0])
    numbers: dict[int, int] = {}
    if open_ports:
        numbers[root(open_ports[0][0])] = 0
    for i, node in enumerate(nodes):
        node.island = numbers.setdefault(root(i), len(numbers))
    return len(numbers)
