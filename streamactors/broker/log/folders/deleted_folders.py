"""The folders of deleted logs, until they are removed after file.delete.delay.ms.

A deleted log's folder is renamed, so that a new log can have the old name. A folder that could not be renamed is removed when a log of that name
is created.

Owner: LogManager. Any thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from streamactors.broker.log import logger
from streamactors.broker.log.disk import Disk
from streamactors.broker.log.folders.folder_names import DELETE_SUFFIX
from streamactors.broker.log.shortage import passes


class DeletedFolders:
    """`is_lost` returns whether a data folder has failed: the next start with a repaired disk removes its contents."""

    def __init__(self, disk: Disk, is_lost: Callable[[Path], bool]) -> None:
        self._disk = disk
        self._is_lost = is_lost
        self._lock = threading.Lock()
        self._removing = threading.Lock()  # held while a folder with the name of a log is removed
        self._due: list[tuple[int, Path]] = []

    def add(self, path: Path, due_ms: int) -> None:
        """Remove a folder when it is due."""
        with self._lock:
            self._due.append((due_ms, path))

    def make_way(self, path: Path) -> None:
        """Remove a folder that has the name of a new log, if there is one. Raises OSError."""
        with self._removing:
            with self._lock:
                found = [entry for entry in self._due if entry[1] == path]
            if not found:
                return
            with suppress(FileNotFoundError):  # it is gone already
                self._disk.remove_directory(path)
            with self._lock:
                self._due = [entry for entry in self._due if entry[1] != path]

    def remove(self, now_ms: int | None = None) -> None:
        """Remove the folders that are due, or all without a time. The next start removes what cannot be removed.

        A folder that cannot be removed for lack of a descriptor is tried again."""
        with self._lock:
            due = [entry for entry in self._due if now_ms is None or entry[0] <= now_ms]
        for entry in due:
            path = entry[1]
            if path.name.endswith(DELETE_SUFFIX):
                self._take_and_remove(entry, now_ms)
            else:
                # The folder of a deleted log is due -> a topic of the same name is created -> the new log's files would go.
                with self._removing:
                    self._take_and_remove(entry, now_ms)

    def _take_and_remove(self, entry: tuple[int, Path], now_ms: int | None) -> None:
        path = entry[1]
        with self._lock:
            if entry not in self._due:
                return  # it was removed already
            self._due.remove(entry)
        if self._is_lost(path.parent):
            return
        try:
            self._disk.remove_directory(path)
        except FileNotFoundError:
            pass  # it was not renamed, because its disk failed in that moment, or somebody else has removed it
        except OSError as error:
            if passes(error) and now_ms is not None:
                self.add(path, now_ms)
            else:
                logger.error(
                    "cannot remove %s: %s; the next start of the broker removes it", path, error.strerror or error
                )
