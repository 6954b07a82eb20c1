"""ReplacedFile: a new file that takes the place of an old one when it is complete.

Owner: the run of a sink that writes files (`writing.py`). The rows go into a file beside the old one, `out.csv.partial`, which `complete`
renames: readers see the old file or the new one, never a part. A file that is read and written by one graph is therefore read to its end.
A path that is not a regular file (a device, a pipe) is written in place."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from io import FileIO
from itertools import count
from typing import Final

from streamactors.stages.files.io_result import Path

_OPEN_FILES: Final = ("/dev/fd/", "/dev/std", "/proc/")
"""Names of files that this process has open already, such as its standard output."""


class ReplacedFile:
    """Opens the file beside `path`. Raises OSError when the old file or its folder cannot be written."""

    def __init__(self, path: Path) -> None:
        name = os.fspath(path)
        self._target = os.path.realpath(name)  # a symbolic link still points to the file that is replaced
        self.partial: str | None = None
        """The path of the incomplete file, while there is one."""
        try:
            old: os.stat_result | None = os.stat(name)
        except FileNotFoundError:
            old = None
        if old is not None and (not stat.S_ISREG(old.st_mode) or name.startswith(_OPEN_FILES)):
            self.file = FileIO(name, "w")
            return
        if old is not None and not os.access(name, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), name)
        self.file = self._opened(name)
        if old is not None:
            self._take_over(old)

    def _opened(self, path: str) -> FileIO:
        """Create the file beside the target, under the first name that is free."""
        for number in count(1):
            partial = f"{self._target}.partial" if number == 1 else f"{self._target}.partial-{number}"
            try:
                file = FileIO(partial, "x")
            except FileExistsError:
                continue
            except OSError as error:
                error.filename = path
                if isinstance(error, PermissionError):
                    error.add_note(
                        f"the new file is written beside the old one, and the folder {os.path.dirname(partial)} allows no new file; "
                        "append=True writes into the file itself"
                    )
                raise
            self.partial = partial
            return file
        raise AssertionError  # pragma: no cover  # `count` has no end

    def _take_over(self, old: os.stat_result) -> None:
        """Give the new file the owner and the permissions of the old one, as far as the system allows."""
        descriptor = self.file.fileno()
        if hasattr(os, "fchown"):
            with suppress(OSError):
                os.fchown(descriptor, old.st_uid, old.st_gid)
        with suppress(OSError):
            os.chmod(descriptor if os.chmod in os.supports_fd else self.partial or "", stat.S_IMODE(old.st_mode))

    def complete(self, *, sync: bool) -> None:
        """Close the file and put it in the place of the old one; with `sync`, the disk has confirmed the new name on return."""
        self.file.close()
        if self.partial is None:
            return
        os.replace(self.partial, self._target)
        self.partial = None
        if sync and hasattr(os, "O_DIRECTORY"):
            folder = os.open(os.path.dirname(self._target), os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    def give_up(self, head_bytes: int) -> str | None:
        """Close the file and leave the old one as it is. Return the path of the partial file, or None when there is none: a file without
        more than the `head_bytes` of its header is removed."""
        self.file.close()
        partial = self.partial
        if partial is not None and os.path.getsize(partial) <= head_bytes:
            self.discard()
        elif partial is not None:
            self.partial = None
            return partial
        return None

    def discard(self) -> None:
        """Close and remove the partial file, if there is one."""
        self.file.close()
        if self.partial is not None:
            with suppress(OSError):
                os.remove(self.partial)
            self.partial = None
