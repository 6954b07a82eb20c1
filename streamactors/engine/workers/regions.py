"""Which stages run in a worker process: those downstream of `async_boundary(process=True)`, up to the next boundary.

Sinks, junctions and stages with a materialized value stay in the parent, so the stages in the worker end before the first of them. A stage downstream of such a
junction is an error: it would run in the parent, although nothing in the graph says so."""

from __future__ import annotations

from dataclasses import replace

from streamactors.engine.blueprint.graph import NO_NODE, Edge, Flat, StageNode
from streamactors.engine.blueprint.modules import AsyncBoundary
from streamactors.engine.fusing.flow import FusedFlow
from streamactors.engine.marks.marks import Handling
from streamactors.engine.stage import FLOW, GraphStage
from streamactors.errors import BuildError

_CALL = "async_boundary(process=True)"


class WorkerRegion(AsyncBoundary):
    """A boundary with stages in a worker process between its halves."""

    def __init__(self, members: list[StageNode], buffer: int | None, buffer_behind: int | None) -> None:
        super().__init__(buffer, process=True)
        self.members = members
        self.buffer_behind = buffer_behind
        handled = [node.stage.handling for node in members]
        self.handling = Handling(
            all(h.passes for h in handled), all(h.exact for h in handled), any(h.remembers for h in handled)
        )


def gather_regions(flat: Flat) -> Flat:
    """Return the graph with each boundary to a worker process, the stages that run there and the boundary after them as one node."""
    starts = [i for i, node in enumerate(flat.nodes) if _is_process(node.stage)]
    if not starts:
        return flat
    following = dict(flat.edges)
    gone: set[int] = set()
    regions: dict[int, StageNode] = {}
    last_of: dict[int, int] = {}  # boundary -> the last node that it replaces
    for start in starts:
        members: list[int] = []
        here = following.get((start, 0))
        while here is not None and _runs_in_worker(flat.nodes[here[0]].stage):
            members.append(here[0])
            here = following.get((here[0], 0))
        if not members:
            _refuse_empty(flat, here[0] if here is not None else None)
        last_of[start] = members[-1]
        gone.update(members)
        boundary = flat.nodes[start]
        buffer_behind = None
        if here is not None:
            behind = flat.nodes[here[0]].stage
            if isinstance(behind, AsyncBoundary):
                if not behind.process:
                    buffer_behind = behind.buffer
                    gone.add(here[0])
                    last_of[start] = here[0]
            else:
                _refuse_hidden_stages(flat, here[0])
        attributes = replace(boundary.attributes, name=None)
        own: AsyncBoundary = boundary.stage  # type: ignore[assignment]  # `starts` has no other
        regions[start] = StageNode(
            WorkerRegion([flat.nodes[i] for i in members], own.buffer, buffer_behind), attributes
        )
    return _replaced(flat, regions, gone, {last: start for start, last in last_of.items()})


def _is_process(stage: GraphStage) -> bool:
    return isinstance(stage, AsyncBoundary) and stage.process


def _has_value(stage: GraphStage) -> bool:
    """True when the stage may materialize a value: it has a `create` of its own."""
    return type(stage).create is not GraphStage.create and not isinstance(stage, FusedFlow)


def _runs_in_worker(stage: GraphStage) -> bool:
    if stage.shape is not FLOW and (len(stage.shape.inlets), len(stage.shape.outlets)) != (1, 1):
        return False
    if isinstance(stage, AsyncBoundary) or _has_value(stage):
        return False
    traits = stage.traits
    if traits.reads_marks or traits.owns_positions or traits.needs is not None:
        raise BuildError(
            f"stage '{stage.label}' takes part in the commits of the run, so it cannot run in a worker process; put "
            f"async_boundary() before it, so that {_CALL} ends there"
        )
    return True


def _refuse_empty(flat: Flat, behind: int | None) -> None:
    what = "nothing" if behind is None else f"'{flat.nodes[behind].label}'"
    raise BuildError(
        f"{_CALL} is followed by {what}, and sinks, junctions, boundaries and stages with a materialized value stay in this process; put the "
        "stages that need a core of their own right after it"
    )


def _refuse_hidden_stages(flat: Flat, first: int) -> None:
    """Refuse a stage downstream of the stage `first`, which stays in the parent, that no boundary separates from the stages in the worker."""
    seen = {first}
    work = [first]
    for here in work:
        for (source, _), (target, _) in flat.edges:
            if source != here or target in seen:
                continue
            stage = flat.nodes[target].stage
            if isinstance(stage, AsyncBoundary):
                continue
            if stage.shape is FLOW and not _has_value(stage):
                raise BuildError(
                    f"stage '{flat.nodes[target].label}' is between {_CALL} and the next boundary, but downstream of "
                    f"'{flat.nodes[first].label}', which stays in this process; put async_boundary() before '{flat.nodes[first].label}' to run "
                    f"the stage here, or another {_CALL} after it"
                )
            seen.add(target)
            work.append(target)


def _replaced(flat: Flat, regions: dict[int, StageNode], gone: set[int], start_of: dict[int, int]) -> Flat:
    """Return the graph without the nodes `gone`. `start_of`: the last node of a region -> the region."""
    index: dict[int, int] = {}
    kept: list[StageNode] = []
    for old, node in enumerate(flat.nodes):
        if old not in gone:
            index[old] = len(kept)
            kept.append(regions.get(old, node))
    edges: list[Edge] = []
    for (source, out_port), (target, in_port) in flat.edges:
        if target not in gone:
            begin = start_of.get(source, source)
            if source not in gone or source in start_of:
                edges.append(((index[begin], out_port), (index[target], in_port)))
    outlets = [(index[start_of.get(node, node)], port) for node, port in flat.outlets]
    inlets = [(index[node], port) for node, port in flat.inlets]
    mat = [
        (op, (NO_NODE if argument in gone else index[argument]) if op == "leaf" and argument != NO_NODE else argument)
        for op, argument in flat.mat
    ]
    return Flat(kept, edges, inlets, outlets, mat)
