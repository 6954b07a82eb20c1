"""Every table with a name can be read: by a TopologyDriver, and by readers from outside, with get, items and range."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from streamactors.testing import TopologyDriver
from streamactors.windows import (
    BufferConfig,
    KeyValueStore,
    Processor,
    SessionStore,
    SessionWindows,
    SlidingWindows,
    Suppressed,
    TimeWindows,
    UnknownStore,
    VersionedStore,
    WindowStore,
)
from streamactors.windows.stage.store_reads import Reading, in_order
from streamactors.windows.state.reads import StoreRequest
from streamactors.windows.state.serdes import Serdes

TEN = TimeWindows.of_size(10).with_grace(100)


class Writes(Processor):
    """Puts the value of each record into each kind of store."""

    def init(self, context: Any) -> None:
        self.known = context.store("known")

    def process(self, record: Any) -> None:
        kind = type(self.known.definition)
        at = record.timestamp
        self.known.put(
            record.key,
            *{
                KeyValueStore: (record.value,),
                WindowStore: (record.value, at),
                SessionStore: (at, at, record.value),
                VersionedStore: (record.value, at),
            }[kind],
        )


def grouped(topics: Any) -> Any:
    return topics.stream("l").group_by_key()


def processed(store: Any) -> Callable[[Any], Any]:
    return lambda topics: topics.stream("l").process(Writes, stores=[store])


def latest(old: Any, new: Any) -> Any:
    return new


def first(left: Any, right: Any) -> Any:
    return left


KINDS: dict[str, Callable[[Any], Any]] = {
    "table": lambda topics: topics.table("l", name="known"),
    "history": lambda topics: topics.table("l", name="known", history="1h"),
    "ttl": lambda topics: topics.table("l", name="known", ttl="1h"),
    "to_table": lambda topics: topics.stream("l").to_table(name="known"),
    "to_table history": lambda topics: topics.stream("l").to_table(name="known", history="1h"),
    "filter": lambda topics: topics.table("l").filter(bool, name="known"),
    "filter_not": lambda topics: topics.table("l").filter_not(lambda value: False, name="known"),
    "map_values": lambda topics: topics.table("l").map_values(str, name="known"),
    "view of history": lambda topics: topics.table("l", history="1h").map_values(str, name="known"),
    "view of a view": lambda topics: topics.table("l").filter(bool).map_values(str, name="known"),
    "join": lambda topics: topics.table("l").join(topics.table("r"), first, how="left", name="known"),
    "outer join": lambda topics: topics.table("l").join(topics.table("r"), first, how="outer", name="known"),
    "join with history": lambda topics: topics.table("l").join(
        topics.table("r", history="1h"), first, how="left", name="known"
    ),
    "view of a join": lambda topics: (
        topics.table("l").join(topics.table("r"), first, how="left").filter(bool, name="known")
    ),
    "foreign key": lambda topics: topics.table("l").join_foreign_key(
        topics.table("r"), lambda key, value: key, first, how="left", name="known"
    ),
    "count": lambda topics: grouped(topics).count(name="known"),
    "reduce": lambda topics: grouped(topics).reduce(latest, name="known"),
    "aggregate": lambda topics: grouped(topics).aggregate(int, latest, name="known"),
    "ready": lambda topics: grouped(topics).max(name="known"),
    "cogroup": lambda topics: (
        grouped(topics).cogroup(latest).cogroup(topics.stream("r").group_by_key(), latest).aggregate(int, name="known")
    ),
    "group of a table": lambda topics: topics.table("l").group_by(lambda key, value: (key, value)).count(name="known"),
    "time windows": lambda topics: grouped(topics).windowed_by(TEN).count(name="known"),
    "hopping windows": lambda topics: grouped(topics).windowed_by(TEN.advance_by(5)).count(name="known"),
    "session windows": lambda topics: (
        grouped(topics).windowed_by(SessionWindows.with_gap(5).with_grace(100)).count(name="known")
    ),
    "sliding windows": lambda topics: (
        grouped(topics).windowed_by(SlidingWindows.of_difference(5).with_grace(100)).count(name="known")
    ),
    "windows on close": lambda topics: grouped(topics).windowed_by(TEN).count(name="known").emit_on_window_close(),
    "windowed cogroup": lambda topics: (
        grouped(topics)
        .cogroup(latest)
        .cogroup(topics.stream("r").group_by_key(), latest)
        .windowed_by(TEN)
        .aggregate(int, name="known")
    ),
    "view of windows": lambda topics: grouped(topics).windowed_by(TEN).count().map_values(str, name="known"),
    "join of windows": lambda topics: (
        grouped(topics)
        .windowed_by(TEN)
        .count()
        .join(topics.stream("r").group_by_key().windowed_by(TEN).count(), first, how="left", name="known")
    ),
    "suppressed": lambda topics: topics.table("l", name="from").suppress(
        Suppressed.until_time_limit(0, BufferConfig.max_records(9).emit_early_when_full()).with_name("known")
    ),
    "key-value store": processed(KeyValueStore("known")),
    "window store": processed(WindowStore("known", 1_000)),
    "session store": processed(SessionStore("known", 1_000)),
    "versioned store": processed(VersionedStore("known", 1_000)),
}


def read(driver: TopologyDriver, kind: str, key: Any = None, last: Any = None) -> list[Any]:
    """Return what a reader from outside gets."""
    serdes = Serdes()
    return in_order(Reading("known", StoreRequest(kind, key, last), serdes)([driver._task]), serdes)


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_named_result_is_read_by_key_range_and_prefix(kind: str, restarted: bool) -> None:
    # joins, views and tables with history answered that the store None of known cannot be read
    driver = TopologyDriver(KINDS[kind])
    for key, at in (("a", 1), ("ab", 2), ("b", 3)):
        driver.pipe("l", key, 7, timestamp=at)
    if restarted:
        driver.restart(driver.changes())
    assert {"known"} <= driver._task.readable
    everything = read(driver, "range")
    assert list(dict.fromkeys(each.key for each in everything)) == ["a", "ab", "b"]
    assert all(each.value is not None for each in everything)
    assert read(driver, "get", "ab") == [each for each in everything if each.key == "ab"]
    assert read(driver, "get", "nobody") == []
    assert {each.key for each in read(driver, "range", "ab", "b")} == {"ab", "b"}
    assert {each.key for each in read(driver, "prefix", "a")} == {"a", "ab"}


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "store" not in kind])
def test_the_view_of_a_driver_lists_what_it_gets(kind: str) -> None:
    # items() raised TypeError for joins and windows, while get and fetch worked
    driver = TopologyDriver(KINDS[kind])
    for key, at in (("b", 3), ("a", 3)):
        driver.pipe("l", key, 7, timestamp=at)
    view = driver.store("known")
    items = list(view.items())
    assert items
    for where, found in items:
        assert (view.fetch(*where) if isinstance(where, tuple) else view.get(where)) == found
    assert [where[0] for where, _ in items] == sorted(where[0] for where, _ in items)


def test_a_suppressed_table_is_read_as_it_was_emitted() -> None:
    def build(topics: Any) -> Any:
        held = Suppressed.until_time_limit(10, BufferConfig.unbounded()).with_name("known")
        return topics.table("l", name="from").suppress(held)

    driver = TopologyDriver(build)
    driver.pipe("l", "a", 1, timestamp=0)
    assert read(driver, "range") == []
    driver.pipe("l", "b", 2, timestamp=20)
    assert [(each.key, each.value) for each in read(driver, "range")] == [("a", 1)]
    driver.pipe("l", "a", 3, timestamp=21)
    assert [(each.key, each.value) for each in read(driver, "range")] == [("a", 1)]
    assert [(key, value) for key, (value, _) in driver.store("known").items()] == [("a", 1)]


def test_a_suppressed_view_is_read_through_the_view() -> None:
    def build(topics: Any) -> Any:
        once = Suppressed.until_time_limit(0, BufferConfig.unbounded()).with_name("known")
        return topics.table("l", name="from").map_values(lambda value: 10 // value).suppress(once)

    driver = TopologyDriver(build)
    driver.pipe("l", "a", 5, timestamp=0)
    assert [each.value for each in read(driver, "range")] == [2]


def test_a_store_of_rows_that_wait_says_that_it_holds_no_results() -> None:
    from streamactors.windows import JoinWindows

    driver = TopologyDriver(
        lambda topics: topics.stream("l").join(
            topics.stream("r"), first, JoinWindows.of(10).with_grace(0), name="known"
        )
    )
    driver.pipe("l", "a", 1, timestamp=0)
    with pytest.raises(UnknownStore, match="the store 'known-left' holds what a step waits for"):
        driver._task.entries("known-left", StoreRequest("range"))


@pytest.mark.parametrize("kind", ["table", "join", "history"])
def test_numbers_are_ordered_by_value_for_readers_from_outside(kind: str) -> None:
    # range(-1, 1) was empty, because the bytes of -1 lie behind those of 1
    driver = TopologyDriver(KINDS[kind])
    for key in (5, -3, 1.5, -1, 0, "a"):
        driver.pipe("l", key, 7, timestamp=1)
    assert [each.key for each in read(driver, "range")] == [-3, -1, 0, 1.5, 5, "a"]
    assert [each.key for each in read(driver, "range", -1, 2)] == [-1, 0, 1.5]
    assert [each.key for each in read(driver, "range", None, -1)] == [-3, -1]
    assert [key for key, _ in driver.store("known").items()] == [-3, -1, 0, 1.5, 5, "a"]


def test_a_ready_aggregate_is_read_as_its_result() -> None:
    # its state was shown: [7] for a maximum, (7, 1) for a mean
    for name, wanted in (("max", 7), ("mean", 7.0), ("first", 7)):
        driver = TopologyDriver(lambda topics: getattr(grouped(topics), name)(name="known"))  # noqa: B023
        driver.pipe("l", "a", 7, timestamp=1)
        assert [each.value for each in read(driver, "get", "a")] == [wanted]
        assert list(driver.store("known").items()) == [("a", (wanted, 1))]
