"""What notebooks show of our values: MIME bundles with plain text, and SVG or HTML beside it.

Strings of users and of records are shown as they are: markup is escaped, control characters and what XML does not allow are replaced, long ones are cut."""

from __future__ import annotations

import html
import reprlib
import unicodedata
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, Final

Bundle = dict[str, str]
"""Texts by MIME type, as IPython's `_repr_mimebundle_` returns them."""

MOST_ROWS: Final = 50
MOST_CHARACTERS: Final = 200
_STYLE: Final = "border-collapse:collapse;font:12px ui-monospace,monospace;text-align:left"
_CELL: Final = "padding:2px 8px;border-bottom:1px solid #8884;vertical-align:top"

_short: Final = reprlib.Repr()
for _what in ("maxstring", "maxother", "maxlong"):
    setattr(_short, _what, MOST_CHARACTERS)
for _what in ("maxlist", "maxtuple", "maxdict", "maxset", "maxfrozenset", "maxdeque", "maxarray"):
    setattr(_short, _what, 20)


def plain(value: object, most: int = MOST_CHARACTERS) -> str:
    """Return a value as one line that cannot command a terminal, nor be anything but text in XML, shortened."""
    try:
        text = value if isinstance(value, str) else _short.repr(value)
    except Exception as error:  # noqa: BLE001  # of the value
        text = f"<{type(value).__name__} whose repr raises {type(error).__name__}>"
    text = text[: most + 1]
    text = "".join(
        c if unicodedata.category(c)[0] != "C" and ord(c) & 0xFFFE != 0xFFFE else "\N{REPLACEMENT CHARACTER}"
        for c in text
    )
    return text if len(text) <= most else f"{text[: most - 1]}…"


def escaped(value: object, most: int = MOST_CHARACTERS) -> str:
    """Return a value as text for HTML and SVG, in an element or in a quoted attribute."""
    return html.escape(plain(value, most))


def table_bundle(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], most: int = MOST_ROWS) -> Bundle:
    """Return the first `most` rows as a table; a line says so if there are more."""
    shown = list(islice(rows, most + 1))
    more = f"the first {most} rows" if len(shown) > most else ""
    shown = shown[:most]
    lines = [plain(title), "\t".join(map(plain, columns)), *("\t".join(map(plain, row)) for row in shown)]
    head = "".join(f'<th style="{_CELL}">{escaped(column)}</th>' for column in columns)
    cells = ("".join(f'<td style="{_CELL}">{escaped(cell)}</td>' for cell in row) for row in shown)
    body = "".join(f"<tr>{row}</tr>" for row in cells)
    note = f"<div>{more}</div>" if more else ""
    caption = f'<caption style="text-align:left"><b>{escaped(title)}</b></caption>'
    return {
        "text/plain": "\n".join([*lines, *([more] if more else [])]),
        "text/html": f'<table style="{_STYLE}">{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{note}',
    }


def said_bundle(text: str) -> Bundle:
    """Return a sentence as a bundle."""
    return {"text/plain": plain(text, 2_000)}
