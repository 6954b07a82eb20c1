"""The way of the marks, worked out when a run is built: which sources' marks can reach which connection, and whether every
reader gets what it needs of the stages on the way."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

from streamactors.engine.boundary import BoundaryIn, BoundaryOut
from streamactors.engine.graph import Edge, Node, PortOf
from streamactors.engine.marks import Handling, Needs
from streamactors.engine.stage import GraphStage
from streamactors.errors import BuildError

NOTHING: frozenset[int] = frozenset()


@dataclass(slots=True)
class MarkPlan:
    """`active`: somebody reads marks. `carries[edge]`: the source nodes whose marks can pass there."""

    active: bool = False
    carries: dict[Edge, frozenset[int]] = field(default_factory=dict)
    sinks: dict[int, frozenset[int]] = field(default_factory=dict)  # sink node -> sources whose marks reach it

    def of_inlet(self, node: int, port: int) -> frozenset[int]:
        """Return the sources whose marks can arrive at an inlet."""
        for (_, target), sources in self.carries.items():
            if target == (node, port):
                return sources
        return NOTHING


def plan_marks(nodes: list[Node], edges: list[Edge], partial: bool = False) -> MarkPlan:
    """Return the plan of the marks. Raises BuildError naming the stage and the way out when a reader's need is not met.

    A `partial` graph has open outlets: its readers may be in the graph around it, so its ways are worked out in any case."""
    readers = [i for i, node in enumerate(nodes) if node.stage.reads_marks or node.attributes.replay is not None]
    if not readers and not (partial and any(node.stage.emits_marks for node in nodes)):
        return MarkPlan()
    if readers:
        _check_restarts(nodes, readers)
    links = edges + [
        ((node.stage.peer_node, 0), (i, 0)) for i, node in enumerate(nodes) if isinstance(node.stage, BoundaryIn)
    ]
    outgoing: dict[int, list[Edge]] = defaultdict(list)
    incoming: dict[int, list[Edge]] = defaultdict(list)
    for edge in links:
        outgoing[edge[0][0]].append(edge)
        incoming[edge[1][0]].append(edge)
    looping = _in_cycles(len(nodes), outgoing)
    arriving: dict[PortOf, set[int]] = defaultdict(set)
    leaving: dict[PortOf, set[int]] = defaultdict(set)
    work = [i for i, node in enumerate(nodes) if node.stage.emits_marks]
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
            if target in looping or not stage.inlet_handling(in_port).passes:
                continue
            for port in range(len(stage.shape.outlets)):
                if stage.marks_reach(in_port, port):
                    leaving[target, port] |= new
            if isinstance(stage, BoundaryOut):
                leaving[target, 0] |= new
            work.append(target)
    _check(nodes, readers, outgoing, incoming, looping)
    _check_owners(nodes, arriving)
    if readers:
        _check_handed_out(nodes, outgoing)
    return MarkPlan(
        bool(readers),
        {edge: frozenset(leaving[edge[0]]) for edge in edges},
        {
            i: frozenset(arriving[i, 0])
            for i, node in enumerate(nodes)
            if not node.stage.shape.outlets and not isinstance(node.stage, BoundaryOut) and arriving[i, 0]
        },
    )


def _check_restarts(nodes: list[Node], readers: list[int]) -> None:
    for node in nodes:
        if node.stage.no_marks:
            raise BuildError(
                f"stage '{node.label}' {node.stage.no_marks}, which {nodes[readers[0]].label} could not tell from what was done; "
                "restart the source instead (RestartSource), from the positions that are done"
            )


def _check_handed_out(nodes: list[Node], outgoing: dict[int, list[Edge]]) -> None:
    """The sources that a source hands out go one way each; split before they are opened, no sink would know which are not for it."""
    for i, node in enumerate(nodes):
        work = [i] if node.stage.hands_out else []
        for here in work:
            stage = nodes[here].stage
            ways = [edge for edge in outgoing[here] if here == i or stage.marks_reach(0, edge[0][1])]
            if len(ways) > 1:
                raise BuildError(
                    f"{node.label} hands out a source per partition, and stage '{nodes[here].label}' sends these several ways, so that "
                    "nobody could tell what is done; put it behind flat_map_merge"
                )
            work += [target for _, (target, _) in ways if not nodes[target].stage.opens_sources and target not in work]


def _check_owners(nodes: list[Node], arriving: dict[PortOf, set[int]]) -> None:
    """A source begins where its owner says; two of them would each have it their own way."""
    owners: dict[int, set[str]] = defaultdict(set)
    for i, node in enumerate(nodes):
        if node.stage.owns_positions:
            for source in (i,) if node.stage.emits_marks else arriving[i, 0]:
                owners[source].add(node.stage.owns_positions)
    for source, found in owners.items():
        if len(found) > 1:
            raise BuildError(
                f"the positions of '{nodes[source].label}' would have {len(found)} owners in one run, "
                f"{' and '.join(sorted(found))}; use two graphs, each with a source and a group of its own"
            )


def _in_cycles(count: int, outgoing: dict[int, list[Edge]]) -> set[int]:
    """Return the nodes that can reach themselves (Kosaraju's two passes, without recursion)."""
    order: list[int] = []
    seen: set[int] = set()
    for start in range(count):
        stack = [(start, iter(outgoing[start]))] if start not in seen else []
        seen.add(start)
        while stack:
            node, following = stack[-1]
            for edge in following:
                target = edge[1][0]
                if target not in seen:
                    seen.add(target)
                    stack.append((target, iter(outgoing[target])))
                    break
            else:
                order.append(node)
                stack.pop()
    back: dict[int, list[int]] = defaultdict(list)
    for edges in outgoing.values():
        for (source, _), (target, _) in edges:
            back[target].append(source)
    placed: set[int] = set()
    looping: set[int] = set()
    for root in reversed(order):
        if root in placed:
            continue
        component = [root]
        placed.add(root)
        for node in component:
            for source in back[node]:
                if source not in placed:
                    placed.add(source)
                    component.append(source)
        if len(component) > 1 or root in back[root]:
            looping.update(component)
    return looping


def _check(
    nodes: list[Node],
    readers: list[int],
    outgoing: dict[int, list[Edge]],
    incoming: dict[int, list[Edge]],
    looping: set[int],
) -> None:
    for reader in readers:
        needs = nodes[reader].stage.needs
        if needs is None or (needs.if_from is not None and not _stems_from(reader, needs.if_from, nodes, incoming)):
            continue
        is_source = nodes[reader].stage.emits_marks
        _check_fused_source(nodes[reader], needs)
        seen = {reader}
        work = [reader]
        while work:
            here = work.pop()
            for (source, out_port), (target, in_port) in outgoing[here] if is_source else incoming[here]:
                other, in_port = (target, in_port) if is_source else (source, 0)
                stage = nodes[other].stage
                if (
                    is_source
                    and not any(stage.marks_reach(in_port, port) for port in range(len(stage.shape.outlets)))
                    and stage.shape.outlets
                ):
                    continue
                if not is_source and not stage.marks_reach(0, out_port):
                    continue
                if stage.shape.outlets and stage.shape.inlets:
                    _check_stage(nodes[other], stage.inlet_handling(in_port), needs, other in looping)
                _check_fused_source(nodes[other], needs)
                if needs.replays:
                    _check_replayable(nodes[other], needs)
                if other not in seen:
                    seen.add(other)
                    work.append(other)


def _stems_from(
    node: int, kind: Callable[[GraphStage], bool], nodes: list[Node], incoming: dict[int, list[Edge]]
) -> bool:
    """True when a source of a kind lies upstream of a node."""
    seen = {node}
    work = [node]
    while work:
        for (source, _), _ in incoming[work.pop()]:
            if source not in seen:
                seen.add(source)
                work.append(source)
    return any(nodes[i].stage.emits_marks and kind(nodes[i].stage) for i in seen)


def _check_fused_source(node: Node, needs: Needs) -> None:
    """A source may have the steps behind it inside (engine/fusing.py)."""
    if node.stage.steps is not None:
        _check_stage(node, node.stage.steps, needs, loops=False)


def _check_replayable(node: Node, needs: Needs) -> None:
    stage = node.stage
    if not stage.shape.inlets and not stage.emits_marks and not isinstance(stage, BoundaryIn):
        raise BuildError(
            f"{needs.reader} asks for ranges again after a crash, and source '{node.label}' cannot be read again; "
            "write it to a topic in a graph of its own, and read that topic here"
        )
    if stage.begins_again:
        raise BuildError(
            f"{needs.reader} says once per run where its sources begin, and '{node.label}' makes its source anew within the run; "
            "leave it away and run the whole graph again when it has failed: it goes on where it stood"
        )


def _check_stage(node: Node, handling: Handling, needs: Needs, loops: bool) -> None:
    name = node.label
    if loops:
        raise BuildError(
            f"{needs.reader} cannot follow its elements through the feedback loop at stage '{name}'; "
            "end this run with through_topic(...) and begin another behind it, or use two graphs"
        )
    if not handling.passes:
        raise BuildError(
            f"{needs.reader} cannot follow its elements through stage '{name}', which does not say what it holds; "
            "declare it (holds=False for an Rx pipeline that holds nothing, `handling` for a stage of your own), "
            "or put through_topic(...) before it"
        )
    if needs.exact and not handling.exact:
        raise BuildError(
            f"{needs.reader} needs exact cuts, and stage '{name}' blurs them; "
            "use map_async for map_async_unordered, put through_topic(...) behind it, or use two graphs"
        )
    if needs.no_memory and handling.remembers:
        raise BuildError(
            f"{needs.reader} replays ranges, and stage '{name}' remembers earlier elements; "
            "write its results with through_topic(...) and read that topic in a graph of its own"
        )
