"""What Kafka Streams does not have: idle close, early results, a timer that restarts, the end of an input, side output."""

from __future__ import annotations

from typing import Any

import pytest

from streamactors.errors import BuildError
from streamactors.testing.window_test_driver import WindowTestDriver
from streamactors.windows import SessionWindows, SlidingWindows, Suppressed, TimeWindows
from tests.windows.words import CLOSED, UNBOUNDED, R, W, emitted, finals, pipe_all

TEN = TimeWindows.of_size("10s").with_grace("5s")
GAP = SessionWindows.with_gap("5s").with_grace("5s")
SLIDING = SlidingWindows.of_difference("10s").with_grace("5s")
SECOND = 1_000


def test_idle_close_moves_stream_time_by_the_silence_beyond_the_timeout() -> None:
    driver = finals(TEN, idle_after="30s")
    driver.pipe("a", 1, 3 * SECOND)  # closes at 15 s, 12 s further on
    assert driver.advance_wall_clock("30s") == []
    assert driver.advance_wall_clock("11999ms") == []
    assert driver.advance_wall_clock("1ms") == [W("a", 0, 10 * SECOND, 1, 3 * SECOND)]


def test_silence_told_again_and_again_is_not_added_up() -> None:
    driver = finals(TEN, idle_after="30s")
    driver.pipe("a", 1, 3 * SECOND)
    driver.advance_wall_clock("30s")
    assert [driver.advance_wall_clock("1s") for _ in range(11)] == [[]] * 11
    assert len(driver.advance_wall_clock("1s")) == 1


@pytest.mark.parametrize("windows", [TEN, GAP, SLIDING, TEN.advance_by("5s")])
@pytest.mark.parametrize("semantics", ["strict", "kafka"])
def test_idle_close_gives_what_a_later_row_would_have_given(windows: Any, semantics: Any) -> None:
    for build in (finals, emitted):
        rows = [("a", 1, 21 * SECOND), ("b", 1, 22 * SECOND), ("a", 1, 25 * SECOND)]
        idle = build(windows, semantics=semantics, idle_after="1s")
        pipe_all(idle, rows)
        by_row = build(windows, semantics="strict" if build is emitted else semantics)  # a jump of rows loses some
        pipe_all(by_row, rows)
        closed_by_silence = idle.advance_wall_clock("1001s")
        assert closed_by_silence == [each for each in by_row.pipe("z", 1, 1_025 * SECOND) if each.key != "z"]
        assert len(closed_by_silence) > 1


def test_a_row_after_an_idle_close_is_late_so_a_final_result_comes_once() -> None:
    driver = finals(TEN, idle_after="30s")
    driver.pipe("a", 1, 3 * SECOND)
    assert len(driver.advance_wall_clock("1h")) == 1
    assert driver.pipe("a", 1, 4 * SECOND) == []
    assert driver.dropped_late == 1


def test_a_row_ends_the_silence() -> None:
    driver = finals(TEN, idle_after="30s")
    driver.pipe("a", 1, 3 * SECOND)
    driver.advance_wall_clock("41s")  # stream time 14 s
    driver.pipe("b", 1, 14 * SECOND)
    assert driver.advance_wall_clock("30s") == []  # counted anew
    assert len(driver.advance_wall_clock("1s")) == 1


def test_silence_before_the_first_row_moves_nothing() -> None:
    driver = finals(TEN, idle_after="1s")
    assert driver.advance_wall_clock("365d") == []
    driver.pipe("a", 1, 0)
    assert driver.dropped_late == 0


def test_without_idle_after_silence_releases_nothing() -> None:
    driver = finals(TEN)
    driver.pipe("a", 1, 3 * SECOND)
    assert driver.advance_wall_clock("365d") == []


