"""Each buffer of windows and joins has a gauge: its level, and its declared bound in a number or in words."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest

from streamactors.gauges import Gauge, live_gauges, overfull
from streamactors.testing import TopologyDriver, WindowTestDriver
from streamactors.windows import (
    BufferConfig,
    BufferFull,
    JoinWindows,
    SessionWindows,
    SlidingWindows,
    Suppressed,
    TimeWindows,
)
from tests.windows.words import emitted, finals, limited, pipe_all

TEN = TimeWindows.of_size(10).with_grace(0)
KEYS = [(f"k{n}", n, 1) for n in range(6)]


class Gauges:
    """Finds the gauge with a part of a name among those that were made since `forget`."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self._known = {id(gauge): gauge for gauge in live_gauges()}

    def __call__(self, part: str) -> Gauge:
        [gauge] = [each for each in live_gauges() if id(each) not in self._known and part in each.name]
        return gauge


@pytest.fixture
def gauge_of() -> Gauges:
    return Gauges()


@pytest.mark.parametrize("most", [6, 9])
def test_a_suppression_of_few_entries_declares_their_number(gauge_of: Gauges, most: int) -> None:
    driver = limited(10, BufferConfig.max_records(most).shut_down_when_full())
    gauge = gauge_of(": entries that are held back")
    pipe_all(driver, KEYS)
    assert (gauge.level, gauge.bound, gauge.unit) == (6, most, "entries")
    if most == 6:
        with pytest.raises(BufferFull):
            driver.pipe("one more", 1, 1)
    else:
        driver.pipe("later", 1, 20)
    assert gauge.highest == 6
    assert overfull() == []


def test_a_suppression_that_emits_early_is_full_at_its_bound_and_never_above(gauge_of: Gauges) -> None:
    driver = limited(10, BufferConfig.max_records(2).with_max_bytes(10_000).emit_early_when_full())
    entries, size = gauge_of(": entries that are held back"), gauge_of("bytes of entries")
    pipe_all(driver, KEYS)
    assert (entries.level, entries.highest, entries.bound) == (2, 2, 2)
    assert 0 < size.level == driver.buffered.bytes <= size.bound == 10_000
    driver.end_of_input()
    assert (entries.level, size.level) == (0, 0)
    assert overfull() == []


def test_a_suppression_without_a_number_names_its_limit_of_time(gauge_of: Gauges) -> None:
    driver = limited(10)
    gauge = gauge_of(": entries that are held back")
    pipe_all(driver, KEYS)
    assert (gauge.level, gauge.bound, gauge.bounded_by) == (6, inf, "10 ms of stream time")
    driver.pipe("z", 1, 11)
    assert (gauge.level, gauge.highest) == (1, 6)


@pytest.mark.parametrize("build", [finals, emitted])
def test_open_windows_with_final_results_are_counted(gauge_of: Gauges, build: Any) -> None:
    driver = build(TEN)
    gauge = gauge_of("entries of open windows")
    pipe_all(driver, KEYS)
    assert (gauge.level, gauge.bounded_by) == (
        driver.buffered.records if build is finals else 6,
        "size and grace of the windows",
    )
    driver.end_of_input()
    assert (gauge.level, gauge.highest) == (0, 6)


def test_open_windows_of_a_bounded_suppression_declare_its_number(gauge_of: Gauges) -> None:
    bounded = Suppressed.until_window_closes(BufferConfig.max_records(6).shut_down_when_full())
    driver = WindowTestDriver(lambda records: records.group_by_key().windowed_by(TEN).count().suppress(bounded))
    gauge = gauge_of("entries of open windows")
    pipe_all(driver, KEYS)
    assert (gauge.level, gauge.bound) == (6, 6)
    with pytest.raises(BufferFull):
        driver.pipe("one more", 1, 1)
    assert overfull() == []


@pytest.mark.parametrize(
    "windows", [SessionWindows.with_gap(5).with_grace(0), SlidingWindows.of_difference(5).with_grace(0)]
)
def test_sessions_and_sliding_windows_that_wait_for_their_end_are_counted(gauge_of: Gauges, windows: Any) -> None:
    driver = emitted(windows)
    gauge = gauge_of("windows that wait for their end")
    pipe_all(driver, KEYS)
    assert (gauge.level, gauge.bounded_by) == (6, "length and grace of the windows")
    driver.pipe("z", 1, 99)
    assert (gauge.level, gauge.highest) == (1, 6)


@pytest.mark.parametrize("restarts", [False, True])
def test_the_rows_of_a_join_of_streams_are_counted_until_they_expire(gauge_of: Gauges, restarts: bool) -> None:
    driver = TopologyDriver(
        lambda topics: topics.stream("l").join(
            topics.stream("r"), lambda left, right: 1, JoinWindows.of(10).with_grace(5), how="left", name="pairs"
        )
    )
    for key, value, time in KEYS:
        driver.pipe("l", key, value, timestamp=time)
    changes = driver.changes()
    left, waiting = gauge_of("pairs-left: rows"), gauge_of("pairs-waiting")
    assert (left.level, left.bounded_by, waiting.level) == (6, "windows and grace, 25 ms", 6)
    if restarts:
        gauge_of.forget()
        driver.restart(changes)
        left, waiting = gauge_of("pairs-left: rows"), gauge_of("pairs-waiting")
    driver.pipe("r", "k1", 1, timestamp=2)
    driver.pipe("l", "later", 1, timestamp=99)
    driver.changes()
    assert (left.level, gauge_of("pairs-right: rows").level) == (1, 0)
    assert waiting.level == 1


def test_rows_that_wait_for_a_versioned_table_are_counted(gauge_of: Gauges) -> None:
    driver = TopologyDriver(
        lambda topics: topics.stream("l").join_table(
            topics.table("r", history=100, name="r"), lambda left, right: 1, grace=20, how="left", name="held"
        )
    )
    gauge = gauge_of("rows that wait for the table")
    for key, value, time in KEYS:
        driver.pipe("l", key, value, timestamp=time)
    assert (gauge.level, gauge.bounded_by) == (6, "the grace of 20 ms")
    driver.pipe("l", "later", 1, timestamp=30)
    assert (gauge.level, gauge.highest) == (1, 6)
