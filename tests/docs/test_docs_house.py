"""The pages about the house: every room is on the map, and every word is defined once."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ROOT / "streamactors"


def test_every_room_is_on_the_map_and_no_other() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = page.partition("## The rooms")[2].partition("\n## ")[0]
    named = re.findall(r"`([a-z_]+/[a-z_]+)/`", table)
    rooms = {f"{path.parent.parent.name}/{path.parent.name}" for path in PRODUCT.glob("*/*/__init__.py")}
    assert sorted(named) == sorted(rooms), "docs/architecture.md names each package once"


def test_every_word_of_the_glossary_is_defined_once() -> None:
    words = re.findall(r"^\*\*([^*]+)\*\*:", (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(words) > 60
    assert sorted(words) == sorted(set(words))
