"""Which windows a row belongs to, and when they close."""

from __future__ import annotations

import pytest

from streamactors.windows import SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows
from streamactors.windows.definitions.windows import FOREVER
from tests.windows.words import W, finals, joined, pipe_all, updates

TEN = TimeWindows.of_size(10).with_grace(0)
FIVE_APART = SessionWindows.with_gap(5).with_grace(0)


@pytest.mark.parametrize(("timestamp", "start"), [(0, 0), (9, 0), (10, 10), (19, 10), (20, 20)])
def test_W_1_a_tumbling_window_contains_its_start_and_not_its_end(timestamp: int, start: int) -> None:
    assert updates(TEN).pipe("a", 1, timestamp) == [W("a", start, start + 10, 1, timestamp)]


def test_W_1_windows_of_one_millisecond_work() -> None:
    driver = updates(TimeWindows.of_size(1).with_grace(0))
    assert pipe_all(driver, [("a", 1, 7), ("a", 1, 8)]) == [W("a", 7, 8, 1, 7), W("a", 8, 9, 1, 8)]


def test_W_2_a_window_belongs_to_a_key_and_empty_ones_do_not_exist() -> None:
    driver = finals(TEN)
    pipe_all(driver, [("a", 1, 1), ("b", 1, 2)])
    assert driver.buffered.records == 2
    assert len(driver.pipe("a", 1, 1_000)) == 2  # nothing for the 98 windows in between


def test_W_3_a_row_updates_hopping_windows_in_ascending_start_order() -> None:
    driver = updates(TimeWindows.of_size(10).advance_by(4).with_grace(0))
    assert driver.pipe("a", 1, 13) == [W("a", 4, 14, 1, 13), W("a", 8, 18, 1, 13), W("a", 12, 22, 1, 13)]


def test_W_3_there_are_no_negative_starts() -> None:
    driver = updates(TimeWindows.of_size(10).advance_by(3).with_grace(0))
    assert driver.pipe("a", 1, 2) == [W("a", 0, 10, 1, 2)]
    assert driver.pipe("a", 1, 4) == [W("a", 0, 10, 2, 4), W("a", 3, 13, 1, 4)]
    each_ms = TimeWindows.of_size(3).advance_by(1)
    assert [list(each_ms.starts(at)) for at in range(4)] == [[0], [0, 1], [0, 1, 2], [1, 2, 3]]


def test_W_4_a_window_closes_when_stream_time_reaches_end_plus_grace() -> None:
    driver = finals(TimeWindows.of_size(10).with_grace(5))
    driver.pipe("a", 1, 3)
    assert driver.pipe("b", 1, 14) == []  # 10 + 5 is not reached
    driver.pipe("a", 1, 4)  # open: accepted
    assert driver.pipe("b", 1, 15) == [W("a", 0, 10, 2, 4)]
    assert driver.pipe("a", 1, 5) == []
    assert driver.dropped_late == 1


def test_W_4_a_row_is_late_for_each_closed_window_by_itself() -> None:
    driver = updates(TimeWindows.of_size(10).advance_by(5).with_grace(0))
    driver.pipe("a", 1, 17)
    assert driver.pipe("a", 1, 9) == []  # [0, 10) and [5, 15) have both closed
    assert driver.dropped_late == 2
    driver.pipe("a", 1, 22)
    assert driver.pipe("a", 1, 16) == [W("a", 15, 25, 3, 22)]  # [10, 20) has closed, [15, 25) has not
    assert driver.dropped_late == 3


def test_W_4_the_row_that_closes_a_window_is_never_late_itself() -> None:
    driver = finals(TEN)
    driver.pipe("a", 1, 0)
    assert driver.pipe("a", 1, 10) == [W("a", 0, 10, 1, 0)]
    assert driver.dropped_late == 0
    assert driver.buffered.records == 1


