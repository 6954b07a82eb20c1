"""Which stages of a flattened graph are fused: runs of maps, filters and scans, with the source before them.

A source is fused with them when it has feeds (`feed`: an iterable) or runs the steps itself (`takes_steps`, `with_steps`: Kafka's)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from streamactors.engine.blueprint.graph import NO_NODE, Flat, StageNode
from streamactors.engine.fusing.flow import FusedFlow
from streamactors.engine.fusing.loop import Op
from streamactors.engine.fusing.source import FusedSource
from streamactors.engine.marks.marks import Handling
from streamactors.engine.stage import GraphStage

LONGEST_CHAIN = 24
"""The most operators that one loop runs."""


def fuse(flat: Flat) -> Flat:
    """Return the graph with each fusable run replaced by one node. Edges and open ports follow."""
    nodes = flat.nodes
    ops: list[Op | None] = [_op(node) for node in nodes]
    feeds = [hasattr(node.stage, "feed") or getattr(node.stage, "takes_steps", False) for node in nodes]
    if not any(ops):
        return flat
    next_of: dict[int, int] = {}
    inner: set[int] = set()
    for (source, _), (target, _) in flat.edges:
        if (
            ops[target] is not None
            and (ops[source] is not None or feeds[source])
            and nodes[source].attributes.max_chunk == nodes[target].attributes.max_chunk
            and nodes[target].attributes.fused is not False
        ):
            next_of[source] = target
            inner.add(target)
    stands_for: dict[int, int] = {}  # node -> first node of its group
    replaced: dict[int, StageNode] = {}
    for head in range(len(nodes)):
        if head in inner or (ops[head] is None and not feeds[head]):
            continue
        member: int | None = head
        while member is not None:
            group = [member]
            member = next_of.get(member)
            while member is not None and len(group) < LONGEST_CHAIN:
                group.append(member)
                member = next_of.get(member)
            if ops[group[0]] is None and len(group) == 1:
                continue  # a source without a step to fuse
            for one in group:
                stands_for[one] = group[0]
            replaced[group[0]] = _fused(nodes, ops, group)
    index: dict[int, int] = {}
    kept: list[StageNode] = []
    for old, node in enumerate(nodes):
        if stands_for.get(old, old) == old:
            index[old] = len(kept)
            kept.append(replaced.get(old, node))
    for old, first in stands_for.items():
        index[old] = index[first]
    return Flat(
        kept,
        [
            ((index[s], sp), (index[t], tp))
            for (s, sp), (t, tp) in flat.edges
            if not (s in stands_for and stands_for[s] == stands_for.get(t) and next_of.get(s) == t)
        ],
        [(index[n], port) for n, port in flat.inlets],
        [(index[n], port) for n, port in flat.outlets],
        [
            (op, (NO_NODE if stands_for.get(arg, arg) != arg else index[arg]) if op == "leaf" else arg)
            for op, arg in flat.mat
        ],
    )


def _op(node: StageNode) -> Op | None:
    make = getattr(node.stage, "op", None)
    return None if make is None else make(node.attributes)


def _fused(nodes: list[StageNode], ops: list[Op | None], group: list[int]) -> StageNode:
    first = nodes[group[0]]
    steps = tuple(op for member in group if (op := ops[member]) is not None)
    attributes = replace(first.attributes, name=None) if first.attributes.name is not None else first.attributes
    handled = [nodes[member].stage.handling for member in group if ops[member] is not None]
    joint = Handling(all(h.passes for h in handled), all(h.exact for h in handled), any(h.remembers for h in handled))
    if ops[group[0]] is None:
        with_steps: Callable[[tuple[Op, ...], Handling, str | None], GraphStage] | None = getattr(
            first.stage, "with_steps", None
        )
        if with_steps is not None:
            return StageNode(with_steps(steps, joint, first.attributes.name), attributes)
        source = FusedSource(first.stage, steps, joint, first.attributes)
        source.handling = first.stage.handling
        return StageNode(source, attributes)
    return StageNode(FusedFlow(steps, joint, first.attributes), attributes)
