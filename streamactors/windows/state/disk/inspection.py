"""Looking at a state folder without running its application: its databases, their entries, and which of them are damaged.

Owner: the command line. A folder that a run has locked is refused."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from streamactors.codec import CodecError, loads
from streamactors.state import SMALLEST_CACHE, State
from streamactors.windows.state.disk.errors import ForeignState, StateDamaged, StateError
from streamactors.windows.state.disk.folder import ABOUT, StateFolder, read_about, tasks_of
from streamactors.windows.state.disk.rocks import Memory, Rocks
from streamactors.windows.state.disk.task_disk import TaskDisk
from streamactors.windows.state.store_log import ENTRY, META_KEY

_CACHE: Final = 4 * SMALLEST_CACHE


class StoreOnDisk(NamedTuple):
    """One store of one task. `offset`: the changelog offset up to which it is complete."""

    application: str
    store: str
    partition: int
    entries: int
    bytes: int
    offset: int


class Inspection:
    """A state folder, locked while it is looked at. `path`: the folder of `State.on_disk`, or that of one application in it.

    Raises StateError if there is no state, or if a run uses it."""

    def __init__(self, path: Path) -> None:
        folders = [path] if (path / ABOUT).exists() else sorted(each.parent for each in path.glob(f"*/{ABOUT}"))
        if not folders:
            raise StateError(
                f"there is no state in {path}; give the folder of State.on_disk(…), or that of one application in it"
            )
        self._folders: list[tuple[str, StateFolder]] = []
        try:
            for each in folders:
                application = str((read_about(each) or {}).get("application"))
                self._folders.append((application, StateFolder(State(each.parent, _CACHE), application)))
        except BaseException:
            self.close()
            raise
        self._memory = Memory(_CACHE)

    def close(self) -> None:
        """Unlock the folder. Idempotent."""
        for _, folder in self._folders:
            folder.close()

    def databases(self) -> Iterator[tuple[str, int, Path]]:
        """Return (application, partition, folder) of each database."""
        for application, folder in self._folders:
            for _, partition, path in tasks_of(folder.path):
                yield application, partition, path

    def stores(self, application: str, partition: int, path: Path) -> Iterator[StoreOnDisk]:
        """Return the stores of a database, each of its entries decoded. Raises StateDamaged, ForeignState."""
        disk = self._open(path)
        try:
            for store in disk.stores:
                count = size = 0
                for key, value in disk.scan(store):
                    _decoded(path, store, key, value)
                    count += key.startswith(ENTRY)
                    size += len(key) + len(value)
                if count and disk.get(store, META_KEY) is None:
                    raise StateDamaged(f"state in {path}: store {store} has {count} entries and no metadata")
                yield StoreOnDisk(application, store, partition, count, size, disk.offset(store))
        finally:
            disk.close()

    def entries(self, path: Path, wanted: str) -> Iterator[Any]:
        """Return the fields of each entry of a store in a database. Raises StateDamaged, ForeignState."""
        disk = self._open(path)
        try:
            if wanted in disk.stores:
                for key, value in disk.scan(wanted):
                    if key.startswith(ENTRY):
                        yield _decoded(path, wanted, key, value)
        finally:
            disk.close()

    def damaged(self, checked: Callable[[], object] = bool) -> list[tuple[Path, str]]:
        """Return the databases that cannot be read, and why. `checked` is called after each database."""
        found = []
        for application, partition, path in self.databases():
            try:
                for _ in self.stores(application, partition, path):
                    pass
            except (StateDamaged, ForeignState) as error:
                found.append((path, str(error)))
            checked()
        return found

    def remove(self, path: Path) -> None:
        """Remove a database; the next run restores it from its changelog."""
        shutil.rmtree(path)

    def _open(self, path: Path) -> TaskDisk:
        rocks = Rocks(path, self._memory)
        try:
            return TaskDisk(rocks, ())
        except BaseException:
            rocks.close()
            raise


def _decoded(path: Path, store: str, key: bytes, value: bytes) -> Any:
    try:
        return loads(value)
    except CodecError as error:
        raise StateDamaged(f"state in {path}: store {store}, key {key[:40]!r}: {error}") from error
