"""Folding: equal stages of the substreams of one stage become one stage with a count, so that a hundred substreams stay readable.

Pure. Equal are stages with the same parent, kind, name and depth inside the substream."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Node:
    """A stage as folding sees it. `parent`: the name of the stage that has started it inside itself; empty for a stage of the graph."""

    id: int
    parent: str
    kind: str
    name: str


def folded(nodes: Iterable[Node], edges: Iterable[tuple[int, int]]) -> dict[int, int]:
    """Return for each stage the id of the one that stands for it: the lowest id of its equals."""
    known: dict[int, Node] = {node.id: node for node in nodes}
    before: dict[int, list[int]] = {}
    for source, target in edges:
        if known[source].parent and known[target].parent:
            before.setdefault(target, []).append(source)
    depths = _depths(known, before)
    first: dict[Hashable, int] = {}
    of: dict[int, int] = {}
    for id_, node in sorted(known.items()):
        of[id_] = id_ if not node.parent else first.setdefault((node.parent, node.kind, node.name, depths[id_]), id_)
    return of


def _depths(known: Mapping[int, Node], before: Mapping[int, list[int]]) -> dict[int, int]:
    """Return how many stages of the same substream come before each stage; stages on a cycle count it once."""
    depths: dict[int, int] = {}
    for begin in known:
        stack = [begin]
        open_ones = {begin}
        while stack:
            here = stack[-1]
            missing = [each for each in before.get(here, ()) if each not in depths and each not in open_ones]
            if missing:
                stack.append(missing[0])
                open_ones.add(missing[0])
                continue
            stack.pop()
            open_ones.discard(here)
            depths[here] = max((depths[each] + 1 for each in before.get(here, ()) if each in depths), default=0)
    return depths
