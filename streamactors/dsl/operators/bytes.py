"""Operators over streams of bytes: frames, lines, JSON objects, compression, child processes. Where elements begin and end never changes a result."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from streamactors.dsl.operators.base import Ops
from streamactors.dsl.typevars import Mat, Out
from streamactors.durations import Duration
from streamactors.stages.defaults import BLOCK_BYTES, FRAME_BYTES, LARGEST_FRAME

if TYPE_CHECKING:
    from streamactors.stages.framing.length_field import ByteOrder, FrameSize


class ByteOps(Ops[Out, Mat]):
    """Operators on streams of bytes: frames, text, compression and child processes."""

    __slots__ = ()

    def frames_by_delimiter(
        self, delimiter: bytes, max_length: int, *, allow_truncation: bool = False
    ) -> Ops[bytes, Mat]:
        """Cut a stream of bytes into frames that end with `delimiter`; emit them without it.

        A frame longer than `max_length` bytes fails the stream (FramingError), so that a peer which never sends the delimiter cannot fill
        the memory. Bytes after the last delimiter fail the stream, too, or are the last frame with `allow_truncation=True`.
        Emits when: a delimiter has come; one element may end several frames.   Backpressures when: downstream does.
        Completes when: upstream completes and all frames have been emitted.    Cancels when: downstream cancels.
        Marks: after the frame that ends the bytes before them.

        Example:
            a -1----2|
            a.map(lambda x: f'{x};'.encode()).frames_by_delimiter(b';', max_length=9)
        """
        from streamactors.stages.framing.delimiter import FramesByDelimiter

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
        """Cut a stream of bytes into frames that say in their header how long they are.

        The header is `field_offset` bytes and an unsigned length field of `field_bytes`, which counts the bytes after it. For other meanings
        `frame_size(header, value)` returns the length of the whole frame. Frames are emitted without their header, or with it
        (`keep_header=True`, as Akka does). A frame whose header says more than `max_length` bytes fails the stream before any of it is kept.
        Emits when: the last byte of a frame has come.   Backpressures when: downstream does.
        Completes when: upstream completes after a whole frame; bytes of an unfinished frame fail the stream (FramingError).
        Cancels when: downstream cancels.
        Marks: after the frame that ends the bytes before them.

        Example:
            a -1-7-2-8-9|
            a.map(lambda x: bytes([x])).frames_by_length(1, max_length=9)
        """
        from streamactors.stages.framing.length_field import FramesByLength

        return self._via(FramesByLength(field_bytes, max_length, field_offset, byteorder, keep_header, frame_size))

    def with_length_field(
        self, field_bytes: int = 4, *, max_length: int | None = None, byteorder: ByteOrder = "big"
    ) -> Ops[bytes, Mat]:
        """Put a length field of `field_bytes` before each element: what `frames_by_length` with the same arguments reads.

        Emits when: upstream does.                    Backpressures when: downstream does.
        Completes when: upstream completes.           Cancels when: downstream cancels.
        Fails when: an element is longer than `max_length`, or than the field can say (FramingError).

        Example:
            a -x--y|
            a.map(str.encode).with_length_field(1)
        """
        from streamactors.stages.framing.length_field import WithLengthField

        return self._via(WithLengthField(field_bytes, max_length, byteorder))

    def frames_of_json(self, max_length: int) -> Ops[bytes, Mat]:
        """Cut a stream of bytes into its JSON objects, `{` to `}`: objects one after the other, one a line, or in an array.

        The bytes of an object are emitted as they came and are not parsed. An object longer than `max_length` bytes fails the stream
        (FramingError), as does any byte between objects other than white space, a comma or a bracket.
        Emits when: the last brace of an object has come.   Backpressures when: downstream does.
        Completes when: upstream completes; bytes of an unfinished object fail the stream (FramingError).
        Cancels when: downstream cancels.
        Marks: after the object that ends the bytes before them.

        Example:
            a -1---2|
            a.map_concat(lambda x: [b'{"n":', b'%d}' % x]).frames_of_json(max_length=99)
        """
        from streamactors.stages.framing.json_objects import FramesOfJson

        return self._via(FramesOfJson(max_length))

    def lines(self, max_length: int = 1_048_576, encoding: str = "utf-8") -> Ops[str, Mat]:
        r"""Cut a stream of bytes into lines of text, without their line ends (`\n` or `\r\n`).

        A line longer than `max_length` bytes fails the stream (FramingError). The last line needs no line end.
        Emits when: a line end has come; one element may end several lines.   Backpressures when: downstream does.
        Completes when: upstream completes and all lines have been emitted.   Cancels when: downstream cancels.
        Fails when: a line cannot be decoded with `encoding` (UnicodeDecodeError), or is too long.
        Marks: after the line that ends the bytes before them.

        Example:
            a -1--2--3|
            a.map(lambda x: b'x' * x + b'\n').lines()
        """
        from streamactors.stages.framing.text import Lines

        return self._via(Lines(max_length, encoding))

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> Ops[str, Mat]:
        """Decode a stream of bytes into text. A character may begin in one element and end in the next.

        Emits when: a whole character has come: the text of each element, without its last, unfinished character.
        Backpressures when: downstream does.          Completes when: upstream completes.
        Cancels when: downstream cancels.             Fails when: the bytes cannot be decoded with `encoding` (UnicodeDecodeError).
        Marks: after the text that ends the bytes before them.

        Example:
            a -1-2-3|
            a.map(lambda x: str(x).encode()).decode()
        """
        from streamactors.stages.framing.text import Decode

        return self._via(Decode(encoding, errors))

    def gzip(self, level: int = 6, *, flush: bool = True) -> Ops[bytes, Mat]:
        """Compress a stream of bytes in gzip's format.

        With `flush=True`, as in Akka, each element is decompressable as soon as it is emitted, at the cost of some bytes an element; with
        `flush=False` the output comes in larger pieces and is smaller.
        Emits when: upstream does; with `flush=False`, when zlib has a block.   Backpressures when: downstream does.
        Completes when: upstream completes, after the trailer.                 Cancels when: downstream cancels.
        Marks: after the bytes of the elements before them; with `flush=False` at the end.

        Example:
            a -x-y|
            a.map(str.encode).gzip().take(1).map(lambda data: data[:2].hex())
        """
        from streamactors.stages.compression.zlib_streams import Gzip

        return self._via(Gzip(level, flush))

    def gunzip(self, *, max_element: int = BLOCK_BYTES) -> Ops[bytes, Mat]:
        """Decompress a stream of bytes in gzip's format, also of several members one after the other.

        No element is longer than `max_element` bytes, and no more is decompressed than downstream asks for: a small input that expands to
        gigabytes needs no more memory than any other. `limit_weighted(n, len)` downstream bounds the sum.
        Emits when: compressed bytes have come.       Backpressures when: downstream does, or decompressed bytes wait.
        Completes when: upstream completes after a whole member; an unfinished one fails the stream (CompressionError).
        Cancels when: downstream cancels.             Fails when: the bytes are damaged (CompressionError).
        Marks: after the bytes that stem from the elements before them.

        Example:
            a -x-y|
            a.map(str.encode).gzip().gunzip()
        """
        from streamactors.stages.compression.zlib_streams import Gunzip

        return self._via(Gunzip(max_element))

    def deflate(self, level: int = 6, *, flush: bool = True, raw: bool = False) -> Ops[bytes, Mat]:
        """Compress a stream of bytes in zlib's format (RFC 1950), or without its header and checksum (`raw=True`, RFC 1951).

        With `flush=True`, as in Akka, each element is decompressable as soon as it is emitted, at the cost of some bytes an element; with
        `flush=False` the output comes in larger pieces and is smaller.
        Emits when: upstream does; with `flush=False`, when zlib has a block.   Backpressures when: downstream does.
        Completes when: upstream completes, after the trailer.                 Cancels when: downstream cancels.
        Marks: after the bytes of the elements before them; with `flush=False` at the end.

        Example:
            a -x-y|
            a.map(str.encode).deflate().inflate()
        """
        from streamactors.stages.compression.zlib_streams import Deflate

        return self._via(Deflate(level, flush, raw))

    def inflate(self, *, max_element: int = BLOCK_BYTES, raw: bool = False) -> Ops[bytes, Mat]:
        """Decompress a stream of bytes in zlib's format (RFC 1950), or without its header (`raw=True`, RFC 1951).

        No element is longer than `max_element` bytes, and no more is decompressed than downstream asks for: a small input that expands to
        gigabytes needs no more memory than any other. `limit_weighted(n, len)` downstream bounds the sum.
        Emits when: compressed bytes have come.       Backpressures when: downstream does, or decompressed bytes wait.
        Completes when: upstream completes after the end of the data; unfinished data fails the stream (CompressionError).
        Cancels when: downstream cancels.             Fails when: the bytes are damaged (CompressionError).
        Marks: after the bytes that stem from the elements before them.

        Example:
            a -x-y|
            a.map(str.encode).deflate(raw=True).inflate(raw=True)
        """
        from streamactors.stages.compression.zlib_streams import Inflate

        return self._via(Inflate(max_element, raw))

    def zstd(self, level: int = 3, *, flush: bool = True, frame_bytes: int = FRAME_BYTES) -> Ops[bytes, Mat]:
        """Compress a stream of bytes with zstd, as frames of at most `frame_bytes` before compression.

        With `flush=True` each element is a frame (or several), decompressable as soon as it is emitted; with `flush=False` elements are
        gathered into frames of `frame_bytes`, which are smaller.
        Emits when: upstream does; with `flush=False`, when `frame_bytes` have come.   Backpressures when: downstream does.
        Completes when: upstream completes, after the last frame.                     Cancels when: downstream cancels.
        Marks: after the frame that ends the bytes before them.

        Example:
            a -x-y|
            a.map(str.encode).zstd().unzstd()
        """
        from streamactors.stages.compression.zstd_frames import Zstd

        return self._via(Zstd(level, flush, frame_bytes))

    def unzstd(self, *, max_frame: int = LARGEST_FRAME, max_element: int = BLOCK_BYTES) -> Ops[bytes, Mat]:
        """Decompress a stream of zstd frames.

        A frame is decompressed as a whole: one of more than `max_frame` bytes fails the stream (CompressionError) before it is
        decompressed. `zstd` here writes frames of 1 MiB; the command-line tool writes one frame a file, and `through_process("zstd",
        "-dc")` reads those of any size. Elements are at most `max_element` bytes long.
        Emits when: the last byte of a frame has come.   Backpressures when: downstream does, or decompressed bytes wait.
        Completes when: upstream completes after a whole frame; an unfinished one fails the stream (CompressionError).
        Cancels when: downstream cancels.                Fails when: the bytes are damaged (CompressionError).
        Marks: after the frame that ends the bytes before them.

        Example:
            a -x-y|
            a.map(str.encode).zstd(flush=False).unzstd()
        """
        from streamactors.stages.compression.zstd_frames import Unzstd

        return self._via(Unzstd(max_frame, max_element))

    def through_process(
        self,
        *command: str | os.PathLike[str],
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        accept: tuple[int, ...] = (0,),
        grace: Duration = "5s",
    ) -> Ops[bytes, Mat]:
        r"""Write bytes to the standard input of a child process and emit its standard output. Each run starts a process of its own.

        The command is a program and its arguments; no shell reads them. What the process writes to its standard error is kept for the error:
        the last 2,000 bytes.
        Emits when: the process has written; where elements end means nothing.
        Backpressures when: the process does not read its input.
        Completes when: the process has closed its output and ended with an exit code of `accept`.
        Cancels when: downstream cancels: the process gets SIGTERM, and SIGKILL after `grace` (seconds, a timedelta
        or a string); or when it reads no more.
        Fails when: it cannot be started, or ends with another exit code or by a signal (ProcessFailed names both).

        Example:
            from streamactors import Sink, Source

            words = Source.from_iterable([b"b\n", b"a\n"]).through_process("sort")
            print(words.run_with(Sink.to_list()).result(timeout=10))
        """
        from streamactors.stages.network.process import ThroughProcess

        return self._via(ThroughProcess(*command, cwd=cwd, env=env, accept=accept, grace=grace))
