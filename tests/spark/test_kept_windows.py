"""A checkpoint with states of windows is continued by windows of the same kind and length only."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from streamactors.spark.errors import CheckpointError
from streamactors.spark.query.checkpoint import GRAPH, Checkpoint
from streamactors.spark.query.kept_windows import agree, in_words, lengths
from streamactors.windows import SessionWindows, TimeWindows


def kept(windows: Any) -> dict[str, Any]:
    nodes = {"hours": SimpleNamespace(windowing=SimpleNamespace(windows=windows)), "plain": SimpleNamespace()}
    return {"version": 1, "stores": list(nodes), "application": "g", "windows": lengths(nodes)}


HOURS = kept(TimeWindows.of_size("1h").with_grace("1m"))


def test_a_length_that_changes_is_another_window_and_a_grace_is_not() -> None:
    # only the names of stores were compared: a graph with windows of two hours continued the counts of one hour
    assert agree(HOURS, kept(TimeWindows.of_size("1h").with_grace("2m")))
    assert not agree(HOURS, kept(TimeWindows.of_size("2h").with_grace("1m")))
    assert not agree(HOURS, kept(SessionWindows.with_gap("1h").with_grace("1m")))
    assert not agree(HOURS, {**HOURS, "stores": ["hours"]})


def test_what_an_older_or_a_newer_version_does_not_keep_is_not_compared() -> None:
    older = {name: value for name, value in HOURS.items() if name != "windows"}
    assert agree(older, HOURS)
    assert agree(HOURS, older)
    assert agree({**HOURS, "windows": {"hours": {**HOURS["windows"]["hours"], "later": 1}}}, HOURS)


class InMemory:
    """The files of a checkpoint."""

    local = None
    root = "ck"

    def __init__(self, **files: str) -> None:
        self.files = files

    def has(self, name: str) -> bool:
        return name in self.files

    def read(self, name: str) -> str:
        return self.files[name]

    def write(self, text: str, name: str) -> None:
        self.files[name] = text

    def names(self, folder: str) -> list[str]:
        return ["0"]


def test_a_checkpoint_names_both_windows_and_an_older_one_is_completed() -> None:
    mine = {name: value for name, value in HOURS.items() if name != "version"}
    older = json.dumps({"version": 1, "stores": ["hours", "plain"], "application": "g"})
    files: Any = InMemory(**{GRAPH: older})
    Checkpoint(files)._check_windows(mine)
    assert json.loads(files.read(GRAPH)) == HOURS
    two = {name: value for name, value in kept(TimeWindows.of_size("2h")).items() if name != "version"}
    with pytest.raises(
        CheckpointError, match=r"hours \(kind TimeWindows, size_ms 3600000.*this graph has .*size_ms 7200000"
    ):
        Checkpoint(files)._check_windows(two)
    assert in_words(None) == "no windows"


def test_windows_that_are_kept_already_are_not_written_again() -> None:
    files: Any = InMemory(**{GRAPH: json.dumps(HOURS)})
    Checkpoint(files)._check_windows({name: value for name, value in HOURS.items() if name != "version"})
    assert files.files == {GRAPH: json.dumps(HOURS)}
