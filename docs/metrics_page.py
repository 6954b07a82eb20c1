"""Write the tables of docs/metrics.md from the definitions of the metrics. The text before the tables is written by hand."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from streamactors.metric_family import Family
from streamactors.metrics.table import TABLE

PAGE = Path(__file__).parent / "metrics.md"
HERE = "<!-- `make docs` writes what follows -->\n"


def text() -> str:
    """Return the page: what stands there before the tables, and the tables."""
    before, _, _ = PAGE.read_text(encoding="utf-8").partition(HERE)
    return before + HERE + "\n".join(_tables())


def _tables() -> Iterable[str]:
    for title, families in TABLE.items():
        yield from (
            "",
            f"## {title}",
            "",
            "| metric | type | labels | what it says | alert when |",
            "|---|---|---|---|---|",
        )
        yield from map(_row, families)
    yield ""


def _row(family: Family) -> str:
    labels = ", ".join(family.labels)
    return f"| `{family.name}` | {family.kind} | {labels} | {family.meaning} | {family.alert} |"
