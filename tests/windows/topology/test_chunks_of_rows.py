"""Law: a chunk of rows gives what its rows give one by one, also when a row in the middle is dropped, late or without result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamactors.testing import TopologyDriver
from streamactors.windows import RecordContext, SessionWindows, SlidingWindows, TimeWindows
from streamactors.windows.record import Record

ROWS = st.lists(
    st.tuples(st.sampled_from(["a", "b", None]), st.sampled_from(["x1", "y2", "-", None]), st.integers(0, 40)),
    max_size=12,
)
SIDE = [("a", "A", 0), ("x", "X", 3), ("b", "B", 7), ("a", "AA", 20)]


def pair(left: Any, right: Any) -> str:
    return f"{left}+{right}"


def owner(_: Any, value: str) -> str | None:
    return None if value == "-" else value[0]


def longer(old: str, new: str) -> str:
    return f"{old}{new}"[-9:]


BUILDS: dict[str, Callable[[Any], Any]] = {
    "join": lambda t: t.stream("in").join_table(t.table("side"), pair),
    "left join with grace": lambda t: t.stream("in").join_table(
        t.table("side", history=100), pair, how="left", grace=10
    ),
    "join of tables": lambda t: t.table("in").join(t.table("side"), pair, how="outer"),
    "foreign key join": lambda t: t.table("in").join_foreign_key(t.table("side"), owner, pair, how="inner"),
    "left foreign key join": lambda t: t.table("in").join_foreign_key(t.table("side"), owner, pair, how="left"),
    "table with history": lambda t: t.table("in", history=20).group_by(lambda key, value: (value[0], 1)).count(),
    "groups": lambda t: t.table("in").group_by(lambda key, value: (value[0], value)).reduce(longer, lambda old, _: old),
    "views": lambda t: (
        t.table("in").filter(lambda value: value != "-", name="kept").map_values(str.upper, name="upper")
    ),
    "reduce": lambda t: t.stream("in").group_by_key().reduce(longer),
    "time windows": lambda t: t.stream("in").group_by_key().windowed_by(TimeWindows.of_size(10).with_grace(5)).count(),
    "sessions": lambda t: t.stream("in").group_by_key().windowed_by(SessionWindows.with_gap(5).with_grace(5)).count(),
    "sliding windows": lambda t: (
        t.stream("in").group_by_key().windowed_by(SlidingWindows.of_difference(5).with_grace(5)).count()
    ),
}


def records(rows: Any, topic: str = "in") -> list[Record]:
    return [
        Record(key, value, timestamp, RecordContext(topic, 0, offset, ()))
        for offset, (key, value, timestamp) in enumerate(rows)
    ]


def results(driver: TopologyDriver, chunks: list[list[Record]]) -> tuple[list[Any], int, list[Any]]:
    out = [output for chunk in chunks for output in driver.pipe_all(chunk)] + driver.end_of_input()
    return out, driver.dropped, [late.record for late in driver.late]


@pytest.mark.parametrize("build", BUILDS)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(rows=ROWS)
def test_a_chunk_gives_what_its_rows_give_one_by_one(build: str, rows: Any) -> None:
    def driver() -> TopologyDriver:
        made = TopologyDriver(BUILDS[build])
        if "join" in build:
            made.pipe_all(records(SIDE, "side"))
        return made

    given_rows = records(rows)
    assert results(driver(), [given_rows]) == results(driver(), [[row] for row in given_rows])


def test_rows_of_one_key_and_time_that_wait_for_a_versioned_table_leave_in_their_order() -> None:
    driver = TopologyDriver(
        lambda t: t.stream("in").join_table(t.table("side", history=100), pair, how="left", grace=10)
    )
    driver.pipe_all(records([("a", f"v{number}", 5) for number in range(5)]))
    assert [each.record.value for each in driver.end_of_input()] == [f"v{number}+None" for number in range(5)]
