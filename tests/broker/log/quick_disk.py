"""A disk that does not wait for syncs: for tests that reopen a log a thousand times and have no power cut in them."""

from __future__ import annotations

from pathlib import Path

from streamactors.broker.log.disk import Disk, LogFile


class QuickFile(LogFile):
    __slots__ = ()

    def sync(self) -> None:
        pass


class QuickDisk(Disk):
    def file(self, path: Path) -> LogFile:
        return QuickFile(path, self.open_files)

    def sync_directory(self, path: Path) -> None:
        pass
