"""A disk that forgets, at a power cut, whatever was not synced.

It works on real files, so that everything above it runs as it does on a real disk; beside them it keeps what a disk would
really hold: a file's content as of its last sync, and a folder's entries as of the last sync of the folder. `cut_power`
puts the files back to that. What was written and not synced is gone, or a part of it is there, as the random generator
says; so a test that passes has not relied on the kernel's kindness.
"""

from __future__ import annotations

import errno
import os
import random
import threading
import weakref
from pathlib import Path

from streamactors.broker.log.disk import Disk, LogFile
from streamactors.broker.records.header import Buffer


class ForgetfulFile(LogFile):
    """Reports to its disk what happens to it. `inode` is the content's identity, which renames do not change."""

    __slots__ = ("_disk", "inode")

    def __init__(self, path: Path, disk: ForgetfulDisk, inode: int) -> None:
        super().__init__(path, disk.open_files)
        self._disk = disk
        self.inode = inode

    def write_at(self, data: Buffer, position: int) -> None:
        self._disk.before("write", self.path)
        super().write_at(data, position)

    def sync(self) -> None:
        self._disk.before("sync", self.path)
        super().sync()
        self._disk.synced_file(self)


class ForgetfulDisk(Disk):
    """`fail_next(doing, error)` makes the next write or sync fail; `syncs` counts the ones that were done."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.root = root
        self.syncs = 0
        self._contents: dict[int, bytes] = {}  # inode -> content as of its last sync
        self._entries: dict[Path, dict[str, int]] = {}  # folder -> name -> inode, as of the folder's last sync
        self.failures: list[tuple[str, str, int]] = []
        self._lock = threading.Lock()
        self._removed: list[int] = []  # held open until the power is cut: else a new file might get the number of one
        weakref.finalize(self, _close_all, self._removed)

    def fail_next(self, doing: str, suffix: str = ".log", number: int = errno.EIO) -> None:
        self.failures.append((doing, suffix, number))

    def before(self, doing: str, path: Path) -> None:
        for failure in self.failures:
            if failure[0] == doing and path.name.endswith(failure[1]):
                self.failures.remove(failure)
                raise OSError(failure[2], os.strerror(failure[2]), str(path))

    def create(self, path: Path) -> LogFile:
        is_new = not path.exists()
        file = super().create(path)
        if is_new:
            self._contents.pop(os.stat(path).st_ino, None)  # the number may have been another file's
        return file

    def remove(self, path: Path) -> None:
        self._keep_number(path)
        super().remove(path)

    def rename(self, old: Path, new: Path) -> None:
        self._keep_number(new)
        super().rename(old, new)

    def _keep_number(self, path: Path) -> None:
        if path.is_file():
            self._removed.append(os.open(path, os.O_RDONLY))

    def file(self, path: Path) -> LogFile:
        return ForgetfulFile(path, self, os.stat(path).st_ino)

    def synced_file(self, file: ForgetfulFile) -> None:
        self.syncs += 1
        with (
            self._lock
        ):  # the flusher's thread syncs as well, and what it has read must not replace what was synced later
            self._contents[file.inode] = os.pread(file.descriptor(), file.size(), 0)

    def content_on_disk(self, path: Path) -> bytes | None:
        """What was synced of a file, None if its name was not."""
        inode = self._entries.get(path.parent, {}).get(path.name)
        return None if inode is None else self._contents.get(inode, b"")

    def sync_directory(self, path: Path) -> None:
        self.before("sync", path)
        super().sync_directory(path)
        self._entries[path] = {name: os.stat(path / name).st_ino for name in os.listdir(path)}

    def cut_power(self, rng: random.Random) -> None:
        """Leave on the real disk what a power cut would. Every open handle is dead after this."""
        with self._lock:
            self._cut_power(rng)

    def _cut_power(self, rng: random.Random) -> None:
        for folder in sorted((path for path in self.root.rglob("*") if path.is_dir()), reverse=True):
            self._restore(folder, rng)
        self._restore(self.root, rng)
        _close_all(self._removed)
        self._contents.clear()
        self._entries.clear()
        for path in self.root.rglob("*"):
            if path.is_file():
                self._contents[os.stat(path).st_ino] = path.read_bytes()
        for folder in (self.root, *(path for path in self.root.rglob("*") if path.is_dir())):
            self._entries[folder] = {name: os.stat(folder / name).st_ino for name in os.listdir(folder)}

    def _restore(self, folder: Path, rng: random.Random) -> None:
        durable = self._entries.get(folder, {})
        now = {name: os.stat(folder / name).st_ino for name in os.listdir(folder)}
        bodies = {
            os.stat(folder / name).st_ino: (folder / name).read_bytes() for name in now if (folder / name).is_file()
        }
        for name in sorted(set(durable) | set(now)):
            path = folder / name
            old, new = durable.get(name), now.get(name)
            # an entry that was not synced is the old one or the new one
            inode = old if old == new or rng.random() < 0.5 else new
            if path.is_dir():
                continue
            if inode is None:
                path.unlink(missing_ok=True)
                continue
            path.write_bytes(self._survivor(inode, bodies.get(inode), rng))

    def _survivor(self, inode: int, now: bytes | None, rng: random.Random) -> bytes:
        """What is left of a file's content: what was synced, and perhaps more."""
        synced = self._contents.get(inode, b"")
        if now is None or now == synced:
            return synced
        kind = rng.randrange(4)
        if kind == 0:
            return synced
        if kind == 1:
            return now
        if now.startswith(synced):
            cut = rng.randint(len(synced), len(now))
            if kind == 2:
                return now[:cut]
            return now[:cut] + bytes(len(now) - cut)  # the size was written, the blocks were not
        return synced


def _close_all(descriptors: list[int]) -> None:
    while descriptors:
        os.close(descriptors.pop())
