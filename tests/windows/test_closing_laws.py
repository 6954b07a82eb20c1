"""Laws of closing: when silence closes a window, what the store still holds, and sessions and panes in the middle of many."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from streamactors.codec import loads
from streamactors.testing.window_test_driver import WindowTestDriver
from streamactors.windows import BufferConfig, SessionWindows, SlidingWindows, Suppressed, TimeWindows
from streamactors.windows.state.store_log import META_KEY
from tests.models.window_case import Case, cases
from tests.windows.run_case import definition, driver, plain
from tests.windows.test_against_model import check
from tests.windows.words import CLOSED, limited

quiet = settings(deadline=None, suppress_health_check=list(HealthCheck))
IDLE_AFTER_MS = 7


def compacted(changes: list[Any], live: dict[bytes, bytes]) -> dict[bytes, bytes]:
    """`live` after these changelog entries, without metadata."""
    for change in changes:
        if change.key == META_KEY:
            continue
        if change.value is None:
            del live[change.key]
        else:
            live[change.key] = change.value
    return live


@settings(quiet, max_examples=150)
@given(case=cases(semantics="strict"), emits=st.booleans(), aggregate=st.sampled_from(["count", "reduce"]))
def test_silence_closes_the_first_window_at_the_millisecond_that_was_foretold(
    case: Case, emits: bool, aggregate: str
) -> None:
    assume(case.windows[0] not in ("none", "unlimited"))
    rows = tuple((key, "x", timestamp) for key, _, timestamp in case.rows)
    steps = () if emits else (("final", None, None),)
    case = Case(case.windows, aggregate, steps, rows, emits, "strict")
    under_test = driver(case, idle_after=f"{IDLE_AFTER_MS}ms")
    for row in rows:
        under_test.pipe(*row)
    silent_ms = 0
    assume(under_test._task.idle_due_ms() is not None)
    while (due_ms := under_test._task.idle_due_ms()) is not None:
        assert due_ms > silent_ms
        assert under_test.advance_wall_clock(f"{due_ms - 1 - silent_ms}ms") == []
        if under_test.advance_wall_clock("1ms"):
            return
        silent_ms = due_ms  # the place of a session that was merged into another: nothing to emit
    raise AssertionError("nothing was emitted")


@pytest.mark.parametrize("limit", [1, 10])
def test_silence_ends_a_time_limit_at_the_millisecond_that_was_foretold(limit: int) -> None:
    under_test = WindowTestDriver(
        lambda records: records.to_table().suppress(Suppressed.until_time_limit(limit, BufferConfig.unbounded())),
        idle_after=f"{IDLE_AFTER_MS}ms",
    )
    under_test.pipe("a", 1, 100)
    assert under_test._task.idle_due_ms() == IDLE_AFTER_MS + limit
    assert under_test.advance_wall_clock(f"{IDLE_AFTER_MS + limit - 1}ms") == []
    assert [plain(each) for each in under_test.advance_wall_clock("1ms")] == [("a", 1, 100)]
    assert under_test._task.idle_due_ms() is None


@pytest.mark.parametrize(
    ("windows", "closed_at"),
    [
        (TimeWindows.of_size(10).with_grace(5), 35),  # the window [20, 30)
        (SessionWindows.with_gap(10).with_grace(5), 39),  # the session [23, 23] is open while 23 >= time - 15
        (SlidingWindows.of_difference(10).with_grace(5), 29),  # the window [13, 23] is open while 23 >= time - 5
    ],
)
def test_after_the_end_of_the_input_the_suppress_buffer_keeps_the_time_that_closed_its_last_window(
    windows: Any, closed_at: int
) -> None:
    early = CLOSED.with_early_results("1h")  # early results keep the buffer apart from the aggregation
    under_test = WindowTestDriver(
        lambda records: records.group_by_key().windowed_by(windows).count(name="n").suppress(early.with_name("held"))
    )
    under_test.pipe("a", 1, 23)
    under_test.end_of_input()
    (meta,) = [
        change.value
        for change in under_test.changes()
        if change.key == META_KEY and change.store == "held-store" and change.value is not None
    ]
    assert loads(meta)[-1] == {"stream_time": closed_at}


@pytest.mark.parametrize("count", [7, 8, 9, 30])
def test_a_row_in_the_middle_of_many_sessions_of_a_key_joins_its_neighbours_only(count: int) -> None:
    rows = [("a", f"{at:02d}", at * 10) for at in range(count)]
    middle = count // 2 * 10
    for bridge in (middle + 2, middle + 5, middle - 5, -8 + 10, (count - 1) * 10 + 2):
        for aggregate in ("count", "aggregate"):
            check(Case(("session", 5, 1_000), aggregate, (), (*rows, ("a", "x", bridge), ("a", "y", middle)), False))


@settings(quiet, max_examples=60)
@given(
    times=st.lists(st.integers(0, 300), min_size=25, max_size=60),
    gap=st.integers(1, 4),
    finals=st.booleans(),
    aggregate=st.sampled_from(["count", "aggregate"]),
)
def test_many_open_sessions_of_a_key_are_as_the_model_says(
    times: list[int], gap: int, finals: bool, aggregate: str
) -> None:
    rows = tuple(("a", "x", at) for at in (*times, 1_000))
    check(Case(("session", gap, 500), aggregate, (("final", None, None),) if finals else (), rows))


@settings(quiet, max_examples=60)
@given(
    steps=st.lists(st.integers(-4, 9), min_size=20, max_size=60),
    difference=st.integers(0, 4),
    grace=st.integers(0, 4),
    aggregate=st.sampled_from(["count", "aggregate"]),
)
def test_sliding_windows_forget_all_panes_that_no_row_can_need_and_no_others(
    steps: list[int], difference: int, grace: int, aggregate: str
) -> None:
    times = [max(0, sum(steps[: at + 1])) for at in range(len(steps))]
    case = Case(("sliding", difference, grace), aggregate, (), tuple(("a", "x", at) for at in times))
    under_test = driver(case)

    def keeping_all(records: Any) -> Any:
        windowed = records.group_by_key().windowed_by(definition(case.windows), retention="1h")
        return windowed.count() if aggregate == "count" else windowed.aggregate(str, lambda text, _: text + "x")

    forgetting_nothing = WindowTestDriver(keeping_all)
    live: dict[bytes, bytes] = {}
    all_starts: dict[bytes, bytes] = {}
    for at, row in enumerate(case.rows):
        late = under_test.dropped_late
        wanted = forgetting_nothing.pipe(*row)
        assert under_test.pipe(*row) == wanted
        compacted(under_test.changes(), live)
        compacted(forgetting_nothing.changes(), all_starts)
        if under_test.dropped_late == late:  # an accepted row looks at the panes of its key
            newest = max(loads(value)[1] for value in all_starts.values())
            limit = max(times[: at + 1]) - grace
            kept_from = min(limit - 3 * difference, newest - (2 * difference + grace))
            assert set(live) == {k for k, value in all_starts.items() if loads(value)[1] >= kept_from}


@pytest.mark.parametrize(
    "windows",
    [
        TimeWindows.of_size(10).with_grace(5),
        TimeWindows.of_size(10).advance_by(5).with_grace(5),
        SessionWindows.with_gap(10).with_grace(5),
        SlidingWindows.of_difference(10).with_grace(5),
    ],
)
def test_the_windows_of_a_key_without_new_rows_leave_the_store_when_retention_is_over(windows: Any) -> None:
    under_test = WindowTestDriver(lambda records: records.group_by_key().windowed_by(windows).count())
    under_test.pipe("a", 1, 0)
    live = compacted(under_test.changes(), {})
    assert any(key.startswith(b"\x01a") for key in live)
    for at in range(5, 300, 5):
        under_test.pipe("b", 1, at)
        compacted(under_test.changes(), live)
        if at < windows.shortest_retention_ms:
            assert any(key.startswith(b"\x01a") for key in live), at
    assert not any(key.startswith(b"\x01a") for key in live)
    assert len(live) <= 60


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(10, 35)), max_size=12))
@settings(max_examples=60, deadline=None)
def test_sliding_windows_of_later_rows_are_the_same_windows_later(rows: list[tuple[str, int]]) -> None:
    """From the time difference on no window begins before zero, so only the distance between the rows counts."""

    def given_out(later: int) -> list[tuple[Any, ...]]:
        driver = WindowTestDriver(
            lambda records: records.group_by_key().windowed_by(SlidingWindows.of_difference(10).with_grace(50)).count()
        )
        out = [each for key, time in rows for each in driver.pipe(key, 1, time + later)]
        return [(each.key, each.start - later, each.end - later, each.value, each.timestamp - later) for each in out]

    assert given_out(0) == given_out(1_000)


@given(st.lists(st.integers(0, 35), max_size=8))
@settings(max_examples=150, deadline=None)
def test_the_windows_of_rows_within_the_grace_do_not_depend_on_their_order(times: list[int]) -> None:
    """Each row has the window that ends with it, or [0, difference] near zero, and the window behind it if that has a row."""

    def newest(of: list[int]) -> dict[tuple[int, int], int]:
        driver = WindowTestDriver(
            lambda records: records.group_by_key().windowed_by(SlidingWindows.of_difference(10).with_grace(100)).count()
        )
        return {(each.start, each.end): each.value for time in of for each in driver.pipe("a", 1, time)}

    wanted = {}
    for start in {max(0, time - 10) for time in times} | {time + 1 for time in times}:
        inside = sum(start <= time <= start + 10 for time in times)
        if inside:
            wanted[start, start + 10] = inside
    assert newest(times) == newest(sorted(times)) == wanted


def test_a_debounce_moves_an_entry_to_its_new_place_and_no_further() -> None:
    under_test = WindowTestDriver(
        lambda records: records.to_table().suppress(
            Suppressed.until_time_limit(10, BufferConfig.unbounded()).restart_timer_on_update()
        )
    )
    assert under_test.pipe("a", 1, 0) + under_test.pipe("a", 2, 8) + under_test.pipe("b", 1, 17) == []
    assert [plain(each) for each in under_test.pipe("b", 2, 18)] == [("a", 2, 8)]


def test_a_time_limit_lets_go_at_the_limit_and_not_a_millisecond_before() -> None:
    under_test = limited(10)
    assert under_test.pipe("a", 1, 5) + under_test.pipe("b", 1, 14) == []
    assert [plain(each) for each in under_test.pipe("b", 2, 15)] == [("a", 1, 5)]
