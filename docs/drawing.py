"""Boxes, arrows and chunks for the pictures of the concept pages (needs matplotlib)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

IMAGES = Path(__file__).parent / "images"
INK, PALE, DATA, DEMAND, MARK = "#333333", "#f3f1ec", "#2b7a78", "#d98e04", "#b3261e"


class Drawing:
    """A canvas of `width` x `height` units; one unit is about 0.8 cm."""

    def __init__(self, width: float, height: float) -> None:
        self.figure, self.axes = pyplot.subplots(figsize=(width * 0.62, height * 0.62))
        self.axes.set_xlim(0, width)
        self.axes.set_ylim(0, height)
        self.axes.set_aspect("equal")
        self.axes.axis("off")

    def box(self, x: float, y: float, w: float, h: float, text: str, **look: Any) -> None:
        """A box with its lower left corner at (x, y)."""
        look = {"facecolor": PALE, "edgecolor": INK, "linewidth": 1.2, **look}
        size = look.pop("fontsize", 10)
        color = look.pop("color", INK)
        self.axes.add_patch(FancyBboxPatch((x, y), w, h, boxstyle="round,pad=0,rounding_size=0.15", **look))
        self.text(x + w / 2, y + h / 2, text, fontsize=size, color=color)

    def frame(self, x: float, y: float, w: float, h: float, title: str, color: str = "#8a8a8a") -> None:
        """A dashed frame with a title above its upper left corner."""
        patch = FancyBboxPatch(
            (x, y),
            w,
            h,
            boxstyle="round,pad=0,rounding_size=0.2",
            fill=False,
            edgecolor=color,
            linestyle="--",
            linewidth=1.2,
        )
        self.axes.add_patch(patch)
        self.text(x + 0.1, y + h + 0.3, title, fontsize=9, color=color, ha="left")

    def arrow(
        self,
        start: tuple[float, float],
        end: tuple[float, float],
        text: str = "",
        color: str = INK,
        bend: float = 0.0,
        dy: float = 0.3,
    ) -> None:
        """An arrow with its text `dy` above the middle."""
        style = f"arc3,rad={bend}"
        self.axes.add_patch(
            FancyArrowPatch(
                start,
                end,
                arrowstyle="-|>",
                mutation_scale=13,
                color=color,
                linewidth=1.5,
                connectionstyle=style,
                shrinkA=1,
                shrinkB=1,
            )
        )
        if text:
            self.text((start[0] + end[0]) / 2, (start[1] + end[1]) / 2 + dy, text, fontsize=9, color=color)

    def text(self, x: float, y: float, text: str, **look: Any) -> None:
        """Text, centred unless told otherwise."""
        look = {"ha": "center", "va": "center", "fontsize": 10, "color": INK, **look}
        self.axes.text(x, y, text, **look)

    def chunk(self, x: float, y: float, elements: list[str], color: str = DATA) -> None:
        """Elements in a row, as they travel together."""
        for i, element in enumerate(elements):
            self.box(
                x + i * 0.62, y, 0.58, 0.58, element, facecolor=color, edgecolor="white", color="white", fontsize=8
            )

    def save(self, name: str) -> None:
        """Write images/`name`.png."""
        self.figure.savefig(IMAGES / f"{name}.png", dpi=110, bbox_inches="tight", facecolor="white", pad_inches=0.1)
        pyplot.close(self.figure)
