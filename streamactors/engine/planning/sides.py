"""The side sinks of `also_to` and `divert_to`: the sinks that only the side outlets of a fan-out reach.

A fan-out with sides completes its main outlet after these sinks have ended, so that a side that fails late still fails the stream:
completion would otherwise overtake the failure, depending on where chunks are cut. Beside a stage that owns positions (a transaction, Spark)
the fan-out waits for nothing: that stage ends after the other sinks have done their marks, and hears through `SinkProgress.sink_failed` of one
that never will, also when the fan-out has completed."""

from __future__ import annotations

from collections.abc import Iterable

from streamactors.engine.blueprint.graph import Edge, StageNode
from streamactors.engine.boundary import BoundaryIn


def side_sinks(nodes: list[StageNode], edges: list[Edge]) -> dict[int, list[int]]:
    """Return, for each node with sides, its side sinks."""
    forks = [i for i, node in enumerate(nodes) if node.stage.traits.has_sides]
    if not forks:
        return {}
    behind: dict[int, list[tuple[int, int]]] = {i: [] for i in range(len(nodes))}  # node -> (outlet, next node)
    for (source, outlet), (target, _) in edges:
        behind[source].append((outlet, target))
    for i, node in enumerate(nodes):
        if isinstance(node.stage, BoundaryIn):
            behind[node.stage.peer_node].append((0, i))

    def reached(starts: Iterable[int]) -> set[int]:
        found: set[int] = set()
        work = list(starts)
        while work:
            here = work.pop()
            if here not in found:
                found.add(here)
                work += [target for _, target in behind[here]]
        return found

    sinks: dict[int, list[int]] = {}
    for fork in forks:
        main = reached(target for outlet, target in behind[fork] if not outlet)
        sides = reached(target for outlet, target in behind[fork] if outlet)
        owned = any(nodes[i].stage.traits.owns_positions for i in sides | main)
        sinks[fork] = [] if owned else [i for i in sides - main if not behind[i]]
    return sinks
