"""emit_on_window_close, and where strict and Kafka's semantics part."""

from __future__ import annotations

from typing import Any

import pytest

from streamactors.errors import BuildError
from streamactors.testing.window_test_driver import WindowTestDriver
from streamactors.windows import RecordContext, SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows
from tests.windows.words import CLOSED, W, emitted, finals, pipe_all

TEN = TimeWindows.of_size(10).with_grace(0)
GAP = SessionWindows.with_gap(5).with_grace(0)
SLIDING = SlidingWindows.of_difference(10).with_grace(0)


def test_B_3_kafka_mode_releases_a_session_that_may_still_change() -> None:
    driver = finals(SessionWindows.with_gap(5).with_grace(5), semantics="kafka")
    driver.pipe("a", 1, 100)
    assert driver.pipe("z", 1, 110) == [W("a", 100, 100, 1, 100)]  # end 100 <= 110 - 5 - 5
    assert driver.dropped_late == 0
    assert driver.pipe("a", 1, 100) == [W("a", 100, 100, 1, 100)]  # accepted, and not merged: the store hides it
    assert driver.pipe("a", 1, 101) == []


def test_B_3_strict_mode_keeps_it_until_it_cannot_change() -> None:
    driver = finals(SessionWindows.with_gap(5).with_grace(5))
    driver.pipe("a", 1, 100)
    assert driver.pipe("z", 1, 110) == []
    driver.pipe("a", 1, 100)
    assert driver.pipe("z", 1, 111) == [W("a", 100, 100, 2, 100)]


def test_B_3_with_no_grace_every_sliding_window_of_the_newest_row_goes_twice_in_kafka_mode() -> None:
    kafka = finals(SLIDING, semantics="kafka")
    assert kafka.pipe("a", 1, 100) == [W("a", 90, 100, 1, 100)]
    assert kafka.pipe("a", 1, 100) == [W("a", 90, 100, 2, 100)]
    strict = finals(SLIDING)
    assert pipe_all(strict, [("a", 1, 100), ("a", 1, 100)]) == []
    assert strict.pipe("a", 1, 101) == [W("a", 90, 100, 2, 100)]


def test_B_3_in_strict_mode_a_closed_session_is_never_merged() -> None:
    # The row at 105 would join [100, 100], whose result is out, and reach into the open session [109, 109].
    rows = [("a", 1, 100), ("z", 1, 112), ("a", 1, 109), ("a", 1, 105)]
    windows = SessionWindows.with_gap(6).with_grace(5)
    strict = finals(windows)
    assert pipe_all(strict, rows) == [W("a", 100, 100, 1, 100)]
    assert strict.pipe("z", 1, 200)[0] == W("a", 105, 109, 2, 109)


@pytest.mark.parametrize("semantics", ["strict", "kafka"])
def test_B_4_time_windows_are_emitted_once_when_their_end_is_reached(semantics: Any) -> None:
    driver = emitted(TimeWindows.of_size(10).with_grace(2), semantics=semantics)
    pipe_all(driver, [("b", 1, 3), ("a", 1, 4), ("b", 1, 11)])
    assert driver.pipe("a", 1, 12) == [W("a", 0, 10, 1, 4), W("b", 0, 10, 1, 3)]
    assert driver.pipe("a", 1, 13) == []
    assert driver.pipe("a", 1, 22) == [W("a", 10, 20, 2, 13), W("b", 10, 20, 1, 11)]


@pytest.mark.parametrize("semantics", ["strict", "kafka"])
def test_B_4_sessions_and_sliding_windows_are_emitted_when_their_end_is_passed(semantics: Any) -> None:
    sessions = emitted(GAP, semantics=semantics)
    sessions.pipe("a", 1, 100)
    assert sessions.pipe("z", 1, 105) == []
    assert sessions.pipe("z", 1, 106) == [W("a", 100, 100, 1, 100)]
    sliding = emitted(SLIDING, semantics=semantics)
    sliding.pipe("a", 1, 100)
    assert sliding.pipe("z", 1, 100) == []
    assert sliding.pipe("z", 1, 101) == [W("a", 90, 100, 1, 100), W("z", 90, 100, 1, 100)]


