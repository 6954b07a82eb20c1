"""frames_of_json: the JSON objects of a stream of bytes, found without parsing them.

The scanner jumps from one meaning byte to the next: quotes and braces outside of strings, quotes and backslashes inside."""

from __future__ import annotations

import re
from typing import Any, Final

from streamactors.engine.logic import logic_of
from streamactors.engine.marks.marks import BLURS_MEMORY
from streamactors.engine.stage import Stage
from streamactors.engine.user_code import shortened
from streamactors.errors import FramingError
from streamactors.stages.bases.cutting import CuttingLogic
from streamactors.stages.checks import positive

_BETWEEN: Final = re.compile(rb"[\s,\[\]]*")
_OUTSIDE: Final = re.compile(rb'["{}]')
_INSIDE: Final = re.compile(rb'["\\]')
_QUOTE, _OPEN, _CLOSE = b'"{}'


class FramesOfJson(Stage[bytes, bytes]):
    """The stage of `Source.frames_of_json`."""

    handling = BLURS_MEMORY

    def __init__(self, max_length: int) -> None:
        self.max_length = positive("frames_of_json", "max_length", max_length)


@logic_of(FramesOfJson)
class _JsonLogic(CuttingLogic):
    stage: FramesOfJson

    def __init__(self, stage: FramesOfJson) -> None:
        super().__init__(stage)
        self._buffer = bytearray()  # begins with the unfinished object
        self._at = 0  # up to here it was scanned
        self._depth = 0
        self._in_string = False

    def pending(self) -> bool:
        return bool(self._buffer)

    def cut(self, chunk: list[bytes], results: list[Any]) -> None:
        buffer = self._buffer
        buffer += b"".join(chunk)
        begin = 0
        try:
            while True:
                if not self._depth:
                    begin = self._at = _BETWEEN.match(buffer, self._at).end()  # type: ignore[union-attr]
                    if begin == len(buffer):
                        return
                    if buffer[begin] != _OPEN:
                        raise FramingError(
                            f"{self.name}: expected an object, found {shortened(bytes(buffer[begin : begin + 40]), 60)}"
                        )
                ended = self._scan()
                if self._at - begin > self.stage.max_length:
                    raise FramingError(
                        f"{self.name}: an object is longer than max_length={self.stage.max_length} bytes: "
                        f"{shortened(bytes(buffer[begin : begin + 40]), 60)}; raise max_length"
                    )
                if not ended:
                    return
                results.append(bytes(buffer[begin : self._at]))
                begin = self._at
        finally:
            del buffer[:begin]
            self._at -= begin

    def _scan(self) -> bool:
        """Scan to the end of the object, or of the buffer; return whether the object has ended."""
        buffer, at, depth = self._buffer, self._at, self._depth
        outside, inside = _OUTSIDE.search, _INSIDE.search
        try:
            while True:
                if self._in_string:
                    found = inside(buffer, at)
                    if found is None:
                        at = len(buffer)
                        return False
                    at = found.end()
                    if buffer[at - 1] == _QUOTE:
                        self._in_string = False
                    elif at == len(buffer):
                        at -= 1  # the backslash is looked at again, with the byte after it
                        return False
                    else:
                        at += 1
                else:
                    found = outside(buffer, at)
                    if found is None:
                        at = len(buffer)
                        return False
                    at = found.end()
                    byte = buffer[at - 1]
                    if byte == _QUOTE:
                        self._in_string = True
                    elif byte == _OPEN:
                        depth += 1
                    else:
                        depth -= 1
                        if not depth:
                            return True
        finally:
            self._at, self._depth = at, depth

    def finish(self, results: list[Any]) -> None:
        if self._buffer:
            raise FramingError(
                f"{self.name}: the stream ended within an object: {shortened(bytes(self._buffer[:40]), 60)}"
            )

    def snapshot_state(self) -> str:
        return super().snapshot_state() or (
            f"{len(self._buffer)} bytes of an unfinished object" if self._buffer else ""
        )
