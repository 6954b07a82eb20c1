"""Tables for people, JSON lines for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Final

import click

FOLDED_ROWS: Final = 200
"""A table on a terminal folds cells that do not fit, up to so many rows; rich needs 0.6 ms a row for that. The terminal wraps longer tables."""
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line instead of a table.")


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, header: bool = True) -> None:
    """Print rows under their columns; numbers to the right. On a pipe no cell is cut or wrapped."""
    shown = [list(row) for row in rows]
    numeric = [all(isinstance(row[index], int) for row in shown) for index in range(len(columns))]
    cells = [["" if cell is None else str(cell).expandtabs() for cell in row] for row in shown]
    if not sys.stdout.isatty() or len(cells) > FOLDED_ROWS:
        _print_lines(columns, cells, numeric, header)
    else:
        _print_folded(columns, cells, numeric, header)


def _print_lines(columns: Sequence[str], cells: list[list[str]], numeric: list[bool], header: bool) -> None:
    """Print each row as one line, however long."""
    from rich.cells import cell_len

    lines = [[part.split("\n") for part in row] for row in cells]
    widths = [
        max([cell_len(column) if header else 0, *(cell_len(part) for line in lines for part in line[index])])
        for index, column in enumerate(columns)
    ]

    def padded(parts: Sequence[str]) -> str:
        return "   ".join(
            part if ends else " " * (width - cell_len(part)) + part if right else part + " " * (width - cell_len(part))
            for part, width, right, ends in zip(parts, widths, numeric, last, strict=True)
        )

    last = [index == len(columns) - 1 and not right for index, right in enumerate(numeric)]
    out = []
    if header:
        out += [padded(columns), "───".join("─" * width for width in widths)]
    for line in lines:
        height = max(map(len, line), default=1)
        out += [padded([part[row] if row < len(part) else "" for part in line]).rstrip() for row in range(height)]
    print("\n".join(out))


def _print_folded(columns: Sequence[str], cells: list[list[str]], numeric: list[bool], header: bool) -> None:
    """Print a table as wide as the terminal; a cell that does not fit continues in the next line."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    class Printer(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # the reader has closed the pipe: no failure, though rich exits with 1

    table = Table(box=SIMPLE_HEAD, show_header=header, pad_edge=False)
    for column, right in zip(columns, numeric, strict=True):
        table.add_column(column, justify="right" if right else "left", overflow="fold")
    for row in cells:
        table.add_row(*map(Text, row))
    Printer(highlight=False).print(table)


def print_json(rows: Iterable[dict[str, Any]]) -> None:
    """Print each row as a JSON object on a line of its own."""
    for row in rows:
        click.echo(json.dumps(row, ensure_ascii=False, separators=(",", ":")))
