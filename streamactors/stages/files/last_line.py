"""The last line of a file that rows are appended to: a writer that was killed in the middle of a line has left no line end.

Without a line end the first new row would become a part of that line."""

from __future__ import annotations

import logging
import os
import stat
from io import FileIO
from typing import Final

from streamactors.engine.user_code import shortened
from streamactors.stages.files.io_result import Path

_log = logging.getLogger("streamactors.stages")

SHOWN: Final = 60
"""Bytes of the line that the warning shows."""


def end_last_line(file: FileIO, path: Path, line_end: bytes) -> None:
    """Write `line_end` to `file`, opened for appending, if its last line has none. Raises OSError when the file cannot be read."""
    size = os.fstat(file.fileno())
    if not stat.S_ISREG(size.st_mode):
        return
    with open(path, "rb", buffering=0) as reader:
        reader.seek(max(0, size.st_size - SHOWN))
        end = reader.read(SHOWN)
    if end.endswith(line_end):
        return
    torn = end.rpartition(line_end)[2].decode(errors="backslashreplace")
    _log.warning(
        "%s ends with the line %s without a line end; one is written, and new rows begin after it. A writer was probably stopped in "
        "the middle of that line",
        os.fspath(path),
        shortened(torn, SHOWN),
    )
    file.write(line_end)
