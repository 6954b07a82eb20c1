"""zstd and unzstd, by cramjam, one frame at a time.

cramjam decompresses whole frames only. The end of a frame is found by walking over the headers of its blocks, without decompressing
them (RFC 8878, section 3.1.1), and a frame is decompressed into a buffer of bounded size."""

from __future__ import annotations

import struct
from typing import Any, Final

from streamactors.engine.logic import logic_of
from streamactors.engine.marks.marks import BLURS_MEMORY, EXACT, Handling
from streamactors.engine.stage import Stage
from streamactors.errors import BuildError, CompressionError
from streamactors.stages.bases.cutting import CuttingLogic
from streamactors.stages.checks import at_least, integer, positive
from streamactors.stages.compression.decompressing import DecompressingLogic
from streamactors.stages.defaults import BLOCK_BYTES, FRAME_BYTES, LARGEST_FRAME

_MAGIC: Final = 0xFD2FB528
_SKIPPABLE: Final = 0x184D2A50
_U32: Final = struct.Struct("<I")
_LARGEST_BLOCK: Final = 128 * 1024
_RAW, _RLE, _RESERVED = 0, 1, 3


class Zstd(Stage[bytes, bytes]):
    """The stage of `Source.zstd`."""

    def __init__(self, level: int = 3, flush: bool = True, frame_bytes: int = FRAME_BYTES) -> None:
        if not 1 <= integer("zstd", "level", level) <= 22:
            raise BuildError(f"zstd: level must be 1 (fast) to 22 (small), got {level}")
        self.level = level
        self.flush = flush
        self.frame_bytes = positive("zstd", "frame_bytes", frame_bytes)
        self.handling: Handling = EXACT if flush else BLURS_MEMORY


@logic_of(Zstd)
class _ZstdLogic(CuttingLogic):
    stage: Zstd

    def __init__(self, stage: Zstd) -> None:
        super().__init__(stage)
        self._gathered = bytearray()

    def pending(self) -> bool:
        return bool(self._gathered)

    def cut(self, chunk: list[bytes], results: list[Any]) -> None:
        size, gathered = self.stage.frame_bytes, self._gathered
        for element in chunk:
            if self.stage.flush and len(element) <= size:
                results.append(self._frame(element))
                continue
            gathered += element
            while len(gathered) >= size:
                results.append(self._frame(gathered[:size]))
                del gathered[:size]
            if self.stage.flush:
                self.finish(results)

    def finish(self, results: list[Any]) -> None:
        if self._gathered:
            results.append(self._frame(self._gathered))
            self._gathered.clear()

    def _frame(self, data: bytes | bytearray | memoryview) -> bytes:
        import cramjam  # a plain stream does not load it

        return bytes(cramjam.zstd.compress(data, level=self.stage.level))


class Unzstd(Stage[bytes, bytes]):
    """The stage of `Source.unzstd`."""

    handling = BLURS_MEMORY

    def __init__(self, max_frame: int = LARGEST_FRAME, max_element: int = BLOCK_BYTES) -> None:
        self.max_frame = at_least("unzstd", "max_frame", max_frame, 1)
        self.max_element = positive("unzstd", "max_element", max_element)


