"""The plan of the marks, made when a run is built: which sources' marks can reach which connection, and whether the stages on the way meet
the needs of every reader of marks."""

from __future__ import annotations

import logging
from collections import defaultdict
from dataclasses import dataclass, field

from streamactors.engine.blueprint.graph import Edge, PortOf, StageNode
from streamactors.engine.boundary import BoundaryOut
from streamactors.engine.planning.cycles import cycles, links
from streamactors.engine.planning.mark_needs import check_needs
from streamactors.engine.stage_traits import StageTraits
from streamactors.errors import BuildError

_log = logging.getLogger("streamactors.engine")


@dataclass(slots=True)
class MarkPlan:
    """The marks of a run. `active`: a stage reads marks. `carries[edge]`: the source nodes whose marks can pass that edge, and the nodes that mark their own results."""

    active: bool = False
    carries: dict[Edge, frozenset[int]] = field(default_factory=dict)
    sinks: dict[int, frozenset[int]] = field(default_factory=dict)  # sink node -> sources whose marks reach it
    followed: bool = False  # nobody reads the marks but the traces: a source may push sampled records


def plan_marks(nodes: list[StageNode], edges: list[Edge], partial: bool = False, followed: bool = False) -> MarkPlan:
    """Return the plan of the marks. Raises BuildError naming the stage and the way out when a reader's need is not met.

    A `partial` graph has open outlets: the readers may be in the graph around it, so the plan is made in any case. `followed`: traces follow
    the records of sources that may sample some."""
    readers = [i for i, node in enumerate(nodes) if node.stage.traits.reads_marks or node.attributes.replay is not None]
    followed = followed and not readers and not partial and any(node.stage.traits.sampled for node in nodes)
    if not readers and not followed and not (partial and any(node.stage.traits.emits_marks for node in nodes)):
        return MarkPlan()
    if readers:
        _check_restarts(nodes, readers)
    outgoing: dict[int, list[Edge]] = defaultdict(list)
    incoming: dict[int, list[Edge]] = defaultdict(list)
    for edge in links(nodes, edges):
        outgoing[edge[0][0]].append(edge)
        incoming[edge[1][0]].append(edge)
    looping = {i for cycle in cycles(len(nodes), outgoing) for i in cycle}
    arriving: dict[PortOf, set[int]] = defaultdict(set)
    leaving: dict[PortOf, set[int]] = defaultdict(set)
    work = [i for i, node in enumerate(nodes) if emits(node.stage.traits, followed)]
    for i in work:
        for port in range(len(nodes[i].stage.shape.outlets)):
            leaving[i, port].add(i)
    while work:
        i = work.pop()
        for edge in outgoing[i]:
            (_, out_port), (target, in_port) = edge
            new = leaving[i, out_port] - arriving[target, in_port]
            if not new:
                continue
            arriving[target, in_port] |= new
            stage = nodes[target].stage
            if target in looping or not stage.handling.passes:
                continue
            passing = new | {target} if stage.traits.marks_timer_results else new
            for port in range(len(stage.shape.outlets)):
                if stage.traits.marks_reach(in_port, port):
                    leaving[target, port] |= passing
            if isinstance(stage, BoundaryOut):
                leaving[target, 0] |= new
            work.append(target)
    check_needs(nodes, readers, outgoing, incoming, looping)
    _check_owners(nodes, arriving)
    if readers:
        _check_handed_out(nodes, outgoing)
        _warn_of_lost_state(nodes, arriving)
    return MarkPlan(
        bool(readers),
        {edge: frozenset(leaving[edge[0]]) for edge in edges},
        {
            i: frozenset(arriving[i, 0])
            for i, node in enumerate(nodes)
            if not node.stage.shape.outlets and not isinstance(node.stage, BoundaryOut) and arriving[i, 0]
        },
        followed,
    )


def emits(traits: StageTraits, followed: bool) -> bool:
    """Return whether a stage is a source of marks. In a run that is only traced the sources of sampled records are."""
    return traits.sampled if followed else traits.emits_marks


def _check_restarts(nodes: list[StageNode], readers: list[int]) -> None:
    for node in (each for outer in nodes for each in (outer, *getattr(outer.stage, "members", ()))):
        because = node.stage.traits.no_marks
        if because:
            raise BuildError(
                f"stage '{node.label}' {because}, and {nodes[readers[0]].label} would count the lost elements as done; "
                "restart the source instead (RestartSource), from the positions that are done"
            )


def _check_handed_out(nodes: list[StageNode], outgoing: dict[int, list[Edge]]) -> None:
    """Refuse to split a stream of sources before the sources are opened: a sink could not know which of them it will not get."""
    for i, node in enumerate(nodes):
        work = [i] if node.stage.traits.inner_sources == "emits" else []
        for here in work:
            stage = nodes[here].stage
            ways = [edge for edge in outgoing[here] if here == i or stage.traits.marks_reach(0, edge[0][1])]
            if len(ways) > 1:
                raise BuildError(
                    f"{node.label} emits a source per partition, and stage '{nodes[here].label}' splits these sources over several "
                    "outlets, so that no sink could count what is done; put the stage after flat_map_merge"
                )
            work += [
                target
                for _, (target, _) in ways
                if nodes[target].stage.traits.inner_sources != "runs" and target not in work
            ]


def _warn_of_lost_state(nodes: list[StageNode], arriving: dict[PortOf, set[int]]) -> None:
    """Warn of a state in memory downstream of a source that continues after a restart where it was: the state begins empty."""
    for i, node in enumerate(nodes):
        forgets = getattr(node.stage, "forgets", "")
        for source in arriving[i, 0] if forgets else ():
            if getattr(nodes[source].stage, "keeps_changelog", False):
                _log.warning("'%s' downstream of '%s' forgets %s", node.label, nodes[source].label, forgets)


def _check_owners(nodes: list[StageNode], arriving: dict[PortOf, set[int]]) -> None:
    """Refuse two owners of one source's positions: each would set where the source begins."""
    owners: dict[int, set[str]] = defaultdict(set)
    for i, node in enumerate(nodes):
        owner = node.stage.traits.owns_positions
        if owner:
            for source in (i,) if node.stage.traits.emits_marks else arriving[i, 0]:
                if not nodes[source].stage.traits.marks_timer_results:
                    owners[source].add(owner)
    for source, found in owners.items():
        if len(found) > 1:
            raise BuildError(
                f"the positions of '{nodes[source].label}' would have {len(found)} owners in one run, "
                f"{' and '.join(sorted(found))}; use two graphs, each with a source and a group of its own"
            )
