"""Text files, read line by line: the byte order mark, compressed files, and errors that name the file, the line and the way out."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Any, Final

from streamactors.errors import FramingError
from streamactors.stages.files.io_result import Path, helped

_BLOCK_BYTES = 1 << 16
_COMPRESSED: Final[dict[bytes, Callable[[Any], Any]]] = {
    b"\x1f\x8b": lambda file: gzip.GzipFile(fileobj=file),
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ\x00": lzma.LZMAFile,
}
"""The first bytes of a compressed file, and how it is opened."""
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_MARKS: Final = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}


@contextmanager
def opened_text(operator: str, path: Path, encoding: str, newline: str | None = "") -> Iterator[IO[str]]:
    """Open a text file for `operator`, its line ends as they are; `newline` as in `open`. A byte order mark at the beginning is not part of the text.

    A file that gzip, bzip2 or xz has compressed is decompressed. Raises FramingError, which names the file, for a file of zstd, for one whose
    compressed bytes are damaged, and, with the line, for bytes that cannot be decoded with `encoding`."""
    known = codecs.lookup(encoding).name
    try:
        with (
            _opened(path) as data,
            io.TextIOWrapper(data, encoding="utf-8-sig" if known == "utf-8" else encoding, newline=newline) as file,
        ):
            yield file
    except UnicodeDecodeError as error:
        raise FramingError(
            f"{os.fspath(path)}, line {_line_of_first_error(path, encoding)}: the bytes are not {encoding} text "
            f"({error.reason}); {_likely_encoding(path)}"
        ) from None
    except (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError) as error:
        raise FramingError(
            f"{os.fspath(path)}: the compressed bytes are damaged, or the file was cut: {error}"
        ) from None
    except OSError as error:
        raise helped(error, path, operator) from None


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Open the bytes of a file, decompressed."""
    with open(path, "rb") as file:
        first = file.peek(8)
        if first.startswith(_ZSTD):
            name = os.fspath(path)
            raise FramingError(
                f"{name} is compressed with zstd; decompress it in the stream: Source.from_file({name!r}).unzstd(), and then .parse_csv(), "
                ".parse_json_lines() or .lines()"
            )
        decompressed = next((make for magic, make in _COMPRESSED.items() if first.startswith(magic)), None)
        if decompressed is None:
            yield file
        else:
            with decompressed(file) as data:
                yield data


def _line_of_first_error(path: Path, encoding: str) -> int:
    """Return the number of the line with the first bytes that cannot be decoded; the file has some."""
    decoder = codecs.getincrementaldecoder(encoding)()
    line = 1
    with _opened(path) as file:
        while block := file.read(_BLOCK_BYTES):
            before = decoder.getstate()
            try:
                line += decoder.decode(block).count("\n")
            except UnicodeDecodeError as error:
                decoder.setstate(before)
                return line + decoder.decode(error.object[len(before[0]) : error.start]).count("\n")
    return line


def _likely_encoding(path: Path) -> str:
    """Return what the file's first bytes say about its encoding."""
    with _opened(path) as file:
        first = file.read(4)
    for mark, encoding in _MARKS.items():
        if first.startswith(mark):
            return f'the file begins with the byte order mark of {encoding}: encoding="{encoding}"'
    return 'what is the file\'s encoding? Programs of Windows often write encoding="cp1252", older ones "latin-1"'