@logic_of(Unzstd)
class _UnzstdLogic(DecompressingLogic):
    stage: Unzstd

    def __init__(self, stage: Unzstd) -> None:
        super().__init__(stage)
        self._buffer = bytearray()  # begins with a frame
        self._walked = 0  # up to here block headers were read; 0: the frame's header was not
        self._regenerated = 0  # the most bytes that the blocks walked over can expand to
        self._checksum = 0
        self._skippable = False
        self._frame: memoryview | None = None  # decompressed, and being emitted
        self._emitted = 0

    def put(self, chunk: list[bytes]) -> None:
        self._buffer += b"".join(chunk)

    def unfinished(self) -> bool:
        return bool(self._buffer)

    def ready(self) -> bool:
        return self._frame is not None or self._walk() > 0

    def block(self) -> bytes:
        if self._frame is None:
            end = self._walk()
            if not self._skippable:
                self._frame = memoryview(self._decompressed(self._buffer[:end]))
            del self._buffer[:end]
            self._walked = self._emitted = 0
            if self._frame is None:
                return b""
        made = bytes(self._frame[self._emitted : self._emitted + self.stage.max_element])
        self._emitted += len(made)
        if self._emitted >= len(self._frame):
            self._frame = None
        return made

    # ── the end of a frame ────────────────────────────────────────────────────────────────────────────────────────

    def _walk(self) -> int:
        """Return the length of the frame at the start of the buffer, 0 when it is not complete."""
        buffer = self._buffer
        if not self._walked and not self._read_header():
            return 0
        while True:
            if self._skippable:
                return self._walked if len(buffer) >= self._walked else 0
            if len(buffer) < self._walked + 3:
                return 0
            header = int.from_bytes(buffer[self._walked : self._walked + 3], "little")
            last, kind, size = header & 1, header >> 1 & 3, header >> 3
            if kind == _RESERVED or size > _LARGEST_BLOCK:
                raise self._damaged("a block has an unknown type or is too long")
            end = self._walked + 3 + (1 if kind == _RLE else size)
            self._bound(size if kind in (_RAW, _RLE) else 0)
            if last:
                end += self._checksum
                if len(buffer) < end:
                    return 0
                return end
            if len(buffer) < end:
                return 0
            self._walked = end
            self._regenerated += size if kind in (_RAW, _RLE) else 0

    def _read_header(self) -> bool:
        """Read the frame's header; return False when it is not complete."""
        buffer = self._buffer
        if len(buffer) < 8:
            return False
        (magic,) = _U32.unpack_from(buffer)
        self._skippable = magic & ~0xF == _SKIPPABLE
        self._regenerated = 0
        if self._skippable:
            (size,) = _U32.unpack_from(buffer, 4)
            self._bound(size)
            self._walked = 8 + size
            return True
        if magic != _MAGIC:
            raise self._damaged(f"a frame begins with {bytes(buffer[:4]).hex(' ')}, not with 28 b5 2f fd")
        flags = buffer[4]
        single = flags >> 5 & 1
        content_bytes = (single, 2, 4, 8)[flags >> 6]
        at = 5 + (1 - single) + (0, 1, 2, 4)[flags & 3]
        if len(buffer) < at + content_bytes:
            return False
        if content_bytes:
            self._bound(int.from_bytes(buffer[at : at + content_bytes], "little") + (256 if content_bytes == 2 else 0))
        self._checksum = 4 * (flags >> 2 & 1)
        self._walked = at + content_bytes
        return True

    def _bound(self, more: int) -> None:
        """Raise when the frame has, or says it has, `more` bytes than fit."""
        most = self.stage.max_frame
        if max(more, self._regenerated + more, self._walked - _LARGEST_BLOCK) > most:
            raise CompressionError(
                f"{self.name}: a frame has more than max_frame={most} bytes; raise max_frame, or decompress with "
                'through_process("zstd", "-dc"), which needs no whole frame in memory'
            )

    def _damaged(self, why: str) -> CompressionError:
        return CompressionError(f"{self.name}: the compressed bytes are damaged: {why}")

    def _decompressed(self, frame: bytearray) -> bytearray:
        import cramjam  # a plain stream does not load it

        most = self.stage.max_frame
        size = min(max(_LARGEST_BLOCK, 8 * len(frame)), most)
        while True:
            out = bytearray(size)
            try:
                written = cramjam.zstd.decompress_into(frame, out)
            except (cramjam.DecompressionError, OSError) as error:
                if "whole buffer" not in str(error):
                    raise self._damaged(str(error)) from None
            else:
                del out[written:]
                return out
            if size >= most:
                self._bound(most + 1)
            size = min(4 * size, most)

    def finish(self, results: list[Any]) -> None:
        if self._buffer:
            raise CompressionError(
                f"{self.name}: the stream ended within a frame, of which {len(self._buffer)} bytes have come"
            )
