"""Closing a log: what was not changed since it was opened is not written again, and what was changed or recovered is."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from streamactors.broker.log.config import LogConfig
from streamactors.broker.log.manager import LogManager
from streamactors.broker.log.partition.log_loader import Checkpoints
from tests.broker.log.appending import append
from tests.broker.log.conftest import MakeLog
from tests.broker.log.quick_disk import QuickDisk


class CountingDisk(QuickDisk):
    """Counts how often a folder is written down to the disk."""

    def __init__(self) -> None:
        super().__init__()
        self.synced = 0

    def sync_directory(self, path: Path) -> None:
        self.synced += 1


def closed(make_log: MakeLog, disk: CountingDisk, *values: bytes) -> tuple[Any, Checkpoints]:
    """Return a log that was closed in order, and what the checkpoints say of it."""
    log = make_log(disk)
    for value in values:
        append(log, value)
    log.close()
    assert log.closed_in_order
    end = log.end_offset
    return log, Checkpoints(clean=True, recovery_point=end, high_watermark=end)


@pytest.mark.parametrize("values", [(), (b"a",), (b"a", b"b")])
def test_a_log_that_was_not_changed_is_not_written_when_it_is_closed(
    make_log: MakeLog, reopen: Callable[..., Any], values: tuple[bytes, ...]
) -> None:
    disk = CountingDisk()
    log, checkpoints = closed(make_log, disk, *values)
    for _ in range(2):
        again = reopen(log, checkpoints)
        disk.synced = 0
        again.close()
        assert (again.closed_in_order, disk.synced) == (True, 0)


def test_a_log_that_was_changed_is_written(make_log: MakeLog, reopen: Callable[..., Any]) -> None:
    disk = CountingDisk()
    log, checkpoints = closed(make_log, disk, b"a")
    again = reopen(log, checkpoints)
    append(again, b"b")
    disk.synced = 0
    again.close()
    again.close()
    assert (again.closed_in_order, disk.synced > 0) == (True, True)
    assert reopen(log, Checkpoints(clean=True, recovery_point=2, high_watermark=2)).end_offset == 2


def test_a_log_that_was_recovered_is_written_though_nothing_came(make_log: MakeLog, reopen: Callable[..., Any]) -> None:
    disk = CountingDisk()
    log, _ = closed(make_log, disk, b"a", b"b")
    again = reopen(log)  # as after a crash
    disk.synced = 0
    again.close()
    assert (again.closed_in_order, disk.synced > 0) == (True, True)


def test_many_logs_are_synced_at_the_same_time(tmp_path: Path) -> None:
    waiting, four = threading.Semaphore(3), threading.Event()

    class MeetingDisk(QuickDisk):
        meets = False

        def sync_directory(self, path: Path) -> None:
            if self.meets and path.parent == tmp_path:
                if not waiting.acquire(blocking=False):
                    four.set()  # three others are in here
                assert four.wait(30)

    disk = MeetingDisk()
    manager = LogManager(tmp_path, default_config=LogConfig(), clock_ms=lambda: 0, disk=disk)
    manager.open()
    logs = [manager.create("t", partition, None, LogConfig()) for partition in range(20)]
    for log in logs:
        append(log, b"a")
    disk.meets = True
    manager.close()
    assert all(log.closed_in_order for log in logs)
