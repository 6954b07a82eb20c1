"""emit_on_window_close(fill_empty=…): a key has a final result of each tumbling window, also of those without rows."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamactors.errors import BuildError
from streamactors.testing import WindowTestDriver
from streamactors.windows import SessionWindows, TimeWindows

SIZE, OFFSET = 10, 3
Result = tuple[str, int, int, int, int]


def build(records: Any, grace: int, keep: int) -> Any:
    windows = TimeWindows(SIZE, SIZE).with_offset(OFFSET).with_grace(grace)
    table = records.group_by_key().windowed_by(windows).count()
    return table.emit_on_window_close(fill_empty=keep).to_stream()


def shown(results: Any) -> list[Result]:
    assert all(each.is_final for each in results)
    return [(each.key, each.start, each.end, each.value, each.timestamp) for each in results]


def model(rows: list[tuple[str, int]], grace: int, keep: int) -> list[list[Result]]:
    """Each window is looked at, one after the other; nothing is looked up."""
    counts: dict[tuple[str, int], list[int]] = {}
    time, next_start, out = -1, OFFSET, []
    for key, at in rows:
        time = max(time, at)
        start = (at - OFFSET) // SIZE * SIZE + OFFSET
        if start >= 0 and start + SIZE + grace > time:
            counts.setdefault((key, start), []).append(at)
        released: list[Result] = []
        while next_start + SIZE + grace <= time:
            for name in "abc":
                found = counts.get((name, next_start))
                if found:
                    released.append((name, next_start, next_start + SIZE, len(found), max(found)))
                elif any(next_start - keep <= other < next_start for of, other in counts if of == name):
                    released.append((name, next_start, next_start + SIZE, 0, next_start + SIZE - 1))
            next_start += SIZE
        out.append(released)
    return out


ROWS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(3, 400)), max_size=14)
MOSTLY_IN_ORDER = st.one_of(ROWS, ROWS.map(lambda rows: sorted(rows, key=lambda row: row[1])))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    rows=MOSTLY_IN_ORDER,
    grace=st.sampled_from([0, 4, 25]),
    keep=st.sampled_from([1, 10, 25, 100]),
    restarts=st.integers(0, 3),
)
def test_results_equal_the_model_and_survive_restarts(rows, grace, keep, restarts) -> None:
    driver = WindowTestDriver(lambda records: build(records, grace, keep))
    changes: list[Any] = []
    found = []
    for number, (key, at) in enumerate(rows):
        found.append(shown(driver.pipe(key, 1, at)))
        if restarts and number % 4 == restarts:
            changes += driver.changes()
            driver.restart(changes)
    assert found == model(rows, grace, keep)


def test_a_key_gets_zeros_until_the_span_after_its_last_row_is_over() -> None:
    driver = WindowTestDriver(
        lambda records: (
            records.group_by_key()
            .windowed_by(TimeWindows.of_size("1h").with_no_grace())
            .count()
            .emit_on_window_close(fill_empty="2h")
            .to_stream()
        )
    )
    hour = 3_600_000
    driver.pipe("JFK", 1, 0)
    assert [(each.start // hour, each.value) for each in driver.pipe("LGA", 1, 10 * hour)] == [(0, 1), (1, 0), (2, 0)]


def test_an_aggregate_has_its_initial_value_and_each_result_its_own() -> None:
    driver = WindowTestDriver(
        lambda records: (
            records.group_by_key()
            .windowed_by(TimeWindows.of_size(SIZE).with_grace(0))
            .aggregate(list, lambda seen, value: [*seen, value])
            .emit_on_window_close(fill_empty=30)
            .to_stream()
        )
    )
    driver.pipe("a", "x", 1)
    first, second, third = driver.pipe("b", "y", 31)
    assert [first.value, second.value, third.value] == [["x"], [], []]
    assert second.value is not third.value


def test_the_end_of_the_input_fills_up_to_the_last_window_only() -> None:
    driver = WindowTestDriver(lambda records: build(records, 0, 100))
    driver.pipe("a", 1, 5)
    assert shown(driver.pipe("b", 1, 24)) == [("a", 3, 13, 1, 5), ("a", 13, 23, 0, 22)]
    assert shown(driver.end_of_input()) == [("a", 23, 33, 0, 32), ("b", 23, 33, 1, 24)]


def test_days_of_a_zone_are_filled_too() -> None:
    from datetime import datetime
    from zoneinfo import ZoneInfo

    driver = WindowTestDriver(
        lambda records: (
            records.group_by_key()
            .windowed_by(TimeWindows.of_size("1d").in_zone("Europe/Oslo").with_no_grace())
            .count()
            .emit_on_window_close(fill_empty="7d")
            .to_stream()
        )
    )
    at = [int(datetime(2026, 3, day, 12, tzinfo=ZoneInfo("Europe/Oslo")).timestamp() * 1_000) for day in (28, 31)]
    driver.pipe("OSL", 1, at[0])
    found = driver.pipe("OSL", 1, at[1])
    assert [((each.end - each.start) / 3_600_000, each.value) for each in found] == [(24, 1), (23, 0), (24, 0)]


@pytest.mark.parametrize(
    ("windows", "of", "message"),
    [
        (TimeWindows.of_size(10).advance_by(5).with_grace(0), "count", "needs tumbling windows"),
        (SessionWindows.with_gap(5).with_grace(0), "count", "needs tumbling windows"),
        (TimeWindows.of_size(10).with_grace(0), "reduce", "reduce has no value for a window without rows"),
    ],
)
def test_where_there_are_no_empty_windows_it_is_refused(windows: Any, of: str, message: str) -> None:
    def make(records: Any) -> Any:
        grouped = records.group_by_key().windowed_by(windows)
        table = grouped.count() if of == "count" else grouped.reduce(max)
        return table.emit_on_window_close(fill_empty="1h")

    with pytest.raises(BuildError, match=message):
        WindowTestDriver(make)
