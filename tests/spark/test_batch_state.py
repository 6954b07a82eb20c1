"""The pure state of the sink: batches are ranges of marks, at most one is given, what is given is given again until acknowledged."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from streamactors.spark.batch_state import BatchState, Phase
from streamactors.spark.errors import CheckpointError


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
    assert state.cut(10, done_elsewhere=lambda mark: False) is None
    assert (batch := state.cut(10, done_elsewhere=lambda mark: mark[1, "0/0"] <= (1, 1))) is not None
    assert batch.end == {"0/0": 1}


def test_a_repeated_batch_has_its_old_end_however_large() -> None:
    state = BatchState()
    state.begin({"0/a": 0, "0/b": 0}, {"0/a": 5, "0/b": 2})
    state.add("a to 5", 5)
    state.mark({"0/a": 5}, {(1, "a"): (1, 5)})
    assert state.phase is Phase.REPEATING
    assert state.cut(1) is None
    state.add("b to 2", 2)
    state.mark({"0/b": 2}, {(1, "b"): (1, 2)})
    assert state.phase is Phase.GIVING
    batch = state.batch({"0/a": 0, "0/b": 0}, {"0/a": 5, "0/b": 2})
    assert (batch.rows, batch.chunks) == (7, ["a to 5", "b to 2"])


def test_a_repeated_batch_whose_end_is_passed_is_an_error() -> None:
    state = BatchState()
    state.begin({"0/0": 0}, {"0/0": 5})
    state.add("too far", 6)
    with pytest.raises(CheckpointError, match="no mark stands there"):
        state.mark(*mark_at(6))


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


class Sink(RuleBasedStateMachine):
    """A stream of numbered rows against Spark: every row is in exactly one acknowledged batch, in order, whatever happens in between."""

    def __init__(self) -> None:
        super().__init__()
        self.state = BatchState()
        self.checkpoint = {"0/0": 0}
        self.written: list[int] = []
        self.sent = 0
        self.marked = 0
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
        self.marked = self.sent
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
        self.sent = self.marked = start

    @invariant()
    def every_row_once_in_order(self) -> None:
        assert self.written == list(range(len(self.written)))
        assert self.checkpoint["0/0"] == len(self.written)

    @invariant()
    def a_batch_is_no_larger_than_told(self) -> None:
        given = self.state.given
        assert given is None or given.rows <= self.max_rows or len(given.chunks) >= 1


TestSink = Sink.TestCase
TestSink.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
