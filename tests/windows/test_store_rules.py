"""Retention, what Kafka's stores hide, side output of late rows."""

from __future__ import annotations

from typing import Any

import pytest

from streamactors import Sink, Source
from streamactors.errors import BuildError
from streamactors.windows import LateRecord, SessionWindows, SlidingWindows, TimeWindows
from tests.models.window_case import Case
from tests.windows.run_case import run
from tests.windows.words import R, W, emitted, finals, joined, pipe_all, updates

TEN = TimeWindows.of_size(10).with_grace(5)


@pytest.mark.parametrize(
    ("windows", "needed"),
    [
        (TEN, 15),
        (SessionWindows.with_gap(10).with_grace(5), 15),
        (SlidingWindows.of_difference(10).with_grace(5), 25),
    ],
)
def test_R_1_retention_must_cover_what_closing_takes(windows: Any, needed: int) -> None:
    updates(windows, retention=needed)
    with pytest.raises(ValueError, match=f"retention is {needed - 1} ms"):
        updates(windows, retention=needed - 1)


def test_R_1_grace_longer_than_retention_is_an_error() -> None:
    with pytest.raises(BuildError, match="make it at least that"):
        updates(TimeWindows.of_size("1m").with_grace("1h"), retention="30m")


def test_R_2_in_kafka_mode_emit_loses_windows_when_time_jumps() -> None:
    rows = [("a", 1, 3), ("a", 1, 12), ("a", 1, 1_000)]
    kafka = emitted(TEN, semantics="kafka")
    assert pipe_all(kafka, rows) == []  # starts 0 and 10 lie before 1000 - 15
    strict = emitted(TEN)
    assert pipe_all(strict, rows) == [W("a", 0, 10, 1, 3), W("a", 10, 20, 1, 12)]


def test_R_2_suppression_loses_nothing_in_either_mode() -> None:
    rows = [("a", 1, 3), ("a", 1, 12), ("a", 1, 1_000)]
    for semantics in ("strict", "kafka"):
        driver = finals(TEN, semantics=semantics)
        assert pipe_all(driver, rows) == [W("a", 0, 10, 1, 3), W("a", 10, 20, 1, 12)]


def test_R_2_in_kafka_mode_a_session_at_the_limit_is_not_found_for_merging() -> None:
    windows = SessionWindows.with_gap(5).with_grace(5)
    rows = [("a", "x", 100), ("z", "-", 110), ("a", "y", 102)]  # 100 <= 110 - 10: hidden, though still open
    assert pipe_all(joined(windows, semantics="kafka"), rows)[-1] == W("a", 102, 102, "y", 102)
    assert pipe_all(joined(windows), rows)[-1] == W("a", 100, 102, "+xy", 102)


def test_R_2_in_kafka_mode_a_sliding_window_that_is_hidden_tells_nothing_of_the_previous_row() -> None:
    windows = SlidingWindows.of_difference(10).with_grace(0)
    rows = [("a", "x", 80), ("z", "-", 100), ("a", "y", 90)]  # [70, 80] starts at 90 - (2 * 10 + 0): hidden
    strict, kafka = joined(windows), joined(windows, semantics="kafka")
    pipe_all(strict, rows)
    pipe_all(kafka, rows)
    assert strict.dropped_late == 2  # [81, 91], right after the previous row, and [80, 90]: both closed
    assert kafka.dropped_late == 1  # the previous row is not known any more


def test_R_3_late_rows_come_out_at_the_side_once_per_refused_window() -> None:
    driver = finals(TimeWindows.of_size(10).advance_by(5).with_grace(0))
    pipe_all(driver, [("a", 1, 100), ("a", 2, 88)])
    assert driver.late == [
        LateRecord(R("a", 2, 88), 80, 90, 100, 100),
        LateRecord(R("a", 2, 88), 85, 95, 100, 100),
    ]
    assert driver.dropped_late == len(driver.late) == 2
    assert driver.late[0].context is not None


def test_R_3_a_late_row_of_a_session_names_the_session_it_would_have_made() -> None:
    driver = finals(SessionWindows.with_gap(5).with_grace(0))
    pipe_all(driver, [("a", 1, 100), ("a", 2, 88)])
    assert driver.late == [LateRecord(R("a", 2, 88), 88, 88, 100, 95)]


def counted_late(late: Any = None) -> Any:
    """Run a stream with nine late rows to its end."""
    rows = [R("a", 1, 1_000)] + [R("a", 1, 5)] * 9
    windows = Source.from_iterable(rows).group_by_key().windowed_by(TEN, late=late)
    return windows.count().to_stream().run_with(Sink.to_list()).result(timeout=20)


def test_R_3_all_late_rows_are_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("WARNING", "streamactors.windows")
    counted_late()
    (line,) = caplog.messages
    assert line.partition(": ")[2].startswith("9 rows dropped as late, 90.0% of the 10 read since ")
    assert line.endswith("the last: key 'a' at 5 ms for window 0..10")


def test_late_rows_that_a_sink_receives_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    """The demo sends them to a topic, and printed 80 warnings that they were dropped between its lines of progress."""
    caplog.set_level("WARNING", "streamactors.windows")
    seen: list[LateRecord] = []
    counted_late(Sink.foreach(seen.append))
    assert len(seen) == 9
    assert caplog.records == []


def test_R_2_a_hidden_session_is_deleted_by_an_aggregate_of_none_with_the_same_times() -> None:
    windows, rows = ("session", 4, 8), (("a", "x", 0), ("a", "x", 12), ("a", "!", 0), ("a", "x", 13))
    case = Case(windows, "aggregate", (), rows, emits=True, semantics="kafka")  # 0 <= 12 - 12: [0, 0] is hidden
    assert run(case).released == [[], [], [], []]


def test_R_2_a_hidden_session_is_written_over_by_one_of_the_same_times() -> None:
    driver = emitted(SessionWindows.with_gap(2).with_grace(0), semantics="kafka")
    rows = [("z", 1, 28), ("a", 1, 26), ("a", 1, 26), ("z", 1, 29)]  # 26 <= 28 - 2: the first [26, 26] is hidden
    assert pipe_all(driver, rows) == [W("a", 26, 26, 1, 26)]
