"""The stops of a windowed stage: the entries of each, the marks that pass, and the answers to them, in whatever order they come."""

from __future__ import annotations

import pytest

from streamactors.engine.marks.marks import PositionMark, TimerResults
from streamactors.windows.stage.stage_effects import Answer, Effect, Hurry, LookUp, PutMark, Write
from streamactors.windows.stage.stops import Stops
from streamactors.windows.state.changelogs import MarksPass

SOURCE = "s"
OWN = TimerResults(7)


def at(position: int, own: int = 0) -> PositionMark:
    mark: PositionMark = {(SOURCE, 0): (1, position)}
    return mark | {(OWN, 0): (1, own)} if own else mark


class Kept:
    """The stops of one stage, with what their effects came to."""

    def __init__(self, marks_pass: MarksPass = MarksPass.STOPS) -> None:
        self.stops = Stops(frozenset((SOURCE,)))
        self.stops.open(marks_pass, OWN)
        self.written: list[tuple[PositionMark, bool]] = []  # (mark, they are the last)
        self.marks: list[PositionMark] = []
        self.answered = 0

    def do(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Write(mark, ended):
                    self.written.append((mark.copy(), ended))
                case PutMark(mark):
                    assert isinstance(mark, dict)
                    self.marks.append(mark.copy())
                case Answer():
                    self.answered += 1

    def position(self, position: int) -> None:
        self.do(self.stops.position(at(position)))

    def cut(self, target: PositionMark | None = None) -> None:
        self.stops.part_state.ask(target or {})
        self.do(self.stops.try_to_stop())

    def committed(self) -> None:
        self.do(self.stops.committed())

    def complete(self) -> None:
        self.do(self.stops.complete())


def test_a_cut_takes_the_next_mark_and_the_one_after_its_answer_the_next() -> None:
    kept = Kept()
    kept.position(1)
    assert kept.written == []
    kept.cut()
    kept.position(2)
    assert kept.written == [(at(1), False)]
    kept.committed()
    kept.cut()
    assert kept.written == [(at(1), False), (at(2), False)]
    assert kept.marks == [at(1), at(2)]


def test_a_cut_asked_for_while_the_last_entries_are_written_does_not_keep_the_run_from_ending() -> None:
    """input ends -> the last entries wait for a slow sink -> the commit interval has passed -> they are written."""
    kept = Kept()
    kept.position(3)
    kept.complete()
    kept.cut()
    assert kept.written == [(at(3), True)]
    kept.committed()
    assert kept.stops.finished


def test_at_the_end_the_last_mark_passes_although_an_earlier_stop_waits() -> None:
    """A stage further down keeps an element until its input ends -> its sink does not reach the mark of the stop."""
    kept = Kept()
    kept.position(1)
    kept.cut()
    kept.position(2)
    kept.stops.gave()
    assert not kept.stops.gives_nothing_more
    kept.complete()
    last = at(2, own=1)
    assert (kept.marks, kept.stops.gives_nothing_more, kept.stops.finished) == ([at(1), last], True, False)
    assert kept.written == [(at(1), False)]
    kept.committed()
    assert (kept.marks, kept.stops.finished) == ([at(1), last], False)
    assert kept.written == [(at(1), False), (last, True)]
    kept.committed()
    assert kept.stops.finished


def test_at_the_end_too_marks_wait_for_the_entries_where_offsets_are_committed_by_hand() -> None:
    kept = Kept(MarksPass.WRITTEN)
    kept.position(1)
    kept.complete()
    assert (kept.marks, kept.stops.gives_nothing_more) == ([], False)
    kept.committed()
    assert (kept.marks, kept.stops.finished) == ([at(1)], True)


def test_where_marks_wait_for_the_entries_one_answer_lets_one_mark_through() -> None:
    """After other windows each mark is a cut; the commit interval asks for one besides."""
    kept = Kept(MarksPass.WRITTEN)
    kept.stops.part_state.follows = True
    kept.position(1)
    kept.cut()
    kept.position(2)
    assert kept.written == [(at(1), False)]
    kept.committed()
    assert kept.marks == [at(1)]


def test_where_the_source_counts_what_is_done_every_mark_passes() -> None:
    kept = Kept(MarksPass.EVERY)
    kept.position(1)
    kept.cut()  # stops at 1: the mark passes again, after results that stem from no row
    kept.stops.took()
    kept.position(2)
    assert (kept.written, kept.marks) == ([(at(1), False)], [at(1), at(1), at(2)])
    kept.committed()
    kept.stops.took()
    kept.cut()
    kept.position(3)
    assert (kept.written[1:], kept.marks[3:]) == ([(at(3), False)], [at(3)])


def test_windows_after_windows_do_not_hold_marks_that_those_wait_for() -> None:
    """The first stage has stopped at a mark and waits until the sinks reach it. The second is asked to stop only when rows have come after that mark."""
    for marks_pass, passed in ((MarksPass.EVERY, [at(1)]), (MarksPass.STOPS, [])):
        kept = Kept(marks_pass)
        kept.position(1)
        kept.stops.took()
        kept.cut()
        assert (kept.written, kept.marks) == ([], passed)


def test_in_a_transaction_a_cut_goes_on_to_a_further_mark_before_anything_is_committed() -> None:
    kept = Kept()
    kept.position(1)
    kept.cut()
    kept.cut(at(5))
    kept.position(4)
    assert kept.written == [(at(1), False)]
    kept.position(5)
    assert kept.written == [(at(1), False), (at(5), False)]
    assert kept.marks == [at(1), at(5)]


def test_a_cut_with_results_that_stem_from_no_row_has_a_mark_of_its_own_after_them() -> None:
    """Silence closes a window -> the sinks have done each position before -> only another mark tells that they have done the result."""
    kept = Kept()
    kept.position(1)
    for gives, own in ((False, 0), (True, 1), (False, 0), (True, 2)):
        if gives:
            kept.stops.gave()
        kept.cut()
        kept.committed()
        assert kept.written[-1] == (at(1, own), False)
        assert kept.marks[-1] == at(1, own)
    assert len(kept.written) == 4


def test_a_cut_that_goes_on_before_its_commit_still_waits_for_the_results_that_stem_from_no_row() -> None:
    """The wall clock calls a processor -> the stage stops after the result -> another part has stopped at a further mark, so this one goes on ->
    the commit has the entries of both stops, and the mark of the second said nothing of the result."""
    kept = Kept()
    kept.position(1)
    kept.stops.gave()
    kept.cut()
    kept.cut(at(2))
    kept.position(2)
    assert kept.written == [(at(1, own=1), False), (at(2, own=1), False)]
    kept.committed()
    kept.cut()
    assert kept.written[2:] == [(at(2), False)]


def test_where_offsets_are_committed_by_hand_no_mark_but_positions_is_put_after_results() -> None:
    """The mark passes when the entries are acknowledged, and no sink is waited for."""
    kept = Kept(MarksPass.WRITTEN)
    kept.position(1)
    kept.stops.gave()
    kept.cut()
    kept.committed()
    assert kept.written == [(at(1), False)]
    assert kept.marks == [at(1)]


def test_a_full_memory_asks_for_one_cut_and_after_it_for_the_next() -> None:
    kept = Kept()
    assert [kept.stops.pressed(), kept.stops.pressed()] == [[Hurry()], []]
    kept.position(1)
    kept.cut()
    assert kept.stops.pressed() == [Hurry()]


@pytest.mark.parametrize("change", ["rows", "processors", "results"])
def test_a_reader_gets_what_is_committed_and_waits_for_a_stop_where_something_has_changed(change: str) -> None:
    kept = Kept()
    assert kept.stops.read() == [LookUp(), Answer()]
    {"rows": kept.stops.took, "processors": kept.stops.touched, "results": kept.stops.gave}[change]()
    assert kept.stops.read() == []
    kept.position(1)
    kept.cut()
    assert kept.stops.read() == []  # the state is written, and not committed
    assert kept.answered == 0
    kept.committed()
    assert kept.answered == 1
    assert kept.stops.read() == [LookUp(), Answer()]
