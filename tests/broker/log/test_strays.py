"""A log that is set aside: its records stay, whatever fails."""

from __future__ import annotations

import errno
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamactors.broker.errors import StorageError, StorageShortage
from streamactors.broker.log.config import LogConfig
from streamactors.broker.log.manager import LogManager
from tests.broker.log.appending import append
from tests.broker.log.conftest import NOW_MS
from tests.broker.log.short_disk import ShortDisk


@pytest.fixture
def disk() -> ShortDisk:
    return ShortDisk()


@pytest.fixture
def logs(tmp_path: Path, disk: ShortDisk) -> Iterator[LogManager]:
    logs = LogManager(tmp_path, default_config=LogConfig(), clock_ms=lambda: NOW_MS, disk=disk)
    logs.open()
    yield logs
    logs.close()


@pytest.fixture
def size(logs: LogManager) -> int:
    """Bytes of the log t-0, which has a record."""
    log = logs.create("t", 0, uuid.UUID(int=1), LogConfig())
    append(log, b"precious")
    log.flush()
    return log.size_bytes


@pytest.mark.expects_log("its partitions may refuse records")
def test_a_folder_that_cannot_be_renamed_is_not_given_to_another_log(
    tmp_path: Path, disk: ShortDisk, logs: LogManager, size: int
) -> None:
    # The log was forgotten, and its folder had its name still: the log of the next topic of this name emptied its files.
    disk.fail(errno.ENOSPC, only="-stray")
    with pytest.raises(StorageShortage, match=r"cannot rename .*t-0 to t-0.*-stray: No space left on device"):
        logs.set_aside("t", 0)
    with pytest.raises(StorageError, match="t-0 already exists"):
        logs.create("t", 0, uuid.UUID(int=2), LogConfig())
    disk.work()
    kept = logs.set_aside("t", 0)
    logs.create("t", 0, uuid.UUID(int=2), LogConfig())
    assert [(each.path, each.size_bytes) for each in logs.strays] == [(kept, size)]
    assert (kept / "00000000000000000000.log").stat().st_size == size
    assert sorted(each.name for each in tmp_path.glob("t-0*")) == ["t-0", kept.name]


@pytest.mark.expects_log("its partitions may refuse records")
def test_a_folder_that_was_renamed_is_listed_though_the_new_name_cannot_be_synced(
    tmp_path: Path, disk: ShortDisk, logs: LogManager, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Its broker reported an error, and did not list it before the next start.
    sync = disk.sync_directory

    def sync_directory(path: Path) -> None:
        if path == tmp_path:
            raise OSError(errno.EMFILE, "Too many open files")
        sync(path)

    monkeypatch.setattr(disk, "sync_directory", sync_directory)
    kept = logs.set_aside("t", 0)
    monkeypatch.undo()
    assert [(each.path, each.size_bytes) for each in logs.strays] == [(kept, size)]
