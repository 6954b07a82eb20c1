"""Keeps the newest rows of every benchmark and writes them as a page with a bar picture."""

from __future__ import annotations

import json
import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results.json"
PEERS = (
    "reactivex", "thespian", "confluent-kafka", "kio", "aiostream", "bytewax", "quixstreams", "aiokafka", "pyspark",
)  # fmt: skip
Results = dict[str, dict[str, Any]]


def load() -> Results:
    """Return the rows of earlier runs."""
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {}


def save(results: Results) -> None:
    """Keep the rows for the page."""
    RESULTS.write_text(json.dumps(results, indent=1, default=str) + "\n")


def machine() -> str:
    """Return one line about where this runs."""
    installed = []
    for peer in PEERS:
        try:
            installed.append(f"{peer} {version(peer)}")
        except PackageNotFoundError:
            continue
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{cores} cores, {platform.machine()}, {platform.system()}, CPython {platform.python_version()}; {', '.join(installed)}"


def write_page(results: Results, docs: Path) -> None:
    """Write docs/benchmarks.md, and docs/images/benchmarks.png where matplotlib is installed. notes/NAME.md follows the rows of NAME."""
    lines = [
        "# Benchmarks",
        "",
        "Made by `make bench`. Every row runs beside its peer in the same process run; the ratio says more than the figure,",
        "since a shared machine makes both slower. `spread` is the range of the ratio over the repetitions.",
        "",
        f"Machine: {machine()}.",
        "",
        "![Ratios to the peers](images/benchmarks.png)" if draw(results, docs / "images") else "",
        "",
        *(Path(__file__).parent / "summary.md").read_text().splitlines(),
    ]
    for name, result in sorted(results.items()):
        lines += ["", f"## {name}", "", f"{result['title']} ({result['date']})", ""]
        lines += ["| what | value | peer in the same run | ratio | spread | target |", "|---|---|---|---|---|---|"]
        for row in result["rows"]:
            value = row.get("value")
            shown = f"{value:,}" if isinstance(value, (int, float)) else str(value)
            cells = [
                row["name"],
                f"{shown} {row.get('unit', '')}",
                row.get("peer"),
                row.get("ratio"),
                row.get("spread"),
                row.get("target"),
            ]
            lines.append(
                "| " + " | ".join("" if cell is None else str(cell).replace("|", "/") for cell in cells) + " |"
            )
        notes = Path(__file__).parent / "notes" / f"{name}.md"
        if notes.exists():
            lines += ["", *notes.read_text().splitlines()]
    (docs / "benchmarks.md").write_text("\n".join(lines) + "\n")


def _label(name: str, row: dict[str, Any], rows: list[dict[str, Any]]) -> str:
    """Return what stands beside a bar; two rows of one name are told apart by their peers."""
    shared = sum(other["name"] == row["name"] for other in rows) > 1
    peer = f" ({str(row.get('peer', '')).split(':')[0]})" if shared else ""
    return f"{name}: {row['name']}{peer}"[:90]


def _lead(row: dict[str, Any]) -> float | None:
    """Return how far ahead a row is: of times and costs, whose targets are upper bounds, less is more. None without a ratio.

    Of "0.73 CPU, 0.76 wall" the first."""
    try:
        ratio = float(str(row.get("ratio")).split()[0])
    except ValueError:
        return None
    return 1 / ratio if str(row.get("target", "")).startswith(("<=", "at most")) and ratio > 0 else ratio


def draw(results: Results, images: Path) -> bool:
    """Draw the ratios as bars; return False where matplotlib is missing."""
    try:
        import matplotlib
    except ImportError:
        return (images / "benchmarks.png").exists()
    matplotlib.use("Agg")
    from matplotlib import pyplot

    bars = [
        (_label(name, row, result["rows"]), lead)
        for name, result in sorted(results.items())
        for row in result["rows"]
        if (lead := _lead(row)) is not None
    ]
    if not bars:
        return False
    images.mkdir(parents=True, exist_ok=True)
    figure, axes = pyplot.subplots(figsize=(11, 0.28 * len(bars) + 1.2))
    labels, ratios = zip(*reversed(bars), strict=True)
    axes.barh(
        labels,
        [ratio - 1 for ratio in ratios],
        left=1,
        color=["#2b7a78" if ratio >= 1 else "#d98e04" for ratio in ratios],
    )
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xscale("log")
    axes.set_xlabel("ratio to the peer in the same run (right of the line: ahead)")
    axes.tick_params(axis="y", labelsize=7)
    axes.margins(y=0.005)
    figure.savefig(images / "benchmarks.png", dpi=80, bbox_inches="tight")
    pyplot.close(figure)
    return True
