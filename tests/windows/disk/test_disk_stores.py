"""Windows and tables on disk: the same results as in memory, whatever is forgotten between, and after every restart."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamactors.windows import (
    BufferConfig,
    Record,
    RecordContext,
    RestoreError,
    SessionWindows,
    SlidingWindows,
    Suppressed,
    TaskIdentity,
    TimeWindows,
)
from streamactors.windows.state.disk.disk_stores import DiskStores
from streamactors.windows.state.disk.rocks import Memory, Rocks
from streamactors.windows.state.disk.task_disk import TaskDisk
from streamactors.windows.topology.chain import Records, tasks_of
from streamactors.windows.topology.task_factory import TaskFactory
from streamactors.windows.topology.window_task import WindowTask

CLOSED = Suppressed.until_window_closes(BufferConfig.unbounded())
TUMBLING = TimeWindows.of_size(10).with_grace(5)
GRAPHS: dict[str, Callable[[Records], Any]] = {
    "finals": lambda s: s.group_by_key().windowed_by(TUMBLING).count().suppress(CLOSED),
    "hopping": lambda s: s.group_by_key().windowed_by(TUMBLING.advance_by(4)).reduce(lambda a, b: a + b),
    "table": lambda s: s.to_table(),
    "sums": lambda s: s.group_by_key().aggregate(int, lambda a, v: (a + v) % 7 or None),
    "held": lambda s: s.to_table().suppress(Suppressed.until_time_limit(6, BufferConfig.unbounded())),
    "sessions": lambda s: (
        s.group_by_key().windowed_by(SessionWindows.with_gap(4).with_grace(3)).count().suppress(CLOSED)
    ),
    "sliding": lambda s: s.group_by_key().windowed_by(SlidingWindows.of_difference(6).with_grace(3)).count(),
}
IDENTITY = TaskIdentity("disk", 0, 1)
TINY = 1  # bytes of memory: every object that may be forgotten is


@pytest.fixture(scope="module")
def memory() -> Memory:
    return Memory(8 << 20)


def factory_of(graph: str) -> TaskFactory:
    return tasks_of(GRAPHS[graph](Records()).to_stream(), changelog=True)


class OnDisk:
    """A task on disk that is committed and restarted as a run would."""

    def __init__(self, factory: TaskFactory, path: Path, memory: Memory) -> None:
        self._factory, self._path, self._memory = factory, path, memory
        self._open()

    def _open(self) -> None:
        stores = self._factory().stores
        self.disk = TaskDisk(Rocks(self._path, self._memory), stores, time_first=self._factory.time_first)
        self.task: WindowTask = self._factory.restored(IDENTITY, (), DiskStores(self.disk, lambda: TINY))

    def cut(self, *, commit: bool = True) -> None:
        self.task.changes()
        if commit:
            self.disk.commit()

    def restart(self) -> None:
        self.disk.close()
        self._open()


ROWS = st.lists(
    st.tuples(st.sampled_from(["a", "b", "ab", 3, b"\xff"]), st.none() | st.integers(1, 9), st.integers(0, 60)),
    max_size=40,
)


@pytest.mark.parametrize("graph", GRAPHS)
@settings(max_examples=12, deadline=None)
@given(rows=ROWS, data=st.data())
def test_a_task_on_disk_gives_what_one_in_memory_gives_across_commits_and_restarts(
    graph: str,
    rows: list[tuple[Any, Any, int]],
    data: st.DataObject,
    tmp_path_factory: pytest.TempPathFactory,
    memory: Memory,
) -> None:
    factory = factory_of(graph)
    in_memory = factory(IDENTITY)
    entries: dict[Any, Any] = {}
    on_disk = OnDisk(factory, tmp_path_factory.mktemp("task"), memory)
    for i, (key, value, timestamp) in enumerate(rows):
        if graph in ("hopping", "sums") and value is None:
            value = 1
        row = Record(key, value, timestamp, RecordContext("t", 0, i))
        assert on_disk.task.process_chunk([row]) == in_memory.process_chunk([row])
        step = data.draw(st.sampled_from(["nothing", "nothing", "cut", "commit", "restart"]))
        if step == "cut":
            on_disk.cut(commit=False)
            on_disk.cut()
            on_disk.disk.commit()
        elif step == "commit":
            on_disk.cut()
        elif step == "restart":
            on_disk.cut()
            on_disk.restart()
            entries |= {(change.store, change.key): change for change in in_memory.changes()}
            in_memory = factory.restored(IDENTITY, [each for each in entries.values() if each.value is not None])
    assert on_disk.task.end_of_input() == in_memory.end_of_input()
    on_disk.disk.close()


def test_objects_that_no_cut_needs_are_forgotten_and_read_again(tmp_path: Path, memory: Memory) -> None:
    on_disk = OnDisk(factory_of("sums"), tmp_path, memory)
    hot = on_disk.task.disk._hot["aggregate-store-0000000001"]  # type: ignore[union-attr]
    dice = random.Random(1)
    sums: dict[str, int | None] = {}
    for _ in range(40):
        rows = [Record(f"k{dice.randrange(3_000)}", dice.randrange(1, 7), 5) for _ in range(100)]
        for result, row in zip(on_disk.task.process_chunk(rows), rows, strict=True):
            sums[row.key] = ((sums.get(row.key) or 0) + row.value) % 7 or None
            assert result.value == sums[row.key]
        on_disk.cut()
        assert len(hot._young) + len(hot._old) < 700
    assert len(sums) > 2_000
    assert {key.decode(): entry.value for key, entry in hot.scan()} == {k: v for k, v in sums.items() if v is not None}


def test_what_only_a_cut_can_write_presses_for_one(tmp_path: Path, memory: Memory) -> None:
    on_disk = OnDisk(factory_of("sums"), tmp_path, memory)
    disk = on_disk.task.disk
    assert disk is not None
    on_disk.task.process_chunk([Record("a", 1, 5)])
    assert not disk.pressed
    on_disk.task.process_chunk([Record(f"k{n}", 1, 5) for n in range(1_000)])
    assert disk.pressed
    on_disk.cut()
    on_disk.task.process_chunk([Record("a", 1, 5)])
    on_disk.cut()
    assert not disk.pressed


def test_a_disk_of_another_computation_is_refused(tmp_path: Path, memory: Memory) -> None:
    on_disk = OnDisk(factory_of("sums"), tmp_path, memory)
    on_disk.task.process_chunk([Record("a", 1, 5)])
    on_disk.cut()
    on_disk.disk.close()
    other = tasks_of(Records().group_by_key().count(name="aggregate-store").to_stream(), changelog=True)
    disk = TaskDisk(Rocks(tmp_path, memory), other().stores)
    other.restored(IDENTITY, (), DiskStores(disk, lambda: TINY))  # another store: nothing of it is there yet
    disk.close()
    disk = TaskDisk(Rocks(tmp_path, memory), factory_of("sums")().stores)
    with pytest.raises(RestoreError, match="belongs to group 'disk', this task has 'other'"):
        factory_of("sums").restored(TaskIdentity("other", 0, 1), (), DiskStores(disk, lambda: TINY))
    disk.close()


@pytest.mark.parametrize("graph", ["sums", "sliding", "sessions"])
def test_rows_of_many_keys_between_two_cuts_leave_few_objects_in_memory(
    graph: str, tmp_path: Path, memory: Memory
) -> None:
    factory = factory_of(graph)
    on_disk = OnDisk(factory, tmp_path, memory)
    table = on_disk.task.operator(factory.topology.first_state)  # type: ignore[attr-defined]
    stores = on_disk.task.disk
    assert stores is not None
    on_disk.task.process_chunk([Record(f"k{n}", 1, 0, RecordContext("t", 0, n)) for n in range(500)])
    on_disk.cut()
    most = 0
    for n in range(500):
        table.read(f"k{n}", 0, 6)
        on_disk.task.process_chunk([])
        most = max(most, *stores.in_memory.values())
    assert most < 200
    on_disk.disk.close()
