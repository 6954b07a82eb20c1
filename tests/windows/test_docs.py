"""The code of docs/windows.md runs as written, and its pictures come from the real operators."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


def test_the_code_of_the_page_runs() -> None:
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / "windows.md").read_text(), re.DOTALL)
    assert len(blocks) >= 3
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "docs/windows.md", "exec"), names)


def test_every_picture_of_the_page_is_there_and_is_drawn() -> None:
    shown = set(re.findall(r"\]\(images/(.*?)\)", (DOCS / "windows.md").read_text()))
    assert shown == {f"windows-{name}.png" for name in ("tumbling", "hopping", "zone", "session", "sliding")}
    for name in shown:
        assert (DOCS / "images" / name).read_bytes().startswith(b"\x89PNG")


def test_what_the_pictures_show_is_what_the_operators_do() -> None:
    pytest.importorskip("matplotlib")
    from docs.draw_windows import watch
    from streamactors.windows import SessionWindows

    seen = watch(
        SessionWindows.with_gap(3).with_grace(2), [("A", 1), ("A", 3), ("A", 8), ("A", 6), ("A", 20), ("A", 2)]
    )
    assert seen.windows == {("A", 1, 8): (4, 20), ("A", 20, 20): (1, None)}
    assert seen.flushed == [("A", 20, 20)]
    assert [late for *_, late in seen.rows] == [False] * 5 + [True]
