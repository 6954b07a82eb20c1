"""A random topology that is restarted, or dies, at any time gives what it gives without restarts, restored from its changelogs and from disk."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from streamactors.windows import Record, RecordContext, TaskIdentity
from streamactors.windows.state.disk.disk_stores import DiskStores
from streamactors.windows.state.disk.rocks import Memory, Rocks
from streamactors.windows.state.disk.task_disk import TaskDisk
from streamactors.windows.state.store_log import Change
from streamactors.windows.topology.task_factory import TaskFactory
from streamactors.windows.topology.topics import TopologyTopics
from streamactors.windows.topology.window_task import WindowTask
from tests.models.topology_case import TopologyCase, build
from tests.models.topology_draw import topology_cases

IDENTITY = TaskIdentity("random", 0, 1)


@pytest.fixture(scope="module")
def memory() -> Memory:
    return Memory(8 << 20)


def given_by(task: WindowTask, rows: Sequence[Record]) -> Any:
    """The rows that leave, with their headers; the error that ends the task."""
    try:
        outputs = task.process_chunk(rows)
    except Exception as error:
        return type(error), str(error)
    return [(each.topic, each.record, each.record.context and each.record.context.headers) for each in outputs]


def compare(case: TopologyCase, semantics: Any, data: st.DataObject, path: Path, memory: Memory) -> None:
    topics = TopologyTopics(semantics)
    build(case, topics)
    assume(
        all(source.partitioned for source in topics.topology.sources.values())
    )  # a global table is filled by its run
    factory = TaskFactory(topics.topology, changelog=True)
    stores = factory().stores
    entries: dict[Any, Any] = {}

    def opened(lost: Iterable[Change] = ()) -> tuple[TaskDisk, WindowTask]:
        """Open the disk, and read from the changelog what it lacks."""
        disk = TaskDisk(Rocks(path, memory), stores, time_first=factory.time_first)
        for store, key, value in lost:
            disk.replay(store, [(key, value)], 1)
        return disk, factory.restored(IDENTITY, (), DiskStores(disk, lambda: 1))

    disk, on_disk = opened()
    in_memory, uninterrupted = factory.restored(IDENTITY, ()), factory.restored(IDENTITY, ())
    try:
        for at, (topic, key, value, time, *header) in enumerate(case.rows):
            if topic not in topics.topology.sources:
                continue
            row = Record(key, value, time, RecordContext(topic, 0, at, tuple(("h", each.encode()) for each in header)))
            expected = given_by(uninterrupted, [row])
            assert given_by(in_memory, [row]) == expected
            assert given_by(on_disk, [row]) == expected
            if isinstance(expected, tuple):
                return
            step = data.draw(st.sampled_from(["nothing", "nothing", "commit", "restart", "crash"]))
            if step != "nothing":
                cut = on_disk.changes()
                entries |= {(change.store, change.key): change for change in in_memory.changes()}
                if step != "crash":  # else the process dies before the cut is on disk, and the changelog has it
                    disk.commit()
            if step in ("restart", "crash"):
                disk.close()
                disk, on_disk = opened(cut if step == "crash" else ())
                in_memory = factory.restored(IDENTITY, [each for each in entries.values() if each.value is not None])
        assert on_disk.end_of_input() == in_memory.end_of_input() == uninterrupted.end_of_input()
    finally:
        disk.close()
        shutil.rmtree(path)


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(case=topology_cases(), semantics=st.sampled_from(["strict", "kafka"]), data=st.data())
def test_a_restarted_topology_gives_what_it_gives_without_restarts(
    case: TopologyCase,
    semantics: str,
    data: st.DataObject,
    tmp_path_factory: pytest.TempPathFactory,
    memory: Memory,
) -> None:
    compare(case, semantics, data, tmp_path_factory.mktemp("random"), memory)


@pytest.mark.slow
@pytest.mark.timeout(1_200)
@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(case=topology_cases(max_rows=25, max_steps=7), semantics=st.sampled_from(["strict", "kafka"]), data=st.data())
def test_a_restarted_topology_gives_what_it_gives_without_restarts_at_length(
    case: TopologyCase,
    semantics: str,
    data: st.DataObject,
    tmp_path_factory: pytest.TempPathFactory,
    memory: Memory,
) -> None:
    compare(case, semantics, data, tmp_path_factory.mktemp("random"), memory)
