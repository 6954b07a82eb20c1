"""from_lines: the lines of a text file."""

from __future__ import annotations

import os
from collections.abc import Iterator

from streamactors.errors import BuildError
from streamactors.stages.files.io_result import checked_path
from streamactors.stages.files.text_file import opened_text
from streamactors.stages.sources.iterables import FromIterable


class Lines(FromIterable):
    """The stage of `Source.from_lines`."""

    name = "from_lines"

    def __init__(self, path: str | os.PathLike[str], encoding: str = "utf-8") -> None:
        checked_path("from_lines", path)
        try:
            "".encode(encoding)
        except (LookupError, TypeError) as error:
            raise BuildError(f"from_lines: {error}") from None
        super().__init__(_FileLines(path, encoding))
        self.identity = {"file": os.path.abspath(path)}


class _FileLines:
    def __init__(self, path: str | os.PathLike[str], encoding: str) -> None:
        self._path = path
        self._encoding = encoding

    def __iter__(self) -> Iterator[str]:
        with opened_text("from_lines", self._path, self._encoding, newline=None) as lines:
            for line in lines:
                yield line.removesuffix("\n")
