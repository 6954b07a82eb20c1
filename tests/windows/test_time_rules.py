"""Stream time: what moves it and what does not."""

from __future__ import annotations

import pytest

from streamactors.testing.window_test_driver import WindowTestDriver
from streamactors.windows import Record, RecordContext, SessionWindows, Suppressed, TaskIdentity, TimeWindows
from streamactors.windows.topology.chain import Records, tasks_of
from tests.windows.words import CLOSED, UNBOUNDED, W, finals, limited, pipe_all

TEN = TimeWindows.of_size(10).with_grace(0)


def test_T_1_stream_time_is_the_largest_timestamp_and_never_goes_back() -> None:
    driver = finals(TEN)
    driver.pipe("a", 1, 25)
    driver.pipe("a", 1, 21)  # older: accepted, and time stays at 25
    assert driver.pipe("a", 1, 29) == []
    driver.pipe("a", 1, 19)  # its window closed at 20
    assert driver.dropped_late == 1
    assert driver.pipe("a", 1, 30) == [W("a", 20, 30, 3, 29)]


def test_T_1_stream_time_is_shared_by_all_keys_of_a_task() -> None:
    driver = finals(TEN)
    driver.pipe("a", 1, 5)
    assert driver.pipe("b", 1, 10) == [W("a", 0, 10, 1, 5)]


def test_T_1_two_partitions_never_share_time() -> None:
    counts = Records().group_by_key().windowed_by(TEN).count()
    factory = tasks_of(counts.suppress(CLOSED).to_stream())
    first, second = factory(TaskIdentity("x", 0, 2)), factory(TaskIdentity("x", 1, 2))
    first.process_chunk([Record("a", 1, 5)])
    second.process_chunk([Record("b", 1, 1_000)])
    assert first.process_chunk([Record("a", 1, 6)]) == []
    assert first.metrics.dropped_late == 0


def test_T_1_the_suppression_has_a_time_of_its_own_fed_by_the_updates_it_is_given() -> None:
    # The filter in front keeps updates away from the buffer, so its time stands still while the aggregation's goes on.
    driver = WindowTestDriver(
        lambda records: (
            records.filter(lambda record: True).to_table().filter(lambda value: value == "keep")
            .suppress(Suppressed.until_time_limit(10, UNBOUNDED))
        )
    )  # fmt: skip
    driver.pipe("a", "keep", 0)
    assert driver.pipe("b", "drop", 100) == []  # None to None is not forwarded: the buffer never hears of it
    assert driver.pipe("c", "keep", 10) == [Record("a", "keep", 0)]


def test_T_2_neither_wall_clock_nor_commits_nor_shutdown_release_anything() -> None:
    driver = finals(TEN)
    driver.pipe("a", 1, 5)
    assert driver.advance_wall_clock("365d") == []
    assert driver.changes() != []
    assert driver.advance_wall_clock("365d") == []
    assert driver.buffered.records == 1


def test_T_2_a_record_for_any_other_key_of_the_partition_releases_the_last_windows() -> None:
    driver = finals(TEN)
    pipe_all(driver, [("a", 1, 1), ("b", 1, 2)])
    assert driver.pipe("z", 1, 500) == [W("a", 0, 10, 1, 1), W("b", 0, 10, 1, 2)]


@pytest.mark.parametrize("windows", [TEN, SessionWindows.with_gap(5).with_grace(0)])
def test_T_3_a_negative_timestamp_is_skipped_and_counted(windows: object) -> None:
    driver = finals(windows)
    assert driver.pipe("a", 1, -1) == []
    assert (driver.dropped_negative, driver.metrics.dropped) == (1, 1)
    assert driver.buffered.records == 0


def test_T_3_a_negative_timestamp_is_skipped_by_tables_too() -> None:
    driver = limited(0)
    assert driver.pipe("a", 1, -5) == []
    assert driver.dropped_negative == 1


def test_T_3_a_negative_timestamp_behind_others_does_not_count_as_late() -> None:
    driver = finals(TEN)
    pipe_all(driver, [("a", 1, 100), ("a", 1, -100)])
    assert (driver.dropped_negative, driver.dropped_late) == (1, 0)


def test_the_context_says_nothing_about_time() -> None:
    driver = finals(TEN)
    late = Record("a", 1, 5, RecordContext("other", 7, 99))
    driver.pipe_all([late])
    assert driver.pipe("a", 1, 10)[0].context == late.context
