"""What an aggregation takes, counts and forwards."""

from __future__ import annotations

from typing import Any

import pytest

from streamactors.testing.window_test_driver import WindowTestDriver
from streamactors.windows import SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows
from tests.windows.words import CLOSED, R, W, finals, joined, pipe_all, updates

TEN = TimeWindows.of_size(10).with_grace(100)
ALL = [
    TEN,
    TEN.advance_by(5),
    UnlimitedWindows.of(),
    SessionWindows.with_gap(5).with_grace(100),
    SlidingWindows.of_difference(5).with_grace(100),
]


@pytest.mark.expects_log("lies in January or February")
@pytest.mark.parametrize("windows", ALL)
def test_A_1_a_null_key_is_skipped_counted_and_moves_no_time(windows: Any) -> None:
    driver = finals(windows)
    driver.pipe("a", 1, 3)
    assert driver.pipe(None, 1, 10**9) == []
    assert driver.dropped_null == 1
    driver.pipe("a", 1, 4)
    assert driver.dropped_late == 0


@pytest.mark.parametrize("windows", ALL[:4])
def test_A_2_a_null_value_counts_in_time_and_session_windows(windows: Any) -> None:
    driver = updates(windows)
    driver.pipe("a", None, 3)
    assert driver.pipe("a", None, 3)[-1].value == 2
    assert driver.dropped_null == 0


def test_A_2_sliding_windows_skip_a_null_value_and_time_stands_still() -> None:
    driver = updates(SlidingWindows.of_difference(5).with_grace(0))
    driver.pipe("a", 1, 3)
    assert driver.pipe("a", None, 1_000) == []
    assert driver.dropped_null == 1
    assert driver.pipe("a", 1, 3) == [W("a", 0, 5, 2, 3)]


@pytest.mark.parametrize("how", ["count", "reduce", "aggregate"])
def test_A_2_aggregations_without_windows_skip_a_null_value(how: str) -> None:
    def build(records: Any) -> Any:
        grouped = records.group_by_key()
        if how == "count":
            return grouped.count()
        return grouped.reduce(max) if how == "reduce" else grouped.aggregate(int, lambda a, v: a + v)

    driver = WindowTestDriver(build)
    assert driver.pipe("a", None, 3) == []
    assert driver.dropped_null == 1
    assert driver.pipe("a", 1, 3) == [R("a", 1, 3)]


def test_A_3_the_timestamp_of_a_time_window_is_that_of_its_newest_row() -> None:
    driver = finals(TEN)
    pipe_all(driver, [("a", 1, 3), ("a", 1, 8), ("a", 1, 5)])
    assert driver.pipe("z", 1, 500) == [W("a", 0, 10, 3, 8)]


def test_A_3_the_timestamp_of_a_session_is_its_end() -> None:
    driver = updates(SessionWindows.with_gap(5).with_grace(100))
    driver.pipe("a", 1, 8)
    assert driver.pipe("a", 1, 4)[-1] == W("a", 4, 8, 2, 8)


def test_A_3_without_windows_it_is_the_largest_that_went_in() -> None:
    driver = WindowTestDriver(lambda records: records.group_by_key().count())
    assert pipe_all(driver, [("a", 1, 8), ("a", 1, 3)]) == [R("a", 1, 8), R("a", 2, 8)]


def test_A_3_a_table_has_the_timestamp_of_the_row_even_if_it_is_older() -> None:
    driver = WindowTestDriver(lambda records: records.to_table())
    assert pipe_all(driver, [("a", 1, 8), ("a", 2, 3)]) == [R("a", 1, 8), R("a", 2, 3)]


def _deleting(windows: Any) -> WindowTestDriver:
    def add(total: int, value: int) -> int | None:
        return None if value == 0 else total + value

    return WindowTestDriver(
        lambda records: records.group_by_key().windowed_by(windows).aggregate(int, add, lambda a, b: a + b)
    )


def test_A_4_none_deletes_and_the_next_row_starts_again_with_its_own_timestamp() -> None:
    driver = _deleting(TEN)
    rows = [("a", 5, 8), ("a", 0, 6), ("a", 7, 3)]
    assert pipe_all(driver, rows) == [W("a", 0, 10, 5, 8), W("a", 0, 10, None, 8), W("a", 0, 10, 7, 3)]