def test_idle_after_can_be_given_to_suppress_to_emit_and_to_the_driver() -> None:
    for driver in (
        WindowTestDriver(
            lambda r: r.to_table().suppress(Suppressed.until_time_limit("5s", UNBOUNDED), idle_after="1s")
        ),
        WindowTestDriver(
            lambda r: r.to_table().suppress(Suppressed.until_time_limit("5s", UNBOUNDED)), idle_after="1s"
        ),
        WindowTestDriver(lambda r: r.group_by_key().windowed_by(TEN).count().emit_on_window_close(idle_after="1s")),
    ):
        driver.pipe("a", 1, 0)
        assert len(driver.advance_wall_clock("16s")) == 1


def test_idle_close_reaches_windows_behind_windows() -> None:
    driver = WindowTestDriver(
        lambda records: (
            records.group_by_key().windowed_by(TEN, idle_after="1s").count().suppress(CLOSED).to_stream()
            .key_by(lambda record: "all").windowed_by(TimeWindows.of_size("1m").with_grace(0)).count().suppress(CLOSED)
        )
    )  # fmt: skip
    pipe_all(driver, [("a", 1, 3 * SECOND), ("b", 1, 4 * SECOND)])
    assert driver.advance_wall_clock("1m") == [W("all", 0, 60 * SECOND, 2, 4 * SECOND)]


@pytest.mark.parametrize("windows", [TEN, GAP, SLIDING])
@pytest.mark.parametrize("semantics", ["strict", "kafka"])
def test_the_end_of_the_input_gives_out_everything_once(windows: Any, semantics: Any) -> None:
    for build in (finals, emitted):
        driver = build(windows, semantics=semantics)
        pipe_all(driver, [("b", 1, 21 * SECOND), ("a", 1, 21 * SECOND)])
        assert [each.key for each in driver.end_of_input()] == ["a", "b"]
        assert driver.end_of_input() == []
        assert driver.buffered == (0, 0)


def test_the_end_of_the_input_empties_time_limits_too() -> None:
    driver = WindowTestDriver(lambda r: r.to_table().suppress(Suppressed.until_time_limit("1d", UNBOUNDED)))
    pipe_all(driver, [("b", 1, 5), ("a", 2, 6)])
    assert driver.end_of_input() == [R("b", 1, 5), R("a", 2, 6)]


def test_early_results_pass_at_once_and_the_final_one_is_marked() -> None:
    early = Suppressed.until_window_closes(UNBOUNDED).with_early_results()
    driver = WindowTestDriver(lambda r: r.group_by_key().windowed_by(TEN).count().suppress(early))
    out = pipe_all(driver, [("a", 1, 1_000), ("a", 1, 2_000), ("z", 1, 15_000)])
    assert [(each.key, each.value, each.is_final) for each in out] == [
        ("a", 1, False), ("a", 2, False), ("z", 1, False), ("a", 2, True),
    ]  # fmt: skip


def test_early_results_can_be_thinned_out_by_stream_time() -> None:
    early = Suppressed.until_window_closes(UNBOUNDED).with_early_results(every="3s")
    driver = WindowTestDriver(lambda r: r.group_by_key().windowed_by(TEN).count().suppress(early))
    out = pipe_all(driver, [("a", 1, at * SECOND) for at in range(8)])
    assert [each.value for each in out] == [1, 4, 7]
    assert driver.end_of_input() == [W("a", 0, 10 * SECOND, 8, 7 * SECOND)]


def test_early_results_of_sessions_take_back_what_was_merged() -> None:
    early = Suppressed.until_window_closes(UNBOUNDED).with_early_results(every="1h")
    driver = WindowTestDriver(lambda r: r.group_by_key().windowed_by(GAP).count().suppress(early))
    out = pipe_all(driver, [("a", 1, 1_000), ("a", 1, 2_000)])
    assert out == [W("a", 1_000, 1_000, 1, 1_000), W("a", 1_000, 1_000, None, 1_000), W("a", 1_000, 2_000, 2, 2_000)]
    assert not any(each.is_final for each in out)
    assert [(each.value, each.is_final) for each in driver.end_of_input()] == [(2, True)]


