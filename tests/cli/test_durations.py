"""Options that are time spans take a number of seconds and a text, and say their unit."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from streamactors.cli.docs import command as docs
from streamactors.cli.durations import SECONDS, Seconds
from streamactors.cli.graphs.run import command as run


@pytest.mark.parametrize(
    ("text", "seconds"), [("5", 5.0), ("0.5", 0.5), ("5s", 5.0), ("500ms", 0.5), ("1m30s", 90.0), ("0", 0.0)]
)
def test_a_duration_is_a_number_of_seconds_or_a_text(text: str, seconds: float) -> None:
    assert SECONDS.convert(text, None, None) == seconds


@pytest.mark.parametrize("text", ["soon", "-1", "nan", "inf", "5 parsecs", ""])
def test_anything_else_is_refused_with_the_way_out(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not a duration; write 5s, 500ms or 1m, or a number of seconds"):
        SECONDS.convert(text, None, None)


def test_a_duration_may_be_too_short() -> None:
    assert Seconds(0.1).convert("100ms", None, None) == 0.1
    with pytest.raises(click.BadParameter, match="'99ms' is too short; give at least 0"):
        Seconds(0.1).convert("99ms", None, None)


def test_help_names_the_unit() -> None:
    text = " ".join(CliRunner().invoke(run, ["--help"]).output.split())
    assert "--drain-timeout DURATION" in text
    assert "A number is seconds." in text


def test_every_title_of_a_page_begins_in_one_column() -> None:
    lines = CliRunner().invoke(docs, []).output.splitlines()
    names = [line.split()[0] for line in lines]
    column = max(map(len, names)) + 2
    assert all(line[column - 1] == " " and line[column] != " " for line in lines)
