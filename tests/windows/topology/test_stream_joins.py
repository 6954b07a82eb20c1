"""Stream-stream joins: strict against the plain model, and each oddity of Kafka Streams that strict does not copy."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamactors.errors import BuildError
from streamactors.testing import TopologyDriver
from streamactors.windows import JoinWindows
from streamactors.windows.errors import RestoreError
from tests.models.strict_join_model import StrictJoin


def driver_of(before: int, after: int, grace: int, how: Any, semantics: Any = "strict") -> TopologyDriver:
    windows = JoinWindows.of(1_000).before(before).after(after).with_grace(grace)
    return TopologyDriver(
        lambda topics: topics.stream("left").join(
            topics.stream("right"), lambda left, right: (left, right), windows, how=how, semantics=semantics
        )
    )


def plain(outputs: list[Any]) -> list[tuple[Any, ...]]:
    return [(each.record.key, *each.record.value, each.record.timestamp) for each in outputs]


ROWS = st.lists(
    st.tuples(
        st.sampled_from(["left", "right"]),
        st.sampled_from(["a", "b", None]),
        st.sampled_from(["x", "y", "z", None]),
        st.integers(0, 40),
    ),
    max_size=25,
)


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    ROWS,
    st.sampled_from([(0, 0), (1, 1), (5, 5), (10, 2), (0, 8), (-3, 10), (10, -3)]),
    st.sampled_from([0, 4, 15]),
    st.sampled_from(["inner", "left", "outer"]),
)
def test_strict_joins_are_as_the_model_says(rows: Any, reach: tuple[int, int], grace: int, how: str) -> None:
    driver, model = driver_of(*reach, grace, how), StrictJoin(*reach, grace, how)
    restarted: list[Any] = []
    for at, row in enumerate(rows):
        assert plain(driver.pipe(*row)) == model.step(row)
        if at % 7 == 6:
            restarted += driver.changes()
            dropped = driver.dropped
            driver.restart(restarted)
            model.dropped -= dropped
    assert driver.dropped == model.dropped


def test_a_match_is_found_in_any_order_and_has_the_later_time_and_the_headers_of_the_last_row() -> None:
    driver = driver_of(5, 5, 10, "inner")
    driver.pipe("left", "a", "l", 10, headers=[("h", b"1")])
    [output] = driver.pipe("right", "a", "r", 7, headers=[("h", b"2")])
    assert plain([output]) == [("a", "l", "r", 10)]
    assert output.record.context.headers == (("h", b"2"),)


def test_strict_drops_and_counts_a_late_row_where_kafka_joins_it() -> None:
    rows = [("left", "a", "l", 100), ("right", "b", "r", 100), ("left", "a", "old", 5), ("right", "a", "old", 5)]
    strict, kafka = driver_of(10, 10, 0, "inner"), driver_of(10, 10, 0, "inner", "kafka")
    given_strict = [plain(strict.pipe(*row)) for row in rows]
    given_kafka = [plain(kafka.pipe(*row)) for row in rows]
    assert given_strict == [[], [], [], []]
    assert strict.dropped == 2
    assert [late.record.timestamp for late in strict.late] == [5, 5]
    assert given_kafka == [[], [], [], []]
    kafka = driver_of(10, 10, 0, "inner", "kafka")
    assert [plain(kafka.pipe(*row)) for row in (rows[0], rows[3], rows[2])] == [[], [], [("a", "old", "old", 5)]]


def test_strict_never_gives_a_row_both_no_match_and_a_match() -> None:
    rows = [("left", "x", "l", 20), ("left", "a", "l", 5), ("right", "a", "r", 6)]
    strict, kafka = driver_of(10, 10, 30, "left"), driver_of(10, 10, 30, "left", "kafka")
    assert [plain(strict.pipe(*row)) for row in rows] == [[], [], [("a", "l", "r", 6)]]
    assert [plain(kafka.pipe(*row)) for row in rows] == [[], [("a", "l", None, 5)], [("a", "l", "r", 6)]]


def test_strict_releases_what_is_due_where_kafka_lets_it_wait_for_the_other_side() -> None:
    rows = [("right", "a", "r", 30), ("left", "b", "l", 50), ("right", "c", "r2", 100)]
    strict = driver_of(0, 100, 0, "outer")
    kafka = driver_of(0, 100, 0, "outer", "kafka")
    assert [plain(strict.pipe(*row)) for row in rows] == [[], [("a", None, "r", 30)], []]
    assert [plain(kafka.pipe(*row)) for row in rows] == [[], [], [("a", None, "r", 30)]]


def test_dropped_rows_move_the_time_of_kafkas_join_only() -> None:
    rows = [("left", "a", "l", 5), ("left", "a", None, 100), ("right", "a", "r", 6)]
    assert [plain(driver_of(2, 2, 0, "inner").pipe(*row)) for row in rows[:1]] == [[]]
    strict, kafka = driver_of(2, 2, 0, "left"), driver_of(2, 2, 0, "left", "kafka")
    assert [plain(strict.pipe(*row)) for row in rows] == [[], [], [("a", "l", "r", 6)]]
    assert [plain(kafka.pipe(*row)) for row in [*rows, ("right", "b", "r", 101)]][-1] == []


def test_a_stream_joined_with_itself_meets_each_row_once() -> None:
    windows = JoinWindows.of(5).with_grace(0)

    def build(topics: Any) -> Any:
        stream = topics.stream("s")
        return stream.join(stream, lambda left, right: (left, right), windows)

    driver = TopologyDriver(build)
    assert plain(driver.pipe("s", "a", "1", 0)) == [("a", "1", "1", 0)]
    assert plain(driver.pipe("s", "a", "2", 3)) == [("a", "2", "1", 3), ("a", "1", "2", 3), ("a", "2", "2", 3)]


def test_the_end_of_the_input_gives_rows_without_match_their_results() -> None:
    driver = driver_of(5, 5, 10, "outer")
    driver.pipe("left", "a", "l", 10)
    driver.pipe("right", "b", "r", 10)
    assert plain(driver.end_of_input()) == [("b", None, "r", 10), ("a", "l", None, 10)]


def test_windows_that_cannot_work_are_refused() -> None:
    with pytest.raises(BuildError, match="is negative"):
        JoinWindows.of(5).before(-10)
    with pytest.raises(BuildError, match="no grace period"):
        TopologyDriver(lambda t: t.stream("a").join(t.stream("b"), lambda a, b: a, JoinWindows.of(5)))


@pytest.mark.parametrize("semantics", ["strict", "kafka"])
def test_silence_gives_the_rows_without_a_match_and_the_rows_after_it_are_late(semantics):
    windows = JoinWindows.of(10).with_grace(5)
    driver = TopologyDriver(
        lambda topics: topics.stream("left").join(
            topics.stream("right"), lambda left, right: (left, right), windows, how="outer", semantics=semantics
        ),
        idle_after="100ms",
    )
    assert plain(driver.pipe("left", "a", "l1", 20)) == []
    assert plain(driver.pipe("right", "b", "r1", 22)) == []
    assert plain(driver.advance_wall_clock("113ms")) == [], "the time is 35, and a match of l1 may still come"
    assert plain(driver.advance_wall_clock("1ms")) == [("a", "l1", None, 20)]
    assert plain(driver.advance_wall_clock("2ms")) == [("b", None, "r1", 22)]
    assert plain(driver.advance_wall_clock("1s")) == [], "each once"
    if semantics == "strict":
        driver.pipe("right", "a", "r2", 21)
        assert [late.record.value for late in driver.late] == ["r2"]


@pytest.mark.parametrize("semantics", ["strict", "kafka"])
def test_the_end_of_the_input_gives_the_rows_without_a_match(semantics):
    driver = driver_of(10, 10, 5, "outer", semantics)
    driver.pipe("left", "a", "l1", 20)
    driver.pipe("right", "b", "r1", 19)
    assert plain(driver.end_of_input()) == [("b", None, "r1", 19), ("a", "l1", None, 20)]
    assert plain(driver.end_of_input()) == []


def test_a_row_that_the_end_gave_without_a_match_matches_no_row_of_the_next_run():
    driver = driver_of(10, 10, 5, "left")
    assert plain(driver.pipe("left", "a", "l1", 20)) == []
    assert plain(driver.end_of_input()) == [("a", "l1", None, 20)]
    driver.restart(driver.changes())
    assert plain(driver.pipe("right", "a", "r1", 22)) == []


@pytest.mark.parametrize(("before", "after"), [(6, 5), (5, 6), (6, 6)])
def test_the_changelog_of_a_join_with_other_windows_is_refused(before: int, after: int) -> None:
    driver = driver_of(5, 5, 0, "inner")
    driver.pipe("left", "a", "l", 1)
    changes = driver.changes()
    driver_of(5, 5, 0, "inner").restart(changes)
    with pytest.raises(RestoreError, match="belongs to definition"):
        driver_of(before, after, 0, "inner").restart(changes)


@pytest.mark.parametrize(("reach", "segment"), [(200_000, 200_000), (10_000, 60_000)])
@pytest.mark.parametrize("newest", [0, 399_999, 400_000, 599_999, 600_000, 600_001, 799_999, 800_000])
def test_kafkas_store_refuses_and_counts_the_rows_of_dead_segments(reach: int, segment: int, newest: int) -> None:
    """A segment has half of the retention, at least a minute; it is dead when the retention has left it. Such a row still meets the other side."""
    dead = max(0, newest - 2 * reach) // segment * segment
    for time in {0, max(0, dead - 1), dead, dead + 1} - {newest}:
        driver = driver_of(reach, reach, 0, "inner", "kafka")
        driver.pipe("left", "a", "newest", newest)
        driver.pipe("right", "a", "match", time)
        dropped = driver.dropped
        assert [each[1:3] for each in plain(driver.pipe("left", "a", "old", time))] == [("old", "match")]
        assert driver.dropped - dropped == (time < dead)


@pytest.mark.parametrize("how", ["left", "outer"])
def test_a_row_that_waits_for_its_match_is_given_without_one_behind_a_restart(how: str) -> None:
    driver = driver_of(10, 10, 5, how, "kafka")
    assert driver.pipe("left", "a", "l1", 20) == []
    driver.restart(driver.changes())
    assert plain(driver.pipe("left", "b", "l2", 100)) == [("a", "l1", None, 20)]
    entries = driver.changes()
    driver.restart(entries)
    assert plain(driver.pipe("left", "c", "l3", 200)) == [("b", "l2", None, 100)]


@pytest.mark.parametrize("semantics", ["strict", "kafka"])
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    ROWS,
    st.sampled_from([(0, 0), (5, 5), (10, 2), (0, 8), (-3, 10)]),
    st.sampled_from([0, 4]),
    st.sampled_from(["inner", "left", "outer"]),
    st.sets(st.integers(0, 24)),
)
def test_a_task_that_restarts_gives_what_one_that_runs_on_gives(
    semantics: Any, rows: Any, reach: tuple[int, int], grace: int, how: str, restarts: set[int]
) -> None:
    going_on, restarting = (driver_of(*reach, grace, how, semantics) for _ in range(2))
    entries: list[Any] = []
    for at, row in enumerate(rows):
        assert plain(restarting.pipe(*row)) == plain(going_on.pipe(*row))
        if at in restarts:
            entries += restarting.changes()
            restarting.restart(entries)
    assert plain(restarting.end_of_input()) == plain(going_on.end_of_input())


@pytest.mark.parametrize("how", ["inner", "left", "outer"])
@pytest.mark.parametrize("grace", [0, 1])
@pytest.mark.parametrize("first", ["left", "right"])
def test_rows_of_equal_times_meet_in_a_window_of_size_zero(how: str, grace: int, first: str) -> None:
    """Without grace, Kafka Streams' store of such a join has a retention of zero and shows no row: nothing meets (recorded vectors)."""
    found = {}
    for semantics in ("strict", "kafka"):
        driver = driver_of(0, 0, grace, how, semantics)
        second = "right" if first == "left" else "left"
        found[semantics] = plain(driver.pipe(first, "a", first, 5) + driver.pipe(second, "a", second, 5))
    assert found["strict"] == [("a", "left", "right", 5)]
    assert found["kafka"] == (found["strict"] if grace else [])
