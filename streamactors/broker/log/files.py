"""The seam between the log and the operating system.

Owner: the log that opened a file, under that log's lock; slices hold it open while they are sent. Everything the log does to a disk goes through
`Disk` and `LogFile`, so that a test can put one in their place that forgets, at a power cut, whatever was not synced.
"""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

from streamactors.broker.log.open_files import Guard, OpenFiles, default_limit
from streamactors.broker.records.header import Buffer

_holds_lock = threading.Lock()  # guards every file's count of holders; taken for nanoseconds


class LogFile:
    """One file, opened at first use and closed when nobody holds it: an idle partition has no descriptor.

    Positions are always given, so that readers and the writer do not meet. The owner serialises everything but `release`.
    """

    __slots__ = ("_doomed", "_fd", "_holders", "_open_files", "_read_only", "guard", "path")

    def __init__(self, path: Path, open_files: OpenFiles) -> None:
        self.path = path
        self.guard: Guard | None = None
        """The lock of the log that owns the file: who has it may use the file without holding it."""
        self._open_files = open_files
        self._fd = -1
        self._holders = 0
        self._doomed = False
        self._read_only = False

    def descriptor(self) -> int:
        """Return the open file's descriptor, for sendfile; valid while the file is held."""
        return self._fd if self._fd >= 0 else self._open()

    def _open(self) -> int:
        try:
            self._fd = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
            self._read_only = False
        except OSError as error:
            if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM):
                raise
            self._fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)  # reads go on
            self._read_only = True
        self._open_files.opened(self)
        return self._fd

    def write_at(self, data: Buffer, position: int) -> None:
        """Write all of data at the position. Raises OSError; some of it may have been written then."""
        fd = self._fd if self._fd >= 0 else self._open()
        if self._read_only:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(self.path))
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
        """Bytes of the file as the system knows them."""
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
        """Close for good: now, or when the last holder lets go."""
        with _holds_lock:
            self._doomed = True
            if self._holders == 0:
                self._close()

    def close_if_idle(self) -> bool:
        """Close until the next use, unless somebody holds the file. Returns whether it is closed."""
        with _holds_lock:
            if self._holders == 0:
                self._close()
            return self._fd < 0

    def evict(self) -> bool:
        """Close until the next use, if nobody uses the file now; return whether it is closed. On any thread."""
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
    """The operating system's files; no more than `max_open` of logs are kept open beyond their use."""

    def __init__(self, max_open: int | None = None) -> None:
        self.open_files = OpenFiles(default_limit() if max_open is None else max_open)

    def create(self, path: Path) -> LogFile:
        """Return a new, empty file; one that is there is emptied."""
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644))
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
        """Replace a small file so that old or new content is there after a crash, and the new one when this returns."""
        temporary = path.with_name(path.name + ".tmp")
        self.write(temporary, data, sync=True)
        self.rename(temporary, path)
        self.sync_directory(path.parent)

    def link(self, existing: Path, path: Path) -> bool:
        """Give a small file a second name; return whether this file system can. Neither may be written in place then."""
        try:
            os.link(existing, path)
        except OSError:
            return False
        return True

    def sync_file(self, path: Path) -> None:
        """Return when the file's data is on the disk; one that is gone has nothing to lose."""
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
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def rename(self, old: Path, new: Path) -> None:
        os.rename(old, new)

    def remove(self, path: Path) -> None:
        """Remove a file; one that is gone is no error."""
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
