"""Every stateful step of a topology on disk gives what it gives in memory, across commits and restarts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamactors.windows import JoinWindows, KeyValueStore, Processor, Record, RecordContext, TaskIdentity, TimeWindows
from streamactors.windows.state.disk.disk_stores import DiskStores
from streamactors.windows.state.disk.rocks import Memory, Rocks
from streamactors.windows.state.disk.task_disk import TaskDisk
from streamactors.windows.topology.topics import TopologyFactory, TopologyTopics, topology_factory

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
}  # fmt: skip


def factory_of(build: Callable[[TopologyTopics], Any]) -> TopologyFactory:
    topics = TopologyTopics()
    build(topics).to("out")
    return topology_factory(topics.topology, changelog=True)


@pytest.fixture(scope="module")
def memory() -> Memory:
    return Memory(8 << 20)


ROWS = st.lists(
    st.tuples(
        st.sampled_from("ab"), st.sampled_from(["k0", "k1", "k2"]), st.none() | st.integers(1, 9), st.integers(0, 6)
    ),
    max_size=25,
)


@pytest.mark.parametrize("name", BUILDS)
@settings(max_examples=12, deadline=None)
@given(rows=ROWS, data=st.data())
def test_a_topology_on_disk_gives_what_it_gives_in_memory(
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
    in_memory = factory.restored(IDENTITY, ())
    now = 0
    for i, (topic, key, value, later) in enumerate(rows):
        now += later - 2
        row = Record(key, value, max(0, now), RecordContext(topic, 0, i))
        if topic in factory.topology.sources:
            assert on_disk.process_chunk([row]) == in_memory.process_chunk([row])
        step = data.draw(st.sampled_from(["nothing", "commit", "restart"]))
        if step != "nothing":
            on_disk.changes()
            disk.commit()
            entries |= {(change.store, change.key): change for change in in_memory.changes()}
        if step == "restart":
            disk.close()
            disk, on_disk = opened()
            in_memory = factory.restored(IDENTITY, [each for each in entries.values() if each.value is not None])
    assert on_disk.end_of_input() == in_memory.end_of_input()
    disk.close()
