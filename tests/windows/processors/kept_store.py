"""A store of a processor that is committed and restarted, in memory and on disk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from streamactors.windows import (
    StoreDefinition,
    TaskIdentity,
)
from streamactors.windows.metrics import TaskMetrics
from streamactors.windows.operators.operator import TaskEnvironment
from streamactors.windows.processors.state_store import StateStore
from streamactors.windows.processors.task_time import TaskTime
from streamactors.windows.state.disk.disk_stores import DiskStores
from streamactors.windows.state.disk.rocks import Memory, Rocks
from streamactors.windows.state.disk.task_disk import TaskDisk
from streamactors.windows.state.serdes import Serdes, default_bytes
from streamactors.windows.state.store_log import StoreReader
from streamactors.windows.state.stores import MemoryStores
from streamactors.windows.topology.nodes.processor_nodes import KINDS

IDENTITY = TaskIdentity("stores")


class Kept:
    """A store that is committed and restored, in memory or on disk."""

    def __init__(self, definition: StoreDefinition, disk: TaskDisk | None = None) -> None:
        self._definition, self._disk = definition, disk
        self._entries: dict[bytes, bytes | None] = {}
        self.metrics = TaskMetrics()
        self.time = TaskTime(lambda: 0)
        self.store: Any = self._made()

    def _made(self) -> StateStore[Any]:
        env = TaskEnvironment(Serdes(), self.metrics, track_changes=True)
        stores: Any = MemoryStores()
        if self._disk is not None:
            stores = self._disk_stores = DiskStores(self._disk, lambda: 1)
        return KINDS[type(self._definition)](self._definition, "p", env, self.time, stores)

    def cut(self) -> None:
        changes = list(self.store.changes(IDENTITY))
        if self._disk is not None:
            self._disk_stores.take(changes)
            self._disk.commit()
            self._disk_stores.rest()
        for _, key, value in changes:
            self._entries.pop(key, None)
            if value is not None:
                self._entries[key] = value

    def restart(self) -> None:
        self.cut()
        self.store = self._made()
        reader = StoreReader(self._definition.name, IDENTITY)
        if self._disk is not None:
            reader = self._disk_stores.reader(self._definition.name, IDENTITY)
        else:
            for key, value in self._entries.items():
                reader.add(key, value)
        self.store.restore(reader)


def both(definition: StoreDefinition, path: Path, memory: Memory) -> list[Kept]:
    disk = TaskDisk(Rocks(path, memory), [definition.name])
    return [Kept(definition), Kept(definition, disk)]


KEYS = st.sampled_from(["", "a", "ab", "b", 3, b"\xff", "a\x00"])


TIMES = st.sampled_from([0, 1, 2, 3, 11, 12, 13, 14, 15, 16, 26, 27, 28, 29])
"""Times at and beside the edges of the retentions of 12 and 15 that the tests have."""


VALUES = st.none() | st.integers(1, 9)


by_bytes = default_bytes


def steps(*operations: Any) -> Any:
    between = st.sampled_from([("cut",), ("restart",)])
    return st.lists(st.one_of(*operations, *operations, between), min_size=6, max_size=30)


def carried_out(kept: list[Kept], step: tuple[Any, ...], on_store: Callable[[Any], Any]) -> list[Any]:
    """Return what the step gives on each of the stores."""
    if step[0] in ("cut", "restart"):
        return [getattr(each, step[0])() for each in kept]
    return [on_store(each) for each in kept]
