"""Each kind of state on disk holds no more objects in memory than its share, and gives what an unbounded run gives."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamactors.windows import (
    BufferConfig,
    JoinWindows,
    Record,
    RecordContext,
    SessionWindows,
    SlidingWindows,
    Suppressed,
    TaskIdentity,
    TimeWindows,
)
from streamactors.windows.state.disk.disk_stores import DiskStores
from streamactors.windows.state.disk.rocks import Memory, Rocks
from streamactors.windows.state.disk.task_disk import TaskDisk
from streamactors.windows.topology.task_factory import TaskFactory
from streamactors.windows.topology.topics import TopologyTopics

IDENTITY = TaskIdentity("bound", 0, 1)
LIMIT = 64  # the smallest number of objects that a store keeps
ROWS, KEYS = 500, 200


def both(left: Any, right: Any) -> Any:
    return f"{left}|{right}"


def stream_stream(topics: TopologyTopics) -> Any:
    windows = JoinWindows.of(150).with_grace(50)
    return topics.stream("a").join(topics.stream("b"), both, windows, how="outer", name="pairs")


def foreign_key(topics: TopologyTopics) -> Any:
    right = topics.table("b", name="right")
    named = topics.table("a", name="left")
    return named.join_foreign_key(right, lambda key, value: f"k{value % 90}", both, how="left", name="fk")


def graced(topics: TopologyTopics) -> Any:
    versions = topics.table("b", history="1m", name="versions")
    return topics.stream("a").join_table(versions, both, grace=300, how="left", name="held")


def views(topics: TopologyTopics) -> Any:
    left = topics.table("a", name="left").map_values(lambda value: value % 7, name="small")
    right = topics.table("b", name="right").filter(lambda value: value % 3 > 0, name="some")
    return left.join(right, both, how="outer", name="known")


def view_of_windows(topics: TopologyTopics) -> Any:
    rows = topics.stream("a").merge(topics.stream("b")).group_by_key()
    counts = rows.windowed_by(TimeWindows.of_size(40).with_grace(20)).count(name="counts")
    return counts.filter(lambda value: value != 2, name="not-two")


def sessions(topics: TopologyTopics) -> Any:
    rows = topics.stream("a").merge(topics.stream("b")).group_by_key()
    windows = SessionWindows.with_gap(60).with_grace(40)
    return rows.windowed_by(windows).aggregate(str, both, lambda left, right: left + right, name="sessions")


def final_sessions(topics: TopologyTopics) -> Any:
    rows = topics.stream("a").merge(topics.stream("b")).group_by_key()
    windows = SessionWindows.with_gap(150).with_grace(100)
    return rows.windowed_by(windows).count(name="sessions").emit_on_window_close()


def sliding(topics: TopologyTopics) -> Any:
    rows = topics.stream("a").merge(topics.stream("b")).group_by_key()
    return rows.windowed_by(SlidingWindows.of_difference(60).with_grace(40)).aggregate(str, both, name="sliding")


def final_sliding(topics: TopologyTopics) -> Any:
    rows = topics.stream("a").merge(topics.stream("b")).group_by_key()
    windows = SlidingWindows.of_difference(150).with_grace(100)
    return rows.windowed_by(windows).count(name="sliding").emit_on_window_close()


def final_results(topics: TopologyTopics) -> Any:
    rows = topics.stream("a").merge(topics.stream("b")).group_by_key()
    counts = rows.windowed_by(TimeWindows.of_size(200).with_grace(60)).count(name="counts")
    return counts.map_values(str).suppress(Suppressed.until_window_closes().with_name("finals"))


def rate_limited(topics: TopologyTopics) -> Any:
    table = topics.table("a", name="left").join(topics.table("b", name="right"), both, how="outer", name="known")
    bytes_bound = BufferConfig.max_bytes(7_000).emit_early_when_full()
    return table.suppress(Suppressed.until_time_limit(300, bytes_bound).with_name("calm"))


BUILDS: dict[str, tuple[Callable[[TopologyTopics], Any], set[str]]] = {
    "stream-stream": (stream_stream, {"pairs-left", "pairs-right", "pairs-waiting"}),
    "foreign key": (foreign_key, {"fk-subscription-store", "left", "right"}),
    "stream-table with grace": (graced, {"held-buffer", "versions"}),
    "views": (views, {"small", "some", "known"}),
    "sessions": (sessions, {"sessions"}),
    "final sessions": (final_sessions, {"sessions", "sessions (times)"}),
    "sliding windows": (sliding, {"sliding"}),
    "final sliding windows": (final_sliding, {"sliding", "sliding (times)"}),
    "final results": (final_results, {"finals-store", "finals-store (times)"}),
    "a limit of time": (rate_limited, {"calm-store", "calm-store (times)"}),
    "a view of windows": (view_of_windows, {"counts", "not-two"}),
}


@pytest.fixture(scope="module")
def memory() -> Memory:
    return Memory(8 << 20)


@pytest.mark.parametrize("name", BUILDS)
@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 1 << 32), restart_every=st.sampled_from([60, 170, 1_000]))
def test_memory_stays_within_the_bound_and_the_results_are_those_without_one(
    name: str, seed: int, restart_every: int, tmp_path_factory: pytest.TempPathFactory, memory: Memory
) -> None:
    build, bounded = BUILDS[name]
    topics = TopologyTopics()
    build(topics).to("out")
    factory = TaskFactory(topics.topology, changelog=True)
    path = tmp_path_factory.mktemp("bound")

    def opened() -> tuple[TaskDisk, DiskStores, Any]:
        disk = TaskDisk(Rocks(path, memory), factory().stores, time_first=factory.time_first)
        stores = DiskStores(disk, lambda: 1)
        return disk, stores, factory.restored(IDENTITY, (), stores)

    disk, stores, on_disk = opened()
    in_memory = TaskFactory(topics.topology)()
    assert bounded <= set(stores.in_memory)
    rng, now = random.Random(seed), 0
    for at in range(ROWS):
        now = max(0, now + rng.randint(-8, 10))
        topic, key = rng.choice("ab"), f"k{rng.randrange(KEYS)}"
        row = Record(key, rng.randint(1, 1_000), now, RecordContext(topic, 0, at))
        assert on_disk.process_chunk([row]) == in_memory.process_chunk([row])
        if stores.pressed or at % restart_every == restart_every - 1:
            on_disk.changes()
            disk.commit()
        assert max(stores.in_memory.values()) <= LIMIT + LIMIT // 2 + 1
        if at % restart_every == restart_every - 1:
            disk.close()
            disk, stores, on_disk = opened()
    assert on_disk.end_of_input() == in_memory.end_of_input()
    disk.close()
