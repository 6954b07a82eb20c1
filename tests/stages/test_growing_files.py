"""Files that grow: followed under a virtual clock while they are appended to, cut, rotated, or not there yet."""

from __future__ import annotations

from typing import Any

import pytest

from streamactors import ActorSystem, Keep, KillSwitches, Sink, Source, VirtualClock

# ── a file that grows ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def tail(tmp_path):
    """Follows tmp_path/log under a virtual clock: `tail()` lets a second pass and returns the lines so far."""
    clock = VirtualClock()
    lines: list[str] = []
    with ActorSystem("tail", clock=clock) as system:

        def start(**options: Any) -> Any:
            source = Source.tail_file(tmp_path / "log", **options).via_mat(KillSwitches.single(), Keep.right)
            switch, end = source.lines().to_mat(Sink.foreach(lines.append), Keep.both).run(system)
            clock.settle()

            def look() -> list[str]:
                clock.advance("1s")
                return lines

            look.switch, look.end = switch, end
            return look

        yield start


def test_a_file_is_followed_as_it_grows(tmp_path, tail):
    log = tmp_path / "log"
    log.write_text("one\n")
    look = tail()
    assert look() == ["one"]
    with log.open("a") as file:
        file.write("two\nth")
        file.flush()
        assert look() == ["one", "two"]
        file.write("ree\n")
    assert look() == ["one", "two", "three"]
    look.switch.shutdown()
    look()
    assert look.end.done()


def test_a_file_is_waited_for_and_may_be_read_from_its_end(tmp_path, tail):
    look = tail()
    assert look() == []
    (tmp_path / "log").write_text("one\n")
    assert look() == ["one"]


def test_only_what_is_new_is_read_from_the_end(tmp_path, tail):
    log = tmp_path / "log"
    log.write_text("old\n")
    look = tail(from_end=True)
    assert look() == []
    with log.open("a") as file:
        file.write("new\n")
    assert look() == ["new"]


def test_a_rotated_file_is_read_to_its_end_and_then_the_new_one(tmp_path, tail):
    log = tmp_path / "log"
    log.write_text("one\n")
    look = tail()
    assert look() == ["one"]
    with log.open("a") as file:
        log.rename(tmp_path / "log.1")
        assert look() == ["one"]
        file.write("late\n")
    log.write_text("first\n")
    assert look() == ["one", "late", "first"]


def test_a_file_that_was_cut_is_read_from_its_beginning(tmp_path, tail):
    log = tmp_path / "log"
    log.write_text("a long first line\n")
    look = tail()
    assert len(look()) == 1
    log.write_text("short\n")
    assert look() == ["a long first line", "short"]


def test_a_folder_cannot_be_followed(tmp_path, tail):
    (tmp_path / "log").mkdir()
    look = tail()
    with pytest.raises(IsADirectoryError, match=str(tmp_path / "log")):
        look.end.result(10)
