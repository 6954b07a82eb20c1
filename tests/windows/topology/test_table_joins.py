"""Table-table and foreign key joins: strict beside plain dicts, and each oddity of Kafka Streams that strict does not copy."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamactors.errors import BuildError
from streamactors.testing import TopologyDriver
from streamactors.windows.errors import InvalidRecord, OperatorFailed
from streamactors.windows.joins.foreign_key import ValueHashes
from streamactors.windows.metrics import TaskMetrics
from streamactors.windows.operators.operator import TaskEnvironment
from streamactors.windows.state.serdes import Serdes

ROWS = st.lists(
    st.tuples(
        st.sampled_from(["left", "right"]),
        st.sampled_from(["a", "b"]),
        st.sampled_from(["x", "y", None]),
        st.integers(0, 30),
    ),
    max_size=20,
)
Entries = dict[str, tuple[Any, int]]


def pair(left: Any, right: Any) -> str:
    return f"{left}+{right}"


def plain(outputs: list[Any]) -> list[tuple[Any, ...]]:
    return [(each.record.key, each.record.value, each.record.timestamp) for each in outputs]


def join_of(how: Any, semantics: Any = "strict", stored: bool = False) -> TopologyDriver:
    name = "joined" if stored else None
    return TopologyDriver(
        lambda topics: topics.table("left").join(topics.table("right"), pair, how=how, name=name, semantics=semantics)
    )


def result(how: str, left: Any, right: Any) -> str | None:
    there = {"inner": left is not None and right is not None, "left": left is not None, "outer": True}[how]
    return pair(left, right) if there and not (left is None and right is None) else None


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(ROWS, st.sampled_from(["inner", "left", "outer"]), st.booleans())
def test_strict_joins_give_an_update_when_a_result_is_or_was(rows: Any, how: str, stored: bool) -> None:
    driver = join_of(how, stored=stored)
    tables: dict[str, Entries] = {"left": {}, "right": {}}
    for side, key, value, time in rows:
        own, other = tables[side], tables["right" if side == "left" else "left"].get(key)

        def joined(mine: Any, side: str = side, other: Any = other) -> str | None:
            met = None if other is None else other[0]
            return result(how, mine, met) if side == "left" else result(how, met, mine)

        before = joined(own[key][0] if key in own else None)
        after = joined(value)
        had = key in own
        if value is None:
            own.pop(key, None)
        else:
            own[key] = (value, time)
        wanted = []
        if (after is not None or before is not None) and (had or value is not None):
            wanted = [(key, after, time if other is None else max(time, other[1]))]
        assert plain(driver.pipe(side, key, value, time)) == wanted


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("items"), st.sampled_from("ij"), st.sampled_from(["p1", "q1", "q2", "-", None])),
            st.tuples(st.just("owners"), st.sampled_from("pq"), st.sampled_from(["o1", "o2", None])),
        ),
        max_size=20,
    ),
    st.sampled_from(["inner", "left"]),
)
def test_a_strict_foreign_key_join_is_the_join_of_the_tables_after_each_row(rows: Any, how: Any) -> None:
    driver = TopologyDriver(
        lambda topics: topics.table("items").join_foreign_key(
            topics.table("owners"), lambda key, value: None if value == "-" else value[0], pair, how=how
        )
    )
    items: dict[str, str] = {}
    owners: dict[str, str] = {}
    seen: dict[str, str] = {}
    changes: list[Any] = []
    for at, (topic, key, value) in enumerate(rows):
        table = items if topic == "items" else owners
        if value is None:
            table.pop(key, None)
        else:
            table[key] = value
        for output in driver.pipe(topic, key, value, at):
            record = output.record
            if record.value is None:
                del seen[record.key]  # a deletion only of what is there
            else:
                seen[record.key] = record.value
        wanted = {}
        for item, named in items.items():
            owner = None if named == "-" else owners.get(named[0])
            if owner is not None or how == "left":
                wanted[item] = pair(named, owner)
        assert seen == wanted
        if at % 6 == 5:
            changes += driver.changes()
            driver.restart(changes)


def test_kafka_forwards_deletions_of_what_never_was() -> None:
    rows = [("right", "a", "r", 1), ("left", "a", None, 2), ("left", "a", None, 3)]
    assert [plain(join_of("inner").pipe(*row)) for row in rows] == [[], [], []]
    kafka = join_of("inner", "kafka")
    assert [plain(kafka.pipe(*row)) for row in rows] == [[], [("a", None, 2)], [("a", None, 3)]]


@pytest.mark.parametrize("how", ["inner", "left", "outer"])
def test_a_table_joined_with_itself_gives_one_update_and_its_deletion(how: Any) -> None:
    def build(topics: Any) -> Any:
        table = topics.table("t")
        return table.join(table.map_values(str.upper), pair, how=how)

    driver = TopologyDriver(build)
    assert plain(driver.pipe("t", "a", "x", 1)) == [("a", "x+X", 1)]
    assert plain(driver.pipe("t", "a", None, 2)) == [("a", None, 2)]
    assert plain(driver.pipe("t", "a", None, 3)) == []


def test_the_first_update_of_an_aggregate_has_no_old_value_in_strict_mode() -> None:
    def build(topics: Any) -> Any:
        counts = topics.stream("s").group_by_key().count()
        return counts.group_by(lambda key, count: (str(count), 1)).count()

    assert plain(TopologyDriver(build).pipe("s", "a", "x", 1)) == [("1", 1, 1)]
    kafka = TopologyDriver(build, semantics="kafka")
    assert plain(kafka.pipe("s", "a", "x", 1)) == [("0", None, 1), ("1", 1, 1)]  # it was never in group 0


def test_a_versioned_table_gives_the_version_of_the_rows_time_and_skips_old_ones_behind() -> None:
    def build(topics: Any) -> dict[str, Any]:
        prices = topics.table("prices", history=100)
        return {
            "joined": topics.stream("orders").join_table(prices, pair),
            "groups": prices.group_by(lambda key, price: ("all", price)).aggregate(
                int, lambda total, price: total + price, lambda total, price: total - price
            ),
        }

    driver = TopologyDriver(build)
    assert [each.record.value for each in driver.pipe("prices", "a", 1, 10)] == [1]
    assert [each.record.value for each in driver.pipe("prices", "a", 3, 30)] == [3]
    assert driver.pipe("prices", "a", 2, 20) == []  # it is not the newest
    assert [driver.pipe("orders", "a", "o", at)[0].record.value for at in (15, 25, 30)] == ["o+1", "o+2", "o+3"]
    assert driver.pipe("orders", "a", "o", 9) == []
    driver.pipe("prices", "b", 1, 500)
    assert driver.pipe("prices", "a", 9, 399) == []
    assert driver.dropped == 1  # older than the history


@pytest.mark.parametrize(("semantics", "joined"), [("strict", []), ("kafka", ["o+late"])])
def test_kafkas_semantics_forget_a_deletion_at_the_time_of_the_only_version(semantics: Any, joined: list[str]) -> None:
    # Recorded from Kafka Streams 4.1.1: a price that comes late is valid forever, though the key was deleted behind it.
    driver = TopologyDriver(
        lambda topics: topics.stream("orders").join_table(topics.table("prices", history=100), pair),
        semantics=semantics,
    )
    for price, at in (("x", 29), (None, 29), ("late", 10)):
        driver.pipe("prices", "a", price, at)
    assert [each.record.value for each in driver.pipe("orders", "a", "o", 30)] == joined
    assert [each.record.value for each in driver.pipe("orders", "a", "o", 15)] == ["o+late"]


def test_a_grace_longer_than_the_history_is_refused() -> None:
    with pytest.raises(BuildError, match="grace is 10 ms, but the table's history is 5 ms"):
        TopologyDriver(lambda t: t.stream("s").join_table(t.table("v", history=5), pair, grace=10))
    with pytest.raises(BuildError, match="grace needs a table with history"):
        TopologyDriver(lambda t: t.stream("s").join_table(t.table("v"), pair, grace=10))


def test_silence_makes_no_version_of_a_table_older():
    driver = TopologyDriver(
        lambda topics: topics.stream("orders").join_table(topics.table("prices", history=100), pair), idle_after="10ms"
    )
    for price, at in (("p5", 5), ("p50", 50)):
        driver.pipe("prices", "tea", price, timestamp=at)
    driver.advance_wall_clock("1s")
    assert plain(driver.pipe("orders", "tea", "order", timestamp=20)) == [("tea", "order+p5", 20)]
    driver.pipe("prices", "tea", "p10", timestamp=10)
    assert plain(driver.pipe("orders", "tea", "order", timestamp=20)) == [("tea", "order+p10", 20)]
    assert driver.dropped == 0


def test_silence_releases_the_rows_that_wait_for_a_versioned_table():
    driver = TopologyDriver(
        lambda topics: topics.stream("orders").join_table(topics.table("prices", history=100), pair, grace=10),
        idle_after="5ms",
    )
    driver.pipe("prices", "tea", "p5", timestamp=5)
    assert driver.pipe("orders", "tea", "o20", timestamp=20) == []
    assert driver.advance_wall_clock("14ms") == []
    assert plain(driver.advance_wall_clock("1ms")) == [("tea", "o20+p5", 20)]
    assert driver.advance_wall_clock("100ms") == []
    driver.pipe("orders", "tea", "late", timestamp=21)
    assert [late.record.value for late in driver.late] == ["late"]


def fails(*_: Any) -> Any:
    raise ValueError("no")


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda t: t.table("left").join(t.table("right"), fails), "the joiner of key 'a' raised ValueError"),
        (lambda t: t.table("right").join(t.table("left"), fails), "the joiner of key 'a' raised ValueError"),
        (
            lambda t: t.table("left").join_foreign_key(t.table("right"), fails, pair),
            "the foreign key of key 'a' raised",
        ),
        (
            lambda t: t.table("left").join_foreign_key(t.table("right"), lambda key, value: "a", fails),
            "the joiner of key 'a' raised ValueError",
        ),
        (lambda t: t.stream("left").join_table(t.table("right"), fails), "the joiner of key 'a' raised ValueError"),
        (
            lambda t: t.stream("left").join_global(t.global_table("right"), pair, key=fails),
            "the key function of key 'a' raised ValueError",
        ),
        (
            lambda t: t.stream("left").join_global(t.global_table("right"), fails, key=lambda row: "a"),
            "the joiner of key 'a' raised ValueError",
        ),
    ],
)
def test_a_function_of_a_join_that_raises_is_named_with_its_key(build: Any, says: str) -> None:
    driver = TopologyDriver(build)
    driver.pipe("right", "a", "r", 1)
    with pytest.raises(OperatorFailed, match=says):
        driver.pipe("left", "a", "l", 2)


@given(st.lists(st.sampled_from([None, "a", "b", "", 0, 1, True, ("a",)]), max_size=12))
def test_the_hash_of_a_left_value_is_that_of_its_bytes_however_often_it_was_asked_for(values: list[Any]) -> None:
    """An answer is of the present value if it carries this hash, and Kafka Streams' hash has 16 bytes. The last value is remembered."""
    env = TaskEnvironment(Serdes(), TaskMetrics())
    hashes = ValueHashes(env)
    for value in [each for each in values for _ in range(2)]:
        found = hashes.of(value)
        assert found == ValueHashes(env).of(value)
        assert (found is None) == (value is None)
        if found is not None:
            assert len(found) == 16
            assert all(
                (found == hashes.of(other)) == (env.serdes.value(other) == env.serdes.value(value))
                for other in ("a", 0, 1)
            )


