"""Entries of a table that expire: beside plain dicts, across restarts, in memory and on disk."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamactors.errors import BuildError
from streamactors.testing import TopologyDriver

TTL = 10
ROWS = st.lists(
    st.tuples(
        st.sampled_from(["people", "people", "orders"]),
        st.sampled_from("abc"),
        st.sampled_from(["x", "y", None]),
        st.integers(0, 40),
    ),
    max_size=30,
)


def build(topics: Any) -> Any:
    people = topics.table("people", ttl=TTL, name="people")
    return {
        "people-out": people,
        "joined": topics.stream("orders").join_table(people, lambda order, person: person, how="left"),
        "groups": people.group_by(lambda key, person: (person, 1)).aggregate(
            int, lambda n, one: n + one, lambda n, one: n - one
        ),
    }


class Model:
    """The entries with their times, and the groups of those that live or whose deletion was forwarded last."""

    def __init__(self) -> None:
        self.people: dict[str, tuple[str, int]] = {}
        self.now = -1
        self.dropped = 0

    def step(self, topic: str, key: str, value: str | None, time: int) -> tuple[list[Any], list[Any]]:
        """Return the updates of the table, and the results of the join."""
        self.now = max(self.now, time)
        updates: list[Any] = []
        joined: list[Any] = []
        if topic == "orders":
            found = self.people.get(key)
            if value is None:
                self.dropped += 1
            else:
                joined = [(key, found[0] if found and found[1] + TTL > self.now else None)]
        elif value is None:
            self.people.pop(key, None)
            updates = [(key, None, time)]
        elif time + TTL <= self.now:
            self.dropped += 1
        else:
            self.people[key] = (value, time)
            updates = [(key, value, time)]
        for expires, gone in sorted((at + TTL, who) for who, (_, at) in self.people.items()):
            if expires <= self.now:
                del self.people[gone]
                updates.append((gone, None, expires))
        return updates, joined


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(ROWS)
def test_an_expired_entry_is_never_read_and_its_deletion_is_forwarded_once(rows: Any) -> None:
    driver, model = TopologyDriver(build), Model()
    changes: list[Any] = []
    groups: dict[str, int] = {}
    dropped = 0
    for number, row in enumerate(rows):
        updates, joined = model.step(*row)
        found = driver.pipe(*row)
        seen = [each.record for each in found if each.topic == "people-out"]
        assert [(each.key, each.value, each.timestamp) for each in seen] == updates
        assert [(each.record.key, each.record.value) for each in found if each.topic == "joined"] == joined
        groups.update({each.record.key: each.record.value for each in found if each.topic == "groups"})
        values = [person for person, _ in model.people.values()]
        assert {group: n for group, n in groups.items() if n} == {each: values.count(each) for each in set(values)}
        store = driver.store("people")
        assert sorted((key, *entry) for key, entry in store.items()) == sorted(
            (key, *entry) for key, entry in model.people.items()
        )
        if number % 6 == 5:
            changes += driver.changes()
            dropped += driver.dropped
            driver.restart(changes)
    assert dropped + driver.dropped == model.dropped


def test_a_row_that_moves_the_time_reads_no_expired_entry_and_the_deletion_follows_it() -> None:
    driver = TopologyDriver(build)
    driver.pipe("people", "ada", "x", timestamp=5)
    [found] = driver.pipe("orders", "ada", "tea", timestamp=14)
    assert found.record.value == "x"
    joined, deleted, group = driver.pipe("orders", "ada", "tea", timestamp=15)
    assert (joined.topic, joined.record.value) == ("joined", None)
    assert (deleted.topic, deleted.record.value, deleted.record.timestamp) == ("people-out", None, 15)
    assert (group.record.key, group.record.value) == ("x", 0)


def test_a_table_with_history_has_no_ttl() -> None:
    with pytest.raises(BuildError, match="leave ttl= or history= out"):
        TopologyDriver(lambda topics: topics.table("t", history=5, ttl=5))
    with pytest.raises(BuildError, match="table: ttl"):
        TopologyDriver(lambda topics: topics.table("t", ttl=0))


def test_entries_that_expire_together_are_deleted_in_the_order_of_their_expiry() -> None:
    driver = TopologyDriver(lambda topics: topics.table("people", ttl=TTL, name="people"))
    for key, time in (("a", 0), ("b", 2), ("a", 5)):
        driver.pipe("people", key, "x", time)
    given = [(each.record.key, each.record.timestamp) for each in driver.pipe("people", "c", "x", 30)]
    assert given == [("c", 30), ("b", 12), ("a", 15)]


def test_the_queue_of_expiries_does_not_grow_with_deletions() -> None:
    driver = TopologyDriver(lambda topics: topics.table("people", ttl=10_000, name="people"))
    table = next(step.operator for node, step in driver._task._plan.steps.items() if node.name == "people")
    for time in range(3_000):
        driver.pipe("people", "a", "x", time)
        driver.pipe("people", "a", None, time)
    driver.pipe("people", "a", "x", 3_000)
    assert len(list(table._expiries.items())) == 1


@pytest.mark.parametrize("what", ["ttl", "history"])
def test_a_table_keeps_its_entries_for_a_millisecond_at_least(what: str) -> None:
    def driver(span: int) -> TopologyDriver:
        return TopologyDriver(lambda topics: topics.table("people", name="people", **{what: span}))

    assert len(driver(1).pipe("people", "a", "x", 5)) == 1
    with pytest.raises(BuildError, match=what):
        driver(0)
