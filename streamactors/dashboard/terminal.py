"""`streamactors top`: graphs, partitions, lag and pauses in a terminal, from the same State as the page. Plain lines when the output is no terminal.

Strings of users are shown as plain text: no markup of rich, no control characters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from streamactors.dashboard.plain_text import plain

Json = dict[str, Any]

MOST_ROWS = 40


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
        for stage in graph["stages"]:
            yield "  " + " ".join(str(cell) for cell in _stage_row(stage))
    for consumer, partition in _partitions(state):
        yield "  " + " ".join(str(cell) for cell in _partition_row(consumer, partition))
    yield from sentences(state)


def shown(state: Json) -> RenderableType:
    """Return a state for rich."""
    process = state["process"]
    cpu = "" if process["cpu_share"] is None else f"   cpu {process['cpu_share']:.0%}"
    parts: list[RenderableType] = [Text(f"{plain(process['name'])}   pid {process['pid']}{cpu}", style="bold")]
    parts += [Text(line, style="bold red") for line in sentences(state)]
    for graph in state["graphs"]:
        table = _table(
            plain(graph["name"]), ("stage", "works", "no demand", "no elements", "per s", "elements", "failures")
        )
        for stage in graph["stages"][:MOST_ROWS]:
            style = "bold red" if stage["culprit"] else "dim" if stage["waits_for_demand"] > 0.5 else ""
            table.add_row(*(Text(str(cell)) for cell in _stage_row(stage)), style=style)
        parts.append(table)
    partitions = list(_partitions(state))
    if partitions:
        table = _table(
            "partitions", ("partition", "position", "done", "committed", "lag", "lag s", "buffered", "paused")
        )
        for consumer, partition in sorted(partitions, key=lambda each: -(each[1]["lag"] or 0))[:MOST_ROWS]:
            table.add_row(*(Text(str(cell)) for cell in _partition_row(consumer, partition)))
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
