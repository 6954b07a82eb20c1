"""The order of rows by head timestamp, without a stage: what goes first, what is waited for, and which input is far ahead."""

from __future__ import annotations

import pytest

from streamactors.engine.marks.marks import EndPosition, Position
from streamactors.windows import Record
from streamactors.windows.stage.head_time import FAR_AHEAD, NO_LIMIT, HeadTimeOrder
from tests.windows.test_ordered_inputs import row


def two_ordered() -> HeadTimeOrder:
    order = HeadTimeOrder([], 0)
    for name in ("a", "b"):
        order.begin(name, 1)
    return order


def test_an_input_that_is_far_ahead_is_to_be_held_back() -> None:
    order = HeadTimeOrder(["a", "b"], 0, NO_LIMIT)
    order.add("a", [Record("a", 1, at) for at in range(FAR_AHEAD)])
    assert order.far_ahead([]) == []
    order.add("a", [Record("a", 1, FAR_AHEAD)])
    assert order.far_ahead([]) == ["a"]
    assert order.take(0) == []
    order.add("b", [Record("b", 1, FAR_AHEAD // 2)])
    assert len(order.take(0)) == FAR_AHEAD // 2 + 2
    assert order.far_ahead([]) == []
    assert order.far_ahead(["a"]) == []


def test_rows_before_a_target_go_in_order_and_no_further() -> None:
    order = two_ordered()
    order.add("a", [row("a", at, offset) for offset, at in enumerate([1, 4, 9])])
    order.add("b", [row("b", at, offset) for offset, at in enumerate([2, 3])])
    assert order.holds_before({"a": (1, 2), "b": (1, 1)})
    assert [each.timestamp for each in order.take_before({"a": (1, 2), "b": (1, 1)}, 10)] == [1, 2, 4]
    assert not order.holds_before({"a": (1, 2), "b": (1, 1)})
    assert order.positions() is None  # no mark has come behind these rows


def test_rows_before_a_target_wait_for_those_that_are_on_their_way() -> None:
    """Another computation has had them -> the run stops behind them -> they come here later than rows they are older than."""
    order, target = two_ordered(), {"a": (1, 2), "b": (1, 2)}
    order.add("a", [row("a", 1, 0), row("a", 4, 1)])
    order.silent("b")
    assert order.take_before(target, 10) == []
    order.add("b", [row("b", 2, 0)])
    assert [each.timestamp for each in order.take_before(target, 10)] == [1, 2]
    order.mark("b", (1, 1))
    assert order.take_before(target, 10) == []
    order.mark("b", (1, 2))  # the one between was filtered away
    assert [each.timestamp for each in order.take_before(target, 10)] == [4]


@pytest.mark.parametrize("before", [None, (1, 3)])
def test_the_end_of_a_partition_without_a_record_before_it_lets_nothing_go(before: Position | None) -> None:
    """A topic's last offset is the marker of a transaction, or it is empty: its next record may be older than what is held."""
    order = HeadTimeOrder([], 1_000)
    order.begin("a", 1)
    order.begin("b", 1)
    if before is not None:
        order.add("b", [row("b", 0, 2)])
        order.mark("b", before)
    order.add("a", [row("a", 1, 0)])
    assert len(order.take(0)) == (before is not None)
    order.silent("b")
    order.mark("b", EndPosition((1, 4), before))
    assert order.take(0) == []
    assert order.deadline_ms() == 1_000, "the wait for the silent input continues"
    order.add("b", [row("b", 0, 4)])
    assert [each.context.topic for each in order.take(0)] == ["b"]


def test_the_end_of_a_partition_behind_filtered_records_lets_go_what_was_held() -> None:
    order = HeadTimeOrder([], 1_000)
    order.begin("a", 1)
    order.begin("b", 1)
    order.add("a", [row("a", 1, 0)])
    order.mark("b", EndPosition((1, 4), (1, 3)))  # merged with the mark after a filtered record
    assert len(order.take(0)) == 1


def test_what_is_being_taken_away_goes_no_further_than_to_meet_the_others() -> None:
    order = two_ordered()
    for name in ("a", "b"):
        order.add(name, [row(name, at, at) for at in range(4)])
        order.mark(name, (1, 4))
    assert len(order.take(0, 3)) == 3
    order.leave("a")
    order.leave("b")
    assert order.take(0) == []
    assert [order.taken_to(name) for name in ("a", "b")] == [(1, 2), (1, 1)]
    assert len(order.take_before({"a": (1, 2), "b": (1, 4)}, 10)) == 3
    order.pass_marks({})
    assert order.positions() == {"a": (1, 2), "b": (1, 4)}
    order.mark("b", (1, 6))  # without rows, behind where all stand
    order.pass_marks({})
    assert order.taken_to("b") == (1, 4)
    order.pass_marks({"b": (1, 6)})
    assert order.taken_to("b") == (1, 6)


def test_rows_before_a_target_do_not_wait_for_what_cannot_come() -> None:
    order, target = two_ordered(), {"a": (2, 1), "b": (1, 2)}
    order.begin("a", 2)
    order.add("a", [row("a", 1, 0)])
    assert order.take_before(target, 10) == []
    assert [each.timestamp for each in order.take_before(target, 10, wait=False)] == [1]
    order.add("a", [row("a", 4, 1)])
    order.begin("b", 2)  # of its former epoch nothing comes any more
    assert [each.timestamp for each in order.take_before({**target, "a": (2, 2)}, 10)] == [4]


def test_too_many_rows_held_end_the_wait() -> None:
    order = HeadTimeOrder(["a", "b"], 1_000, most_rows=3)
    order.add("a", [Record("a", 1, at) for at in range(5)])
    assert [each.timestamp for each in order.take(0)] == [0, 1]
    assert order.size == 3
