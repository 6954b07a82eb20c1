"""Sessions and sliding windows on disk, with few of their keys in memory, give what they give in memory: late rows, jumps of time,
deleted aggregates, cuts that are committed later, restarts, both semantics, updates and final results."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamactors.windows import (
    BufferConfig,
    Record,
    RecordContext,
    SessionWindows,
    SlidingWindows,
    Suppressed,
    TaskIdentity,
)
from streamactors.windows.state.disk.disk_stores import DiskStores
from streamactors.windows.state.disk.rocks import Memory, Rocks
from streamactors.windows.state.disk.task_disk import TaskDisk
from streamactors.windows.topology.chain import Records, tasks_of
from streamactors.windows.topology.task_factory import TaskFactory

IDENTITY = TaskIdentity("inclusive", 0, 1)
LIMIT = 64
CLOSED = Suppressed.until_window_closes(BufferConfig.unbounded())
CASES = st.fixed_dictionaries(
    {
        "windows": st.sampled_from(["sessions", "sliding"]),
        "emits": st.sampled_from(["updates", "suppressed", "on close"]),
        "deletes": st.booleans(),
        "semantics": st.sampled_from(["strict", "kafka"]),
        "length": st.sampled_from([5, 40, 200]),
        "grace": st.sampled_from([0, 30, 300]),
        "keys": st.sampled_from([3, 60, 300]),
        "back": st.sampled_from([0, 15, 200]),
        "jump": st.sampled_from([0, 500]),
        "cut_every": st.sampled_from([20, 60, 1_000]),
        "restarts": st.booleans(),
        "seed": st.integers(0, 1 << 32),
    }
)


def add(aggregate: str, value: int) -> str | None:
    return None if value % 5 == 0 else f"{aggregate}{value}"


def factory_of(case: dict[str, Any], *, changelog: bool) -> TaskFactory:
    kinds: dict[str, Any] = {"sessions": SessionWindows.with_gap, "sliding": SlidingWindows.of_difference}
    windows = kinds[case["windows"]](case["length"]).with_grace(case["grace"])
    windowed = Records().group_by_key().windowed_by(windows, semantics=case["semantics"])
    if not case["deletes"]:
        table = windowed.count(name="w")
    elif case["windows"] == "sessions":
        table = windowed.aggregate(str, add, lambda left, right: left + right, name="w")
    else:
        table = windowed.aggregate(str, add, name="w")
    if case["emits"] == "suppressed":
        table = table.suppress(CLOSED.with_name("s"))
    elif case["emits"] == "on close":
        table = table.emit_on_window_close()
    return tasks_of(table.to_stream(), changelog=changelog)


def compare(case: dict[str, Any], path: Path, memory: Memory) -> None:
    """Run a case on disk and in memory; a share of one byte is the smallest that there is."""
    factory = factory_of(case, changelog=True)

    def opened() -> tuple[TaskDisk, DiskStores, Any]:
        disk = TaskDisk(Rocks(path, memory), factory().stores, time_first=factory.time_first)
        stores = DiskStores(disk, lambda: 1)
        return disk, stores, factory.restored(IDENTITY, (), stores)

    disk, stores, on_disk = opened()
    in_memory = factory_of(case, changelog=False)()
    rng, now = random.Random(case["seed"]), 0
    for at in range(250):
        now = max(0, now + rng.randint(-case["back"], case["back"] + 4))
        if rng.random() < 0.01:
            now += case["jump"]
        row = Record(f"k{rng.randrange(case['keys'])}", rng.randint(1, 9), now, RecordContext("t", 0, at))
        assert on_disk.process_chunk([row]) == in_memory.process_chunk([row])
        if stores.pressed or at % case["cut_every"] == case["cut_every"] - 1:
            on_disk.changes()
            if rng.random() < 0.7 or stores.pressed:
                for _ in range(len(disk._layers)):
                    disk.commit()
                if case["restarts"]:
                    disk.close()
                    disk, stores, on_disk = opened()
    assert on_disk.end_of_input() == in_memory.end_of_input()
    disk.close()


@pytest.fixture(scope="module")
def memory() -> Memory:
    return Memory(8 << 20)


@settings(max_examples=8, deadline=None)
@given(case=CASES)
def test_results_on_disk_are_those_in_memory(
    case: dict[str, Any], tmp_path_factory: pytest.TempPathFactory, memory: Memory
) -> None:
    compare(case, tmp_path_factory.mktemp("case"), memory)


@pytest.mark.slow
@pytest.mark.timeout(1_200)  # 400 cases open several databases each
@settings(max_examples=400, deadline=None)
@given(case=CASES)
def test_results_on_disk_are_those_in_memory_at_length(
    case: dict[str, Any], tmp_path_factory: pytest.TempPathFactory, memory: Memory
) -> None:
    compare(case, tmp_path_factory.mktemp("case"), memory)
