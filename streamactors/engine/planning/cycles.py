"""Cycles of a graph, and the warning for a cycle that cannot complete.

A stage that ends only when all its inputs have (Merge, without eager_complete) waits in a cycle for itself: the input that closes the cycle
completes only after the stage has completed. If every stage of a cycle ends in this way, nothing ends the cycle: its sources complete,
and the stream runs on in silence. A cycle with one stage that may end by itself (take_while, a kill switch, zip, a stage of the user's own) is
not warned of, and neither is one whose sources never end."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence

from streamactors.engine.blueprint.graph import Edge, StageNode
from streamactors.engine.boundary import BoundaryIn, BoundaryOut

_log = logging.getLogger("streamactors.engine")


def links(nodes: Sequence[StageNode], edges: Sequence[Edge]) -> list[Edge]:
    """Return the edges, and one for each async boundary, from its upstream half to its downstream half."""
    return [
        *edges,
        *(((node.stage.peer_node, 0), (i, 0)) for i, node in enumerate(nodes) if isinstance(node.stage, BoundaryIn)),
    ]


def cycles(count: int, outgoing: Mapping[int, list[Edge]]) -> list[list[int]]:
    """Return the groups of nodes that can reach one another (Kosaraju's two passes, without recursion)."""
    order: list[int] = []
    seen: set[int] = set()
    for start in range(count):
        stack = [(start, iter(outgoing.get(start, ())))] if start not in seen else []
        seen.add(start)
        while stack:
            node, following = stack[-1]
            for edge in following:
                target = edge[1][0]
                if target not in seen:
                    seen.add(target)
                    stack.append((target, iter(outgoing.get(target, ()))))
                    break
            else:
                order.append(node)
                stack.pop()
    back: dict[int, list[int]] = defaultdict(list)
    for edges in outgoing.values():
        for (source, _), (target, _) in edges:
            back[target].append(source)
    placed: set[int] = set()
    found: list[list[int]] = []
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
            found.append(component)
    return found


def warn_of_endless_cycles(nodes: Sequence[StageNode], edges: Sequence[Edge]) -> None:
    """Log one warning for each cycle that cannot complete although its sources can."""
    outgoing: dict[int, list[Edge]] = defaultdict(list)
    incoming: dict[int, list[int]] = defaultdict(list)
    for edge in links(nodes, edges):
        outgoing[edge[0][0]].append(edge)
        incoming[edge[1][0]].append(edge[0][0])
    for cycle in cycles(len(nodes), outgoing):
        waiting = [i for i in cycle if len(nodes[i].stage.shape.inlets) > 1]
        if (
            not waiting
            or not all(_ends_with_inputs(nodes[i]) for i in cycle)
            or _has_endless_source(cycle, nodes, incoming)
        ):
            continue
        inside = set(cycle)
        first = next((i for i in waiting if any(source not in inside for source in incoming[i])), waiting[0])
        _log.warning(
            "the cycle %s cannot complete: '%s' ends when all its inputs have ended, and one of them comes from itself; when the sources "
            "end, the stream runs on. End the feedback in the cycle (take_while, take, a kill switch), or end with the first input that "
            "does: eager_complete=True",
            " -> ".join(nodes[i].label for i in _round(first, inside, outgoing) if not _is_boundary(nodes[i])),
            nodes[first].label,
        )


def _is_boundary(node: StageNode) -> bool:
    return isinstance(node.stage, (BoundaryIn, BoundaryOut))


def _ends_with_inputs(node: StageNode) -> bool:
    return _is_boundary(node) or node.stage.traits.ends_with_inputs


def _has_endless_source(cycle: list[int], nodes: Sequence[StageNode], incoming: Mapping[int, list[int]]) -> bool:
    seen = set(cycle)
    work = list(cycle)
    while work:
        for source in incoming.get(work.pop(), ()):
            if source not in seen:
                seen.add(source)
                work.append(source)
                if nodes[source].stage.traits.endless:
                    return True
    return False


def _round(first: int, inside: set[int], outgoing: Mapping[int, list[Edge]]) -> list[int]:
    """Return a shortest way from a node back to itself, with the node at both ends."""
    came_from: dict[int, int] = {}
    work = [first]
    for here in work:
        for _, (target, _) in outgoing[here]:
            if target == first:
                way = [here]
                while way[-1] != first:
                    way.append(came_from[way[-1]])
                return [*reversed(way), first]
            if target in inside and target not in came_from:
                came_from[target] = here
                work.append(target)
    return [first]
