"""Groups of tables, cogroups over windows, joins of final results and joins as of a time: strict results are those of plain Python, across restarts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from streamactors.testing import TopologyDriver
from streamactors.windows import Suppressed, TimeWindows
from tests.models.strict_table_models import AsOf, Groups, JoinedFinals, Windows

KEYS = st.sampled_from("abc")
VALUES = st.none() | st.integers(1, 9)
TIMES = st.integers(0, 30)
EVERY = 6  # rows between two restarts


class Restarting:
    """A driver that begins again from its changelogs every few rows."""

    def __init__(self, build: Callable[[Any], Any]) -> None:
        self.driver = TopologyDriver(build)
        self._changes: list[Any] = []
        self._rows = 0
        self._dropped = 0
        self.late: list[Any] = []

    def pipe(self, topic: str, key: Any, value: Any, time: int) -> list[Any]:
        outputs = [each.record for each in self.driver.pipe(topic, key, value, time)]
        self.late = self.driver.late  # a restart forgets the late rows that nobody has looked at
        self._rows += 1
        if self._rows % EVERY == 0:
            self._changes += self.driver.changes()
            self._dropped += self.driver.dropped
            self.driver.restart(self._changes)
        return outputs

    @property
    def dropped(self) -> int:
        return self._dropped + self.driver.dropped


def group_of(_: Any, value: int) -> tuple[Any, Any]:
    """Groups of thirds; 7 has no group, and 8 has no value in its group."""
    return None if value == 7 else f"g{value % 3}", None if value == 8 else value


def without(values: list[int], value: int) -> list[int] | None:
    rest = list(values)
    rest.remove(value)
    return rest or None


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(KEYS, VALUES, TIMES), min_size=8, max_size=40))
def test_a_group_has_the_values_of_its_entries_after_each_update(rows: Any) -> None:
    driver = Restarting(
        lambda topics: (
            topics.table("t", name="entries")
            .group_by(group_of)
            .aggregate(list, add=lambda values, value: sorted([*values, value]), subtract=without, name="groups")
        )
    )
    model = Groups(group_of)
    for key, value, time in rows:
        results = [(each.key, each.value, each.timestamp) for each in driver.pipe("t", key, value, time)]
        assert results == model.step(key, value, time)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("ab"), KEYS, VALUES, TIMES), min_size=8, max_size=40),
    st.sampled_from([0, 3, 12]),
)
def test_a_cogroup_over_windows_has_one_time_for_all_streams(rows: Any, grace: int) -> None:
    def noted(name: str) -> Any:
        return lambda seen, value: [*seen, (name, value)]

    def build(topics: Any) -> Any:
        both = topics.stream("a").group_by_key().cogroup(noted("a"))
        both = both.cogroup(topics.stream("b").group_by_key(), noted("b"))
        windows = TimeWindows.of_size(10).advance_by(5).with_grace(grace)
        return both.windowed_by(windows).aggregate(list, name="both")

    driver, model = Restarting(build), Windows(10, 5, grace)
    for row in rows:
        updates = [(each.key, each.start, each.value, each.timestamp) for each in driver.pipe(*row)]
        assert updates == model.step(*row)
    assert [(late.record.key, late.start) for late in driver.late] == model.late


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(["left", "right"]), KEYS, TIMES), min_size=8, max_size=40),
    st.sampled_from([0, 7]),
    st.sampled_from(["inner", "left", "outer"]),
)
def test_a_join_sees_of_a_suppressed_table_what_it_has_given_out(rows: Any, grace: int, how: Any) -> None:
    def build(topics: Any) -> Any:
        windows = TimeWindows.of_size(8).with_grace(grace)
        left, right = (
            topics.stream(side).group_by_key().windowed_by(windows, retention="1h").count(name=side)
            .suppress(Suppressed.until_window_closes().with_name(f"{side}-final"))
            for side in ("left", "right")
        )  # fmt: skip
        return left.join(right, lambda a, b: (a, b), how=how)

    driver, model = Restarting(build), JoinedFinals(8, grace, how)
    for side, key, time in rows:
        results = [(each.key, each.start, *each.value, each.timestamp) for each in driver.pipe(side, key, 1, time)]
        assert results == model.step(side, key, time)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["rows", "prices"]), st.sampled_from(["a", "a", "b", None]), VALUES, TIMES),
        min_size=8,
        max_size=40,
    ),
    st.sampled_from([(8, None), (8, 8), (15, None), (15, 4), (100, 12)]),
    st.sampled_from(["inner", "left"]),
)
def test_a_row_meets_the_version_of_its_own_time(rows: Any, times: Any, how: Any) -> None:
    history, grace = times
    driver = Restarting(
        lambda topics: topics.stream("rows").join_table(
            topics.table("prices", history=history, name="prices"),
            lambda a, b: (a, b),
            how=how,
            grace=grace,
            name="as-of",
        )
    )
    model = AsOf(history, grace, how == "left")
    for topic, key, value, time in rows:
        results = [(each.key, *each.value, each.timestamp) for each in driver.pipe(topic, key, value, time)]
        if topic == "prices":
            model.put(key, value, time)
            assert results == []
        else:
            assert results == model.row(key, value, time)
        assert driver.dropped == model.dropped