def test_W_5_grace_must_be_given() -> None:
    with pytest.raises(ValueError, match="no grace period"):
        updates(TimeWindows.of_size(10))
    with pytest.raises(ValueError, match="no grace period"):
        updates(SessionWindows.with_gap(10))
    with pytest.raises(ValueError, match="no grace period"):
        updates(SlidingWindows.of_difference(10))


def test_W_6_an_unlimited_window_never_closes_and_rows_before_it_match_nothing() -> None:
    driver = finals(UnlimitedWindows.of().start_on(100))
    assert pipe_all(driver, [("a", 1, 99), ("a", 1, 100), ("a", 1, 10**15)]) == []
    assert driver.dropped_late == 0
    assert driver.buffered.records == 1
    assert driver.end_of_input() == [W("a", 100, FOREVER, 2, 10**15)]


def test_W_6_an_unlimited_window_takes_rows_however_old() -> None:
    driver = updates(UnlimitedWindows.of())
    driver.pipe("a", 1, 10**12)
    assert driver.pipe("a", 1, 0) == [W("a", 0, FOREVER, 2, 10**12)]


def test_W_7_rows_exactly_the_gap_apart_join_and_one_more_does_not() -> None:
    driver = updates(FIVE_APART)
    driver.pipe("a", 1, 100)
    assert driver.pipe("a", 1, 105)[-1] == W("a", 100, 105, 2, 105)
    assert driver.pipe("a", 1, 111) == [W("a", 111, 111, 1, 111)]


def test_W_7_a_session_includes_both_its_ends() -> None:
    driver = updates(SessionWindows.with_gap(5).with_grace(100))
    driver.pipe("a", 1, 100)
    assert driver.pipe("a", 1, 95)[-1] == W("a", 95, 100, 2, 100)


def test_W_8_a_bridging_row_merges_and_deletes_what_it_joined_by_ascending_end() -> None:
    driver = joined(SessionWindows.with_gap(5).with_grace(100))
    pipe_all(driver, [("a", "x", 100), ("a", "y", 110)])
    assert driver.pipe("a", "z", 105) == [
        W("a", 100, 100, None, 100),
        W("a", 110, 110, None, 110),
        W("a", 100, 110, "+x+yz", 110),
    ]


def test_W_8_a_row_inside_a_session_deletes_and_forwards_it_again() -> None:
    driver = updates(SessionWindows.with_gap(5).with_grace(100))
    pipe_all(driver, [("a", 1, 100), ("a", 1, 104)])
    assert driver.pipe("a", 1, 102) == [W("a", 100, 104, None, 104), W("a", 100, 104, 3, 104)]


def test_W_8_nothing_is_deleted_when_the_union_is_the_row_itself() -> None:
    driver = updates(FIVE_APART)
    driver.pipe("a", 1, 100)
    assert driver.pipe("a", 1, 100) == [W("a", 100, 100, 2, 100)]


def test_W_9_a_row_is_late_iff_the_union_ends_before_the_limit() -> None:
    driver = updates(SessionWindows.with_gap(5).with_grace(10))
    pipe_all(driver, [("z", 1, 200)])  # limit: 200 - 10 - 5 = 185
    assert driver.pipe("a", 1, 185) == [W("a", 185, 185, 1, 185)]
    assert driver.pipe("b", 1, 184) == []
    assert driver.dropped_late == 1


def test_W_9_an_old_row_that_bridges_into_an_open_session_is_accepted() -> None:
    driver = updates(SessionWindows.with_gap(5).with_grace(10))
    pipe_all(driver, [("a", 1, 186), ("z", 1, 200)])
    assert driver.pipe("a", 1, 181) == [W("a", 186, 186, None, 186), W("a", 181, 186, 2, 186)]
    assert driver.dropped_late == 0


def test_W_10_there_is_one_sliding_window_for_every_distinct_set_of_rows() -> None:
    driver = joined(SlidingWindows.of_difference(10).with_grace(1_000))
    out = pipe_all(driver, [("a", "x", 100), ("a", "y", 105), ("a", "z", 112)])
    last = {(each.start, each.end): each.value for each in out}
    assert last == {(90, 100): "x", (95, 105): "xy", (101, 111): "y", (102, 112): "yz", (106, 116): "z"}


