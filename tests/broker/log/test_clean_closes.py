"""Closing a log: what was not changed since it was opened is not written again, and what was changed or recovered is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

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
