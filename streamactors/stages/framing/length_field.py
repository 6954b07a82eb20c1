"""frames_by_length: frames whose header holds their length. with_length_field: the other direction."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal

from streamactors.engine.logic import logic_of
from streamactors.engine.marks.marks import BLURS_MEMORY, EXACT
from streamactors.engine.stage import Stage
from streamactors.engine.user_code import shortened
from streamactors.errors import BuildError, FramingError
from streamactors.stages.bases.cutting import CuttingLogic
from streamactors.stages.bases.elementwise import ElementwiseLogic
from streamactors.stages.checks import at_least, integer, plain_function, positive

ByteOrder = Literal["big", "little"]
FrameSize = Callable[[bytes, int], int]
"""`frame_size(header, value of the length field)` returns the length of the whole frame in bytes, header included."""


def _field(operator: str, field_bytes: int, byteorder: str) -> int:
    if not 1 <= integer(operator, "field_bytes", field_bytes) <= 8:
        raise BuildError(f"{operator}: field_bytes must be 1 to 8, got {field_bytes}")
    if byteorder not in ("big", "little"):
        raise BuildError(f'{operator}: byteorder must be "big" or "little", got {shortened(byteorder, 60)}')
    return field_bytes


class FramesByLength(Stage[bytes, bytes]):
    """The stage of `Source.frames_by_length`."""

    handling = BLURS_MEMORY

    def __init__(
        self,
        field_bytes: int,
        max_length: int,
        field_offset: int = 0,
        byteorder: ByteOrder = "big",
        keep_header: bool = False,
        frame_size: FrameSize | None = None,
    ) -> None:
        self.field_bytes = _field("frames_by_length", field_bytes, byteorder)
        self.max_length = positive("frames_by_length", "max_length", max_length)
        self.field_offset = at_least("frames_by_length", "field_offset", field_offset, 0)
        self.byteorder: ByteOrder = byteorder
        self.keep_header = keep_header
        self.frame_size = None if frame_size is None else plain_function("frames_by_length: frame_size", frame_size)


@logic_of(FramesByLength)
class _LengthLogic(CuttingLogic):
    stage: FramesByLength

    def __init__(self, stage: FramesByLength) -> None:
        super().__init__(stage)
        self._buffer = bytearray()
        self._header = stage.field_offset + stage.field_bytes
        self._frame = 0  # the length of the frame at the start of the buffer; 0: its header is not complete

    def pending(self) -> bool:
        return bool(self._buffer)

    def cut(self, chunk: list[bytes], results: list[Any]) -> None:
        buffer = self._buffer
        buffer += b"".join(chunk)
        begin = 0 if self.stage.keep_header else self._header
        at, end = 0, len(buffer)
        try:
            while True:
                if not self._frame:
                    if end - at < self._header:
                        return
                    self._frame = self._length(bytes(buffer[at : at + self._header]))
                if end - at < self._frame:
                    return
                results.append(bytes(buffer[at + begin : at + self._frame]))
                at += self._frame
                self._frame = 0
        finally:
            del buffer[:at]

    def _length(self, header: bytes) -> int:
        stage = self.stage
        value = int.from_bytes(header[stage.field_offset :], stage.byteorder)
        length = self._header + value if stage.frame_size is None else stage.frame_size(header, value)
        if not self._header <= length <= stage.max_length:
            raise FramingError(
                f"{self.name}: the header {header.hex(' ')} says that the frame has {length} bytes; a frame has {self._header} "
                f"(its header) to max_length={stage.max_length}; raise max_length, or look at what the peer sends"
            )
        return length

    def finish(self, results: list[Any]) -> None:
        if self._buffer:
            of = f" of a frame of {self._frame}" if self._frame else f" of a header of {self._header}"
            raise FramingError(f"{self.name}: the stream ended with {len(self._buffer)} bytes{of}")

    def snapshot_state(self) -> str:
        return super().snapshot_state() or (f"{len(self._buffer)} bytes of an unfinished frame" if self._buffer else "")


class WithLengthField(Stage[bytes, bytes]):
    """The stage of `Source.with_length_field`."""

    handling = EXACT

    def __init__(self, field_bytes: int, max_length: int | None = None, byteorder: ByteOrder = "big") -> None:
        self.field_bytes = _field("with_length_field", field_bytes, byteorder)
        self.byteorder: ByteOrder = byteorder
        self.largest = 256**field_bytes - 1
        if max_length is not None:
            self.largest = min(self.largest, positive("with_length_field", "max_length", max_length) - field_bytes)
        self.fn = self._framed

    def _framed(self, element: bytes) -> bytes:
        if len(element) > self.largest:
            raise FramingError(
                f"with_length_field: an element has {len(element)} bytes; a frame with a field of {self.field_bytes} bytes and "
                f"this max_length holds {self.largest}"
            )
        return b"".join((len(element).to_bytes(self.field_bytes, self.byteorder), element))


@logic_of(WithLengthField)
class _WithLengthLogic(ElementwiseLogic):
    def loop(self, feed: Iterator[Any], out: list[Any], stop: list[int]) -> None:
        fn = self.fn
        for element in feed:
            out.append(fn(element))
            if stop:
                return
