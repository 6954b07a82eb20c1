"""Functions of the user may change everything they get: no store changes with it, and a restart changes no result.

Kafka Streams keeps bytes, so what its functions get is theirs. Here stores keep objects. Each topology runs five times with the same rows:
with functions that change no argument, and with functions that spoil their arguments; the latter without restarts, with a restart from the
changelog after each row, with a restart from disk after each row, and with all rows as one chunk. All results are equal.

Keys are strings, dicts and tuples of lists. A `peek` after each input and after the results spoils keys and values that others have taken.
The file has over 400 lines because it is one table of topologies under one law."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from streamactors.testing import TopologyDriver
from streamactors.windows import (
    CountWindows,
    JoinWindows,
    KeyValueStore,
    Processor,
    Record,
    SessionStore,
    TaskIdentity,
    VersionedStore,
    WindowStore,
)
from streamactors.windows.stage.store_reads import Reading
from streamactors.windows.state.disk.disk_stores import DiskStores
from streamactors.windows.state.disk.rocks import Memory, Rocks
from streamactors.windows.state.disk.task_disk import TaskDisk
from streamactors.windows.state.reads import StoreEntry, StoreRequest
from streamactors.windows.state.serdes import Serdes
from streamactors.windows.topology.edges import Output
from streamactors.windows.topology.table import TopologyTable
from streamactors.windows.topology.task_factory import TaskFactory
from streamactors.windows.topology.topics import TopologyTopics
from tests.windows.mutating import (
    CLOSED,
    HELD,
    HOPPING,
    KEYS,
    ROWS,
    SESSIONS,
    SLIDING,
    TUMBLING,
    Wrap,
    both,
    calm,
    gather,
    plus,
    row,
    spoil,
    spoiling,
)


def drop(seen: list[Any], value: Any) -> list[Any]:
    return [each for each in seen if each != value]


def named(key: Any, value: Any) -> Any:
    return KEYS[f"k{len(value['in']) % 3}"]


class Keeps(Processor):
    """Reads and writes every kind of store, and spoils what it gets and what it has put."""

    def __init__(self, wrap: Wrap) -> None:
        self.spoils = wrap is spoiling

    def init(self, context: Any) -> None:
        self.context = context
        self.values, self.windows, self.sessions, self.versions, self.table = map(
            context.store, ("k", "w", "s", "v", "t")
        )

    def on_timer(self, key: Any, at: int) -> None:
        self.context.forward(Record(copy.deepcopy(key), "timer", at))
        if self.spoils:
            spoil(key)

    def process(self, record: Record) -> None:
        key, time, values = record.key, record.timestamp, self.values
        self.context.timer(key, time + 4)
        found = [
            values.get(key),
            *values.range(None, None),
            *values.prefix(key),
            *values.items(),
            values.put_if_absent("first", {"in": [time]}),
            *self.windows.range(key, 0, 99),
            *self.windows.items(),
            self.windows.get(key, time),
            *self.sessions.find(key),
            *self.sessions.items(),
            self.sessions.get(key, time, time + 1),
            self.versions.get(key),
            self.versions.get(key, time - 2),
            self.table.get(key),
            *self.table.items(),
        ]
        self.context.forward(Record(copy.deepcopy(key), copy.deepcopy(found), time))
        put = [copy.deepcopy(record.value) for _ in range(4)]
        values.put(key, put[0])
        self.windows.put(key, put[1], time)
        self.sessions.put(key, time, time + 1, put[2])
        self.versions.put(key, put[3], time)
        if time % 5 == 0:
            found.append(values.delete(key))
        if self.spoils:
            spoil([*found, *put, key])


def stores(wrap: Wrap, topics: TopologyTopics) -> Any:
    topics.table("b", name="t")
    expired = wrap(lambda key, value: Record(key, ["expired", value], 1))
    own = [KeyValueStore("k", ttl=9, touch="read", on_expire=expired), WindowStore("w", retention=20)]
    own += [SessionStore("s", retention=20), VersionedStore("v", history=20)]
    return topics.stream("a").process(lambda: Keeps(wrap), stores=[*own, "t"], name="p")


Build = Callable[[Wrap, TopologyTopics], Any]


def windowed(windows: Any, *merge: Any, then: Callable[[Any], Any] = lambda table: table) -> Build:
    def build(wrap: Wrap, topics: TopologyTopics) -> Any:
        grouped = topics.stream("a").group_by_key().windowed_by(windows)
        merged = [wrap(each) for each in merge]
        table = then(grouped.aggregate(list, wrap(gather), *merged, name="n"))
        return table.map_values(wrap(lambda value: {"seen": value})).to_stream()

    return build


def in_place(windows: Any, *merge: Any, then: Callable[[Any], Any] = lambda table: table) -> Build:
    """As `windowed`, with a function that changes the aggregate and keeps the row's value in it."""

    def build(wrap: Wrap, topics: TopologyTopics) -> Any:
        rows = topics.stream("a")
        table = then(rows.group_by_key().windowed_by(windows).aggregate(list, gather, *merge, name="n"))
        rows.peek(wrap(lambda row: None))  # behind the aggregation: spoils the values that it has taken
        return table.map_values(wrap(lambda value: {"seen": value})).to_stream()

    return build


