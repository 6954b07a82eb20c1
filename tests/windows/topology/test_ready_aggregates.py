"""Ready aggregates, windows of n rows, and the join as of a time."""

from __future__ import annotations

from decimal import Decimal
from itertools import pairwise, permutations, product
from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamactors.codec import dumps, loads
from streamactors.errors import BuildError
from streamactors.testing import TopologyDriver
from streamactors.windows import CountWindows, SessionWindows, SlidingWindows, TimeWindows
from streamactors.windows.state.store_log import META_KEY
from streamactors.windows.state.total_order import rank


def last_of(build: Any, values: list[Any], restart: bool = True) -> Any:
    """The last value of key a after these values, with a restart in the middle."""
    driver = TopologyDriver(lambda topics: build(topics.stream("s").group_by_key()))
    changes: list[Any] = []
    out: list[Any] = []
    for at, value in enumerate(values):
        out += driver.pipe("s", "a", value, at)
        if restart and at == len(values) // 2:
            changes += driver.changes()
            driver.restart(changes)
    return out[-1].record.value


@pytest.mark.parametrize(
    ("build", "wanted"),
    [
        (lambda grouped: grouped.min(), 1),
        (lambda grouped: grouped.max(), 9),
        (lambda grouped: grouped.first(), 3),
        (lambda grouped: grouped.last(), 5),
        (lambda grouped: grouped.mean(), 4.5),
        (lambda grouped: grouped.top(2), [9, 5]),
        (lambda grouped: grouped.max(of=lambda value: -value), -1),
        (lambda grouped: grouped.quantiles(0.0, 1.0), [1.0, 9.0]),
    ],
)
def test_ready_aggregates_over_a_restart(build: Any, wanted: Any) -> None:
    assert last_of(build, [3, 1, 9, 5]) == wanted


def test_distinct_values_are_counted_about_right() -> None:
    values = [f"user-{n % 500}" for n in range(700)]
    assert last_of(lambda grouped: grouped.distinct(), values) == pytest.approx(500, rel=0.05)


def test_a_row_that_bridges_two_sessions_merges_ready_aggregates() -> None:
    def build(topics: Any) -> dict[str, Any]:
        sessions = topics.stream("s").group_by_key().windowed_by(SessionWindows.with_gap(5).with_grace(100))
        return {"mean": sessions.mean(), "top": sessions.top(2), "half": sessions.quantiles(0.5)}

    driver = TopologyDriver(build)
    driver.pipe("s", "a", 1, 0)
    driver.pipe("s", "a", 5, 10)
    merged = {each.topic: each.record.value for each in driver.pipe("s", "a", 3, 5)}
    assert merged == {"mean": 3, "top": [5, 3], "half": [3.0]}


# ── NaN: comparisons with it are all false, so results depended on the order of the rows ──────────────────────────────────────


NAN = float("nan")
WINDOWS: list[Any] = [
    None,
    TimeWindows.of_size(1_000).with_grace(0),
    SessionWindows.with_gap(10).with_grace(1_000),
    SlidingWindows.of_difference(1_000).with_grace(0),
]


@pytest.mark.parametrize("windows", WINDOWS)
@pytest.mark.parametrize("nan", [NAN, Decimal("NaN"), numpy.float64("nan")])
def test_nan_is_larger_than_every_number_in_whatever_order_the_rows_come(windows: Any, nan: Any) -> None:
    def build(grouped: Any) -> dict[str, Any]:
        grouped = grouped if windows is None else grouped.windowed_by(windows)
        return {"min": grouped.min(), "max": grouped.max(), "top": grouped.top(3)}

    for values in permutations([nan, 1, 5, 3]):
        driver = TopologyDriver(lambda topics: build(topics.stream("s").group_by_key()))
        found = {
            each.topic: each.record.value
            for at, value in enumerate(values)
            for each in driver.pipe("s", "a", value, at)
        }
        if windows is not WINDOWS[-1]:  # the last update of a sliding window is that of a smaller one
            assert found["min"] == 1
        assert found["max"] != found["max"]
        largest, *rest = found["top"]
        assert largest != largest
        assert windows is WINDOWS[-1] or rest == [5, 3]


@given(st.lists(st.floats() | st.tuples(st.floats(), st.integers()) | st.integers(), max_size=6))
def test_the_order_is_total(values: list[Any]) -> None:
    for kind in (tuple, float | int):
        ranks = [rank(value) for value in values if isinstance(value, kind)]
        for left, right in product(ranks, repeat=2):
            assert [left < right, left == right, left > right].count(True) == 1
        in_order = sorted(ranks)
        assert all(left <= right for left, right in pairwise(in_order))
        ranks.reverse()
        assert sorted(ranks) == in_order


def test_nan_inside_a_tuple_counts_as_well() -> None:
    # top(5, of=lambda row: (row["score"], row["name"])) is a common form
    rows = [(5.0, "a"), (NAN, "b"), (1.0, "c"), (7.0, "d")]
    for values in permutations(rows):
        found = last_of(lambda grouped: grouped.top(2), list(values))
        assert [name for _, name in found] == ["b", "d"]
        assert last_of(lambda grouped: grouped.min(), list(values)) == (1.0, "c")


