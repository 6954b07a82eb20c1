"""The commands of docs/commands.md run as written, one after the other."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.cli.ran import Ran, Run

PAGE = Path(__file__).parents[2] / "docs" / "commands.md"
_BLOCK = re.compile(r"^```sh\n(.*?)^```\n(?:\n```text\n(.*?)^```)?", re.MULTILINE | re.DOTALL)
NOT_RUN = "# not run"


def first_input(words: list[str]) -> bytes:
    """Return what echo or printf prints."""
    return words[1].replace("\\n", "\n").encode() + (b"\n" if words[0] == "echo" else b"")


def run_line(streamactors: Run, line: str) -> Ran:
    """Run the commands of a pipe, each with the output of the one before."""
    data, ran = b"", Ran(0, "", "")
    for part in line.split(" | "):
        words = shlex.split(part)
        if words[0] in ("echo", "printf"):
            data = first_input(words)
            continue
        assert words[0] == "streamactors", line
        ran = streamactors(*words[1:], stdin=data)
        assert (ran.code, ran.err) == (0, ""), line
        data = ran.out.encode()
    return ran


def test_the_commands_of_the_page_run_as_written(
    streamactors: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    count = 0
    for code, wanted in _BLOCK.findall(PAGE.read_text()):
        if code.startswith(NOT_RUN):
            continue
        printed = ""
        for line in code.splitlines():
            printed += run_line(streamactors, line).out
            count += 1
        if wanted:
            assert printed == wanted
    assert count > 10
