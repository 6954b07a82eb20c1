"""Graphs as Mermaid flowcharts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from streamactors.engine.blueprint.modules import Module
from streamactors.engine.boundary import BoundaryIn
from streamactors.engine.planning.plan import plan_of


@dataclass(frozen=True, slots=True)
class Box:
    """A stage; those with the same `group` stand in one frame."""

    id: int
    name: str
    group: int
    note: str = ""
    doing: str = ""
    """What the stage of a running graph does: works, waits for demand, waits for elements."""


@dataclass(frozen=True, slots=True)
class Line:
    """An arrow."""

    source: int
    target: int
    label: str = ""
    dashed: bool = False


def mermaid(boxes: Iterable[Box], lines: Iterable[Line]) -> str:
    """Return the flowchart, left to right; a frame per group where there are several."""
    boxes = list(boxes)
    groups = sorted({box.group for box in boxes})
    text = ["flowchart LR"]
    for group in groups:
        framed = len(groups) > 1
        if framed:
            text.append(f'    subgraph island{group}["island {group}"]')
        indent = "        " if framed else "    "
        for box in boxes:
            if box.group == group:
                label = _text(box.name) + (f"<br/><i>{_text(box.note)}</i>" if box.note else "")
                text.append(f'{indent}s{box.id}["{label}"]')
        if framed:
            text.append("    end")
    for line in lines:
        arrow = "-.->" if line.dashed else "-->"
        label = f'|"{_text(line.label)}"|' if line.label else ""
        text.append(f"    s{line.source} {arrow}{label} s{line.target}")
    return "\n".join(text) + "\n"


def _text(text: str) -> str:
    for plain, entity in (("&", "&amp;"), ('"', "&quot;"), ("<", "&lt;"), (">", "&gt;")):
        text = text.replace(plain, entity)
    return text.replace("\n", " ")


def mermaid_of(module: Module) -> str:
    """Return a blueprint as a flowchart: its stages as they will run, after fusing, in their islands."""
    return mermaid(*picture_of(module))


def picture_of(module: Module) -> tuple[list[Box], list[Line]]:
    """Return the stages of a blueprint as they will run, and how they are connected."""
    plan = plan_of(module)
    boxes = [Box(i, node.label, node.island) for i, node in enumerate(plan.nodes)]
    lines = [Line(source, target) for (source, _), (target, _) in plan.edges]
    lines += [
        Line(node.stage.peer_node, i, "boundary")
        for i, node in enumerate(plan.nodes)
        if isinstance(node.stage, BoundaryIn)
    ]
    return boxes, lines
