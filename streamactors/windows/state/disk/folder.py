"""The state folder of one application: locked by one run, with a database for each task of each stage.

    <path>/<application>/state.json                    format, application
    <path>/<application>/lock                          held while a run uses the folder; the process id is in it
    <path>/<application>/<first store>/<partition>/    a database

Owner: the run. `open` may be called from any thread."""

from __future__ import annotations

import fcntl
import json
import os
import re
import threading
import time
from collections.abc import Container, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Final

from streamactors.actors.native_calls import NATIVE_CALLS
from streamactors.state import State
from streamactors.windows.state.disk.errors import ForeignState, StateDamaged, StateError, StateFolderInUse
from streamactors.windows.state.disk.rocks import Memory, Rocks
from streamactors.windows.state.disk.task_disk import FORMAT_VERSION, TaskDisk, refuse_above

ABOUT: Final = "state.json"
LOCK: Final = "lock"
LOCK_WAIT_S = 3.0
"""A run that has just ended may still be closing its files."""
_SAFE: Final = re.compile(r"[^A-Za-z0-9._-]")


def file_name(name: str) -> str:
    """Return a name as a file's name; characters that a file system may refuse become %xx."""
    escaped = _SAFE.sub(lambda match: "".join(f"%{byte:02x}" for byte in match[0].encode()), name)
    return escaped if escaped.strip(".") else "%2e" * len(escaped)


class StateFolder:
    """The folder of one application, locked by this process. Raises StateFolderInUse, ForeignState, StateDamaged, StateError."""

    def __init__(self, state: State, application: str) -> None:
        if state.path is None:
            raise StateError("this state is in memory; give State.on_disk(path)")
        self.path = state.path / file_name(application)
        self._application = application
        self._quota = state.quota_bytes
        self._open: dict[tuple[str, int], TaskDisk] = {}
        self._mutex = threading.Lock()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock_file = self._locked()
        except OSError as error:
            raise StateError(
                f"state folder {self.path}: {error.strerror or error}; give a folder that this user may write: State.on_disk(…)"
            ) from error
        try:
            self._check_about()
            self.memory = Memory(state.cache_bytes)
        except BaseException:
            self._lock_file.close()
            raise
        self.cache_bytes = state.cache_bytes
        NATIVE_CALLS.opened(self, f"state folder {self.path}")

    def _locked(self) -> IO[str]:
        lock = (self.path / LOCK).open("a+")
        patience = time.monotonic() + LOCK_WAIT_S
        while not _has_locked(lock):
            if time.monotonic() < patience:
                time.sleep(0.02)
                continue
            lock.seek(0)
            holder = lock.read().strip() or "unknown"
            lock.close()
            who = "another run of this process" if holder == str(os.getpid()) else f"the process {holder}"
            raise StateFolderInUse(
                f"state folder {self.path} is used by {who}; give each instance a folder of its own: State.on_disk(…); in a member of "
                "`streamactors run --processes` STREAMACTORS_MEMBER is its number"
            )
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        return lock

    def _check_about(self) -> None:
        about = read_about(self.path)
        if about is None:
            temporary = self.path / f"{ABOUT}.new"
            with temporary.open("w") as about_file:
                json.dump({"format": FORMAT_VERSION, "application": self._application}, about_file)
                about_file.flush()
                os.fsync(about_file.fileno())  # or a power cut could leave the new name without content
            temporary.replace(self.path / ABOUT)
            return
        if about.get("format") != FORMAT_VERSION:
            raise ForeignState(
                f"state folder {self.path} has format {about.get('format')!r}, this version reads {FORMAT_VERSION}; "
                "use the version that wrote it, or another folder"
            )
        if about.get("application") != self._application:
            raise ForeignState(
                f"state folder {self.path} belongs to {about.get('application')!r}, this run is {self._application!r}; "
                "give another folder: State.on_disk(…)"
            )

    def open(self, stores: Sequence[str], partition: int, time_first: Container[str] = ()) -> TaskDisk:
        """Return the disk of the task that has these stores for a partition; `time_first` as in TaskDisk. Raises StateError."""
        where = self.path / file_name(stores[0]) / str(partition)
        with self._mutex:
            known = self._open.get((stores[0], partition))
            if known is not None:
                return known
            rocks = Rocks(where, self.memory)
            try:
                check = self._check_quota if self._quota is not None else lambda: None
                disk = TaskDisk(rocks, stores, check, time_first)
            except BaseException:
                rocks.close()
                raise
            self._open[stores[0], partition] = disk
            return disk

    def close_task(self, stores: Sequence[str], partition: int) -> None:
        """Close the disk of a task that has ended. Idempotent."""
        with self._mutex:
            disk = self._open.pop((stores[0], partition), None)
        if disk is not None:
            disk.close()

    @property
    def share(self) -> int:
        """Bytes of decoded objects that one task may keep in memory."""
        return self.cache_bytes // 4 // max(1, len(self._open))

    def _check_quota(self) -> None:
        assert self._quota is not None
        with self._mutex:
            used = sum(disk.rocks.bytes_on_disk for disk in self._open.values())
        refuse_above(self._quota, used, self.path)

    def close(self) -> None:
        """Close all databases and unlock the folder, also if one of them raises StateError. Idempotent."""
        with self._mutex:
            disks, self._open = list(self._open.values()), {}
        # If a database cannot be closed, the others are closed all the same, and the lock is released.
        with ExitStack() as closing:
            closing.callback(NATIVE_CALLS.closed, self)
            closing.callback(self._lock_file.close)
            for disk in disks:
                closing.callback(disk.close)


def _has_locked(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def read_about(path: Path) -> dict[str, object] | None:
    """Return the folder's description of itself, None for a new folder. Raises StateDamaged."""
    try:
        about = json.loads((path / ABOUT).read_text())
    except FileNotFoundError:
        return None
    except (ValueError, OSError) as error:
        raise StateDamaged(
            f"state folder {path}: {ABOUT} cannot be read: {error}; remove the folder, and the next run restores it from its changelogs"
        ) from error
    if not isinstance(about, dict):
        raise StateDamaged(
            f"state folder {path}: {ABOUT} has no fields; remove the folder, and the next run restores it"
        )
    return about


def tasks_of(path: Path) -> Iterable[tuple[str, int, Path]]:
    """Return (first store's file name, partition, folder) of each database below an application's folder."""
    for stage in sorted(path.iterdir()):
        if stage.is_dir():
            for task in sorted(stage.iterdir(), key=lambda each: (len(each.name), each.name)):
                if task.name.isdigit():
                    yield stage.name, int(task.name), task
