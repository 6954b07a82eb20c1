"""The moves of a cut and of its parts, one by one."""

from __future__ import annotations

from typing import Any

from streamactors.engine.marks.cut_state import CutPhase, CutState, Release, Settle, Stop
from streamactors.engine.marks.marks import PositionMark
from streamactors.engine.marks.part_state import PartPhase, PartState

SOURCE = frozenset(("s",))
Row = tuple[int, int]  # partition, offset


def at(position: int) -> PositionMark:
    return {("s", 0): (1, position)}


class Bare:
    """A part that only has a side of the cut."""

    def __init__(self, *, follows: bool = False) -> None:
        self.part_state = PartState(SOURCE)
        self.part_state.follows = follows


def cut_of(*parts: Any) -> CutState:
    state = CutState()
    for part in parts:
        state.add(part)
    return state


def test_a_cut_asks_every_part_but_those_that_stop_at_every_mark() -> None:
    first, second, follower = Bare(), Bare(), Bare(follows=True)
    state = cut_of(first, second, follower)
    assert state.ask() == [Stop(first, {}), Stop(second, {})]
    assert state.ask() == [], "a cut is going on"


def test_parts_that_stand_before_the_furthest_mark_are_sent_on_to_it() -> None:
    near, far = Bare(), Bare()
    state = cut_of(near, far)
    state.ask()
    assert state.reached(near, at(3), ended=False) == []
    assert state.reached(far, at(5), ended=False) == [Stop(near, at(5))]
    assert state.reached(near, at(5), ended=False) == [Settle(at(5))]


def test_the_end_of_a_stream_is_a_cut_that_nobody_waits_for() -> None:
    ending, other = Bare(), Bare()
    state = cut_of(ending, other)
    assert state.reached(ending, at(3), ended=True) == [Stop(other, {})]
    assert state.reached(other, at(5), ended=False) == [Settle(at(5))], "what has ended cannot go on to 5"


def test_an_urgent_request_during_a_cut_is_another_cut_behind_it_and_an_idle_one_is_not() -> None:
    for urgent in (True, False):
        part = Bare()
        state = cut_of(part)
        state.ask()
        state.reached(part, at(1), ended=False)
        state.ask(urgent=urgent)
        state.ask()  # the interval has passed as well
        assert state.settled()
        assert state.committed() == [Release(part)] + [Stop(part, {})] * urgent
        assert state.phase is (CutPhase.ASKED if urgent else CutPhase.WRITING)
        assert state.committed_at == at(1)
        if urgent:
            state.reached(part, at(2), ended=False)
            assert state.settled()
            assert state.committed() == [Release(part)], "one request, one more cut"


def test_everything_is_over_when_the_last_part_has_ended_and_is_committed() -> None:
    part = Bare()
    state = cut_of(part)
    state.reached(part, at(9), ended=True)
    assert state.left(part, finished=False), "it has written what is not committed"
    state = cut_of(part)
    state.reached(part, at(9), ended=True)
    assert not state.left(part, finished=True)
    assert state.settled()
    assert state.committed() == [Release(part)]
    assert state.phase is CutPhase.OVER
    assert state.all_left


def test_a_part_may_leave_when_all_it_wrote_is_committed_though_the_run_goes_on() -> None:
    ending, other = Bare(), Bare()
    state = cut_of(ending, other)
    state.reached(ending, at(1), ended=True)
    state.reached(other, at(1), ended=False)
    assert state.settled()
    state.committed()
    assert not state.left(ending, finished=False)
    assert state.left(other, finished=False), "its stream has not ended"
    state.abort()
    assert not state.left(other, finished=False), "there is nothing left to abort"


def test_after_a_failure_nothing_is_committed_and_parts_that_are_still_there_hear_of_it() -> None:
    here, gone = Bare(), Bare()
    state = cut_of(here, gone)
    state.ask()
    state.left(gone, finished=True)
    assert state.abort() == [here]
    assert state.reached(here, at(1), ended=False) == []
    assert not state.settled()


def test_a_request_that_has_crossed_the_report_of_a_stop_is_answered_by_it() -> None:
    part = PartState(SOURCE)
    part.follows = True
    part.mark(at(1))
    part.stop()
    part.ask({})
    assert not part.may_stop
    part.ask(at(3))
    assert not part.may_stop, "it is behind the target"
    part.mark(at(2))
    assert not part.may_stop, "it is still behind the target"
    part.mark(at(3))
    assert part.stop() == at(3)


def test_a_part_stops_only_where_a_mark_covers_all_it_took() -> None:
    part = PartState(SOURCE)
    part.mark(at(1))
    part.took()
    part.ask({})
    assert not part.may_stop
    part.mark(at(2))
    assert part.may_stop


def test_a_stream_that_ends_before_the_target_stops_at_its_end_and_goes_no_further() -> None:
    part = PartState(SOURCE)
    part.ask(at(5))
    part.mark(at(1))
    assert not part.may_stop
    part.end()
    assert part.stop() == at(1)
    part.ask(at(5))
    assert not part.may_stop


def test_a_part_without_marks_stops_anywhere() -> None:
    part = PartState(frozenset())
    part.took()
    part.ask({})
    assert part.may_stop


def test_a_stream_that_ends_while_its_part_stands_is_reported_by_the_next_stop() -> None:
    part = PartState(SOURCE)
    part.ask({})
    part.stop()
    part.end()
    assert not part.may_stop
    assert not part.has_given_all
    assert part.committed()
    assert part.may_stop
    part.stop()
    assert part.has_given_all
    assert part.committed()
    assert part.phase is PartPhase.OVER
    assert not part.committed(), "there is nothing more to commit"


def test_a_part_knows_the_partitions_that_were_assigned_anew_before_what_it_wrote_was_committed():
    key = (next(iter(SOURCE)), 0)
    part = PartState(SOURCE)
    part.mark({key: (1, 10)})
    part.ask({})
    part.stop()
    part.mark({key: (2, 5)})  # the former assignment ends where the part stands
    assert part.overtaken == set()
    part.committed()
    part.mark({key: (3, 5)})  # (2, 5) lies behind the stop
    assert part.overtaken == {key}
