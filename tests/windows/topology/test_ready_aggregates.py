"""Ready aggregates, windows of n rows, and the join as of a time."""

from __future__ import annotations

from typing import Any

import pytest

from streamactors.errors import BuildError
from streamactors.testing import TopologyDriver
from streamactors.windows import CountWindows, SessionWindows


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
