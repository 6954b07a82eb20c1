"""Text files, read line by line: the byte order mark, and errors that name the file and the line."""

from __future__ import annotations

import codecs
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from streamactors.errors import FramingError
from streamactors.stages.files.io_result import Path

_BLOCK_BYTES = 1 << 16


@contextmanager
def opened_text(path: Path, encoding: str, newline: str | None = "") -> Iterator[IO[str]]:
    """Open a text file, its line ends as they are; `newline` as in `open`. A byte order mark at the beginning is no part of the text.

    Bytes that are no text in `encoding` raise FramingError naming the file and the line."""
    known = codecs.lookup(encoding).name
    with open(path, encoding="utf-8-sig" if known == "utf-8" else encoding, newline=newline) as file:
        try:
            yield file
        except UnicodeDecodeError as error:
            raise FramingError(
                f"{os.fspath(path)}, line {_line_of_first_error(path, encoding)}: the bytes are no {encoding} text "
                f"({error.reason}); what is the file's encoding?"
            ) from None


def _line_of_first_error(path: Path, encoding: str) -> int:
    """Return the number of the line with the first bytes that cannot be decoded; the file has some."""
    decoder = codecs.getincrementaldecoder(encoding)()
    line = 1
    with open(path, "rb") as file:
        while block := file.read(_BLOCK_BYTES):
            before = decoder.getstate()
            try:
                line += decoder.decode(block).count("\n")
            except UnicodeDecodeError as error:
                decoder.setstate(before)
                return line + decoder.decode(error.object[len(before[0]) : error.start]).count("\n")
    return line
