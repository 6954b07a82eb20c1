"""Tables for people, JSON lines for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import click

_ANY_WIDTH = 1 << 30  # columns
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line instead of a table.")


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, header: bool = True) -> None:
    """Print rows under their columns; numbers to the right. On a pipe no cell is cut or wrapped."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    class Printer(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # the reader has closed the pipe: no failure, though rich exits with 1

    shown = [list(row) for row in rows]
    table = Table(box=SIMPLE_HEAD, show_header=header, pad_edge=False)
    for index, column in enumerate(columns):
        numeric = all(isinstance(row[index], int) for row in shown)
        table.add_column(
            column, justify="right" if numeric else "left", overflow="fold", no_wrap=not sys.stdout.isatty()
        )
    for row in shown:
        # rich measures a cell before it expands tabs, and cuts off the text that is then too long
        table.add_row(*(Text("" if cell is None else str(cell).expandtabs()) for cell in row))
    console = Printer(highlight=False)
    if not sys.stdout.isatty():
        console.width = max(
            console.width, console.measure(table, options=console.options.update(width=_ANY_WIDTH)).maximum
        )
        table.expand = False
    console.print(table, soft_wrap=not sys.stdout.isatty())


def print_json(rows: Iterable[dict[str, Any]]) -> None:
    """Print each row as a JSON object on a line of its own."""
    for row in rows:
        click.echo(json.dumps(row, ensure_ascii=False, separators=(",", ":")))
