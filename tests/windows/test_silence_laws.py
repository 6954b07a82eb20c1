"""Silence: a task names the moment at which it emits next, and it emits at this moment and not before."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamactors.testing import TopologyDriver
from streamactors.testing.window_test_driver import WindowTestDriver
from streamactors.windows import BufferConfig, JoinWindows, SessionWindows, SlidingWindows, Suppressed, TimeWindows

IDLE_AFTER_MS = 50
WINDOWS = {
    "time": TimeWindows.of_size(10).with_grace(3),
    "hopping": TimeWindows.of_size(10).advance_by(5).with_grace(0),
    "session": SessionWindows.with_gap(4).with_grace(2),
    "sliding": SlidingWindows.of_difference(6).with_grace(2),
}
ROWS = st.lists(st.tuples(st.sampled_from(["left", "right"]), st.sampled_from("ab"), st.integers(0, 40)), max_size=15)


def windowed(kind: str, semantics: Any, held_by: str) -> WindowTestDriver:
    def build(records: Any) -> Any:
        table = records.group_by_key().windowed_by(WINDOWS[kind], semantics=semantics).count()
        if held_by == "close":
            return table.emit_on_window_close().to_stream()
        if held_by == "suppress":
            return table.suppress(Suppressed.until_window_closes(BufferConfig.unbounded())).to_stream()
        return table.suppress(Suppressed.until_time_limit(7, BufferConfig.unbounded())).to_stream()

    return WindowTestDriver(build, idle_after=f"{IDLE_AFTER_MS}ms")


def joined(how: Any, semantics: Any) -> TopologyDriver:
    windows = JoinWindows.of(5).after(8).with_grace(3)
    return TopologyDriver(
        lambda topics: topics.stream("left").join(
            topics.stream("right"), lambda left, right: (left, right), windows, how=how, semantics=semantics
        ),
        idle_after=f"{IDLE_AFTER_MS}ms",
    )


def check(driver: Any, *, early: bool = False) -> None:
    """Let the input be silent step by step, as the stage does it: until the task names no moment any more.

    `early`: it may name the end of a session that was merged, at which nothing is emitted; this costs a look."""
    task, last_ms = driver._task, 0
    for _ in range(100):
        due_ms = task.idle_due_ms()
        if due_ms is None:
            assert task.idle(10**9) == [], "a task that holds something names the moment at which it emits it"
            return
        assert due_ms > max(last_ms, IDLE_AFTER_MS)
        assert task.idle(due_ms - 1) == []
        assert task.idle(due_ms) != [] or early
        last_ms = due_ms
    raise AssertionError("the task still emits after the last moment")


@pytest.mark.parametrize("held_by", ["close", "suppress", "limit"])
@pytest.mark.parametrize("semantics", ["strict", "kafka"])
@pytest.mark.parametrize("kind", WINDOWS)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(rows=ROWS)
def test_windows_emit_at_the_moment_that_they_name(kind: str, semantics: Any, held_by: str, rows: Any) -> None:
    driver = windowed(kind, semantics, held_by)
    for _, key, time in rows:
        driver.pipe(key, "x", time)
    check(driver, early=kind == "session")


@pytest.mark.parametrize("how", ["left", "outer"])
@pytest.mark.parametrize("semantics", ["strict", "kafka"])
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(rows=ROWS)
def test_joins_emit_at_the_moment_that_they_name(how: Any, semantics: Any, rows: Any) -> None:
    driver = joined(how, semantics)
    for topic, key, time in rows:
        driver.pipe(topic, key, "x", time)
    check(driver)


@pytest.mark.parametrize("how", ["inner", "left"])
@pytest.mark.parametrize("semantics", ["strict", "kafka"])
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(rows=ROWS)
def test_rows_that_wait_for_a_table_with_history_are_joined_at_the_moment_that_they_name(
    how: Any, semantics: Any, rows: Any
) -> None:
    driver = TopologyDriver(
        lambda topics: topics.stream("left").join_table(
            topics.table("right", history=1_000), lambda left, right: (left, right), how=how, grace=7
        ),
        semantics=semantics,
        idle_after=f"{IDLE_AFTER_MS}ms",
    )
    for key in "ab":
        driver.pipe("right", key, "there", 0)
    newest = -1
    for topic, key, time in rows:
        if topic == "left":
            newest = max(newest, time)
            for each in driver.pipe(topic, key, "x", time):
                assert each.record.timestamp <= max(newest - 7, time if semantics == "kafka" else -1)
    check(driver)
