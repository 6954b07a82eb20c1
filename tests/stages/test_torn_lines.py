"""Files that rows are appended to: no row is glued onto a line without an end, and a full disk leaves no part of a row."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from streamactors import Sink, Source

SINKS: Any = pytest.mark.parametrize(
    ("sink", "element", "line"),
    [
        (Sink.to_lines, "6,7", "6,7\n"),
        (Sink.to_csv, (6, 7), "6,7\n"),
        (Sink.to_json_lines, [6, 7], "[6, 7]\n"),
    ],
    ids=["to_lines", "to_csv", "to_json_lines"],
)


@SINKS
def test_a_last_line_without_an_end_gets_one_and_is_named(
    tmp_path: Path, caplog: Any, sink: Any, element: Any, line: str
) -> None:
    """A writer that was killed in the middle of a line left "3,5", and the next run wrote "3,56,7"."""
    path = tmp_path / "rows"
    path.write_text("1,2\n3,5")
    with caplog.at_level(logging.WARNING, "streamactors.stages"):
        Source.single(element).run_with(sink(path, append=True)).result(20)
    assert path.read_text() == f"1,2\n3,5\n{line}"
    assert [record.getMessage() for record in caplog.records] == [
        f"{path} ends with the line '3,5' without a line end; one is written, and new rows begin after it. A writer was probably stopped in "
        "the middle of that line"
    ]


@SINKS
@pytest.mark.parametrize("before", ["", "1,2\n"])
def test_a_file_that_ends_with_its_line_stays_as_it_is(
    tmp_path: Path, caplog: Any, sink: Any, element: Any, line: str, before: str
) -> None:
    path = tmp_path / "rows"
    path.write_text(before)
    options = {"header": False} if sink == Sink.to_csv else {}
    Source.single(element).run_with(sink(path, append=True, **options)).result(20)
    assert path.read_text() == before + line
    assert caplog.records == []


def test_line_ends_are_those_of_the_encoding(tmp_path: Path, caplog: Any) -> None:
    path = tmp_path / "rows"
    Source.single("ä").run_with(Sink.to_lines(path, encoding="utf-16")).result(20)
    Source.single("ö").run_with(Sink.to_lines(path, encoding="utf-16", append=True)).result(20)
    assert path.read_text(encoding="utf-16") == "ä\nö\n"
    assert caplog.records == []


def test_bytes_are_appended_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "bytes"
    path.write_bytes(b"ab")
    Source.single(b"c").run_with(Sink.to_file(path, append=True)).result(20)
    assert path.read_bytes() == b"abc"


FULL_DISK = """
import resource, signal, sys
from streamactors import Sink, Source

sys.dont_write_bytecode = True                          # a module that is loaded beyond the limit would be cut off on disk
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)         # a write beyond the limit is an OSError, as on a full disk
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, 1_000))
rows = Source.range(0, 10_000).map(lambda n: f"row {n}" if "lines" in sys.argv[1] else (n, n) if "csv" in sys.argv[1] else {"n": n})
try:
    rows.run_with(getattr(Sink, sys.argv[1])(sys.argv[2], append=True)).result(20)
except OSError as error:
    print(error)
"""


@pytest.mark.parametrize("sink", ["to_lines", "to_csv", "to_json_lines"])
def test_a_full_disk_leaves_whole_lines(tmp_path: Path, sink: str) -> None:
    path = tmp_path / "rows"
    path.write_text("first\n")
    child = subprocess.run([sys.executable, "-c", FULL_DISK, sink, path], capture_output=True, text=True, timeout=60)
    assert "File too large" in child.stdout, child.stderr
    lines = path.read_text().splitlines(keepends=True)
    assert len(lines) > 10
    assert lines[-1].endswith("\n")
    numbers = [int("".join(filter(str.isdigit, line.split(",")[0]))) for line in lines[1:]]
    assert numbers == list(range(len(lines) - 1))
