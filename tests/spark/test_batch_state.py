"""The pure state of the sink: batches are ranges of marks, at most one is given, what is given is given again until acknowledged."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from streamactors.spark.errors import CheckpointError
from streamactors.spark.sink.batch_state import PLENTY, BatchPhase, BatchState


def mark_at(place: int, part: str = "0/0") -> tuple[dict[str, int], dict]:
    return {part: place}, {(1, part): (1, place)}


def giving(start: int = 0) -> BatchState:
    state = BatchState()
    state.begin({"0/0": start})
    return state


def test_a_batch_is_the_whole_segments_that_fit() -> None:
    state = giving()
    for place in (3, 6, 9):
        state.add(f"rows to {place}", 3)
        state.mark(*mark_at(place))
    batch = state.cut(7)
    assert batch is not None
    assert (batch.start, batch.end, batch.rows, batch.chunks) == ({"0/0": 0}, {"0/0": 6}, 6, ["rows to 3", "rows to 6"])


def test_one_segment_larger_than_max_rows_is_a_batch_of_its_own() -> None:
    state = giving()
    state.add("many", 50)
    state.mark(*mark_at(1))
    state.add("few", 2)
    state.mark(*mark_at(2))
    assert (batch := state.cut(10)) is not None
    assert batch.rows == 50


def test_rows_behind_the_last_mark_are_in_no_batch() -> None:
    state = giving()
    state.add("marked", 1)
    state.mark(*mark_at(1))
    state.add("not yet", 1)
    assert (batch := state.cut(10)) is not None
    assert batch.chunks == ["marked"]


def test_the_same_batch_is_given_until_it_is_acknowledged() -> None:
    state = giving()
    state.add("a", 1)
    state.mark(*mark_at(1))
    first = state.cut(10)
    state.add("b", 1)
    state.mark(*mark_at(2))
    assert state.cut(10) is first
    assert state.acknowledge({"0/0": 1}) == {(1, "0/0"): (1, 1)}
    assert (second := state.cut(10)) is not None
    assert (second.start, second.chunks) == ({"0/0": 1}, ["b"])


def test_an_acknowledgement_of_something_never_given_is_an_error() -> None:
    state = giving()
    state.add("a", 1)
    state.mark(*mark_at(1))
    state.cut(10)
    with pytest.raises(CheckpointError, match="was given nothing that ends there"):
        state.acknowledge({"0/0": 7})


def test_a_range_that_is_not_retained_is_an_error() -> None:
    with pytest.raises(CheckpointError, match="not retained"):
        giving().batch({"0/0": 0}, {"0/0": 5})


def test_a_batch_ends_only_where_the_other_sinks_of_the_run_have_been() -> None:
    state = giving()
    for place in (1, 2):
        state.add(place, 1)
        state.mark(*mark_at(place))
    assert state.cut(10, others_behind=lambda mark: True) is None
    assert (batch := state.cut(10, others_behind=lambda mark: mark[1, "0/0"] > (1, 1))) is not None
    assert batch.end == {"0/0": 1}


def test_a_repeated_batch_has_its_old_end_however_large() -> None:
    state = BatchState()
    state.begin({"0/a": 0, "0/b": 0}, {"0/a": 5, "0/b": 2})
    state.add("a to 5", 5)
    state.mark({"0/a": 5}, {(1, "a"): (1, 5)})
    assert state.phase is BatchPhase.REPEATING
    assert state.cut(1) is None
    state.add("b to 2", 2)
    state.mark({"0/b": 2}, {(1, "b"): (1, 2)})
    assert state.phase is BatchPhase.GIVING
    batch = state.batch({"0/a": 0, "0/b": 0}, {"0/a": 5, "0/b": 2})
    assert (batch.rows, batch.chunks) == (7, ["a to 5", "b to 2"])


def test_the_end_of_a_batch_names_the_inputs_in_order_so_that_equal_ends_are_equal_texts() -> None:
    state = BatchState()
    state.begin({})
    for name in ("0/b", "0/a", "0/c"):
        state.add(name, 1)
        state.mark({name: 1}, {(1, name): (1, 1)})
    batch = state.cut(10)
    assert batch is not None
    assert list(batch.end) == ["0/a", "0/b", "0/c"]


def test_the_first_mark_at_or_after_the_end_closes_a_repeated_batch() -> None:
    # the records at 5 and 6 were filtered out -> a queue merged the mark at the range's end, 5, with the next -> "no mark stands there",
    # at every start of this checkpoint
    state = BatchState()
    state.begin({"0/0": 0}, {"0/0": 5})
    state.add("to 4", 3)
    state.mark(*mark_at(7))
    batch = state.batch({"0/0": 0}, {"0/0": 5})
    assert (batch.rows, batch.chunks) == (3, ["to 4"])
    assert state.acknowledge({"0/0": 5}) == {(1, "0/0"): (1, 7)}, "nothing before 7 is left"
    state.end_of_input()
    assert not state.over
    assert (rest := state.cut(10, empty_too=True)) is not None
    assert (rest.start, rest.end, rest.rows) == ({"0/0": 5}, {"0/0": 7}, 0)
    state.acknowledge({"0/0": 7})
    assert state.over


def test_a_partition_that_is_past_its_end_waits_for_the_others_of_a_repeated_batch() -> None:
    state = BatchState()
    state.begin({"0/a": 0, "0/b": 0}, {"0/a": 5, "0/b": 2})
    state.add("a to 4", 5)
    state.mark({"0/a": 5}, {(1, "a"): (1, 5)})
    assert state.phase is BatchPhase.REPEATING
    state.add("b to 1", 2)
    # the records of both from after their ends were filtered out, and their marks were merged into that at the end of b
    state.mark({"0/b": 4, "0/a": 9}, {(1, "b"): (1, 4), (1, "a"): (1, 9)})
    batch = state.batch({"0/a": 0, "0/b": 0}, {"0/a": 5, "0/b": 2})
    assert (batch.rows, batch.chunks) == (7, ["a to 4", "b to 1"])
    state.add("more", 1)
    state.mark({"0/a": 10}, {(1, "a"): (1, 10)})
    state.acknowledge(batch.end)
    assert (following := state.cut(10)) is not None
    assert (following.rows, following.end) == (1, {"0/a": 10, "0/b": 4})


def test_a_partition_that_is_new_since_the_batch_follows_it() -> None:
    state = BatchState()
    state.begin({"0/a": 0}, {"0/a": 5})
    state.mark({"0/new": 0}, {(1, "new"): (1, 0)})
    state.add("a to 4", 5)
    state.mark({"0/a": 5}, {(1, "a"): (1, 5)})
    assert state.batch({"0/a": 0}, {"0/a": 5}).rows == 5
    state.acknowledge({"0/a": 5})
    assert (rest := state.cut(10, empty_too=True)) is not None
    assert (rest.rows, rest.end) == (0, {"0/a": 5, "0/new": 0})


@pytest.mark.parametrize("both", [False, True])
def test_rows_from_after_the_end_of_a_repeated_batch_are_an_error(both: bool) -> None:
    """The first of two sources joined by concat has an element more than when the batch was given."""
    state = BatchState()
    state.begin({"0/0": 0, "1/0": 0}, {"0/0": 5, "1/0": 2})
    state.add("the first to 4", 5)
    state.mark(*mark_at(5))
    state.add("too far", 1)
    more = {"1/0": 2} if both else {}
    with pytest.raises(CheckpointError, match=r"rows came from after its end, up to \{'0/0': 6\}"):
        state.mark({"0/0": 6} | more, {(1, "0/0"): (1, 6)})


def test_a_repeated_batch_that_the_input_cannot_fill_is_an_error() -> None:
    state = BatchState()
    state.begin({"0/0": 0}, {"0/0": 5})
    state.add("short", 3)
    state.mark(*mark_at(3))
    with pytest.raises(CheckpointError, match="ended with 0/0 at 3"):
        state.end_of_input()


def test_marks_without_rows_move_on_with_the_next_batch_and_are_no_batch_by_themselves() -> None:
    state = giving()
    state.mark(*mark_at(4))
    assert state.cut(10) is None
    assert (batch := state.cut(10, empty_too=True)) is not None
    assert (batch.rows, batch.end) == (0, {"0/0": 4})


def test_a_mark_that_says_what_the_checkpoint_knows_is_done_at_once() -> None:
    state = giving(start=4)
    positions, mark = mark_at(4)
    assert state.mark(positions, mark) == mark


def test_segments_that_fit_exactly_are_taken() -> None:
    state = giving()
    for place in (2, 4, 6):
        state.add(place, 2)
        state.mark(*mark_at(place))
    assert (batch := state.cut(4)) is not None
    assert (batch.rows, state.rows, state.retained_rows) == (4, 2, 6)


def test_marks_with_no_row_between_them_end_one_segment() -> None:
    state = giving()
    state.add("a", 1)
    state.mark({"0/0": 1}, {(1, "0/0"): (1, 1)})
    state.mark({"0/0": 2, "0/1": 3}, {(1, "0/0"): (1, 2), (1, "0/1"): (1, 3)})
    assert (batch := state.cut(10)) is not None
    assert (batch.rows, batch.chunks, batch.end) == (1, ["a"], {"0/0": 2, "0/1": 3})
    assert batch.mark == {(1, "0/0"): (1, 2), (1, "0/1"): (1, 3)}


def test_a_mark_that_says_what_is_gathered_already_is_not_done_yet() -> None:
    state = giving()
    state.add("a", 1)
    state.mark(*mark_at(1))
    assert state.mark(*mark_at(1)) == {}, "a segment waits"
    state.cut(10)
    assert state.mark(*mark_at(1)) == {}, "Spark has the batch, its checkpoint does not"
    state.acknowledge({"0/0": 1})
    positions, mark = mark_at(1)
    assert state.mark(positions, mark) == mark


def test_an_empty_range_is_an_empty_batch_and_what_was_acknowledged_may_be_asked_again() -> None:
    state = giving(start=3)
    assert state.acknowledge({"0/0": 3}) == {}
    empty = state.batch({"0/0": 3}, {"0/0": 3})
    assert (empty.rows, empty.chunks, empty.start, empty.end) == (0, [], {"0/0": 3}, {"0/0": 3})


def test_a_batch_of_another_range_is_an_error() -> None:
    state = giving()
    state.add("a", 1)
    state.mark(*mark_at(1))
    state.cut(10)
    for start, end in (({"0/0": 0}, {"0/0": 2}), ({"0/0": 1}, {"0/0": 2})):
        with pytest.raises(CheckpointError, match="not retained"):
            state.batch(start, end)


def test_room_is_what_is_missing_from_the_next_batch() -> None:
    state = BatchState()
    assert state.room(10) == 0, "Spark has not said where to begin"
    state.begin({"0/0": 0})
    assert state.room(10) == 10
    state.add("a", 4)
    assert state.room(10) == 6
    state.mark(*mark_at(4))
    state.add("b", 5)
    assert state.room(10) == 1
    state.add("c", 5)
    assert state.room(10) == 0
    state.cut(4)
    state.mark(*mark_at(14))
    assert state.room(10) == 0, "ten rows are gathered for the batch behind the one that Spark has"
    assert state.room(11) == 1
    state.end_of_input()
    assert state.room(100) == 0


def test_without_a_mark_to_cut_at_more_rows_may_come_than_a_batch_has() -> None:
    state = giving()
    state.add("a", 12)
    assert state.room(10) == 12
    state.mark(*mark_at(1))
    assert state.room(10) == 0


def test_a_mark_without_rows_in_front_is_nothing_to_cut_at() -> None:
    state = giving()
    state.mark(*mark_at(5))  # five filtered records
    state.add([0] * 1000, 1000)  # one element made them all, and its mark comes behind them
    assert state.cut(1000) is None
    assert state.room(1000) == 1000


def test_a_repeated_batch_has_room_for_all_its_rows_and_nothing_more_comes_before_spark_has_it() -> None:
    state = BatchState()
    state.begin({"0/0": 0}, {"0/0": 5})
    state.add("a", 3)
    assert state.room(1) == PLENTY
    state.mark(*mark_at(5))
    assert state.room(10) == 10
    state = BatchState()
    state.begin({"0/0": 0, "1/0": 0}, {"0/0": 5, "1/0": 5})
    state.add("a", 3)
    state.mark(*mark_at(5))
    assert state.room(1) == PLENTY, "the other partition has not come to its end"


def test_a_repeated_batch_without_a_range_is_none() -> None:
    state = BatchState()
    state.begin({"0/0": 4}, {"0/0": 4})
    assert state.phase is BatchPhase.GIVING


def test_the_sink_is_over_when_the_checkpoint_has_all_and_rows_behind_the_last_mark_are_dropped() -> None:
    state = giving()
    state.add("a", 2)
    state.mark(*mark_at(2))
    state.add("no mark covers it", 3)
    assert state.retained_rows == 5
    assert not state.over
    state.end_of_input()
    assert not state.over
    state.cut(10)
    assert state.retained_rows == 2
    assert not state.over
    state.acknowledge({"0/0": 2})
    assert state.retained_rows == 0
    assert state.over


class Sink(RuleBasedStateMachine):
    """A stream of numbered rows against Spark: every row is in exactly one acknowledged batch, in order, whatever happens in between."""

    def __init__(self) -> None:
        super().__init__()
        self.state = BatchState()
        self.checkpoint = {"0/0": 0}
        self.written: list[int] = []
        self.sent = 0
        self.marks = [0]
        self.max_rows = 5

    @initialize()
    def begin(self) -> None:
        self.state.begin(self.checkpoint)

    @rule(n=st.integers(1, 4))
    def rows_come(self, n: int) -> None:
        self.state.add(list(range(self.sent, self.sent + n)), n)
        self.sent += n

    @rule()
    def a_mark_comes(self) -> None:
        self.marks.append(self.sent)
        self.state.mark(*mark_at(self.sent))

    @rule()
    def spark_asks(self) -> None:
        self.state.acknowledge(self.checkpoint)
        self.state.cut(self.max_rows)

    @precondition(lambda self: self.state.given is not None)
    @rule()
    def spark_writes(self) -> None:
        given = self.state.given
        assert given is not None
        if given.start == self.checkpoint:
            assert self.state.batch(given.start, given.end) is given
            self.written += [row for chunk in given.chunks for row in chunk]
            self.checkpoint = given.end

    @rule()
    def crash(self) -> None:
        """The process dies: the batch that was given and not written is made again from its range."""
        given = self.state.given
        interrupted = given is not None and given.start == self.checkpoint
        end = given.end if interrupted and given is not None else None
        rows = given.rows if given is not None else 0
        self.state = BatchState()
        self.state.begin(self.checkpoint, end)
        start = self.checkpoint["0/0"]
        if end is not None:
            for row in range(start, end["0/0"]):
                self.state.add([row], 1)
                self.state.mark(*mark_at(row + 1))
            assert self.state.batch(self.checkpoint, end).rows == rows
            start = end["0/0"]
        self.sent = start
        self.marks = [start]

    @invariant()
    def every_row_once_in_order(self) -> None:
        assert self.written == list(range(len(self.written)))
        assert self.checkpoint["0/0"] == len(self.written)

    @invariant()
    def a_batch_is_no_larger_than_told_unless_no_mark_lies_within(self) -> None:
        given = self.state.given
        if given is not None and given.rows > self.max_rows:
            assert not any(given.start["0/0"] < mark < given.end["0/0"] for mark in self.marks)

    @invariant()
    def every_row_is_retained_until_it_is_acknowledged(self) -> None:
        assert self.state.retained_rows == self.sent - self.state.position["0/0"]


TestSink = Sink.TestCase
TestSink.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
