"""The start of the logs of several data folders: a folder that cannot be read is left out, with everything that was opened of it."""

from __future__ import annotations

import errno
import uuid
from pathlib import Path

import pytest

from streamactors.broker.errors import BrokerStartError, StorageError
from streamactors.broker.log.config import LogConfig
from streamactors.broker.log.disk import Disk
from streamactors.broker.log.manager import LogManager

NOW_MS = 1_700_000_000_000


class Failing(Disk):
    """A disk on which one folder of a partition cannot be read."""

    broken: Path | None = None

    def names(self, path: Path) -> list[str]:
        if path == self.broken:
            raise OSError(errno.EIO, "Input/output error")
        return super().names(path)


def manager(root: Path, disk: Disk) -> LogManager:
    return LogManager(root / "a", others=[root / "b"], default_config=LogConfig(), clock_ms=lambda: NOW_MS, disk=disk)


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    """Two folders with logs of their own."""
    logs = manager(tmp_path, Disk())
    logs.open()
    for partition in range(6):
        logs.create("t", partition, uuid.UUID(int=7), LogConfig())
    logs.close()
    return tmp_path


@pytest.mark.expects_log("has failed: Input/output error; the broker starts without")
def test_a_folder_that_fails_in_the_middle_is_left_out_with_all_its_logs(filled: Path) -> None:
    disk = Failing()
    disk.broken = max((filled / "b").glob("t-*"))  # the others are opened before
    logs = manager(filled, disk)
    logs.open()
    first, second = logs.folders.all
    assert (first.failure, second.failure.errno) == (None, errno.EIO)  # type: ignore[union-attr]
    assert {log.directory.parent for log in logs.logs()} == {filled / "a"}
    with pytest.raises(StorageError, match=f"t-9 is not created: it may be in {filled / 'b'}, which has failed"):
        logs.create("t", 9, uuid.UUID(int=7), LogConfig())
    logs.close()


def test_the_first_folder_cannot_be_left_out(filled: Path) -> None:
    disk = Failing()
    disk.broken = max((filled / "a").glob("t-*"))
    with pytest.raises(BrokerStartError, match="Input/output error; repair the disk"):
        manager(filled, disk).open()
