"""Tables for people, JSON lines for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from streamactors.cli.colours import in_colour
from streamactors.text_log import printable

if TYPE_CHECKING:
    from rich.table import Table

FOLDED_ROWS: Final = 200
"""A table on a terminal folds cells that do not fit, up to this number of rows; rich needs 0.6 ms a row for that. The terminal wraps longer tables."""
NONE: Final = "-"
"""A cell without a value in a table."""
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line instead of a table.")


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, header: bool = True) -> None:
    """Print rows under their columns; numbers to the right. On a pipe no cell is cut or wrapped."""
    cells, numeric = _cells(columns, rows)
    if not sys.stdout.isatty() or len(cells) > FOLDED_ROWS:
        _print_lines(columns, cells, numeric, header)
    else:
        _print_folded(columns, cells, numeric, header)


def folded_table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Table:
    """Return rows under their columns for rich, as `print_table` shows them on a terminal."""
    return _folded(columns, *_cells(columns, rows), header=True)


class StreamedTable:
    """A table whose rows come in batches. Columns grow and never shrink, so that batches stay aligned; no cell is cut.

    Lines are made without rich, which needs 0.6 ms a row. `colours`: the colour of each column, "" for none, at a terminal."""

    def __init__(self, columns: Sequence[str], colours: Sequence[str] | None = None) -> None:
        self._columns = columns
        self._widths = [len(column) for column in columns]
        self._colours = colours
        self._header = True

    def lines(self, rows: Iterable[Sequence[Any]]) -> str:
        """Return the lines of more rows, each with its end; the first call adds the header."""
        cells, numeric = _cells(self._columns, rows)
        out, self._widths = _lines(self._columns, cells, numeric, self._header, self._widths, self._colours)
        self._header = False
        return "".join(f"{line}\n" for line in out)


def _cells(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> tuple[list[list[str]], list[bool]]:
    """Return the cells as text, and which columns hold numbers; a column of numbers may have `-` for none."""
    shown = [list(row) for row in rows]
    of_columns = [[row[index] for row in shown if row[index] != NONE] for index in range(len(columns))]
    numeric = [bool(cells) and all(isinstance(cell, int | float) for cell in cells) for cells in of_columns]
    return [["" if cell is None else printable(str(cell)).expandtabs() for cell in row] for row in shown], numeric


def _print_lines(columns: Sequence[str], cells: list[list[str]], numeric: list[bool], header: bool) -> None:
    """Print each row as one line, however long."""
    print("\n".join(_lines(columns, cells, numeric, header)[0]))


def _lines(
    columns: Sequence[str],
    cells: list[list[str]],
    numeric: list[bool],
    header: bool,
    least: Sequence[int] = (),
    colours: Sequence[str] | None = None,
) -> tuple[list[str], list[int]]:
    """Return the lines of rows, and the widths of the columns. `least`: widths that columns have at least."""
    lines = [[part.split("\n") for part in row] for row in cells]
    widths = [
        max(
            _width(column) if header else 0,
            least[index] if least else 0,
            *(_width(part) for line in lines for part in line[index]),
            0,
        )
        for index, column in enumerate(columns)
    ]
    last = [index == len(columns) - 1 and not right for index, right in enumerate(numeric)]

    def padded(parts: Sequence[str], style: str = "") -> str:
        shown = [
            part if ends else " " * (width - _width(part)) + part if right else part + " " * (width - _width(part))
            for part, width, right, ends in zip(parts, widths, numeric, last, strict=True)
        ]
        if colours is not None:
            shown = [
                in_colour(part, style or hue, on=bool(style or hue)) for part, hue in zip(shown, colours, strict=True)
            ]
        return "   ".join(shown)

    out = []
    if header:
        out += [padded(columns, "bold" if colours else ""), "───".join("─" * width for width in widths)]
    for line in lines:
        height = max(map(len, line), default=1)
        out += [padded([part[row] if row < len(part) else "" for part in line]).rstrip() for row in range(height)]
    return out, widths


def _width(text: str) -> int:
    """Return how many cells of a terminal a string takes; it has no control characters."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _print_folded(columns: Sequence[str], cells: list[list[str]], numeric: list[bool], header: bool) -> None:
    """Print a table as wide as the terminal; a cell that does not fit continues in the next line."""
    from rich.console import Console

    class Printer(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # the reader has closed the pipe: no failure, though rich exits with 1

    Printer(highlight=False).print(_folded(columns, cells, numeric, header=header))


def _folded(columns: Sequence[str], cells: list[list[str]], numeric: list[bool], *, header: bool) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, show_header=header, pad_edge=False)
    for column, right in zip(columns, numeric, strict=True):
        table.add_column(column, justify="right" if right else "left", overflow="fold")
    for row in cells:
        table.add_row(*map(Text, row))
    return table


def print_json(rows: Iterable[dict[str, Any]]) -> None:
    """Print each row as a JSON object on a line of its own."""
    for row in rows:
        click.echo(json.dumps(row, ensure_ascii=False, separators=(",", ":")))