def test_a_restarting_timer_waits_for_quiet() -> None:
    debounce = Suppressed.until_time_limit("10ms", UNBOUNDED).restart_timer_on_update()
    driver = WindowTestDriver(lambda records: records.to_table().suppress(debounce))
    pipe_all(driver, [("a", 1, 100), ("a", 2, 108), ("a", 3, 105)])  # older than the newest: the timer stays
    assert driver.pipe("z", 0, 117) == []
    assert driver.pipe("y", 0, 118) == [R("a", 3, 105)]


def test_a_restarted_timer_survives_a_restart() -> None:
    debounce = Suppressed.until_time_limit("10ms", UNBOUNDED).restart_timer_on_update()
    driver = WindowTestDriver(lambda records: records.to_table().suppress(debounce))
    pipe_all(driver, [("a", 1, 100), ("a", 2, 108)])
    driver.restart(driver.changes())
    assert driver.pipe("z", 0, 117) == []
    assert driver.pipe("z", 0, 118)[0] == R("a", 2, 108)


def test_extras_only_where_they_make_sense() -> None:
    with pytest.raises(BuildError, match="no timer to restart"):
        CLOSED.restart_timer_on_update()
    with pytest.raises(BuildError, match="no final results"):
        Suppressed.until_time_limit("1s", UNBOUNDED).with_early_results()


def test_late_rows_come_out_at_the_side_of_a_task_that_is_asked_for_them() -> None:
    from streamactors.windows import Record
    from streamactors.windows.topology.chain import Records, tasks_of

    def task(late: Any) -> Any:
        table = Records().group_by_key().windowed_by(TEN, late=late).count()
        return tasks_of(table.to_stream())()

    rows = [Record("a", 1, 100 * SECOND), Record("a", 1, 1)]
    for late, kept in (("a sink", 1), (None, 0)):
        under_test = task(late)
        under_test.process_chunk(rows)
        assert under_test.metrics.dropped_late == 1
        assert len(under_test.take_late()) == kept
        assert under_test.take_late() == []


def test_filter_on_a_table_gives_tombstones_and_none_to_none_is_silent() -> None:
    driver = WindowTestDriver(lambda r: r.group_by_key().count().filter(lambda n: n % 2 == 0))
    rows = [("a", 1, at) for at in range(1, 5)]
    # 1: old 0 passed the filter, so its going is told; 2; 3: a tombstone; 4
    assert [each.value for each in pipe_all(driver, rows)] == [None, 2, None, 4]


def test_map_values_keeps_keys_windows_timestamps_and_context() -> None:
    driver = WindowTestDriver(lambda r: r.group_by_key().windowed_by(TEN).count().map_values(lambda n: n * 10))
    (out,) = driver.pipe("a", 1, 7, headers=[("h", b"x")])
    assert out == W("a", 0, 10 * SECOND, 10, 7)
    assert out.context.headers == (("h", b"x"),)


def test_to_table_without_old_values_forwards_every_deletion() -> None:
    driver = WindowTestDriver(lambda r: r.to_table().filter(lambda v: v > 5))
    assert pipe_all(driver, [("a", 1, 1), ("a", None, 2)]) == [R("a", None, 1), R("a", None, 2)]


def test_a_windowed_stream_grouped_again_has_key_start_and_end_as_its_key() -> None:
    driver = WindowTestDriver(
        lambda r: r.group_by_key().windowed_by(TEN).count().to_stream().group_by_key().reduce(max)
    )
    assert driver.pipe("a", 1, 7) == [R(("a", 0, 10 * SECOND), 1, 7)]


def test_key_by_changes_the_key_and_drops_rows_without_one() -> None:
    driver = WindowTestDriver(lambda r: r.key_by(lambda record: record.value.get("city")).windowed_by(TEN).count())
    assert driver.pipe("x", {"city": "Kiel"}, 7) == [W("Kiel", 0, 10 * SECOND, 1, 7)]
    assert driver.pipe("x", {}, 7) == []
    assert driver.dropped_null == 1
