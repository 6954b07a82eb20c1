"""Graphs as SVG: boxes and lines of `picture.py` without a browser, a font or a program beside us.

A short graph is drawn from left to right, a long one from top to bottom. The picture has its own background, so that it can be read in a dark page, too."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from streamactors.engine.planning.layers import Layout
from streamactors.engine.planning.picture import Box, Line
from streamactors.mime_bundles import escaped, plain

MOST_BOXES: Final = 400
"""A graph with more stages is not drawn: nobody could read it."""
WIDEST: Final = 1_000
"""A graph that would be wider in pixels is drawn from top to bottom."""
_LONGEST: Final = 44
_CHARACTER: Final = 7.0
_GAP: Final = 18.0
_BETWEEN: Final = 46.0
_BELOW: Final = 34.0
_LINE: Final = 16.0
_MOST_NOTES: Final = 4
_MARGIN: Final = 16.0
_ISLANDS: Final = ("#eef4fb", "#fdf3e3", "#eaf7ee", "#f6eefa", "#fdeeee", "#eef7f7")
_STATES: Final = {
    "works": ("#fbd5d0", "#b3261e"),
    "waits for demand": ("#d9d9d9", "#555555"),
    "waits for elements": ("#d9e8fb", "#2b6cb0"),
    "": ("", "#444444"),
}
_INK: Final = "#222222"


def svg(boxes: Sequence[Box], lines: Sequence[Line]) -> str | None:
    """Return the picture, None for a graph of more than MOST_BOXES."""
    if not boxes or len(boxes) > MOST_BOXES:
        return None
    number = {box.id: index for index, box in enumerate(boxes)}
    drawn = [line for line in lines if line.source in number and line.target in number and line.source != line.target]
    edges = [(number[line.source], number[line.target]) for line in drawn]
    across = _Picture(boxes, drawn, edges, sideways=True)
    return (across if across.width <= WIDEST else _Picture(boxes, drawn, edges, sideways=False)).text()


class _Picture:
    def __init__(
        self, boxes: Sequence[Box], lines: Sequence[Line], edges: list[tuple[int, int]], *, sideways: bool
    ) -> None:
        self._boxes, self._lines, self._sideways = boxes, lines, sideways
        self._number = {box.id: index for index, box in enumerate(boxes)}
        self._sizes = [_size(box) for box in boxes]
        layout = Layout(len(boxes), edges, [size[1 if sideways else 0] for size in self._sizes], _GAP)
        labels = [0.0] * layout.layers
        for line, way in zip(lines, layout.ways, strict=True):
            if sideways and line.label:
                first = min(way[0][0], way[1][0])
                labels[first] = max(labels[first], _wide(line.label) * _CHARACTER * 0.85)
        depth = [0.0] * layout.layers
        for (layer, _), size in zip(layout.places, self._sizes, strict=True):
            depth[layer] = max(depth[layer], size[0 if sideways else 1])
        at, between, centres = _MARGIN, 0.0, []
        for layer, extent in enumerate(depth):
            centres.append(at + extent / 2)
            between = max(_BETWEEN if sideways else _BELOW, labels[layer] + 18.0)
            at += extent + between
        long = at - between + _MARGIN
        extents = [size[1 if sideways else 0] / 2 for size in self._sizes]
        shift = _MARGIN + max((e - place[1] for e, place in zip(extents, layout.places, strict=True)), default=0.0)
        wide = max(shift + place[1] + e for e, place in zip(extents, layout.places, strict=True)) + _MARGIN
        wide = max(wide, *(shift + point[1] + _MARGIN for way in layout.ways for point in way), 0.0)
        for line, way in zip(lines, () if sideways else layout.ways, strict=False):
            if line.label:  # beside the line
                widest = max(way[0][1], way[1][1]) + 7.0 + min(_wide(line.label), _LONGEST) * _CHARACTER * 0.85
                wide = max(wide, shift + widest + _MARGIN)
        self._depth = depth
        self._places = [self._point(centres[layer], shift + side) for layer, side in layout.places]
        self._ways = [
            [(layer, self._point(centres[layer], shift + side)) for layer, side in way] for way in layout.ways
        ]
        self.width, self.height = (long, wide) if sideways else (wide, long)

    def _point(self, along: float, side: float) -> tuple[float, float]:
        return (along, side) if self._sideways else (side, along)

    def text(self) -> str:
        """Return the SVG element."""
        groups = len({box.group for box in self._boxes}) > 1
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width:.0f}" height="{self.height:.0f}" '
            f'viewBox="0 0 {self.width:.0f} {self.height:.0f}" role="img" font-family="system-ui,sans-serif" font-size="12">',
            f"<title>{escaped(', '.join(plain(box.name, _LONGEST) for box in self._boxes), 2_000)}</title>",
            f'<rect width="{self.width:.0f}" height="{self.height:.0f}" rx="6" fill="#ffffff"/>',
        ]
        parts += [self._line(line, way) for line, way in zip(self._lines, self._ways, strict=True)]
        parts += [self._box(number, groups) for number in range(len(self._boxes))]
        return "\n".join([*parts, "</svg>"])

    def _box(self, number: int, groups: bool) -> str:
        box, (x, y), (width, height) = self._boxes[number], self._places[number], self._sizes[number]
        tint, edge = _STATES[box.doing]
        fill = tint or (_ISLANDS[box.group % len(_ISLANDS)] if groups else "#f3f1ec")
        rows = [(escaped(box.name, _LONGEST), _INK, "")]
        rows += [(escaped(note, _LONGEST), "#555555", ' font-size="10.5"') for note in _notes(box)]
        if groups:
            rows.append((f"island {box.group}", "#777777", ' font-size="10"'))
        top = y - (len(rows) - 1) * _LINE / 2 + 4
        texts = "".join(
            f'<text x="{x:.1f}" y="{top + index * _LINE:.1f}" text-anchor="middle" fill="{ink}"{look}>{text}</text>'
            for index, (text, ink, look) in enumerate(rows)
        )
        tip = f"<title>{escaped(box.name, 500)}{f': {escaped(box.note, 500)}' if box.note else ''}</title>"
        rect = (
            f'<rect x="{x - width / 2:.1f}" y="{y - height / 2:.1f}" width="{width:.1f}" height="{height:.1f}" rx="5" '
        )
        return f'<g>{tip}{rect}fill="{fill}" stroke="{edge}"/>{texts}</g>'

    def _line(self, line: Line, way: list[tuple[int, tuple[float, float]]]) -> str:
        forth = 1 if way[-1][0] > way[0][0] else -1
        points = []
        for layer, (x, y) in way:
            half = self._depth[layer] / 2
            ends = [(-half, half), (half, -half)][forth < 0]
            inner = [(x + off, y) if self._sideways else (x, y + off) for off in ends]
            points += inner
        source, target = self._edge(line.source, points[1], forth), self._edge(line.target, points[-2], -forth)
        points = [source, *points[1:-1], target]
        path = f"M{points[0][0]:.1f},{points[0][1]:.1f}"
        for (x1, y1), (x2, y2) in pairwise(points):
            if self._sideways:
                path += f"C{(x1 + x2) / 2:.1f},{y1:.1f} {(x1 + x2) / 2:.1f},{y2:.1f} {x2:.1f},{y2:.1f}"
            else:
                path += f"C{x1:.1f},{(y1 + y2) / 2:.1f} {x2:.1f},{(y1 + y2) / 2:.1f} {x2:.1f},{y2:.1f}"
        look = ' stroke-dasharray="4 3"' if line.dashed else ""
        label = self._label(line.label, points) if line.label else ""
        return f'<path d="{path}" fill="none" stroke="#666666"{look}/>{self._head(target, forth)}{label}'

    def _edge(self, box_id: int, near: tuple[float, float], forth: int) -> tuple[float, float]:
        """Return the middle of the side of a box at which a line begins or ends."""
        index = self._number[box_id]
        (x, y), (width, height) = self._places[index], self._sizes[index]
        return (x + forth * width / 2, y) if self._sideways else (x, y + forth * height / 2)

    def _head(self, tip: tuple[float, float], forth: int) -> str:
        x, y = tip
        back = -6.0 * forth
        corners = (
            [(x, y), (x + back, y - 3.5), (x + back, y + 3.5)]
            if self._sideways
            else [(x, y), (x - 3.5, y + back), (x + 3.5, y + back)]
        )
        return f'<polygon points="{" ".join(f"{a:.1f},{b:.1f}" for a, b in corners)}" fill="#666666"/>'

    def _label(self, text: str, points: list[tuple[float, float]]) -> str:
        (x1, y1), (x2, y2) = points[1], points[2]
        x, y = (x1 + x2) / 2, (y1 + y2) / 2
        place = (
            f'x="{x:.1f}" y="{y - 5:.1f}" text-anchor="middle"'
            if self._sideways
            else f'x="{x + 7:.1f}" y="{y + 4:.1f}"'
        )
        return f'<text {place} font-size="10" fill="#555555" stroke="#ffffff" stroke-width="3" paint-order="stroke">{escaped(text, _LONGEST)}</text>'


def _notes(box: Box) -> list[str]:
    return [note for note in box.note.split("\n") if note][:_MOST_NOTES]


def _size(box: Box) -> tuple[float, float]:
    texts = [plain(box.name, _LONGEST), *(plain(note, _LONGEST) for note in _notes(box))]
    return max(60.0, max(map(_wide, texts)) * _CHARACTER + 18.0), 18.0 + _LINE * (len(texts) + 1)


def _wide(text: str) -> int:
    """Return how wide a text is, in characters of the Latin alphabet."""
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)
