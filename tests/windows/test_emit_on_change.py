"""table.emit_on_change(): an update that changes no value is not forwarded, and nothing else is lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamactors.errors import BuildError
from streamactors.testing import TopologyDriver
from streamactors.windows import BufferConfig, SessionWindows, Suppressed, TimeWindows

TUMBLING = TimeWindows.of_size(10).with_grace(5)
SESSIONS = SessionWindows.with_gap(4).with_grace(2)


def largest(old: int, new: int) -> int:
    return max(old, new)


TABLES: dict[str, Callable[[Any], Any]] = {
    "a topic": lambda t: t.table("s"),
    "a reduce": lambda t: t.stream("s").group_by_key().reduce(largest),
    "an aggregate": lambda t: t.stream("s").group_by_key().aggregate(int, largest),
    "a filter": lambda t: t.table("s").filter(lambda value: value > 1),
    "mapped values": lambda t: t.table("s").map_values(lambda value: value // 2),
    "windows": lambda t: t.stream("s").group_by_key().windowed_by(TUMBLING).aggregate(int, largest),
    "sessions": lambda t: t.stream("s").group_by_key().windowed_by(SESSIONS).aggregate(int, largest, largest),
    "a group": lambda t: t.table("s").group_by(lambda key, value: (value % 2, value)).aggregate(
        int, add=lambda a, v: a + v, subtract=lambda a, v: a - v
    ),
}  # fmt: skip
ROWS = st.lists(
    st.tuples(st.sampled_from("ab"), st.one_of(st.none(), st.integers(0, 4)), st.integers(0, 40)), max_size=14
)


def updates(build: Callable[[Any], Any], rows: Any) -> list[tuple[Any, ...]]:
    driver = TopologyDriver(build)
    out = [each.record for key, value, at in rows for each in driver.pipe("s", key, value, at)]
    return [(each.key, getattr(each, "start", None), getattr(each, "end", None), each.value) for each in out]


@pytest.mark.parametrize("name", TABLES)
@settings(max_examples=60, deadline=None)
@given(rows=ROWS)
def test_what_is_forwarded_are_the_updates_that_change_a_value(name: str, rows: Any) -> None:
    if name not in ("a topic", "a filter", "mapped values", "a group"):
        rows = [(key, value or 0, at) for key, value, at in rows]
    known: dict[Any, Any] = {}
    expected = []
    for key, start, end, value in updates(TABLES[name], rows):
        if known.get((key, start, end)) != value:
            known[key, start, end] = value
            expected.append((key, start, end, value))
    assert updates(lambda t: TABLES[name](t).emit_on_change(), rows) == expected


def test_the_first_value_of_a_key_is_forwarded_although_it_equals_the_initial_one() -> None:
    def build(t: Any) -> Any:
        return t.stream("s").group_by_key().windowed_by(TUMBLING).aggregate(int, largest).emit_on_change()

    assert updates(build, [("a", 0, 1), ("a", 0, 2), ("a", 3, 3)]) == [("a", 0, 10, 0), ("a", 0, 10, 3)]


def test_final_results_pass() -> None:
    def build(t: Any) -> Any:
        counted = t.stream("s").group_by_key().windowed_by(TUMBLING).aggregate(int, largest)
        return counted.suppress(Suppressed.until_window_closes(BufferConfig.unbounded())).emit_on_change()

    assert updates(build, [("a", 3, 1), ("a", 2, 2), ("a", 1, 40)]) == [("a", 0, 10, 3)]


def test_a_suppression_after_it_is_final_too() -> None:
    def build(t: Any) -> Any:
        counted = t.stream("s").group_by_key().windowed_by(TUMBLING).aggregate(int, largest)
        return counted.emit_on_change().suppress(Suppressed.until_window_closes(BufferConfig.unbounded()))

    assert updates(build, [("a", 3, 1), ("a", 2, 2), ("a", 1, 40)]) == [("a", 0, 10, 3)]


def test_an_aggregate_that_is_changed_in_place_is_compared_with_what_it_was() -> None:
    def add(seen: set[int], value: int) -> set[int]:
        seen.add(value)
        return seen

    found = updates(
        lambda t: t.stream("s").group_by_key().aggregate(set, add).emit_on_change(), [("a", n, n) for n in (1, 1, 2, 1)]
    )
    assert [value for *_, value in found] == [{1}, {1, 2}]


def test_an_error_of_a_comparison_names_the_step() -> None:
    class Odd:
        def __eq__(self, other: object) -> bool:
            raise ValueError("cannot compare")

        __hash__ = None  # type: ignore[assignment]

    driver = TopologyDriver(
        lambda t: t.stream("s").group_by_key().reduce(lambda old, new: Odd(), name="odd").emit_on_change(name="step")
    )
    driver.pipe("s", "a", Odd(), 1)
    with pytest.raises(Exception, match="step: the comparison of key 'a' raised ValueError: cannot compare"):
        driver.pipe("s", "a", Odd(), 2)


def test_a_versioned_table_is_refused() -> None:
    with pytest.raises(BuildError, match="emit_on_change: a versioned table forwards every version"):
        TopologyDriver(lambda t: t.table("s", history="1d").emit_on_change())
