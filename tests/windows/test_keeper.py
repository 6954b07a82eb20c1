"""The keeper of a stage's state: cuts, the entries of each, and the answers to them, in whatever order they come."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from streamactors.engine.marks.marks import OwnResults, PositionMark
from streamactors.windows.operators.task_ids import TaskIds
from streamactors.windows.stage.keeper import Keeper
from streamactors.windows.state.changelogs import MarksPass

SOURCE = "s"


def at(position: int) -> PositionMark:
    return {(SOURCE, 0): (1, position)}


class Stage:
    """What a keeper asks of its stage; what comes from other threads is served at once."""

    def __init__(self) -> None:
        self.in_ = SimpleNamespace(carries=frozenset((SOURCE,)))
        self.ids = TaskIds()
        self.turns = SimpleNamespace(stop_at=lambda _: False, go_on=lambda: None)
        self.factory = factory = SimpleNamespace(changelog_topics=lambda application: {}, restored=None)
        self.tasks = SimpleNamespace(factory=factory, tasks={}, changes=lambda partition: [])
        self.marks: list[PositionMark] = []
        self.run = SimpleNamespace(own_results={self: OwnResults(7)})

    def async_callback(self, handler: Callable[[Any], None]) -> Any:
        return SimpleNamespace(invoke=handler)

    def put_mark(self, mark: PositionMark) -> None:
        self.marks.append(mark.copy())

    def drain(self) -> None:
        """There are no rows."""


class Log:
    """A changelog that writes down what it is to write, and answers when the test says so."""

    def __init__(self, marks_pass: MarksPass) -> None:
        self.marks_pass = marks_pass
        self.written: list[tuple[PositionMark, bool]] = []  # (mark, they are the last)

    def write(self, changes: Sequence[Any], mark: PositionMark, ended: bool) -> None:
        self.written.append((mark.copy(), ended))


def kept(marks_pass: MarksPass = MarksPass.STOPS) -> tuple[Keeper, Stage, Log]:
    log, stage = Log(marks_pass), Stage()

    def opened(keeper: Keeper, topics: Mapping[str, str], make_task: Any) -> Log:
        return log

    keeper = Keeper(stage)  # type: ignore[arg-type]
    keeper.open(SimpleNamespace(application="a", open=opened))
    return keeper, stage, log


def test_a_cut_takes_the_next_mark_and_the_one_after_its_answer_the_next() -> None:
    keeper, stage, log = kept()
    keeper.position(at(1))
    assert log.written == []
    keeper.cut({})
    keeper.position(at(2))
    assert log.written == [(at(1), False)]
    keeper.committed()
    keeper.cut({})
    assert log.written == [(at(1), False), (at(2), False)]
    assert stage.marks == [at(1), at(2)]


def test_a_cut_asked_for_while_the_last_entries_are_written_does_not_keep_the_run_from_ending() -> None:
    """input ends -> the last entries wait for a slow sink -> the commit interval has passed -> they are written."""
    keeper, _, log = kept()
    keeper.position(at(3))
    keeper.complete()
    keeper.cut({})
    assert log.written == [(at(3), True)]
    keeper.committed()
    assert keeper.finished


def test_at_the_end_the_last_mark_passes_although_an_earlier_stop_waits() -> None:
    """A stage further down keeps an element until its input ends -> its sink does not reach the mark of the stop."""
    keeper, stage, log = kept()
    keeper.position(at(1))
    keeper.cut({})
    keeper.position(at(2))
    keeper.gave(True)
    assert not keeper.gives_nothing_more
    keeper.complete()
    last = at(2) | {(OwnResults(7), 0): (1, 1)}
    assert (stage.marks, keeper.gives_nothing_more, keeper.finished) == ([at(1), last], True, False)
    assert log.written == [(at(1), False)]
    keeper.committed()
    assert (stage.marks, keeper.finished) == ([at(1), last], False)
    assert log.written == [(at(1), False), (last, True)]
    keeper.committed()
    assert keeper.finished


def test_at_the_end_too_marks_wait_for_the_entries_where_offsets_are_committed_by_hand() -> None:
    keeper, stage, _ = kept(MarksPass.WRITTEN)
    keeper.position(at(1))
    keeper.complete()
    assert (stage.marks, keeper.gives_nothing_more) == ([], False)
    keeper.committed()
    assert (stage.marks, keeper.finished) == ([at(1)], True)


def test_where_marks_wait_for_the_entries_one_answer_lets_one_mark_through() -> None:
    """Behind other windows each mark is a cut; the commit interval asks for one besides."""
    keeper, stage, log = kept(MarksPass.WRITTEN)
    keeper.standing.follows = True
    keeper.position(at(1))
    keeper.cut({})
    keeper.position(at(2))
    assert log.written == [(at(1), False)]
    keeper.committed()
    assert stage.marks == [at(1)]


def test_where_the_source_counts_what_is_done_every_mark_passes() -> None:
    keeper, stage, log = kept(MarksPass.EVERY)
    keeper.position(at(1))
    keeper.cut({})  # stops at 1: the mark passes again, behind results that stem from no row
    keeper.taken()
    keeper.position(at(2))
    assert (log.written, stage.marks) == ([(at(1), False)], [at(1), at(1), at(2)])
    keeper.committed()
    keeper.taken()
    keeper.cut({})
    keeper.position(at(3))
    assert (log.written[1:], stage.marks[3:]) == ([(at(3), False)], [at(3)])


def test_windows_behind_windows_do_not_hold_marks_that_those_wait_for() -> None:
    """The first stage has stopped at a mark and waits until the sinks reach it. The second is asked to stop only when rows have come behind that mark."""
    for marks_pass, passed in ((MarksPass.EVERY, [at(1)]), (MarksPass.STOPS, [])):
        keeper, stage, log = kept(marks_pass)
        keeper.position(at(1))
        keeper.taken()
        keeper.cut({})
        assert (log.written, stage.marks) == ([], passed)


def test_in_a_transaction_a_cut_goes_on_to_a_further_mark_before_anything_is_committed() -> None:
    keeper, stage, log = kept()
    keeper.position(at(1))
    keeper.cut({})
    keeper.cut(at(5))
    keeper.position(at(4))
    assert log.written == [(at(1), False)]
    keeper.position(at(5))
    assert log.written == [(at(1), False), (at(5), False)]
    assert stage.marks == [at(1), at(5)]


def test_a_cut_with_results_that_stem_from_no_row_has_a_mark_of_its_own_behind_them() -> None:
    """Silence closes a window -> the sinks have done each position before -> only another mark tells that they have done the result."""
    keeper, stage, log = kept()
    keeper.position(at(1))
    for gives, own in (
        (False, {}),
        (True, {(OwnResults(7), 0): (1, 1)}),
        (False, {}),
        (True, {(OwnResults(7), 0): (1, 2)}),
    ):
        if gives:
            keeper.gave(True)
        keeper.cut({})
        keeper.committed()
        assert log.written[-1] == (at(1) | own, False)
        assert stage.marks[-1] == at(1) | own
    assert len(log.written) == 4


def test_where_offsets_are_committed_by_hand_no_mark_but_positions_is_put_behind_results() -> None:
    """The mark passes when the entries are acknowledged, and no sink is waited for."""
    keeper, stage, log = kept(MarksPass.WRITTEN)
    keeper.position(at(1))
    keeper.gave(True)
    keeper.cut({})
    keeper.committed()
    assert log.written == [(at(1), False)]
    assert stage.marks == [at(1)]
