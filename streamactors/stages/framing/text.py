"""decode: strings from bytes. lines: the lines of text that arrives as bytes."""

from __future__ import annotations

import codecs
from typing import Any, Final

from streamactors.engine.logic import logic_of
from streamactors.engine.marks.marks import BLURS_MEMORY
from streamactors.engine.stage import Stage
from streamactors.errors import BuildError, FramingError
from streamactors.stages.bases.cutting import CuttingLogic
from streamactors.stages.checks import positive
from streamactors.stages.framing.delimiter import DelimiterLogic


def checked_encoding(operator: str, encoding: str) -> str:
    """Return `encoding` if Python knows it."""
    try:
        codecs.getincrementaldecoder(encoding)
        "".encode(encoding)
    except (LookupError, TypeError) as error:
        raise BuildError(f"{operator}: {error}") from None
    return encoding


_STATELESS: Final = frozenset(["utf-8", "utf8", "ascii", "latin-1"])
"""Encodings in which no byte of another character is a line end, and a line means the same by itself."""


class Decode(Stage[bytes, str]):
    """The stage of `Source.decode`."""

    handling = BLURS_MEMORY

    def __init__(self, encoding: str = "utf-8", errors: str = "strict") -> None:
        self.encoding = checked_encoding("decode", encoding)
        try:
            codecs.lookup_error(errors)
        except LookupError as error:
            raise BuildError(f"decode: {error}") from None
        self.errors = errors


@logic_of(Decode)
class _DecodeLogic(CuttingLogic):
    def __init__(self, stage: Decode) -> None:
        super().__init__(stage)
        self._decoder = codecs.getincrementaldecoder(stage.encoding)(stage.errors)

    def pending(self) -> bool:
        return bool(self._decoder.getstate()[0])

    def cut(self, chunk: list[bytes], results: list[Any]) -> None:
        decode = self._decoder.decode
        for element in chunk:
            text = decode(element)
            if text:
                results.append(text)

    def finish(self, results: list[Any]) -> None:
        text = self._decoder.decode(b"", True)
        if text:
            results.append(text)


class Lines(Stage[bytes, str]):
    """The stage of `Source.lines`."""

    handling = BLURS_MEMORY
    delimiter = b"\n"
    allow_truncation = True

    def __init__(self, max_length: int = 1_048_576, encoding: str = "utf-8") -> None:
        self.max_length = positive("lines", "max_length", max_length)
        self.encoding = checked_encoding("lines", encoding)
        if "\n".encode(encoding) != b"\n":
            raise BuildError(
                f"lines: in {encoding} a line does not end with the byte 0x0a; use decode({encoding!r}) and split the text"
            )


@logic_of(Lines)
class _LinesLogic(DelimiterLogic):
    _number = 0  # of the last line that was decoded

    def take(self, frames: list[bytes], results: list[Any]) -> None:
        encoding = self.stage.encoding  # type: ignore[attr-defined]
        whole: list[bytes] = []
        too_long = False
        try:
            super().take(frames, whole)
        except FramingError:
            too_long = True
        at_once = self._at_once(whole) if encoding in _STATELESS else None
        if at_once is not None:
            results += at_once
            self._number += len(whole)
            whole = []
        for line in whole:
            self._number += 1
            try:
                results.append(line.removesuffix(b"\r").decode(encoding))
            except UnicodeDecodeError as error:
                error.add_note(f"in line {self._number:,}")
                raise
        if too_long:
            raise self.too_long()

    def _at_once(self, lines: list[bytes]) -> list[str] | None:
        """Return the lines, decoded by one call; None when a line cannot be decoded, which the caller finds."""
        if not lines:
            return []
        try:
            text = b"\n".join(lines).decode(self.stage.encoding)  # type: ignore[attr-defined]
        except UnicodeDecodeError:
            return None
        texts = text.split("\n")
        return [line.removesuffix("\r") for line in texts] if "\r" in text else texts

    def too_long(self) -> FramingError:
        return FramingError(
            f"{self.name}: line {self._number + 1:,} is longer than max_length={self.stage.max_length} bytes; raise max_length"
        )
