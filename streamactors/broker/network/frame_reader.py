"""Reads frames from a byte stream: a size of four bytes, then that number of bytes.

Owner: one connection. Small requests are parsed in place, in a receive buffer that all connections share. Only an incomplete
request gets its own buffer. The buffer grows with the received bytes, not with the claimed size, unless the connection has
already sent a request of that size. So a client cannot reserve memory with a false size. Frames are views, valid until the
next `park` or `receive`."""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Final

from streamactors.broker.network.buffers import BufferPool
from streamactors.errors import StreamActorsError

_SIZE: Final = Struct(">i")
_SIZE_BYTES: Final = 4
_FIRST_BUFFER: Final = 16 << 10
_GROWTH: Final = 4

_SMALL: Final = 64 << 10  # requests up to this size use the shared buffer
_read_size: Final = _SIZE.unpack_from

ReceiveInto = Callable[[memoryview], int]


class BadFrame(StreamActorsError):
    """An invalid frame size. `head` is the first bytes of the frame."""

    def __init__(self, size: int, head: bytes) -> None:
        super().__init__(f"a request of {size} bytes")
        self.size = size
        self.head = head


class OutOfBuffers(StreamActorsError):
    """The budget for partly received requests is used up. Try again when other requests are complete."""


class FrameReader:
    """Collects the bytes of one connection into frames."""

    __slots__ = ("_buffer", "_end", "_largest", "_next_size", "_pool", "_scratch", "_start", "_view", "max_bytes")

    def __init__(self, scratch: memoryview, pool: BufferPool, max_bytes: int) -> None:
        self._scratch = scratch
        self._pool = pool
        self.max_bytes = max_bytes
        self._buffer: bytearray | None = None  # None: the shared scratch buffer is used
        self._view = scratch
        self._start = 0
        self._end = 0
        self._largest = 0  # the largest request so far
        self._next_size = 0  # expected size of the next request if it is large, else 0

    @property
    def pending(self) -> int:
        """Bytes received and not yet taken as frames."""
        return self._end - self._start

    def receive(self, receive_into: ReceiveInto) -> int:
        """Receive once; return the number of bytes, 0 at the end of the stream.

        Raises what `receive_into` raises, and OutOfBuffers before anything is received."""
        if self._buffer is None and self._start == self._end and not self._next_size:
            self._start = 0  # The common case: a complete small request in the shared buffer.
            self._end = received = receive_into(self._scratch)
            return received
        limit = self._make_room()
        received = receive_into(self._view[self._end : limit])
        self._end += received
        return received

    def next_frame(self) -> memoryview | None:
        """Take the next complete frame, without its size. Raises BadFrame."""
        start = self._start
        begin = start + _SIZE_BYTES
        if self._end < begin:
            return None
        view = self._view
        (size,) = _read_size(view, start)
        frame_end = begin + size
        if frame_end > self._end or size < 0:
            self._claimed_size()
            return None
        if size > self._largest:
            self._claimed_size()
            self._largest = size
        self._start = frame_end
        self._next_size = size + _SIZE_BYTES if size > _SMALL else 0
        return view[begin:frame_end]

    @property
    def holds_buffer(self) -> bool:
        """Whether a partly received request has its own buffer."""
        return self._buffer is not None

    def park(self) -> bool:
        """Free the shared buffer for other connections: move unread bytes to an own buffer.

        Returns whether buffers were taken or given back. The pool may then exceed its budget, because received bytes must
        not be lost. Its owner frees memory."""
        pending = self._end - self._start
        if pending == 0:
            if self._buffer is None:
                return False
            self._drop_buffer()
        elif self._buffer is None:
            self._move_to(max(_FIRST_BUFFER, pending))
        return True

    def close(self) -> None:
        """Drop all received bytes and the buffer."""
        self._start = self._end
        self._drop_buffer()

    def _claimed_size(self) -> int:
        size: int = _SIZE.unpack_from(self._view, self._start)[0]
        if not 0 <= size <= self.max_bytes:
            raise BadFrame(size, bytes(self._view[self._start : min(self._start + 16, self._end)]))
        return size

    def _make_room(self) -> int:
        """Make room to receive. Return the end position for the next receive."""
        pending = self._end - self._start
        if pending == 0:
            if self._next_size == 0:
                self._drop_buffer()
                return len(self._view)
            if self._buffer is None or len(self._buffer) < self._next_size:
                self._drop_buffer()
                if not self._pool.admits(self._next_size):
                    return len(self._view)  # use the scratch buffer instead
                self._use(self._pool.take(self._next_size))
            self._start = self._end = 0
            return self._next_size
        total = _SIZE_BYTES + self._claimed_size() if pending >= _SIZE_BYTES else _SIZE_BYTES
        trusted = total <= 2 * self._largest and self._start + total > len(self._view)
        if trusted or self._end == len(self._view):
            capacity = total if trusted else min(total, max(_FIRST_BUFFER, _GROWTH * pending))
            if capacity > len(self._view) or self._buffer is None:
                if not self._pool.admits(capacity - (0 if self._buffer is None else len(self._buffer))):
                    raise OutOfBuffers(f"{self._pool.in_use} of {self._pool.budget} bytes are in use")
                self._move_to(max(capacity, _FIRST_BUFFER))
            else:
                self._view[:pending] = self._view[self._start : self._end]
                self._start, self._end = 0, pending
        # A large request is received to its end and not beyond, so that the next one begins at the start of a buffer.
        return min(self._start + total, len(self._view)) if total > len(self._scratch) else len(self._view)

    def _move_to(self, capacity: int) -> None:
        pending = self._end - self._start
        buffer = self._pool.take(capacity)
        buffer[:pending] = self._view[self._start : self._end]
        self._drop_buffer()
        self._use(buffer)
        self._start, self._end = 0, pending

    def _use(self, buffer: bytearray) -> None:
        self._buffer = buffer
        self._view = memoryview(buffer)

    def _drop_buffer(self) -> None:
        if self._buffer is not None:
            self._pool.give_back(self._buffer)
            self._buffer = None
            self._view = self._scratch
        self._start = self._end = 0
