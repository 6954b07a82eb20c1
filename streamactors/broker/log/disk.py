"""The interface between the log and the operating system.

Owner: the log that opened a file, under that log's lock; slices hold the file open while they are sent. All disk access of the
log goes through `Disk` and `LogFile`. A test can replace them with a disk that loses unsynced data at a power failure.
"""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path
from time import perf_counter_ns
from typing import TYPE_CHECKING

from streamactors.broker.log.segments.open_files import OpenFiles, default_limit
from streamactors.broker.records.header import Buffer

if TYPE_CHECKING:
    from threading import RLock

_holds_lock = threading.Lock()  # guards every file's count of holders; taken for nanoseconds


class LogFile:
    """One file, opened at first use and closed while it is not held, so an idle partition has no descriptor.

    Every read and write names its position, so readers and the writer share no state. The owner serialises all calls but
    `release`.
    """

    __slots__ = ("_doomed", "_fd", "_holders", "_open_files", "_read_only", "guard", "path")

    def __init__(self, path: Path, open_files: OpenFiles) -> None:
        self.path = path
        self.guard: RLock | None = None
        """The lock of the log that owns the file. A thread with the lock may use the file without `hold`."""
        self._open_files = open_files
        self._fd = -1
        self._holders = 0
        self._doomed = False
        self._read_only = False

    def descriptor(self) -> int:
        """Return the open file's descriptor, for sendfile; valid while the file is held."""
        return self._fd if self._fd >= 0 else self._open()

    def _open(self) -> int:
        read_only = False
        try:
            fd = self._open_files.open(self.path, os.O_RDWR)
        except OSError as error:
            if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM):
                raise
            fd = self._open_files.open(self.path, os.O_RDONLY)  # Reads still work.
            read_only = True
        with _holds_lock:
            if self._fd >= 0:  # A holder without the log's lock opened the file at the same time.
                os.close(fd)
                return self._fd
            self._fd, self._read_only = fd, read_only
        self._open_files.opened(self)
        return fd

    def write_at(self, data: Buffer, position: int) -> None:
        """Write all of data at the position. Raises OSError, possibly after a partial write."""
        fd = self._fd if self._fd >= 0 else self._open()
        if self._read_only:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(self.path))
        spans = self._open_files.write_spans
        if spans is not None:
            began_ns = perf_counter_ns()
            self._write(fd, data, position)
            spans.add(perf_counter_ns() - began_ns)
        else:
            self._write(fd, data, position)

    def _write(self, fd: int, data: Buffer, position: int) -> None:
        written = os.pwrite(fd, data, position)
        while written < len(data):
            data = memoryview(data)[written:]
            position += written
            written = os.pwrite(fd, data, position)
            if written == 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))

    def read_at(self, size: int, position: int) -> bytes:
        """Return up to `size` bytes; fewer only at the end of the file."""
        data = os.pread(self._fd if self._fd >= 0 else self._open(), size, position)
        if len(data) == size or not data:
            return data
        parts, got = [data], len(data)
        while got < size:
            data = os.pread(self._fd, size - got, position + got)
            if not data:
                break
            parts.append(data)
            got += len(data)
        return b"".join(parts)

    def size(self) -> int:
        """Size of the file in bytes."""
        return os.fstat(self.descriptor()).st_size

    def truncate(self, size: int) -> None:
        """Cut the file. Raises OSError."""
        os.ftruncate(self.descriptor(), size)

    def sync(self) -> None:
        """Return when the file's data is on the disk. Raises OSError."""
        os.fdatasync(self.descriptor())

    def hold(self) -> None:
        """Keep the descriptor open until `release`."""
        with _holds_lock:
            self._holders += 1

    def release(self) -> None:
        """Undo one `hold`. May be called from any thread."""
        with _holds_lock:
            self._holders -= 1
            if self._holders == 0 and self._doomed:
                self._close()

    def close(self) -> None:
        """Close permanently: now, or when the last holder releases it."""
        with _holds_lock:
            self._doomed = True
            if self._holders == 0:
                self._close()

    def close_if_idle(self) -> bool:
        """Close until the next use, unless the file is held. Returns whether it is closed."""
        with _holds_lock:
            if self._holders == 0:
                self._close()
            return self._fd < 0

    def evict(self) -> bool:
        """Close until the next use, unless the file is in use. Return whether it is closed. On any thread."""
        if self.guard is None or not self.guard.acquire(blocking=False):
            return False
        try:
            return self.close_if_idle()
        finally:
            self.guard.release()

    @property
    def is_open(self) -> bool:
        return self._fd >= 0

    def _close(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            self._open_files.closed(self)
            os.close(fd)

    def __repr__(self) -> str:
        return f"LogFile({self.path})"


class Disk:
    """The operating system's files. At most `max_open` idle log files stay open."""

    def __init__(self, max_open: int | None = None) -> None:
        self.open_files = OpenFiles(default_limit() if max_open is None else max_open)

    def create(self, path: Path) -> LogFile:
        """Return a new, empty file. An existing file is emptied."""
        os.close(self.open_files.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC))
        return self.file(path)

    def file(self, path: Path) -> LogFile:
        """Return the file, which is opened when it is used."""
        return LogFile(path, self.open_files)

    def read(self, path: Path) -> bytes:
        """Return the whole of a small file. Raises FileNotFoundError."""
        return path.read_bytes()

    def write(self, path: Path, data: bytes, *, sync: bool = False) -> None:
        """Replace a small file's content."""
        file = self.create(path)
        try:
            file.write_at(data, 0)
            if sync:
                file.sync()
        finally:
            file.close()

    def write_atomically(self, path: Path, data: bytes) -> None:
        """Replace a small file durably. After a crash it has either the old or the new content."""
        temporary = path.with_name(path.name + ".tmp")
        self.write(temporary, data, sync=True)
        self.rename(temporary, path)
        self.sync_directory(path.parent)

    def link(self, existing: Path, path: Path) -> bool:
        """Make a hard link to a small file. Return whether the file system can. Do not write either name in place."""
        try:
            os.link(existing, path)
        except OSError:
            return False
        return True

    def sync_file(self, path: Path) -> None:
        """Return when the file's data is on the disk; a missing file is ignored."""
        try:
            file = self.file(path)
            try:
                file.sync()
            finally:
                file.close()
        except FileNotFoundError:
            pass

    def sync_directory(self, path: Path) -> None:
        """Return when the folder's entries (files created, renamed, removed) are on the disk."""
        fd = self.open_files.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def rename(self, old: Path, new: Path) -> None:
        os.rename(old, new)

    def remove(self, path: Path) -> None:
        """Remove a file. A missing file is ignored."""
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass

    def make_directory(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)

    def remove_directory(self, path: Path) -> None:
        """Remove a folder of files."""
        for name in self.names(path):
            self.remove(path / name)
        os.rmdir(path)

    def names(self, path: Path) -> list[str]:
        """Return the names in a folder, sorted."""
        return sorted(os.listdir(path))

    def exists(self, path: Path) -> bool:
        return path.exists()

    def size(self, path: Path) -> int:
        """Bytes of a file. Raises FileNotFoundError."""
        return path.stat().st_size

    def modified_ms(self, path: Path) -> int:
        """When the file was last written, in epoch milliseconds."""
        return path.stat().st_mtime_ns // 1_000_000

    def set_modified_ms(self, path: Path, when_ms: int) -> None:
        os.utime(path, (when_ms / 1000, when_ms / 1000))
