"""Operators over streams of bytes: frames, lines, JSON objects, compression, child processes. Where elements begin and end never changes a result."""

from __future__ import annotations

import os
from collections.abc import Mapping

from streamactors.clock import Duration
from streamactors.dsl.operators.base import Ops
from streamactors.dsl.typevars import Mat, Out
from streamactors.stages.compression.zlib_streams import BLOCK_BYTES, Deflate, Gunzip, Gzip, Inflate
from streamactors.stages.compression.zstd_frames import FRAME_BYTES, LARGEST_FRAME, Unzstd, Zstd
from streamactors.stages.framing.delimiter import FramesByDelimiter
from streamactors.stages.framing.json_objects import FramesOfJson
from streamactors.stages.framing.length_field import ByteOrder, FramesByLength, FrameSize, WithLengthField
from streamactors.stages.framing.text import Decode, Lines
from streamactors.stages.network.process import ThroughProcess


class ByteOps(Ops[Out, Mat]):
    """See the module."""

    __slots__ = ()

    def frames_by_delimiter(
        self, delimiter: bytes, max_length: int, *, allow_truncation: bool = False
    ) -> Ops[bytes, Mat]:
        return self._via(FramesByDelimiter(delimiter, max_length, allow_truncation))

    def frames_by_length(
        self,
        field_bytes: int,
        max_length: int,
        *,
        field_offset: int = 0,
        byteorder: ByteOrder = "big",
        keep_header: bool = False,
        frame_size: FrameSize | None = None,
    ) -> Ops[bytes, Mat]:
        return self._via(FramesByLength(field_bytes, max_length, field_offset, byteorder, keep_header, frame_size))

    def with_length_field(
        self, field_bytes: int = 4, *, max_length: int | None = None, byteorder: ByteOrder = "big"
    ) -> Ops[bytes, Mat]:
        return self._via(WithLengthField(field_bytes, max_length, byteorder))

    def frames_of_json(self, max_length: int) -> Ops[bytes, Mat]:
        return self._via(FramesOfJson(max_length))

    def lines(self, max_length: int = 1_048_576, encoding: str = "utf-8") -> Ops[str, Mat]:
        return self._via(Lines(max_length, encoding))

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> Ops[str, Mat]:
        return self._via(Decode(encoding, errors))

    def gzip(self, level: int = 6, *, flush: bool = True) -> Ops[bytes, Mat]:
        return self._via(Gzip(level, flush))

    def gunzip(self, *, max_element: int = BLOCK_BYTES) -> Ops[bytes, Mat]:
        return self._via(Gunzip(max_element))

    def deflate(self, level: int = 6, *, flush: bool = True, raw: bool = False) -> Ops[bytes, Mat]:
        return self._via(Deflate(level, flush, raw))

    def inflate(self, *, max_element: int = BLOCK_BYTES, raw: bool = False) -> Ops[bytes, Mat]:
        return self._via(Inflate(max_element, raw))

    def zstd(self, level: int = 3, *, flush: bool = True, frame_bytes: int = FRAME_BYTES) -> Ops[bytes, Mat]:
        return self._via(Zstd(level, flush, frame_bytes))

    def unzstd(self, *, max_frame: int = LARGEST_FRAME, max_element: int = BLOCK_BYTES) -> Ops[bytes, Mat]:
        return self._via(Unzstd(max_frame, max_element))

    def through_process(
        self,
        *command: str | os.PathLike[str],
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        accept: tuple[int, ...] = (0,),
        grace: Duration = "5s",
    ) -> Ops[bytes, Mat]:
        return self._via(ThroughProcess(*command, cwd=cwd, env=env, accept=accept, grace=grace))
