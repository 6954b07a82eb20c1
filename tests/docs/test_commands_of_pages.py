"""Every command line of `streamactors` on the pages about running it is one that the command takes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from tests.cli.command_line import parsed
from tests.docs.pages import ROOT

PAGES = ("deploying", "sizing", "upgrading", "disaster-recovery", "troubleshooting", "support")
_BLOCK = re.compile(r"^```sh\n(.*?)^```", re.M | re.S)


def lines() -> Iterator[tuple[str, str]]:
    for name in PAGES:
        page = ROOT / "docs" / f"{name}.md"
        for block in _BLOCK.findall(page.read_text()) if page.exists() else ():
            for line in block.replace("\\\n", " ").splitlines():
                found = re.search(r"(?:^|\| )(streamactors [^|>]*)", line.partition(" # ")[0])
                if found is not None:
                    yield name, found[1]


LINES = list(lines())


@pytest.mark.parametrize(("page", "line"), LINES, ids=[f"{page}: {line}" for page, line in LINES])
def test_the_command_line_of_a_page_is_understood(
    page: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "state").mkdir()  # of a run
    monkeypatch.chdir(tmp_path)
    _, *arguments = shlex.split(line)
    if arguments == ["--version"]:
        return
    try:
        parsed(arguments)
    except click.exceptions.Exit:
        pass  # --help


def test_there_are_command_lines() -> None:
    assert len(LINES) >= 3
