"""`streamactors top`: graphs, partitions, lag and pauses in a terminal, from the same State as the page. Plain lines when the output is no terminal.

Strings of users are shown as plain text: no markup of rich, no control characters."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from streamactors.dashboard.plain_text import plain

Json = dict[str, Any]

MOST_ROWS = 40
STAGES = ("stage", "works", "no demand", "no elements", "per s", "elements", "failures")
PARTITIONS = ("partition", "position", "done", "committed", "lag", "lag s", "buffered", "paused")
WINDOWS = ("windows", "stream time", "open", "rows", "late", "dropped")
CONTROLS = frozenset({"kill_switch", "watch_termination"})
"""Stages that only pass elements on. They are shown when they fail or hold others back."""


def sentences(state: Json) -> Iterator[str]:
    """Yield what holds the graphs back, one line each."""
    for banner in state["banners"]:
        if banner["holds"]:
            yield plain(banner["sentence"], 300)


def lines(state: Json) -> Iterator[str]:
    """Yield a state as lines of text, for pipes and logs."""
    if not state["graphs"]:
        yield f"{plain(state['process']['name'])}: no graph runs now"
    for graph in state["graphs"]:
        rate = max((stage["elements_per_s"] for stage in graph["stages"]), default=0.0)
        yield f"graph {plain(graph['name'])}: {len(graph['stages'])} stages, {rate:,.0f} elements/s"
        yield from _aligned(STAGES, [_stage_row(stage) for stage in _stages(graph)])
    yield from _aligned(PARTITIONS, [_partition_row(*each) for each in _partitions(state)])
    yield from _aligned(WINDOWS, [_windows_row(each) for each in state["windows"]])
    yield from sentences(state)


def _aligned(names: tuple[str, ...], rows: list[tuple[object, ...]]) -> Iterator[str]:
    """Yield a table as lines: the first column to the left, the others to the right. None without rows."""
    table = [names, *(tuple(map(str, row)) for row in rows)] if rows else []
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for first, *others in table:
        cells = [first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))]
        yield "  " + "  ".join(cells).rstrip()


def shown(state: Json) -> RenderableType:
    """Return a state for rich."""
    process = state["process"]
    cpu = "" if process["cpu_share"] is None else f"   cpu {process['cpu_share']:.0%}"
    parts: list[RenderableType] = [Text(f"{plain(process['name'])}   pid {process['pid']}{cpu}", style="bold")]
    parts += [Text(line, style="bold red") for line in sentences(state)]
    for graph in state["graphs"]:
        table = _table(plain(graph["name"]), STAGES)
        for stage in _stages(graph)[:MOST_ROWS]:
            style = "bold red" if stage["culprit"] else "dim" if stage["waits_for_demand"] > 0.5 else ""
            table.add_row(*(Text(str(cell)) for cell in _stage_row(stage)), style=style)
        parts.append(table)
    partitions = list(_partitions(state))
    if partitions:
        table = _table("partitions", PARTITIONS)
        for consumer, partition in sorted(partitions, key=lambda each: -(each[1]["lag"] or 0))[:MOST_ROWS]:
            table.add_row(*(Text(str(cell)) for cell in _partition_row(consumer, partition)))
        parts.append(table)
    if state["windows"]:
        table = _table("windows", WINDOWS)
        for each in sorted(state["windows"], key=lambda each: -each["late"])[:MOST_ROWS]:
            table.add_row(*(Text(str(cell)) for cell in _windows_row(each)), style="bold red" if each["late"] else "")
        parts.append(table)
    return Group(*parts)


def _table(title: str, columns: Iterable[str]) -> Table:
    table = Table(title=Text(title), title_justify="left", expand=False)
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if not number else "right")
    return table


def _stage_row(stage: Json) -> tuple[object, ...]:
    name = plain(stage["name"]) + (f" × {stage['count']}" if stage["count"] > 1 else "")
    return (
        name,
        f"{stage['works']:.0%}",
        f"{stage['waits_for_demand']:.0%}",
        f"{stage['waits_for_elements']:.0%}",
        f"{stage['elements_per_s']:,.0f}",
        f"{stage['elements']:,}",
        stage["failures"],
    )


def _stages(graph: Json) -> list[Json]:
    """Return the stages to show."""
    return [
        stage
        for stage in graph["stages"]
        if stage["name"].partition(" ")[0] not in CONTROLS or stage["culprit"] or stage["failures"]
    ]


def _windows_row(task: Json) -> tuple[object, ...]:
    at_ms, rows, late = task["stream_time_ms"], task["rows"], task["late"]
    share = f" ({late / max(rows, late):.0%})" if late else ""
    return (
        f"{plain(task['graph'], 30)} {plain(task['task'])}",
        _moment(at_ms),
        _known(task["open_windows"]),
        _known(rows),
        f"{late:,}{share}",
        _known(task["dropped"]),
    )


def _moment(at_ms: int | None) -> str:
    """Return an event time. After the end of the input it is larger than every timestamp, and a user's timestamps may be anything."""
    if at_ms is None:
        return "?"
    try:
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at_ms / 1_000))
    except (OverflowError, OSError, ValueError):
        return "ended" if at_ms >= 1 << 63 else f"{at_ms} ms"


def _partitions(state: Json) -> Iterator[tuple[Json, Json]]:
    for consumer in state["consumers"]:
        for partition in consumer["partitions"]:
            yield consumer, partition


def _partition_row(consumer: Json, partition: Json) -> tuple[object, ...]:
    return (
        f"{plain(consumer['group'], 30)} {plain(partition['topic'])}-{partition['partition']}",
        *(_known(partition[name]) for name in ("position", "done", "committed", "lag", "lag_seconds")),
        partition["buffered_records"],
        plain(partition["paused_by"] or ""),
    )


def _known(value: float | None) -> str:
    return "?" if value is None else f"{value:,.1f}" if isinstance(value, float) else f"{value:,}"
