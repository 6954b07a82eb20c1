"""Where the boxes of a graph stand: in layers, each after those that feed it, ordered so that few lines cross (Sugiyama's method).

Pure: numbers in, numbers out. A line over several layers gets a point in each of them, so that it passes between the boxes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

SWEEPS: Final = 8

Edge = tuple[int, int]


def layers_of(count: int, edges: Sequence[Edge]) -> list[int]:
    """Return the layer of each node: the longest way to it. A line that closes a cycle does not count; a source stands right before its first reader."""
    forward = _without_cycles(count, edges)
    after: dict[int, list[int]] = defaultdict(list)
    left = [0] * count
    for source, target in forward:
        after[source].append(target)
        left[target] += 1
    layer = [0] * count
    ready = [node for node in range(count) if not left[node]]
    sources = set(ready)
    for node in ready:  # grows
        for target in after[node]:
            layer[target] = max(layer[target], layer[node] + 1)
            left[target] -= 1
            if not left[target]:
                ready.append(target)
    for node in sources:
        if after[node]:
            layer[node] = min(layer[target] for target in after[node]) - 1
    return layer


def _without_cycles(count: int, edges: Sequence[Edge]) -> list[Edge]:
    """Return the edges but those that a depth-first walk finds to lead back."""
    after: dict[int, list[int]] = defaultdict(list)
    for source, target in edges:
        after[source].append(target)
    state = [0] * count  # 1: on the way, 2: done
    back: set[Edge] = set()
    for begin in range(count):
        if state[begin]:
            continue
        state[begin] = 1
        way = [(begin, iter(after[begin]))]
        while way:
            node, rest = way[-1]
            target = next(rest, -1)
            if target < 0:
                state[node] = 2
                way.pop()
            elif state[target] == 1:
                back.add((node, target))
            elif not state[target]:
                state[target] = 1
                way.append((target, iter(after[target])))
    return [edge for edge in edges if edge not in back]


class Layout:
    """`places[node]`: (layer, position across it) in boxes; `ways[number of the edge]`: the places that its line passes, ends included."""

    def __init__(self, count: int, edges: Sequence[Edge], sizes: Sequence[float], gap: float) -> None:
        """`sizes`: the extent of each node across its layer; `gap`: the space between two."""
        layer = layers_of(count, edges)
        self._sizes = [*sizes]
        self._gap = gap
        self._rows: list[list[int]] = [[] for _ in range(max(layer, default=-1) + 1)]
        self._layer = layer
        for node in range(count):
            self._rows[layer[node]].append(node)
        self._before: dict[int, list[int]] = defaultdict(list)
        self._after: dict[int, list[int]] = defaultdict(list)
        chains = [self._chain(source, target) for source, target in edges]
        self._order()
        self._across = [0.0] * len(self._layer)
        self._place()
        lowest = min(self._across, default=0.0)
        self.places = [(self._layer[node], self._across[node] - lowest) for node in range(count)]
        self.ways = [[(self._layer[node], self._across[node] - lowest) for node in chain] for chain in chains]
        self.layers = len(self._rows)

    def _chain(self, source: int, target: int) -> list[int]:
        """Return the nodes of a line: its ends, and a point in each layer between them."""
        step = 1 if self._layer[target] >= self._layer[source] else -1
        chain = [source]
        for layer in range(self._layer[source] + step, self._layer[target], step):
            chain.append(len(self._layer))
            self._layer.append(layer)
            self._sizes.append(0.0)
            self._rows[layer].append(chain[-1])
        chain.append(target)
        for one, other in pairwise(chain):
            first, second = (one, other) if step == 1 else (other, one)
            self._after[first].append(second)
            self._before[second].append(first)
        return chain

    def _order(self) -> None:
        for sweep in range(SWEEPS):
            down = sweep % 2 == 0
            rows = self._rows if down else self._rows[::-1]
            near = self._before if down else self._after
            at: dict[int, float] = {}
            for row in rows:
                for index, node in enumerate(row):
                    found = [at[each] for each in near[node] if each in at]
                    at[node] = sum(found) / len(found) if found else float(index)
                row.sort(key=lambda node: at[node])
                for index, node in enumerate(row):
                    at[node] = float(index)

    def _place(self) -> None:
        for row in self._rows:
            self._spread(row, [0.0] * len(row))
        for sweep in range(SWEEPS):
            down = sweep % 2 == 0
            rows = self._rows if down else self._rows[::-1]
            for row in rows:
                near = self._before if down else self._after
                wished = []
                for node in row:
                    found = [self._across[each] for each in near[node]] or [self._across[node]]
                    wished.append(sum(found) / len(found))
                self._spread(row, wished)

    def _spread(self, row: list[int], wished: list[float]) -> None:
        """Put the nodes of a row as near to their wishes as their sizes allow: groups that collide stand side by side around their mean wish."""
        groups: list[tuple[float, list[int], list[float]]] = []  # centre, nodes, wishes
        for node, wish in zip(row, wished, strict=True):
            nodes, wishes, centre = [node], [wish], wish
            while (
                groups and groups[-1][0] + self._width(groups[-1][1]) / 2 + self._gap > centre - self._width(nodes) / 2
            ):
                _, others, their = groups.pop()
                nodes, wishes = others + nodes, their + wishes
                centre = sum(wishes) / len(wishes)
            groups.append((centre, nodes, wishes))
        for centre, nodes, _ in groups:
            at = centre - self._width(nodes) / 2
            for node in nodes:
                self._across[node] = at + self._sizes[node] / 2
                at += self._sizes[node] + self._gap

    def _width(self, nodes: list[int]) -> float:
        return sum(self._sizes[node] for node in nodes) + self._gap * (len(nodes) - 1)