def test_silence_gives_a_held_row_when_its_grace_is_over_and_the_task_knows_when() -> None:
    driver = TopologyDriver(
        lambda topics: topics.stream("s").join_table(topics.table("v", history=100), pair, how="left", grace=10),
        idle_after="50ms",
    )
    assert driver._task.idle_due_ms() is None
    assert driver.pipe("s", "a", "x", 5) == []
    assert driver._task.idle_due_ms() == 60
    assert driver.advance_wall_clock("59ms") == []
    assert plain(driver.advance_wall_clock("1ms")) == [("a", "x+None", 5)]
    assert driver._task.idle_due_ms() is None


@pytest.mark.parametrize("semantics", ["strict", "kafka"])
@pytest.mark.parametrize(("how", "counted"), [("inner", [1, 1, 1, 1, 2]), ("left", [0, 0, 0, 0, 1])])
def test_a_row_without_a_foreign_key_is_counted_once_where_it_gives_no_result(
    how: Any, counted: list[int], semantics: Any
) -> None:
    driver = TopologyDriver(
        lambda topics: topics.table("items").join_foreign_key(
            topics.table("owners"),
            lambda _, value: None if value == "-" else value,
            pair,
            how=how,
            semantics=semantics,
        )
    )
    seen = []
    for row in (("i", "-", 1), ("j", None, 2), ("i", "o", 3), ("i", "-", 4), (None, "o", 5)):
        driver.pipe("items", *row)
        seen.append(driver.dropped)
    assert seen == counted


@pytest.mark.parametrize("history", [None, 100])
def test_a_text_key_that_has_no_bytes_is_refused_by_every_table(history: int | None) -> None:
    driver = TopologyDriver(lambda topics: topics.table("t", history=history, name="kept"))
    with pytest.raises(InvalidRecord, match="is not UTF-8 text"):
        driver.pipe("t", "\ud800", 1, 1)