def cogrouped(windows: Any, *merge: Any) -> Build:
    def build(wrap: Wrap, topics: TopologyTopics) -> Any:
        grouped = topics.stream("a").group_by_key().cogroup(wrap(gather))
        grouped = grouped.cogroup(topics.stream("b").group_by_key(), wrap(gather))
        if windows is not None:
            grouped = grouped.windowed_by(windows)
        return grouped.aggregate(list, *map(wrap, merge), name="n").to_stream()

    return build


def regrouped(wrap: Wrap, topics: TopologyTopics) -> Any:
    table = topics.table("a", name="rows")
    grouped = table.group_by(wrap(lambda key, value: (named(key, value), value)))
    return grouped.aggregate(list, wrap(gather), wrap(drop), name="groups").map_values(wrap(lambda value: value))


def reduced(wrap: Wrap, topics: TopologyTopics) -> Any:
    grouped = topics.table("a", name="rows").group_by(wrap(lambda key, value: (named(key, value), value)))
    return grouped.reduce(wrap(both), wrap(lambda a, v: a if a != v else {"in": []}), name="groups")


def joined_tables(how: str, name: str | None, *, history: Any = None) -> Build:
    def build(wrap: Wrap, topics: TopologyTopics) -> Any:
        left, right = (topics.table(topic, name=topic, history=history) for topic in "ab")
        joined = left.join(right, wrap(both), how=how, name=name)
        return joined.group_by(wrap(lambda key, value: ("all", value))).aggregate(list, wrap(gather), wrap(drop))

    return build


def diamond(wrap: Wrap, topics: TopologyTopics) -> Any:
    table = topics.table("a", name="a")
    return table.join(table.join(topics.table("b", name="b"), calm(both), how="left"), wrap(both))


def views(store: str | None) -> Build:
    def build(wrap: Wrap, topics: TopologyTopics) -> Any:
        names = [None if store is None else f"{store}{n}" for n in range(3)]
        view = topics.table("a", name="rows").map_values(wrap(lambda value: {"mapped": value}), name=names[0])
        view = view.filter(lambda value: len(value["mapped"]["in"]) % 3 > 0, name=names[1])
        view = view.filter_not(lambda value: len(value["mapped"]["in"]) > 6, name=names[2])
        joined = topics.stream("b").join_table(view, wrap(both), how="left")
        return joined.map_values(wrap(lambda value: value))

    return build


def joined_streams(how: str) -> Build:
    def build(wrap: Wrap, topics: TopologyTopics) -> Any:
        windows = JoinWindows.of(4).with_grace(2)
        return topics.stream("a").join(topics.stream("b"), wrap(both), windows, how=how, name="pairs")

    return build


def lookup(wrap: Wrap, topics: TopologyTopics) -> Any:
    def answer(key: Any) -> Any:
        return {"answer": list(key)} if key != KEYS["k1"] else None

    return topics.stream("a").join_lookup(wrap(answer), wrap(both), how="left")


def counted(make: Callable[[Any, Wrap], Any]) -> Build:
    return lambda wrap, topics: make(topics.stream("a").group_by_key().windowed_by(CountWindows.of_size(2)), wrap)


def keyed(wrap: Wrap, topics: TopologyTopics) -> Any:
    """The state itself is the result, and the table downstream keeps it."""

    def collect(state: list[Any], record: Record) -> tuple[Any, list[Any]]:
        if wrap is spoiling:
            state.append(record.value)
            return state, [state]
        new = copy.deepcopy([*state, record.value])
        return new, [copy.deepcopy(new)]

    lists = topics.stream("a").keyed(collect, initial=list, name="lists").to_table(name="kept")
    return lists.group_by(lambda key, values: ("all", len(values))).aggregate(
        int, lambda a, v: a + v, lambda a, v: a - v
    )


@dataclass
class Basket:
    """A state of a class of the user's own; it is in memory only."""

    items: list[Any] = field(default_factory=list)


