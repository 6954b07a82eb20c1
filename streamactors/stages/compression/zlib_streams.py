"""gzip, gunzip, deflate and inflate, by the standard library's zlib."""

from __future__ import annotations

import zlib
from collections import deque
from typing import Any, ClassVar

from streamactors.engine.logic import logic_of
from streamactors.engine.marks.marks import BLURS_MEMORY, EXACT_MEMORY, Handling
from streamactors.engine.stage import Stage
from streamactors.errors import BuildError, CompressionError
from streamactors.stages.bases.cutting import CuttingLogic
from streamactors.stages.checks import integer, positive
from streamactors.stages.compression.decompressing import DecompressingLogic
from streamactors.stages.defaults import BLOCK_BYTES

_GZIP, _ZLIB, _RAW = 31, 15, -15  # zlib's wbits


class _Compress(Stage[bytes, bytes]):
    """Base. `flush`: whether each element can be decompressed as soon as it has been sent."""

    wbits: ClassVar[int]

    def __init__(self, level: int = 6, flush: bool = True) -> None:
        if not -1 <= integer(self.label, "level", level) <= 9:
            raise BuildError(
                f"{self.label}: level must be 0 (fast) to 9 (small), or -1 for zlib's default, got {level}"
            )
        self.level = level
        self.flush = flush
        self.handling: Handling = EXACT_MEMORY if flush else BLURS_MEMORY


class Gzip(_Compress):
    """The stage of `Source.gzip`."""

    wbits = _GZIP


class Deflate(_Compress):
    """The stage of `Source.deflate`."""

    def __init__(self, level: int = 6, flush: bool = True, raw: bool = False) -> None:
        super().__init__(level, flush)
        self.wbits = _RAW if raw else _ZLIB  # type: ignore[misc]


@logic_of(Gzip, Deflate)
class _CompressLogic(CuttingLogic):
    stage: _Compress

    def __init__(self, stage: _Compress) -> None:
        super().__init__(stage)
        self._zlib = zlib.compressobj(stage.level, zlib.DEFLATED, stage.wbits)
        self.flushes = stage.flush

    def pending(self) -> bool:
        return False  # with `flush`, everything has left; without, `flushes` holds the marks

    def cut(self, chunk: list[bytes], results: list[Any]) -> None:
        compress, flush = self._zlib.compress, self._zlib.flush
        for element in chunk:
            made = compress(element)
            if self.stage.flush:
                made += flush(zlib.Z_SYNC_FLUSH)
            if made:
                results.append(made)

    def finish(self, results: list[Any]) -> None:
        results.append(self._zlib.flush())


class _Decompress(Stage[bytes, bytes]):
    """Base of gunzip and inflate."""

    wbits: ClassVar[int]
    handling = BLURS_MEMORY

    def __init__(self, max_element: int = BLOCK_BYTES) -> None:
        self.max_element = positive(self.label, "max_element", max_element)


class Gunzip(_Decompress):
    """The stage of `Source.gunzip`."""

    wbits = _GZIP


class Inflate(_Decompress):
    """The stage of `Source.inflate`."""

    def __init__(self, max_element: int = BLOCK_BYTES, raw: bool = False) -> None:
        super().__init__(max_element)
        self.wbits = _RAW if raw else _ZLIB  # type: ignore[misc]


@logic_of(Gunzip, Inflate)
class _DecompressLogic(DecompressingLogic):
    stage: _Decompress

    def __init__(self, stage: _Decompress) -> None:
        super().__init__(stage)
        self._zlib: Any = None  # None between two members
        self._queue: deque[bytes | memoryview] = (
            deque()
        )  # compressed, in pieces: zlib copies what it does not take of one
        self._input: bytes | memoryview = b""
        self._more = False  # zlib may have decompressed bytes inside, though it has taken all input

    def put(self, chunk: list[bytes]) -> None:
        for element in chunk:
            whole = memoryview(element)
            self._queue += [whole[at : at + BLOCK_BYTES] for at in range(0, len(whole), BLOCK_BYTES)]

    def unfinished(self) -> bool:
        return self._zlib is not None and not self._zlib.eof

    def ready(self) -> bool:
        return bool(self._input or self._queue or self._more)

    def block(self) -> bytes:
        if not self._input and self._queue:
            self._input = self._queue.popleft()
        try:
            return self._decompress()
        except zlib.error as raised:
            raise CompressionError(f"{self.name}: the compressed bytes are damaged: {raised}") from None

    def _decompress(self) -> bytes:
        stage = self.stage
        members = stage.wbits == _GZIP
        if self._zlib is None:
            if members and self._begun:
                self._input = bytes(self._input).lstrip(b"\0")  # padding after a member, as gzip allows it
                if not self._input:
                    return b""
            self._begun = True
            self._zlib = zlib.decompressobj(stage.wbits)
        made: bytes = self._zlib.decompress(self._input, stage.max_element)
        self._more = False
        if self._zlib.eof:
            self._input = self._zlib.unused_data
            if members:
                self._zlib = None
            elif self._input or self._queue:
                raise zlib.error("bytes follow the end of the data")
        else:
            self._input = self._zlib.unconsumed_tail
            self._more = len(made) == stage.max_element
        return made

    _begun = False

    def finish(self, results: list[Any]) -> None:
        if self.unfinished():
            raise CompressionError(f"{self.name}: the stream ended within the compressed data")
