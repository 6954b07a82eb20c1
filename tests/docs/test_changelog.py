"""A release joins the files of changelog.d/ as they are, so each is a list of entries, and their links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
ENTRIES = sorted((ROOT / "changelog.d").glob("*.md"))


def test_each_file_of_changes_is_a_list_of_entries() -> None:
    """A heading or a paragraph in one file would swallow the entries of the next."""
    others = [
        f"{path.name}:{number}: {line}"
        for path in ENTRIES
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if line and not line.startswith(("- ", "  "))
    ]
    assert others == []
    assert [path.name for path in ENTRIES if not path.read_text(encoding="utf-8").startswith("- ")] == []


def test_links_of_changes_lead_to_pages() -> None:
    """The joined list lies beside the README, so a link begins at the root of the project."""
    links = [
        (path.name, target)
        for path in [*ENTRIES, ROOT / "CHANGELOG.md"]
        for target in re.findall(r"\]\(([^)#:]+\.md)(?:#[^)]*)?\)", path.read_text(encoding="utf-8"))
    ]
    assert links
    assert [(name, target) for name, target in links if not (ROOT / target).exists()] == []
