"""The folders of deleted logs: none is removed when it is that of a new log."""

from __future__ import annotations

import errno
import threading
from pathlib import Path

import pytest

from streamactors.broker.log.disk import Disk
from streamactors.broker.log.folders.deleted_folders import DeletedFolders
from tests.broker.log.short_disk import ShortDisk


class SlowDisk(Disk):
    """Its removals of folders wait."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.may_end = threading.Event(), threading.Event()

    def remove_directory(self, path: Path) -> None:
        self.begun.set()
        assert self.may_end.wait(30)
        super().remove_directory(path)


def test_a_folder_that_is_being_removed_is_gone_before_a_new_log_has_its_name(tmp_path: Path) -> None:
    # A log was deleted, and its folder could not be renamed -> the upkeep begins to remove it -> a topic of the same name is created, and its log
    # writes its first files there -> the upkeep removed them.
    disk, folder = SlowDisk(), tmp_path / "t-0"
    folder.mkdir()
    folders = DeletedFolders(disk, lambda path: False)
    folders.add(folder, 0)
    upkeep = threading.Thread(target=folders.remove, args=(0,))
    upkeep.start()
    assert disk.begun.wait(30)

    def create() -> None:
        folders.make_way(folder)
        folder.mkdir(exist_ok=True)
        (folder / "record").touch()

    creation = threading.Thread(target=create)
    creation.start()
    creation.join(0.2)
    disk.may_end.set()
    upkeep.join(30)
    creation.join(30)
    assert (folder / "record").exists()


def test_a_folder_that_cannot_make_way_at_the_moment_makes_way_later(tmp_path: Path) -> None:
    # It was forgotten, and the next attempt began the new log among its files.
    disk, folder = ShortDisk(), tmp_path / "t-0"
    folder.mkdir()
    folders = DeletedFolders(disk, lambda path: False)
    folders.add(folder, 0)
    disk.fail(errno.EMFILE)
    with pytest.raises(OSError, match="Too many open files"):
        folders.make_way(folder)
    disk.work()
    folders.make_way(folder)
    assert not folder.exists()
