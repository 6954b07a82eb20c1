"""What a run still closes on other threads when its stages have ended."""

from __future__ import annotations

from streamactors.engine.island.closings import Closings


def test_the_last_thing_that_is_closed_calls_who_waits() -> None:
    closings, told = Closings(), []
    closings.opened()
    closings.opened()
    closings.when_closed(lambda: told.append("first"))
    closings.closed()
    assert not told
    assert closings.pending
    closings.when_closed(lambda: told.append("second"))
    closings.closed()
    assert told == ["first", "second"]
    assert not closings.pending


def test_nothing_open_is_closed_at_once() -> None:
    told: list[str] = []
    Closings().when_closed(lambda: told.append("now"))
    assert told == ["now"]


def test_who_was_called_is_not_called_again() -> None:
    closings, told = Closings(), []
    for _ in range(2):
        closings.opened()
        closings.closed()
        if not told:
            closings.when_closed(lambda: told.append("once"))
    assert told == ["once"]