def test_W_11_updates_of_one_row_go_from_the_latest_start_to_the_earliest_then_new_windows() -> None:
    driver = joined(SlidingWindows.of_difference(10).with_grace(1_000))
    pipe_all(driver, [("a", "x", 100), ("a", "y", 106)])
    assert driver.pipe("a", "z", 103) == [
        W("a", 101, 111, "yz", 106),  # contains 103: the latest start first
        W("a", 96, 106, "xyz", 106),
        W("a", 93, 103, "xz", 103),  # its left window: a copy of [90, 100], and the row
        W("a", 104, 114, "y", 106),  # its right window: what lies behind it, without the row
    ]


def test_W_11_the_window_right_after_the_previous_row_comes_before_the_left_window() -> None:
    driver = joined(SlidingWindows.of_difference(10).with_grace(1_000))
    driver.pipe("a", "x", 100)
    assert driver.pipe("a", "y", 108) == [W("a", 101, 111, "y", 108), W("a", 98, 108, "xy", 108)]


def test_W_11_the_window_right_after_the_previous_row_may_be_the_left_window_and_is_updated_twice() -> None:
    driver = joined(SlidingWindows.of_difference(10).with_grace(1_000))
    pipe_all(driver, [("a", "x", 95), ("a", "y", 100)])
    assert driver.pipe("a", "z", 111) == [W("a", 101, 111, "z", 111), W("a", 101, 111, "z", 111)]


def test_W_11_the_left_window_is_a_copy_when_the_previous_row_lies_on_its_very_start() -> None:
    driver = joined(SlidingWindows.of_difference(10).with_grace(1_000))
    driver.pipe("a", "x", 100)
    assert driver.pipe("a", "y", 110) == [W("a", 101, 111, "y", 110), W("a", 100, 110, "xy", 110)]


def test_W_11_a_second_row_of_the_same_instant_only_updates() -> None:
    driver = joined(SlidingWindows.of_difference(10).with_grace(1_000))
    driver.pipe("a", "x", 100)
    assert driver.pipe("a", "y", 100) == [W("a", 90, 100, "xy", 100)]


def test_W_12_rows_before_the_difference_share_one_left_window() -> None:
    driver = joined(SlidingWindows.of_difference(10).with_grace(1_000))
    assert driver.pipe("a", "x", 3) == [W("a", 0, 10, "x", 3)]
    assert driver.pipe("a", "y", 7) == [W("a", 4, 14, "y", 7), W("a", 0, 10, "xy", 7)]
    assert driver.pipe("a", "z", 5) == [
        W("a", 4, 14, "yz", 7),  # existing later windows ascending
        W("a", 6, 16, "y", 7),  # its own right window
        W("a", 0, 10, "xyz", 7),  # and the shared one last
    ]


def test_W_13_a_row_is_dropped_once_when_all_it_could_reach_is_closed() -> None:
    driver = updates(SlidingWindows.of_difference(10).with_grace(5))
    driver.pipe("z", 1, 200)  # limit 195
    assert driver.pipe("a", 1, 184) == []  # 184 + 10 < 195
    assert driver.dropped_late == 1


def test_W_13_a_single_update_is_refused_when_its_window_is_closed() -> None:
    driver = updates(SlidingWindows.of_difference(10).with_grace(5))
    pipe_all(driver, [("a", 1, 194), ("z", 1, 200)])
    # limit 195: its left window [177, 187] is closed, [184, 194] (it contains 187) too, its right window is open
    assert driver.pipe("a", 1, 187) == [W("a", 188, 198, 1, 194)]
    assert driver.dropped_late == 2


def test_W_13_a_window_whose_end_is_the_limit_is_still_open() -> None:
    driver = updates(SlidingWindows.of_difference(10).with_grace(5))
    driver.pipe("z", 1, 200)
    assert driver.pipe("a", 1, 195) == [W("a", 185, 195, 1, 195)]