def test_A_4_it_is_so_in_final_results_too() -> None:
    def build(records: Any) -> Any:
        table = records.group_by_key().windowed_by(TEN)
        return table.aggregate(int, lambda a, v: None if v == 0 else a + v).suppress(CLOSED)

    driver = WindowTestDriver(build)
    pipe_all(driver, [("a", 5, 8), ("a", 0, 6), ("a", 7, 3), ("b", 0, 1)])
    assert driver.buffered.records == 2  # the deleted one of "b" keeps its place until it is due
    assert driver.pipe("z", 1, 110) == [W("a", 0, 10, 7, 3)]


def test_A_4_a_session_that_is_deleted_is_forgotten() -> None:
    driver = _deleting(SessionWindows.with_gap(5).with_grace(100))
    pipe_all(driver, [("a", 5, 8)])
    assert driver.pipe("a", 0, 10) == [W("a", 8, 8, None, 8), W("a", 8, 10, None, 10)]
    assert driver.pipe("a", 3, 9) == [W("a", 9, 9, 3, 9)]


def test_A_5_every_accepted_row_forwards_one_update_per_window() -> None:
    driver = updates(TEN.advance_by(5))
    driver.pipe("a", 1, 7)
    assert len(driver.pipe("a", 1, 7)) == 2


@pytest.mark.parametrize(("how", "old"), [("count", 8), ("reduce", 0)])
def test_A_6_the_old_value_of_the_first_update_is_the_initial_one(how: str, old: int) -> None:
    # It shows in the bytes of a suppressed entry: 8 + (key + 8) + prior + new + 20 + len("input").
    def build(records: Any) -> Any:
        windowed = records.group_by_key().windowed_by(TEN)
        return (windowed.count() if how == "count" else windowed.reduce(max)).suppress(CLOSED)

    driver = WindowTestDriver(build)
    driver.pipe("a", 5, 1)
    assert driver.buffered.bytes == 8 + 9 + old + 8 + 20 + 5


def test_A_6_a_session_has_no_old_value_and_its_deletion_has_no_new_one() -> None:
    driver = finals(SessionWindows.with_gap(5).with_grace(100))
    driver.pipe("a", 5, 1)
    one = 8 + 17 + 8 + 20 + 5
    assert driver.buffered == (1, one)
    driver.pipe("a", 5, 2)
    assert driver.buffered == (2, 2 * one)  # [1, 1] deleted: no new, old 8 bytes; [1, 2]: new 8 bytes, no old


def test_reduce_takes_the_first_value_as_it_is() -> None:
    driver = WindowTestDriver(lambda records: records.group_by_key().windowed_by(TEN).reduce(lambda a, b: a * b))
    assert [each.value for each in pipe_all(driver, [("a", 3, 1), ("a", 4, 2)])] == [3, 12]


@pytest.mark.parametrize("windows", ALL[:4])
def test_an_aggregate_changed_in_place_changes_no_other_result(windows: Any) -> None:
    def add(rows: list[Any], value: Any) -> list[Any]:
        rows.append(value)
        return rows

    driver = WindowTestDriver(
        lambda records: (
            records.group_by_key().windowed_by(windows).aggregate(list, add, lambda a, b: a + b)
        )
    )  # fmt: skip
    seen = [(each, list(each.value)) for at in (3, 4, 4) for each in driver.pipe("a", at, at) if each.value]
    assert all(each.value == then for each, then in seen)


def test_sliding_windows_do_not_share_an_aggregate_changed_in_place() -> None:
    def add(rows: list[Any], value: Any) -> list[Any]:
        rows.append(value)
        return rows

    windows = SlidingWindows.of_difference(10).with_grace(1_000)
    driver = WindowTestDriver(lambda records: records.group_by_key().windowed_by(windows).aggregate(list, add))
    text = joined(windows)
    rows = [("a", "x", 100), ("a", "y", 106), ("a", "z", 103), ("a", "w", 104)]
    assert ["".join(each.value) for each in pipe_all(driver, rows)] == [each.value for each in pipe_all(text, rows)]


def test_reduce_leaves_the_values_of_records_alone() -> None:
    def extend(old: list[int], new: list[int]) -> list[int]:
        old.extend(new)
        return old

    for build in (
        lambda records: records.group_by_key().windowed_by(TEN).reduce(extend),
        lambda records: records.group_by_key().windowed_by(TEN).reduce(extend).suppress(CLOSED),
        lambda records: records.group_by_key().reduce(extend),
    ):
        value = [1]
        driver = WindowTestDriver(build)
        driver.pipe("a", value, 1)
        driver.pipe("a", [2], 2)
        assert value == [1]
