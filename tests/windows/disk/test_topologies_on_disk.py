"""Every stateful step of a topology gives what it gives without restarts, restored from its changelog and from disk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamactors.windows import (
    BufferConfig,
    CountWindows,
    JoinWindows,
    KeyValueStore,
    Processor,
    Record,
    RecordContext,
    SessionStore,
    SessionWindows,
    SlidingWindows,
    Suppressed,
    TaskIdentity,
    TimeWindows,
    VersionedStore,
    WindowStore,
)
from streamactors.windows.state.disk.disk_stores import DiskStores
from streamactors.windows.state.disk.rocks import Memory, Rocks
from streamactors.windows.state.disk.task_disk import TaskDisk
from streamactors.windows.topology.task_factory import TaskFactory
from streamactors.windows.topology.topics import TopologyTopics

IDENTITY = TaskIdentity("disk", 0, 1)


def both(left: Any, right: Any) -> Any:
    return f"{left}|{right}"


class Sums(Processor):
    """A sum for each key, forgotten by a timer."""

    def init(self, context: Any) -> None:
        self.context, self.sums = context, context.store("sums")

    def process(self, record: Record) -> None:
        self.sums.put(record.key, (self.sums.get(record.key) or 0) + (record.value or 0))
        self.context.timer(record.key, record.timestamp + 7)
        self.context.forward(record.replace(value=self.sums.get(record.key)))

    def on_timer(self, key: Any, at: int) -> None:
        self.context.forward(Record(key, ("timer", self.sums.delete(key)), at))


class Keeps(Processor):
    """All kinds of stores; a timer may be set for a time that has passed."""

    def init(self, context: Any) -> None:
        self.context = context
        self.values, self.windows, self.sessions, self.versions = map(context.store, ("k", "w", "s", "v"))

    def process(self, record: Record) -> None:
        key, value, time = record.key, record.value or 4, record.timestamp
        self.values.put(key, [time, record.value])
        if value == 3:
            self.values.delete(key)
        self.windows.put(key, value, time)
        self.sessions.put(key, value, time, time + value)
        self.versions.put(key, record.value, time)
        self.context.timer(key, time + value)
        found = [self.values.get("k0"), self.windows.range(key, 0, 1_000), self.sessions.find(key, 0, 1_000)]
        self.context.forward(record.replace(value=[found[0], *map(list, found[1:]), self.versions.get(key, time - 2)]))

    def on_timer(self, key: Any, at: int) -> None:
        self.context.forward(Record(key, ["timer", self.values.get(key), self.context.stream_time], at))


def keeping(touch: Any) -> Callable[[TopologyTopics], Any]:
    values = KeyValueStore("k", ttl=9, touch=touch, on_expire=lambda key, value: Record(key, ["expired", value], 1))
    stores = [values, WindowStore("w", retention=12), SessionStore("s", retention=12), VersionedStore("v", history=10)]
    return lambda topics: topics.stream("a").process(Keeps, stores=stores, name="p")


def running(total: int, record: Record) -> tuple[int | None, list[int]]:
    total += record.value or 0
    return (None if total > 15 else total), [total]


def finals(topics: TopologyTopics, topic: str) -> Any:
    windows = TimeWindows.of_size(5).with_grace(2)
    counted = topics.stream(topic).group_by_key().windowed_by(windows, retention=60).count(name=f"n-{topic}")
    return counted.suppress(CLOSED.with_name(f"held-{topic}"))


def one_by_one(topics: TopologyTopics) -> Any:
    """Sessions, each row a text."""
    windowed = topics.stream("a").group_by_key().windowed_by(SessionWindows.with_gap(4).with_grace(3))
    table = windowed.aggregate(str, lambda text, value: f"{text}{value}", lambda a, b: f"{a}/{b}", name="sessions")
    return table.suppress(CLOSED)


def outer_join(topics: TopologyTopics) -> Any:
    windows = JoinWindows.of(4).with_grace(3)
    return topics.stream("a").join(topics.stream("b"), both, windows, how="outer", name="pairs")


def foreign_key(topics: TopologyTopics) -> Any:
    right = topics.table("b", name="right")
    return topics.table("a", name="left").join_foreign_key(
        right, lambda key, value: f"k{value % 3}", both, how="left", name="fk"
    )


def graced(topics: TopologyTopics) -> Any:
    return topics.stream("a").join_table(
        topics.table("b", history="1m", name="versions"), both, grace=5, how="left", name="held"
    )


CLOSED = Suppressed.until_window_closes(BufferConfig.unbounded())
FEW = BufferConfig.max_records(2).emit_early_when_full()


BUILDS: dict[str, Callable[[TopologyTopics], Any]] = {
    "outer join": outer_join,
    "foreign key": foreign_key,
    "stream-table with grace": graced,
    "stream-table": lambda t: t.stream("a").join_table(t.table("b", name="people"), both, how="left"),
    "table-table": lambda t: t.table("a", name="left").join(t.table("b", name="right"), both, how="outer", name="known"),
    "group of a table": lambda t: t.table("a", name="rows")
    .group_by(lambda key, value: (value % 2, value))
    .aggregate(int, add=lambda a, v: a + v, subtract=lambda a, v: a - v, name="sums"),
    "windows": lambda t: t.stream("a").merge(t.stream("b")).group_by_key().windowed_by(TimeWindows.of_size(8).with_grace(4)).count(name="n"),
    "table with ttl": lambda t: t.stream("a").join_table(t.table("b", ttl=5, name="people"), both, how="left"),
    "processor": lambda t: t.stream("a").process(Sums, stores=[KeyValueStore("sums", ttl=9)], name="p"),
    "stores that are written": keeping("write"),
    "stores that are read": keeping("read"),
    "keyed": lambda t: t.stream("a").keyed(running, initial=0, ttl=10, name="totals"),
    "count windows": lambda t: t.stream("a").group_by_key().windowed_by(CountWindows.of_size(3)).count(),
    "sessions": one_by_one,
    "sliding windows": lambda t: t.stream("a").group_by_key().windowed_by(SlidingWindows.of_difference(4).with_grace(3)).count(name="n").emit_on_window_close(),
    "suppressed joins": lambda t: finals(t, "a").join(finals(t, "b"), both, how="outer", name="known"),
    "time limit": lambda t: t.table("a", name="rows").suppress(Suppressed.until_time_limit(5, FEW).with_name("held")),
    "no time limit": lambda t: t.table("a", name="rows").suppress(Suppressed.until_time_limit(0, FEW).with_name("held")),
    "join as of": lambda t: t.stream("a").join_asof(t.stream("b"), both, history=20, grace=4, how="left", name="held"),
    "join with itself": lambda t: (lambda s: s.join(s, both, JoinWindows.of(3).with_grace(2), name="pairs"))(t.stream("a")),
    "foreign key with ttl": lambda t: t.table("a", ttl=8, name="l").join_foreign_key(t.table("b", ttl=6, name="r"), lambda key, value: f"k{value % 3}", both, how="left", name="fk"),
    "tables with ttl": lambda t: t.table("a", ttl=8, name="l").join(t.table("b", ttl=5, name="r"), both, how="outer", name="known"),
    "tables with history": lambda t: t.table("a", history=10, name="l").join(t.table("b", history=10, name="r"), both, how="left", name="known"),
}  # fmt: skip


def factory_of(build: Callable[[TopologyTopics], Any]) -> TaskFactory:
    topics = TopologyTopics()
    build(topics).to("out")
    return TaskFactory(topics.topology, changelog=True)


@pytest.fixture(scope="module")
def memory() -> Memory:
    return Memory(8 << 20)


ROWS = st.lists(
    st.tuples(
        st.sampled_from("ab"),
        st.sampled_from(["k0", "k1", "k2"]),
        st.none() | st.integers(1, 9),
        st.sampled_from([-15, -2, -1, 0, 1, 2, 3, 4]),
    ),
    max_size=25,
)


@pytest.mark.parametrize("name", BUILDS)
@settings(max_examples=10, deadline=None)
@given(rows=ROWS, data=st.data())
def test_a_topology_gives_what_it_gives_without_restarts(
    name: str,
    rows: list[tuple[Any, ...]],
    data: st.DataObject,
    tmp_path_factory: pytest.TempPathFactory,
    memory: Memory,
) -> None:
    factory = factory_of(BUILDS[name])
    path: Path = tmp_path_factory.mktemp("topology")
    stores = factory().stores
    entries: dict[Any, Any] = {}

    def opened() -> tuple[TaskDisk, Any]:
        disk = TaskDisk(Rocks(path, memory), stores, time_first=factory.time_first)
        return disk, factory.restored(IDENTITY, (), DiskStores(disk, lambda: 1))

    disk, on_disk = opened()
    in_memory, uninterrupted = factory.restored(IDENTITY, ()), factory.restored(IDENTITY, ())
    now = 0
    for i, (topic, key, value, later) in enumerate(rows):
        now += later
        row = Record(key, value, max(0, now), RecordContext(topic, 0, i))
        if topic in factory.topology.sources:
            expected = uninterrupted.process_chunk([row])
            assert on_disk.process_chunk([row]) == expected
            assert in_memory.process_chunk([row]) == expected
        step = data.draw(st.sampled_from(["nothing", "commit", "restart"]))
        if step != "nothing":
            on_disk.changes()
            disk.commit()
            entries |= {(change.store, change.key): change for change in in_memory.changes()}
        if step == "restart":
            disk.close()
            disk, on_disk = opened()
            in_memory = factory.restored(IDENTITY, [each for each in entries.values() if each.value is not None])
    assert on_disk.end_of_input() == in_memory.end_of_input() == uninterrupted.end_of_input()
    disk.close()
