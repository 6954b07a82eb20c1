"""A table that is joined with a table made of it: one row changes both sides.

Each side gave the same result, so downstream got every update twice; and no side knew that there had been a result, so an inner join never
deleted one. Kafka Streams does both, and Kafka mode does as it does (tests/differential/test_kafka_streams_topologies.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from streamactors.testing import TopologyDriver

ROWS = [
    ("u", "k", "u", 0),
    ("t", "k", "x", 1),
    ("t", "k", "y", 2),
    ("t", "k", "y", 5),
    ("t", "k", None, 6),
    ("t", "k", "z", 7),
]


def pair(left: str | None, right: str | None) -> str:
    return f"({left or '.'}{right or '.'})"


def with_its_join(topics: Any, how: str, name: str | None) -> Any:
    table = topics.table("t")
    return table.join(table.join(topics.table("u"), pair, how="left"), pair, how=how, name=name)


def with_a_view_of_its_join(topics: Any, how: str, name: str | None) -> Any:
    table = topics.table("t")
    joined = table.join(topics.table("u"), pair, how="left", name="joined").filter(bool, name="view")
    return joined.join(table.filter(bool), lambda joined, value: pair(value, joined), how=how, name=name)


def results(
    build: Callable[[Any], Any], semantics: Any = "strict", *, restarts: bool = False
) -> list[list[tuple[Any, int]]]:
    driver, found, saved = TopologyDriver(build, semantics=semantics), [], []
    for topic, key, value, time in ROWS:
        found.append(
            [(row.record.value, row.record.timestamp) for row in driver.pipe(topic, key, value, timestamp=time)]
        )
        if restarts:
            saved += driver.changes()
            driver.restart(saved)
    return found


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("name", [None, "met"])
@pytest.mark.parametrize("how", ["inner", "left", "outer"])
@pytest.mark.parametrize("build", [with_its_join, with_a_view_of_its_join])
def test_a_row_that_changes_both_sides_gives_one_update_and_deletes_its_result(
    build: Any, how: str, name: str | None, restarts: bool
) -> None:
    assert results(lambda topics: build(topics, how, name), restarts=restarts) == [
        [],
        [("(x(xu))", 1)],
        [("(y(yu))", 2)],
        [("(y(yu))", 5)],
        [(None, 6)],
        [("(z(zu))", 7)],
    ]


def test_what_derives_from_such_a_join_subtracts_what_it_has_added() -> None:
    def counted(topics: Any) -> Any:
        joined = with_its_join(topics, "inner", None)
        return joined.group_by(lambda key, value: ("all", 1)).count()

    assert [[value for value, _ in row] for row in results(counted)] == [[], [1], [1], [1], [0], [1]]


def test_kafka_mode_gives_each_update_by_each_way_and_an_inner_join_deletes_none() -> None:
    found = results(lambda topics: with_its_join(topics, "inner", None), "kafka")
    assert found == [[], [("(x(xu))", 1)] * 2, [("(y(yu))", 2)] * 2, [("(y(yu))", 5)] * 2, [], [("(z(zu))", 7)] * 2]