BUILDS: dict[str, Build] = {
    "stream-table join": lambda wrap, t: t.stream("a").join_table(t.table("b", name="people"), wrap(both), how="left"),
    "stream-table join of a table with ttl": lambda wrap, t: t.stream("a").join_table(t.table("b", ttl=9, name="people"), wrap(both), how="left"),
    "stream-table join with grace": lambda wrap, t: t.stream("a").join_table(t.table("b", history="1m", name="versions"), wrap(both), grace=2, how="left", name="held"),
    "join as of": lambda wrap, t: t.stream("a").join_asof(t.stream("b"), wrap(both), history=20, grace=2, how="left", name="held"),
    "global table": lambda wrap, t: t.stream("a").join_global(t.global_table("b"), wrap(both), key=lambda record: record.key, how="left"),
    "inner join of tables": joined_tables("inner", None),
    "outer join of tables": joined_tables("outer", None),
    "stored join of tables": joined_tables("left", "known"),
    "join of tables with history": joined_tables("left", "known", history=20),
    "table with its own join": diamond,
    "foreign key": lambda wrap, t: t.table("a", name="l").join_foreign_key(t.table("b", name="r"), wrap(named), wrap(both), how="left", name="fk"),
    "inner join of streams": joined_streams("inner"),
    "left join of streams": joined_streams("left"),
    "outer join of streams": joined_streams("outer"),
    "lookup": lookup,
    "views": views(None),
    "stored views": views("view"),
    "group of a table": regrouped,
    "reduce of a table": reduced,
    "aggregate": lambda wrap, t: t.stream("a").group_by_key().aggregate(list, wrap(gather), name="n").map_values(wrap(lambda value: {"seen": value})),
    "aggregate in place": lambda wrap, t: t.stream("a").group_by_key().aggregate(list, gather, name="n").map_values(wrap(lambda value: {"seen": value})),
    "reduce": lambda wrap, t: t.stream("a").group_by_key().reduce(wrap(both), name="n").map_values(wrap(lambda value: value)),
    "suppressed table": lambda wrap, t: t.table("a", name="rows").suppress(HELD).map_values(wrap(lambda value: value)),
    "tumbling windows": windowed(TUMBLING),
    "hopping windows": windowed(HOPPING),
    "sliding windows": windowed(SLIDING),
    "sessions": windowed(SESSIONS, plus),
    "suppressed windows": windowed(TUMBLING, then=lambda table: table.suppress(CLOSED)),
    "suppressed sliding windows": windowed(SLIDING, then=lambda table: table.suppress(CLOSED)),
    "suppressed sessions": windowed(SESSIONS, plus, then=lambda table: table.suppress(CLOSED)),
    "windows emitted on close": windowed(HOPPING, then=lambda table: table.emit_on_window_close()),
    "sliding windows emitted on close": windowed(SLIDING, then=lambda table: table.emit_on_window_close()),
    "sessions emitted on close": windowed(SESSIONS, plus, then=lambda table: table.emit_on_window_close()),
    "windows in place": in_place(HOPPING),
    "suppressed windows in place": in_place(HOPPING, then=lambda table: table.suppress(CLOSED)),
    "windows in place emitted on close": in_place(HOPPING, then=lambda table: table.emit_on_window_close()),
    "cogroup": cogrouped(None),
    "cogroup of windows": cogrouped(HOPPING),
    "cogroup of sessions": cogrouped(SESSIONS, plus),
    "count windows": counted(lambda grouped, wrap: grouped.aggregate(list, wrap(gather)).map_values(wrap(lambda value: value))),
    "count windows in place": counted(lambda grouped, wrap: grouped.aggregate(list, gather).map_values(wrap(lambda value: value))),
    "reduce of count windows": counted(lambda grouped, wrap: grouped.reduce(wrap(both))),
    "stores of a processor": stores,
    "keyed": keyed,
}  # fmt: skip

IDENTITY = TaskIdentity("mutates")


class Inputs(TopologyTopics):
    """Topics that keep the streams and tables of their inputs."""

    def __init__(self, semantics: Any) -> None:
        super().__init__(semantics)
        self.made: list[Any] = []

    def stream(self, *names: Any, **options: Any) -> Any:
        self.made.append(super().stream(*names, **options))
        return self.made[-1]

    def table(self, *names: Any, **options: Any) -> Any:
        self.made.append(super().table(*names, **options))
        return self.made[-1]


def topology_of(build: Build, wrap: Wrap, semantics: Any) -> TopologyTopics:
    topics = Inputs(semantics)
    results = build(wrap, topics)
    results.to("out")
    for each in (results, *topics.made):  # after all other steps
        rows = each.to_stream() if isinstance(each, TopologyTable) else each
        rows.peek(wrap(lambda row: None))
    return topics


def shown(outputs: list[Output]) -> list[Any]:
    """The results as they are now; whoever got them then spoils them."""
    found = [
        (each.topic, *copy.deepcopy((each.record.key, each.record.value)), each.record.timestamp) for each in outputs
    ]
    for each in outputs:
        spoil(each.record)
    return found


