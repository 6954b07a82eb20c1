"""Replicas that move to another data folder keep to replica.alter.log.dirs.io.max.bytes.per.second."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from streamactors.broker.helpers import HelperOutcome
from streamactors.broker.log.config import LogConfig
from streamactors.broker.log.manager import LogManager
from streamactors.broker.records.builder import build_batch
from streamactors.broker.records.record import NewRecord
from streamactors.broker.replication.folder_moves import FolderMoves
from streamactors.broker.replication.hosted_partition import HostedPartition, PartitionState
from streamactors.broker.replication.throttling import UNLIMITED, WINDOW_MS, WINDOWS

NOW_MS = 1_700_000_000_000
BATCH = 10_000
BATCHES = 300
AT_ONCE = 1 << 20  # the replacement copies so much at any rate
STATE = PartitionState("orders", uuid.UUID(int=7), 0, 1, 0, (1,), (1,))


class Rig:
    """A broker of two folders, whose helpers work at once and whose time is moved by the test."""

    def __init__(self, root: Path) -> None:
        self.folders = (root / "a", root / "b")
        logs = LogManager(self.folders[0], others=self.folders[1:], default_config=LogConfig(), clock_ms=lambda: NOW_MS)
        logs.open()
        self.now_ms = 0.0
        self.alarms: list[tuple[float, Callable[[], object]]] = []
        self.settings = SimpleNamespace(replica_alter_log_dirs_io_max_bytes_per_second=UNLIMITED)
        self.node: Any = SimpleNamespace(
            node_id=1,
            clock=SimpleNamespace(now_ms=lambda: self.now_ms, wall_ms=lambda: NOW_MS),
            logs=logs,
            config=self.settings,
            purgatories=(),
            fetch_purgatory=SimpleNamespace(watchers={}),
            replication=SimpleNamespace(others=False),
            helpers=SimpleNamespace(run=lambda fn, then: then(HelperOutcome(value=fn()))),
            data_plane=SimpleNamespace(call_later=self._call_later),
        )
        log = logs.create("orders", 0, STATE.topic_id, LogConfig())
        self.partition = HostedPartition(self.node, STATE, log)
        for _ in range(BATCHES):
            self.partition.append(memoryview(build_batch([NewRecord(None, bytes(BATCH), NOW_MS)])), NOW_MS)
        self.moves = FolderMoves(self.node)

    def limit(self, bytes_per_second: int) -> None:
        self.settings.replica_alter_log_dirs_io_max_bytes_per_second = bytes_per_second

    def _call_later(self, delay_ms: float, fn: Callable[[], object]) -> Any:
        alarm = (self.now_ms + delay_ms, fn)
        self.alarms.append(alarm)
        return SimpleNamespace(cancel=lambda: self.alarms.remove(alarm))

    def step(self) -> None:
        """Let time pass up to the next alarm."""
        self.alarms.sort(key=lambda each: each[0])
        self.now_ms, fn = self.alarms.pop(0)
        fn()

    def move(self) -> None:
        (target,) = (each for each in self.folders if each != self.at)
        self.moves.move(self.partition, target)

    @property
    def at(self) -> Path:
        return self.partition.log.directory.parent


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    rig = Rig(tmp_path)
    yield rig
    rig.moves.stop()
    rig.node.logs.close()


def test_a_move_takes_the_time_that_its_rate_allows(rig: Rig) -> None:
    rate, before = 100_000, rig.at
    rig.limit(rate)
    rig.move()
    while rig.at == before:
        rig.step()
    throttled = BATCHES * BATCH - AT_ONCE
    burst_s = (WINDOWS - 1) * WINDOW_MS / 1_000  # a rate that has just begun counts the windows before it as empty
    assert throttled / rate - burst_s <= rig.now_ms / 1_000 <= throttled / rate
    assert rig.partition.log_end_offset == BATCHES


def test_a_move_without_a_limit_does_not_wait(rig: Rig) -> None:
    before = rig.at
    rig.move()
    assert rig.at != before
    assert rig.alarms == []


def test_a_limit_that_is_lifted_counts_at_the_next_look(rig: Rig) -> None:
    before = rig.at
    rig.limit(1)
    rig.move()
    assert rig.at == before
    rig.limit(UNLIMITED)
    rig.step()
    assert rig.at != before
    assert rig.now_ms <= WINDOW_MS


def test_a_move_that_waits_can_be_given_up(rig: Rig) -> None:
    before = rig.at
    rig.limit(1)
    rig.move()
    copy = rig.moves.future_of(rig.partition)
    assert copy is not None
    rig.moves.move(rig.partition, before)
    assert rig.moves.future_of(rig.partition) is None
    assert not copy.log.directory.exists()
    rig.step()
    assert rig.at == before