# ── arrival: sessions merge by their ends, and the first value was that of the session with the smallest end ────────────────────


@pytest.mark.parametrize("restart", [True, False])
@pytest.mark.parametrize(
    ("rows", "first", "last"),
    [
        ([("B", 100), ("A", 10), ("C", 55)], "B", "C"),
        ([("A", 10), ("B", 100), ("C", 55)], "A", "C"),
        ([("C", 200), ("B", 100), ("A", 10), ("x", 150), ("y", 55)], "C", "y"),
        ([("A", 10), ("C", 200), ("B", 100), ("y", 55), ("x", 150)], "A", "x"),
        ([("B", 100), ("A", 10), ("b", 101), ("C", 55)], "B", "C"),
    ],
)
def test_the_first_and_the_last_value_of_a_session_go_by_arrival(
    rows: list[tuple[str, int]], first: str, last: str, restart: bool
) -> None:
    def build(topics: Any) -> dict[str, Any]:
        sessions = topics.stream("s").group_by_key().windowed_by(SessionWindows.with_gap(50).with_grace(1_000))
        return {"first": sessions.first(), "last": sessions.last()}

    driver = TopologyDriver(build)
    changes: list[Any] = []
    found: dict[str, Any] = {}
    for value, at in rows:
        found |= {each.topic: each.record.value for each in driver.pipe("s", "a", value, at)}
        if restart:
            changes += driver.changes()
            driver.restart(changes)
    assert found == {"first": first, "last": last}


def test_sessions_without_a_number_of_their_arrival_are_older_than_all_others() -> None:
    # as an earlier release has written them
    def build(topics: Any) -> Any:
        return topics.stream("s").group_by_key().windowed_by(SessionWindows.with_gap(50).with_grace(1_000)).first()

    driver = TopologyDriver(build)
    driver.pipe("s", "a", "B", 100)
    written = []
    for change in driver.changes():
        fields = loads(change.value) if change.value else None
        if change.key == META_KEY:
            fields[-1].pop("arrivals")
        else:
            fields = fields[:5]
        written.append(change._replace(value=dumps(fields)))
    driver.restart(written)
    driver.pipe("s", "a", "A", 10)
    assert driver.pipe("s", "a", "C", 55)[-1].record.value == "B"


def test_a_window_of_n_rows_gives_one_result_with_the_largest_time() -> None:
    def build(topics: Any) -> Any:
        return (
            topics.stream("s").group_by_key().windowed_by(CountWindows.of_size(3)).aggregate(list, lambda a, v: [*a, v])
        )

    driver = TopologyDriver(build)
    assert driver.pipe("s", "a", 1, 9) == driver.pipe("s", "b", 7, 1) == driver.pipe("s", "a", 2, 4) == []
    changes = driver.changes()
    driver.restart(changes)
    [output] = driver.pipe("s", "a", 3, 5)
    assert (output.record.key, output.record.value, output.record.timestamp) == ("a", [1, 2, 3], 9)
    assert driver.pipe("s", "a", 4, 6) == []


def test_the_count_of_a_window_of_n_rows_comes_with_its_last_row() -> None:
    driver = TopologyDriver(
        lambda topics: topics.stream("s").group_by_key().windowed_by(CountWindows.of_size(2)).count()
    )
    assert [len(driver.pipe("s", key, "x", at)) for at, key in enumerate("abab")] == [0, 0, 1, 1]
    [output] = driver.pipe("s", "a", "x", 9) + driver.pipe("s", "a", "x", 7)
    assert (output.record.value, output.record.timestamp) == (2, 9)


def test_a_join_as_of_a_time_meets_the_newest_row_at_or_before_it() -> None:
    def build(topics: Any) -> Any:
        return topics.stream("trades").join_asof(
            topics.stream("quotes"), lambda trade, quote: (trade, quote), how="left"
        )

    driver = TopologyDriver(build)
    driver.pipe("quotes", "x", 10, 5)
    driver.pipe("quotes", "x", 11, 8)
    values = [driver.pipe("trades", "x", "t", at)[0].record.value[1] for at in (4, 5, 7, 8, 20)]
    assert values == [None, 10, 10, 11, 11]


def test_wrong_parameters_are_refused() -> None:
    for call in (
        lambda g: g.top(0),
        lambda g: g.quantiles(),
        lambda g: g.quantiles(2),
        lambda g: g.distinct(precision=1),
    ):
        with pytest.raises(BuildError):
            TopologyDriver(lambda topics, call=call: call(topics.stream("s").group_by_key()))  # type: ignore[misc]
    with pytest.raises(BuildError):
        CountWindows.of_size(0)


def test_the_rows_of_a_window_are_reduced_in_their_order_from_the_first_on() -> None:
    driver = TopologyDriver(
        lambda topics: topics.stream("s").group_by_key().windowed_by(CountWindows.of_size(3)).reduce(lambda a, b: a + b)
    )
    out = [
        driver.pipe("s", key, value, at) for at, (key, value) in enumerate(["ax", "by", "az", "aw", "av", "bq", "bp"])
    ]
    assert [len(each) for each in out] == [0, 0, 0, 1, 0, 0, 1]
    assert [(each.record.key, each.record.value) for each in out[3] + out[6]] == [("a", "xzw"), ("b", "yqp")]
