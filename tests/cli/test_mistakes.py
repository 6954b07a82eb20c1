"""What a command proposes after a mistake, and colours and plurals of what it prints."""

from __future__ import annotations

import sys

import pytest

from streamactors.cli.colours import has_colours, in_colour
from streamactors.cli.main import run
from streamactors.cli.suggesting import nearest
from streamactors.cli.texts import counted
from tests.cli.terminal import COMMAND, on_terminal


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["consume", "t", "--gruop", "x"],
            "No such option '--gruop'; did you mean --group? (see streamactors consume --help)",
        ),
        (["consume", "t", "--cuont", "3"], "No such option '--cuont'; did you mean --count?"),
        (["topics", "list", "--group", "x"], "No such option '--group' (see streamactors topics list --help)"),
        (["topics", "create", "t", "--form"], "No such option '--form' (see streamactors topics create --help)"),
        (
            ["topics", "list", "--bootstrap-server", "x:1"],
            "No such option '--bootstrap-server'; did you mean --bootstrap?",
        ),
        (
            ["topics", "create", "t", "--config", "cleanup.policy=compact"],
            "a setting is given by --set cleanup.policy=compact",
        ),
        (["topics", "list", "--config", "acks=all"], "one property is given by -X acks=all"),
        (["consum"], "there is no command 'consum'; did you mean consume?"),
        (["topics", "lst"], "No such command 'lst'; did you mean list?"),
        (["topics", "nothing"], "No such command 'nothing' (see streamactors topics --help)"),
        (["docs", "brokre"], "there is no page 'brokre'; did you mean broker?"),
    ],
)
def test_a_name_is_proposed_only_if_it_is_alike(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    err = capsys.readouterr().err
    assert said in err
    assert ("did you mean" in err) == ("did you mean" in said)


def test_dashes_do_not_make_names_alike() -> None:
    assert nearest("--group", ["--from"]) is None  # click proposed it
    assert nearest("--grop", ["--from", "--group"]) == "--group"


def test_one_is_singular() -> None:
    assert [counted(n, "record") for n in (0, 1, 2, 20_000)] == ["0 records", "1 record", "2 records", "20000 records"]
    assert counted(2, "entry", "entries") == "2 entries"


def test_colours_are_for_terminals_that_want_them(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    assert not has_colours(sys.stdout)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert has_colours(sys.stdout)
    monkeypatch.setenv("NO_COLOR", "1")
    assert not has_colours(sys.stdout)
    monkeypatch.setenv("NO_COLOR", "")  # by its rule an empty value does not count
    monkeypatch.setenv("TERM", "dumb")
    assert not has_colours(sys.stdout)
    assert (in_colour("x", "red", on=True), in_colour("x", "red", on=False)) == ("\x1b[31mx\x1b[0m", "x")


@pytest.mark.expects_exit_code(2)
def test_an_error_is_red_at_a_terminal() -> None:
    with on_terminal([*COMMAND, "nonsense"]) as terminal:
        assert terminal.ended() == 2
    assert terminal.text.startswith("\x1b[31mstreamactors:\x1b[0m No such command")
    with on_terminal(["env", "NO_COLOR=1", *COMMAND, "nonsense"]) as terminal:
        assert terminal.ended() == 2
    assert "\x1b" not in terminal.text
