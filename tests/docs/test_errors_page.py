"""Each error names its heading on docs/errors.md, in tracebacks and on the command line, and no message says so by itself."""

from __future__ import annotations

import copy
import pickle
import traceback

import pytest

from docs import errors_page
from streamactors.cli.main import run
from streamactors.errors import BuildError, StreamActorsError
from streamactors.kafka.errors import CommitTimeout
from tools.prose import anchors


def test_every_error_names_a_heading_of_the_page() -> None:
    found = anchors(errors_page.PAGE.read_text(encoding="utf-8"))
    assert len(errors_page.classes()) > 60
    lacking = [
        cls.__name__
        for cls in errors_page.classes()
        if cls.docs() != f"errors#{cls.anchor()}" or cls.anchor() not in found
    ]
    assert lacking == [], "run: make docs"
    assert CommitTimeout.docs() == "errors#commit-timeout"


def test_every_error_is_described() -> None:
    assert [cls.__name__ for cls in errors_page.classes() if len(errors_page.prose(cls)) < 15] == []


def test_an_error_inside_the_broker_names_its_nearest_base_that_is_on_the_page() -> None:
    from streamactors.broker.errors import OffsetOutOfRange

    assert OffsetOutOfRange.docs() == "errors#broker-error"


def test_a_traceback_ends_with_the_place_in_the_documentation() -> None:
    error = CommitTimeout("orders-3: 412 offsets not committed in 15 000 ms")
    assert vars(error) == {}, "nothing is formatted before somebody asks"
    error.add_note("in stage commit")
    assert str(error) == "orders-3: 412 offsets not committed in 15 000 ms"
    lines = traceback.format_exception_only(error)
    assert lines[1:] == ["in stage commit\n", "docs: errors#commit-timeout\n"]


@pytest.mark.parametrize("copied", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))])
def test_a_copy_keeps_its_notes(copied) -> None:
    error = BuildError("no")
    error.add_note("first")
    assert error.__notes__ == ["first", "docs: errors#build-error"]
    assert copied(error).__notes__ == ["first", "docs: errors#build-error"]


@pytest.mark.parametrize("at_a_terminal", [True, False])
def test_the_command_line_names_it_once_at_a_terminal(at_a_terminal, capsys, monkeypatch) -> None:
    from streamactors.cli import main

    for raised, more in (
        (CommitTimeout("late"), "  more: streamactors docs errors#commit-timeout\n"),
        (CommitTimeout("late; docs: errors#x"), ""),
        (StreamActorsError("bad"), ""),
    ):

        def fails(*args: object, raised: Exception = raised, **options: object) -> None:
            raise raised

        monkeypatch.setattr(main.cli, "main", fails)
        monkeypatch.setattr("sys.stderr.isatty", lambda: at_a_terminal)
        monkeypatch.setenv("NO_COLOR", "1")
        assert run(["x"]) == 1
        assert capsys.readouterr().err == f"streamactors: {raised}\n{more if at_a_terminal else ''}"
