"""File objects at the ends of a running stream: a readable one of its elements, a writable one that feeds it."""

from __future__ import annotations

import io
from typing import Any

from streamactors.engine.user_code import shortened
from streamactors.errors import StreamError
from streamactors.stages.bases.pull import END, ChunkReader
from streamactors.stages.sources.queue import SourceQueueWithBackpressure
from streamactors.stages.sources.queue_results import ENQUEUED, Failure


class _Reader(io.RawIOBase):
    """The bytes of a run, for one thread."""

    def __init__(self, reader: ChunkReader[Any]) -> None:
        self._reader = reader
        self._rest = memoryview(b"")
        self._elements: list[Any] = []  # the youngest first

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer with what is there; wait only when nothing is. 0 at the end of the stream; raise its error."""
        while not self._rest:
            if self._elements:
                element = self._elements.pop()
                try:
                    self._rest = memoryview(element).cast("B")
                except TypeError:
                    raise TypeError(
                        f"to_reader expects bytes, got {type(element).__name__} {shortened(element, 60)}"
                    ) from None
                continue
            chunk = self._reader.take()
            if chunk is END:
                return 0
            if chunk is None:
                self._reader.wait()
            else:
                self._elements = chunk[::-1]
        n = min(len(buffer), len(self._rest))
        buffer[:n] = self._rest[:n]
        self._rest = self._rest[n:]
        return n

    def close(self) -> None:
        """Cancel the run, if it has not ended."""
        if not self.closed:
            self._reader.cancel()
        super().close()


def readable(reader: ChunkReader[Any]) -> io.BufferedReader:
    """Return a buffered binary file of the elements that `reader` gives."""
    return io.BufferedReader(_Reader(reader))


class StreamWriter(io.RawIOBase):
    """A binary file whose `write` puts the bytes into a running stream, as one element, when there is room for it.

    `close` completes the stream. `write` raises BrokenPipeError when the stream has ended, or the error with which it failed."""

    def __init__(self, queue: SourceQueueWithBackpressure[bytes]) -> None:
        self._queue = queue

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: Any, /) -> int:
        """Put the bytes into the stream; return their number. Waits while the stream has no room."""
        element = bytes(data)
        if not element:
            return 0
        answer = self._queue.offer(element).result()
        if isinstance(answer, Failure):
            raise answer.cause
        if answer is not ENQUEUED:
            raise BrokenPipeError("the stream that this file feeds has ended")
        return len(element)

    def fail(self, error: BaseException) -> None:
        """Fail the stream with `error`; bytes that it has not taken are lost."""
        if not isinstance(error, BaseException):
            raise StreamError(f"fail expects an exception, got {type(error).__name__} {shortened(error, 60)}")
        self._queue.fail(error)

    def close(self) -> None:
        """Complete the stream after everything written."""
        if not self.closed:
            self._queue.complete()
        super().close()
