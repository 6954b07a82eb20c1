"""Tables: lines for pipes and for many rows, folded cells for a few rows on a terminal."""

from __future__ import annotations

import sys

import pytest
import rich.table

from streamactors.cli.tables import FOLDED_ROWS, print_table


@pytest.fixture
def without_folding(monkeypatch: pytest.MonkeyPatch) -> None:
    """Folding costs 0.6 ms a row: 20,000 records took 13 s, and 0.6 s as JSON."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a table of rich was made")

    monkeypatch.setattr(rich.table, "Table", refuse)


def test_a_table_on_a_pipe_has_a_line_for_each_row(capsys: pytest.CaptureFixture[str], without_folding: None) -> None:
    print_table(("n", "name", "more"), [(1, "x", None), (22, "y" * 300, "z")])
    assert capsys.readouterr().out.splitlines() == [
        " n   name" + " " * 296 + "   more",
        "─" * (2 + 3 + 300 + 3 + 4),
        " 1   x",
        "22   " + "y" * 300 + "   z",
    ]


def test_wide_characters_and_lines_within_a_cell_keep_the_columns(
    capsys: pytest.CaptureFixture[str], without_folding: None
) -> None:
    print_table(("a", "b"), [("日本", "x"), ("u", "1\n2")], header=False)
    assert capsys.readouterr().out.splitlines() == ["日本   x", "u      1", "       2"]


def test_no_rows_are_a_header(capsys: pytest.CaptureFixture[str], without_folding: None) -> None:
    print_table(("a", "b"), [])
    assert capsys.readouterr().out.splitlines() == ["a   b", "─────"]


def test_many_rows_on_a_terminal_are_not_folded(
    capsys: pytest.CaptureFixture[str], without_folding: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    print_table(("n",), [(n,) for n in range(FOLDED_ROWS + 1)], header=False)
    assert len(capsys.readouterr().out.splitlines()) == FOLDED_ROWS + 1
    with pytest.raises(AssertionError, match="a table of rich was made"):
        print_table(("n",), [(n,) for n in range(FOLDED_ROWS)])
