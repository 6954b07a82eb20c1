"""A disk on which everything below some folders fails, as it does when a drive of several breaks, until the folders are repaired."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

from streamactors.broker.log.disk import Disk, LogFile


class _File(LogFile):
    __slots__ = ("_disk",)

    def __init__(self, path: Path, disk: FailingDisk) -> None:
        super().__init__(path, disk.open_files)
        self._disk = disk

    def write_at(self, data: Any, position: int) -> None:
        self._disk.check(self.path)
        super().write_at(data, position)

    def read_at(self, size: int, position: int) -> bytes:
        self._disk.check(self.path, reading=True)
        return super().read_at(size, position)

    def truncate(self, size: int) -> None:
        self._disk.check(self.path)
        super().truncate(size)

    def sync(self) -> None:
        self._disk.check(self.path)
        super().sync()


class FailingDisk(Disk):
    """`broken` has the folders that fail, with the number of their error."""

    def __init__(self) -> None:
        super().__init__()
        self.broken: dict[Path, int] = {}
        self.without_room: set[Path] = set()
        """Data folders with room for the folders of logs, and none for files in these."""

    def check(self, path: Path, *, reading: bool = False) -> None:
        """Raise the error of a folder that has failed. A full disk can be read."""
        for folder in (path, *path.parents):
            if folder in self.broken and not (reading and self.broken[folder] == errno.ENOSPC):
                number = self.broken[folder]
                raise OSError(number, os.strerror(number), str(path))

    def fail(self, folder: Path, number: int = errno.EIO) -> None:
        """From now on everything below the folder fails."""
        self.broken[folder] = number

    def create(self, path: Path) -> LogFile:
        self.check(path)
        if path.parent.parent in self.without_room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        return super().create(path)

    def file(self, path: Path) -> LogFile:
        return _File(path, self)

    def read(self, path: Path) -> bytes:
        self.check(path, reading=True)
        return super().read(path)

    def link(self, existing: Path, path: Path) -> bool:
        self.check(path)
        return super().link(existing, path)

    def sync_directory(self, path: Path) -> None:
        self.check(path)
        super().sync_directory(path)

    def rename(self, old: Path, new: Path) -> None:
        self.check(new)
        super().rename(old, new)

    def remove(self, path: Path) -> None:
        self.check(path)
        super().remove(path)

    def make_directory(self, path: Path) -> None:
        self.check(path)
        super().make_directory(path)

    def names(self, path: Path) -> list[str]:
        self.check(path, reading=True)
        return super().names(path)

    def exists(self, path: Path) -> bool:
        self.check(path, reading=True)
        return super().exists(path)