def test_B_4_sessions_go_by_end_then_start_then_key() -> None:
    driver = emitted(SessionWindows.with_gap(1).with_grace(50))
    pipe_all(driver, [("b", 1, 99), ("b", 1, 100), ("c", 1, 100), ("a", 1, 100), ("z", 1, 98)])
    released = driver.pipe("y", 1, 500)
    assert [(each.key, each.start, each.end) for each in released] == [
        ("z", 98, 98), ("b", 99, 100), ("a", 100, 100), ("c", 100, 100),
    ]  # fmt: skip


def test_B_4_time_and_sliding_windows_go_by_start_then_key() -> None:
    driver = emitted(SlidingWindows.of_difference(10).with_grace(50))
    pipe_all(driver, [("b", 1, 100), ("a", 1, 101), ("c", 1, 99)])
    assert [(each.key, each.start) for each in driver.pipe("y", 1, 500)] == [("c", 89), ("b", 90), ("a", 91)]


def test_B_4_a_key_comes_before_one_that_it_begins() -> None:
    driver = emitted(TEN)
    pipe_all(driver, [("a\x00", 1, 11), ("a", 1, 11), ("é", 1, 11)])
    assert [each.key for each in driver.pipe("z", 1, 20)] == ["a", "a\x00", "é"]


def test_B_4_what_was_deleted_is_not_emitted() -> None:
    def build(records: Any) -> Any:
        windowed = records.group_by_key().windowed_by(TEN)
        return windowed.aggregate(
            int, lambda total, value: None if value == 0 else total + value
        ).emit_on_window_close()

    driver = WindowTestDriver(build)
    pipe_all(driver, [("a", 1, 1), ("b", 1, 1), ("a", 0, 2)])
    assert driver.pipe("z", 1, 10) == [W("b", 0, 10, 1, 1)]


@pytest.mark.parametrize("windows", [TEN, GAP, SLIDING])
def test_B_4_results_are_marked_final_and_nothing_is_buffered(windows: Any) -> None:
    driver = emitted(windows)
    driver.pipe("a", 1, 15)
    assert driver.buffered == (0, 0)
    assert all(each.is_final for each in driver.pipe("z", 1, 500))


@pytest.mark.parametrize("windows", [TEN, GAP, SLIDING])
def test_in_kafka_mode_the_row_that_closes_a_window_gives_its_headers(windows: Any) -> None:
    for semantics, headers in (("kafka", (("h", b"closing"),)), ("strict", (("h", b"last"),))):
        driver = emitted(windows, semantics=semantics)
        driver.pipe("a", 1, 15, headers=[("h", b"last")])
        (first, *_) = driver.pipe("z", 1, 25, headers=[("h", b"closing")])
        assert isinstance(first.context, RecordContext)
        assert first.context.headers == (() if windows is GAP and semantics == "strict" else headers)


def test_emit_on_window_close_must_stand_behind_the_aggregation() -> None:
    with pytest.raises(BuildError, match="directly after count"):
        WindowTestDriver(
            lambda records: records.group_by_key().windowed_by(TEN).count().map_values(str).emit_on_window_close()
        )
    with pytest.raises(BuildError, match="never closes"):
        emitted(UnlimitedWindows.of())


def test_emitted_results_can_be_suppressed_like_any_table() -> None:
    driver = WindowTestDriver(
        lambda records: records.group_by_key().windowed_by(TEN).count().emit_on_window_close().suppress(CLOSED)
    )
    pipe_all(driver, [("a", 1, 1), ("b", 1, 1), ("a", 1, 2)])
    assert driver.pipe("z", 1, 10) == []  # the results move the buffer's own time only to 2
    assert driver.pipe("z", 1, 25) == [W("a", 0, 10, 2, 2), W("b", 0, 10, 1, 1)]
