"""A task that restarts from its changelogs gives what one that runs on gives, for every kind of state of a topology."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from streamactors.testing import TopologyDriver
from streamactors.windows import SessionWindows, SlidingWindows, Suppressed, TimeWindows
from streamactors.windows.topology.topics import TopologyTopics
from tests.windows.disk.test_topologies_on_disk import BUILDS, both

ROWS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b"]),
        st.sampled_from(["k0", "k1", "k2"]),
        st.one_of(st.none(), st.integers(0, 5)),
        st.integers(0, 40),
    ),
    max_size=24,
)


def counted(windows: Any, suppression: Suppressed | None = None) -> Callable[[TopologyTopics], Any]:
    def build(topics: TopologyTopics) -> Any:
        both_topics = topics.stream("a").merge(topics.stream("b"))
        table = both_topics.group_by_key().windowed_by(windows).count(name="n")
        return table if suppression is None else table.suppress(suppression)

    return build


def cogrouped(windows: Any, *merge: Any) -> Callable[[TopologyTopics], Any]:
    def build(topics: TopologyTopics) -> Any:
        grouped = topics.stream("a").group_by_key().cogroup(lambda seen, value: [*seen, ("a", value)])
        grouped = grouped.cogroup(topics.stream("b").group_by_key(), lambda seen, value: [*seen, ("b", value)])
        return grouped.windowed_by(windows).aggregate(list, *merge, name="both")

    return build


STATES: dict[str, Callable[[TopologyTopics], Any]] = {
    **BUILDS,
    "inner join of tables": lambda t: t.table("a", name="l").join(t.table("b", name="r"), both, name="known"),
    "sliding windows": counted(SlidingWindows.of_difference(6).with_grace(4)),
    "sessions": counted(SessionWindows.with_gap(5).with_grace(4)),
    "final sessions": counted(SessionWindows.with_gap(5).with_grace(4), Suppressed.until_window_closes()),
    "final windows": counted(TimeWindows.of_size(8).with_grace(4), Suppressed.until_window_closes()),
    "final sliding windows": counted(SlidingWindows.of_difference(6).with_grace(4), Suppressed.until_window_closes()),
    "count of a table": lambda t: t.table("a", name="rows").group_by(lambda key, value: (value % 2, value)).count(name="n"),
    "stored view": lambda t: t.table("a", name="rows").filter(lambda value: value > 2, name="large"),
    "cogroup": cogrouped(TimeWindows.of_size(8).with_grace(4)),
    "cogroup of hopping windows": cogrouped(TimeWindows.of_size(8).advance_by(3).with_grace(4)),
    "cogroup of sliding windows": cogrouped(SlidingWindows.of_difference(6).with_grace(4)),
    "cogroup of sessions": cogrouped(SessionWindows.with_gap(5).with_grace(4), lambda one, other: one + other),
}  # fmt: skip


CASES = [(state, semantics) for state in STATES for semantics in ("strict", "kafka")]


@pytest.mark.parametrize(("state", "semantics"), CASES)
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(rows=ROWS, restarts=st.sets(st.integers(0, 23)))
@example(
    rows=[("a", "k0", 1, 7), ("a", "k0", 1, 0)], restarts={0}
)  # the stream time of processors began anew, so timers came late
@example(
    rows=[("b", "k0", 1, 20), ("b", "k1", 2, 3), ("a", "k1", 0, 4)], restarts={0}
)  # and so an expired row was accepted
@example(
    rows=[("b", "k0", 1, 40), ("b", "k0", 2, 5)], restarts={0}
)  # and so Kafka mode took a late row of a cogroup's second stream
def test_a_restart_changes_nothing(state: str, semantics: Any, rows: Any, restarts: set[int]) -> None:
    going_on, restarting = (TopologyDriver(STATES[state], semantics=semantics) for _ in range(2))
    entries: list[Any] = []

    def outputs(driver: TopologyDriver, row: Any) -> list[Any]:
        return [(each.topic, each.record) for each in driver.pipe(*row)]

    for at, row in enumerate(row for row in rows if row[0] in going_on._factory.topology.sources):
        assert outputs(restarting, row) == outputs(going_on, row), at
        if at in restarts:
            entries += restarting.changes()
            restarting.restart(entries)
    assert restarting.end_of_input() == going_on.end_of_input()