def run(build: Build, wrap: Wrap, semantics: Any, *, restarts: bool = False) -> list[Any]:
    factory = TaskFactory(topology_of(build, wrap, semantics).topology, changelog=True)
    task, found, entries = factory.restored(IDENTITY, ()), [], []
    for number, (topic, *_) in enumerate(ROWS):
        if topic in factory.topology.sources:
            found += shown(task.process_chunk([row(number)]))
        if restarts:
            entries += task.changes()
            task = factory.restored(IDENTITY, entries)
    return found + shown(task.end_of_input())


RESTART_EACH = 3
"""Rows between two restarts on disk; in memory there is one after each row."""


def run_on_disk(build: Build, path: Path) -> list[Any]:
    memory = Memory(8 << 20)
    factory = TaskFactory(topology_of(build, spoiling, "strict").topology, changelog=True)
    names, found = factory().stores, []
    task: Any = None
    for first in range(0, len(ROWS), RESTART_EACH):
        disk = TaskDisk(Rocks(path, memory), names, time_first=factory.time_first)
        task = factory.restored(IDENTITY, (), DiskStores(disk, lambda: 1))
        for number, (topic, *_) in enumerate(ROWS[first : first + RESTART_EACH], first):
            if topic in factory.topology.sources:
                found += shown(task.process_chunk([row(number)]))
        if number == len(ROWS) - 1:
            found += shown(task.end_of_input())
        task.changes()
        disk.commit()
        disk.close()
    return found


@pytest.mark.parametrize("semantics", ["strict", "kafka"])
@pytest.mark.parametrize("name", BUILDS)
def test_what_functions_change_changes_no_state(name: str, semantics: str) -> None:
    build = BUILDS[name]
    expected = run(build, calm, semantics)
    assert expected, "the rows give no result"
    assert run(build, spoiling, semantics) == expected
    assert run(build, spoiling, semantics, restarts=True) == expected


@pytest.mark.parametrize("name", BUILDS)
def test_what_functions_change_changes_no_state_on_disk(name: str, tmp_path: Path) -> None:
    build = BUILDS[name]
    assert run_on_disk(build, tmp_path) == run(build, calm, "strict")


@pytest.mark.parametrize("name", BUILDS)
def test_what_functions_change_changes_no_result_of_the_same_chunk(name: str) -> None:
    build = BUILDS[name]

    def in_one(wrap: Wrap) -> list[Any]:
        factory = TaskFactory(topology_of(build, wrap, "strict").topology, changelog=True)
        task = factory.restored(IDENTITY, ())
        rows = [row(number) for number, each in enumerate(ROWS) if each[0] in factory.topology.sources]
        return shown(task.process_chunk(rows)) + shown(task.end_of_input())

    assert in_one(spoiling) == in_one(calm)


# ── what a topology of rows cannot show ───────────────────────────────────────────────────────────────────────────────


def test_a_row_that_failed_leaves_the_state_of_its_count_window_as_it_was() -> None:
    def add(seen: list[Any], value: Any) -> list[Any]:
        seen.append(value)
        if value == "bad":
            raise ValueError(value)
        return seen

    results = []
    for restarts in (False, True):
        driver = TopologyDriver(
            lambda topics: topics.stream("s").group_by_key().windowed_by(CountWindows.of_size(2)).aggregate(list, add),
            on_failure=lambda failure: True,
        )
        saved: list[Any] = []
        for at, value in enumerate(("one", "bad", "two")):
            results += [each.record.value for each in driver.pipe("s", "k", value, at)]
            saved += driver.changes()
            if restarts:
                driver.restart(saved)
    assert results == [["one", "two"]] * 2


def test_a_state_that_every_key_begins_with_is_not_shared() -> None:
    def collect(state: Basket, record: Record) -> tuple[Any, list[Any]]:
        state.items.append(record.value)
        return None, [list(state.items)]

    driver = TopologyDriver(lambda topics: topics.stream("s").keyed(collect, initial=Basket(["first"])))
    for key in "abc":
        assert [each.record.value for each in driver.pipe("s", key, key, 1)] == [["first", key]]


def test_what_a_test_or_a_query_reads_of_a_store_is_its_own() -> None:
    driver = TopologyDriver(lambda topics: topics.table("s", name="rows").filter(bool, name="view"))
    driver.pipe("s", {"id": [1]}, {"in": [1]}, 1)
    for name in ("rows", "view"):
        for _ in range(2):
            found = driver.store(name).get({"id": [1]})
            assert found == ({"in": [1]}, 1)
            spoil(found)
            listed = list(driver.store(name).items())
            assert listed == [({"id": [1]}, ({"in": [1]}, 1))]
            spoil(listed)
            [asked] = Reading(name, StoreRequest("range"), Serdes())([driver._task])
            assert asked == StoreEntry({"id": [1]}, {"in": [1]}, 1)
            spoil(asked)
