"""A disk that loses what was not synced, under a process that is killed: the power fails for all nodes at once.

Every fsync of the process copies what it makes durable to a second folder: a file's content by its inode, a folder's entries by the folder's inode. When the
processes are dead, `cut_power` builds the data folder anew from these copies. The rules are those of tests/broker/log/forgetful_disk.py, which loses data
under a log in the same process."""

from __future__ import annotations

import json
import os
import shutil
import stat
import threading
from pathlib import Path

SHADOW = "STREAMACTORS_FORGETFUL_DISK"
"""The environment variable that names the second folder."""


class DurableCopies:
    """What the disk really holds. `folder` outlives the process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._one_at_a_time = threading.Lock()
        self._kept: list[int] = []  # removed files stay open, or a new file could get the inode of one

    def keep(self, path: str | os.PathLike[str]) -> None:
        """Keep the inode of a file that is about to be removed."""
        if os.path.isfile(path):
            self._kept.append(os.open(path, os.O_RDONLY))

    def synced(self, descriptor: int) -> None:
        """Copy what a file or a folder holds now."""
        with self._one_at_a_time:  # or a copy that was begun earlier could replace a later one
            self._copy(descriptor)

    def _copy(self, descriptor: int) -> None:
        here = os.fstat(descriptor)
        if stat.S_ISDIR(here.st_mode):
            where = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
            self._write(here.st_ino, _entries(where))
        else:
            self._write(here.st_ino, os.pread(descriptor, here.st_size, 0))

    def take_over(self, folder: Path) -> None:
        """Count everything in a folder as durable: its node starts on it."""
        for where, _, names in os.walk(folder):
            self._write(os.stat(where).st_ino, _entries(Path(where)))
            for name in names:
                path = Path(where, name)
                self._write(path.stat().st_ino, path.read_bytes())

    def restore(self, inode: int, into: Path) -> None:
        """Make a folder with the durable entries of another one."""
        into.mkdir()
        for name, (child, is_folder) in json.loads(self.content(inode) or b"{}").items():
            if is_folder:
                self.restore(child, into / name)
            else:  # the name of a file that was never synced is there, without content
                (into / name).write_bytes(self.content(child) or b"")

    def content(self, inode: int) -> bytes | None:
        path = self._folder / str(inode)
        return path.read_bytes() if path.exists() else None

    def _write(self, inode: int, data: bytes) -> None:
        temporary = self._folder / f"{inode}.{os.getpid()}.{threading.get_ident()}.tmp"
        temporary.write_bytes(data)
        os.rename(temporary, self._folder / str(inode))


def _entries(folder: Path) -> bytes:
    """Return the entries of a folder: the inode of each, and whether it is a folder."""
    found = {name: os.stat(folder / name) for name in os.listdir(folder)}
    return json.dumps({name: (each.st_ino, stat.S_ISDIR(each.st_mode)) for name, each in found.items()}).encode()


def install(folder: Path) -> None:
    """Follow the syncs of this process from now on; its data folder is durable as it is when it is locked."""
    from streamactors.broker.log.disk import Disk
    from streamactors.broker.log.folders.data_folder import DataFolder

    copies = DurableCopies(folder)
    os.fdatasync = os.fsync = copies.synced  # type: ignore[assignment]
    lock, remove, rename = DataFolder.lock, Disk.remove, Disk.rename

    def locked(self: DataFolder) -> None:
        lock(self)
        copies.take_over(self.path)

    def removed(self: Disk, path: Path) -> None:
        copies.keep(path)
        remove(self, path)

    def renamed(self: Disk, old: Path, new: Path) -> None:
        copies.keep(new)
        rename(self, old, new)

    DataFolder.lock = locked  # type: ignore[method-assign]
    Disk.remove = removed  # type: ignore[method-assign]
    Disk.rename = renamed  # type: ignore[method-assign]


def cut_power(data: Path, shadow: Path) -> None:
    """Leave in each folder of `data`, whose processes are dead, what was synced."""
    for node in [each for each in data.iterdir() if each.is_dir()]:
        fresh = data / f"{node.name}.fresh"
        DurableCopies(shadow).restore(node.stat().st_ino, fresh)
        shutil.rmtree(node)
        fresh.rename(node)
