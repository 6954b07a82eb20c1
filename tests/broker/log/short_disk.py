"""A disk that is short of descriptors or of space: chosen calls fail, and later ones do not."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

from streamactors.broker.log.disk import Disk, LogFile


class ShortFile(LogFile):
    """Its opening, writes and truncation count."""

    __slots__ = ("_disk",)

    def __init__(self, path: Path, disk: ShortDisk) -> None:
        super().__init__(path, disk.open_files)
        self._disk = disk

    def _open(self) -> int:
        self._disk.step("open", self.path)
        return super()._open()

    def write_at(self, data: Any, position: int) -> None:
        self._disk.step("write", self.path)
        super().write_at(data, position)

    def truncate(self, size: int) -> None:
        self._disk.step("truncate", self.path)
        super().truncate(size)

    def sync(self) -> None:
        self._disk.step("sync", self.path)


class ShortDisk(Disk):
    """`fails_at` is the number of the call that fails, counted from 1 since `count` was reset; `lasting` lets all later ones fail, too."""

    def __init__(self) -> None:
        super().__init__()
        self.number = errno.ENOSPC
        self.count = 0
        self.fails_at: int | None = None
        self.lasting = False
        self.only = ""
        """Only calls on paths with this in them count."""

    def fail(self, number: int, at: int = 1, *, lasting: bool = False, only: str = "") -> None:
        """Have the call fail that is `at` calls away."""
        self.number, self.count, self.fails_at, self.lasting, self.only = number, 0, at, lasting, only

    def work(self) -> None:
        """Fail no more."""
        self.count, self.fails_at = 0, None

    def step(self, doing: str, path: Path) -> None:
        if self.only not in str(path):
            return
        if self.number == errno.EMFILE and doing in ("write", "truncate", "sync", "rename"):
            return  # needs no descriptor
        if self.number == errno.ENOSPC and doing in ("sync", "list", "read"):
            return
        self.count += 1
        if self.fails_at is not None and (self.count == self.fails_at or (self.lasting and self.count > self.fails_at)):
            raise OSError(self.number, os.strerror(self.number), str(path))

    def create(self, path: Path) -> LogFile:
        self.step("create", path)
        return super().create(path)

    def file(self, path: Path) -> LogFile:
        return ShortFile(path, self)

    def read(self, path: Path) -> bytes:
        self.step("read", path)
        return super().read(path)

    def names(self, path: Path) -> list[str]:
        self.step("list", path)
        return super().names(path)

    def rename(self, old: Path, new: Path) -> None:
        self.step("rename", new)
        super().rename(old, new)

    def sync_directory(self, path: Path) -> None:
        self.step("open", path)
