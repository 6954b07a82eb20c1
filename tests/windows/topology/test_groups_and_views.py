"""Cogroups and views of tables beside plain Python, and rows of a cogroup as users see them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamactors.testing import TopologyDriver
from streamactors.windows import SessionWindows, TimeWindows
from streamactors.windows.errors import OperatorFailed

KEYS = st.sampled_from("xyz")
UPDATES = st.lists(st.tuples(KEYS, st.one_of(st.none(), st.integers(0, 9)), st.integers(0, 50)), max_size=25)
ORDERED = st.lists(st.tuples(st.sampled_from("ab"), KEYS, st.integers(0, 9), st.integers(0, 6)), max_size=25)
SIZE = 10


def even(value: int) -> bool:
    return value % 2 == 0


def noted(name: str) -> Any:
    return lambda seen, value: [*seen, (name, value)]


def cogroup_of(topics: Any, windows: Any = None, merge: Any = None, late: Any = None) -> Any:
    both = topics.stream("a").group_by_key().cogroup(noted("a")).cogroup(topics.stream("b").group_by_key(), noted("b"))
    if windows is not None:
        both = both.windowed_by(windows, late=late)
    return both.aggregate(list, merge, name="both")


VIEWS = {
    "filter": (lambda table, name: table.filter(even, name=name), lambda value: value if even(value) else None),
    "filter_not": (lambda table, name: table.filter_not(even, name=name), lambda value: None if even(value) else value),
    "map_values": (
        lambda table, name: table.map_values(lambda value: value or None, name=name),
        lambda value: value or None,
    ),
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("name", [None, "stored"])
@given(UPDATES)
@settings(max_examples=40, deadline=None)
def test_a_view_is_the_function_of_the_table_after_each_row(view: str, name: str | None, updates: Any) -> None:
    make, of = VIEWS[view]
    driver = TopologyDriver(lambda topics: make(topics.table("t"), name))
    table: dict[str, Any] = {}
    seen: dict[str, Any] = {}
    for key, value, time in updates:
        for output in driver.pipe("t", key, value, time):
            assert output.record.key == key
            assert output.record.timestamp == time
            seen[key] = output.record.value
        table[key] = None if value is None else of(value)
        wanted = {key: value for key, value in table.items() if value is not None}
        assert {key: value for key, value in seen.items() if value is not None} == wanted
        if name is not None:
            assert {key: found[0] for key, found in driver.store("stored").items()} == wanted


@pytest.mark.parametrize("semantics", ["strict", "kafka"])
@given(ORDERED, st.booleans())
@settings(max_examples=40, deadline=None)
def test_a_cogroup_folds_the_rows_of_all_streams_in_their_order(semantics: Any, rows: Any, windowed: bool) -> None:
    windows = TimeWindows.of_size(SIZE).with_grace(0) if windowed else None
    driver = TopologyDriver(lambda topics: cogroup_of(topics, windows), semantics=semantics)
    wanted: dict[Any, list[Any]] = {}
    time = 0
    changes: list[Any] = []
    for at, (topic, key, value, step) in enumerate(rows):
        time += step
        start = time // SIZE * SIZE if windowed else None
        folded = [*wanted.get((key, start), []), (topic, value)]
        wanted[key, start] = folded
        (output,) = driver.pipe(topic, key, value, time)
        assert (output.record.key, output.record.value) == (key, folded)
        if start is not None:
            assert (output.record.start, output.record.end) == (start, start + SIZE)
        if at % 7 == 6:
            changes += driver.changes()
            driver.restart(changes)
    if not windowed:
        assert {key: driver.store("both").get(key)[0] for key, _ in wanted} == {
            key: v for (key, _), v in wanted.items()
        }


@pytest.mark.parametrize("semantics", ["strict", "kafka"])
def test_sessions_of_a_cogroup_merge_rows_of_both_streams(semantics: Any) -> None:
    sessions = SessionWindows.with_gap(5).with_grace(20)
    driver = TopologyDriver(lambda topics: cogroup_of(topics, sessions, lambda a, b: a + b), semantics=semantics)
    rows = [("a", "k", 1, 0), ("b", "k", 2, 10), ("a", "k", 3, 5)]
    outputs = [[each.record for each in driver.pipe(*row)] for row in rows]
    assert [(each.value, each.start, each.end) for each in outputs[2] if each.value is not None] == [
        ([("a", 1), ("b", 2), ("a", 3)], 0, 10)
    ]
    assert {(each.start, each.end) for each in outputs[2] if each.value is None} == {(0, 0), (10, 10)}


@pytest.mark.parametrize("semantics", ["strict", "kafka"])
def test_a_late_row_of_a_cogroup_is_reported_with_the_value_that_was_read(semantics: Any) -> None:
    # strict mode tells the streams apart by a pair (number of the stream, value): the pair reached the users' late rows
    driver = TopologyDriver(
        lambda topics: cogroup_of(topics, TimeWindows.of_size(SIZE).with_grace(0)), semantics=semantics
    )
    driver.pipe("b", "k", 1, 100)
    driver.pipe("b", "k", 2, 3)
    assert [(each.record.key, each.record.value, each.start) for each in driver.late] == [("k", 2, 0)]


@pytest.mark.parametrize("windows", [None, TimeWindows.of_size(SIZE).with_grace(0)])
def test_a_row_that_an_adder_of_a_cogroup_fails_for_is_named_as_it_was_read(windows: Any) -> None:
    failures: list[OperatorFailed] = []

    def fails(_: Any, value: Any) -> Any:
        raise ValueError(value)

    def build(topics: Any) -> Any:
        both = topics.stream("a").group_by_key().cogroup(noted("a")).cogroup(topics.stream("b").group_by_key(), fails)
        return (both if windows is None else both.windowed_by(windows)).aggregate(list)

    driver = TopologyDriver(build, on_failure=lambda failure: failures.append(failure) or True)  # type: ignore[func-returns-value]
    assert driver.pipe("b", "k", 7, 3) == []
    (failure,) = failures
    assert (failure.element.key, failure.element.value, failure.element.timestamp) == ("k", 7, 3)  # type: ignore[attr-defined]


@pytest.mark.parametrize("view", VIEWS)
@given(UPDATES)
@settings(max_examples=40, deadline=None)
def test_groups_of_a_stored_view_have_what_the_view_has(view: str, updates: Any) -> None:
    make, of = VIEWS[view]
    driver = TopologyDriver(
        lambda topics: make(topics.table("t"), "stored").group_by(lambda key, value: ("all", value)).count()
    )
    table: dict[str, Any] = {}
    count = None
    for key, value, time in updates:
        for output in driver.pipe("t", key, value, time):
            count = output.record.value
        table[key] = None if value is None else of(value)
        assert (count or 0) == sum(value is not None for value in table.values())


@given(UPDATES)
@settings(max_examples=40, deadline=None)
def test_a_reduced_group_is_the_sum_of_its_entries(updates: Any) -> None:
    driver = TopologyDriver(
        lambda topics: (
            topics.table("t")
            .group_by(lambda key, value: ("all", value))
            .reduce(lambda total, value: total + value, lambda total, value: total - value)
        )
    )
    table: dict[str, int | None] = {}
    total = 0
    for key, value, time in updates:
        for output in driver.pipe("t", key, value, time):
            total = output.record.value
        table[key] = value
        assert total == sum(value or 0 for value in table.values())


@pytest.mark.parametrize("semantics", ["strict", "kafka"])
def test_a_cogroup_drops_and_counts_rows_without_value_unless_it_has_windows(semantics: Any) -> None:
    """As Kafka Streams does it: KStreamAggregate drops such rows, KStreamWindowAggregate adds them."""
    driver = TopologyDriver(cogroup_of, semantics=semantics)
    assert [driver.pipe(topic, "k", None, 1) for topic in "ab"] == [[], []]
    assert driver.metrics.dropped_null == 2
    (output,) = driver.pipe("a", "k", 5, 3)
    assert (output.record.value, driver.metrics.dropped_null) == ([("a", 5)], 2)
    windowed = TopologyDriver(
        lambda topics: cogroup_of(topics, TimeWindows.of_size(SIZE).with_grace(0)), semantics=semantics
    )
    (output,) = windowed.pipe("a", "k", None, 1)
    assert (output.record.value, windowed.metrics.dropped_null) == ([("a", None)], 0)


@pytest.mark.parametrize("step", ["map_values", "flat_map_values", "peek"])
def test_a_step_on_values_keeps_the_window_of_a_row(step: str) -> None:
    def build(topics: Any) -> Any:
        windowed = topics.stream("a").group_by_key().windowed_by(TimeWindows.of_size(SIZE).with_grace(0))
        rows = windowed.count().to_stream()
        fn = {"map_values": lambda n: n + 10, "flat_map_values": lambda n: [n + 10], "peek": lambda row: None}[step]
        return getattr(rows, step)(fn)

    outputs = TopologyDriver(build).pipe("a", "k", "x", 34)
    (record,) = [each.record for each in outputs]
    assert (record.key, record.start, record.end, record.timestamp) == ("k", 30, 40, 34)
    assert record.value == (1 if step == "peek" else 11)
    assert (record.context.topic, record.context.offset) == ("a", 0)
