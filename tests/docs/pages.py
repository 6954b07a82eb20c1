"""The pages that users read, and the Python blocks in them."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
NOT_RUN = "# not run"
"""The first line of a block that only shows something begins so."""

_BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```)?", re.M | re.S)


def blocks(page: Path) -> list[tuple[int, str]]:
    """Return (line, code) of each Python block of a page that runs."""
    text = page.read_text()
    return [
        (text[: match.start()].count("\n") + 2, match.group(1))
        for match in _BLOCK.finditer(text)
        if not match.group(1).startswith(NOT_RUN)
    ]


def outputs(page: Path) -> dict[int, str]:
    """Return by line what the page says that a block prints."""
    text = page.read_text()
    return {
        text[: match.start()].count("\n") + 2: match.group(2)
        for match in _BLOCK.finditer(text)
        if match.group(2) is not None
    }


def as_module(page: Path) -> str:
    """Return the blocks of a page as one module, each at the line where the page has it."""
    lines: list[str] = []
    for line, code in blocks(page):
        lines += [""] * (line - 1 - len(lines)) + code.splitlines()
    return "\n".join(lines) + "\n"
