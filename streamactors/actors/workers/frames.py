"""Frames: the messages between a process and its workers, and the buffer that finds them in a stream of bytes.

A frame is a header (bytes of payload, kind, count, number) and a payload. Pure, apart from the reads of the given socket."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import dataclass
from struct import Struct
from typing import Final, TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview

HEADER: Final = Struct("<IBIQ")
MAX_PAYLOAD: Final = 1 << 30
"""The longest payload in bytes. A longer length is refused before anything is allocated."""
MOST_BUFFERS: Final = 256
"""The most buffers in one system call; Linux allows 1,024."""
_SCRATCH: Final = 256 * 1024
_IN_RING: Final = 0x80
"""Added to the kind of a frame whose payload lies in a ring (`rings.py`)."""


MOST_PARTS: Final = 1_024
"""The most buffers of a frame in a ring."""
_LONGEST_PLACE: Final = 4 * (1 + MOST_PARTS)
_NOTHING: Final = memoryview(b"")


class BrokenFrame(ValueError):
    """The other process has sent bytes that are not a frame."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One message. What `count` and `number` mean depends on the kind."""

    kind: int
    count: int
    number: int
    inline: memoryview
    parts: list[bytes] | None = None
    """The buffers of the payload, if it came through a ring; `inline` is then empty."""

    @property
    def payload(self) -> memoryview:
        """The whole payload."""
        return self.inline if self.parts is None else memoryview(b"".join(self.parts))


def header(kind: int, payload_bytes: int = 0, count: int = 0, number: int = 0, *, in_ring: bool = False) -> bytes:
    """Return the header of a frame. Raises BrokenFrame if the payload is too long."""
    if payload_bytes > MAX_PAYLOAD:
        raise BrokenFrame(f"a frame of {payload_bytes} bytes; at most {MAX_PAYLOAD} go to a worker process at once")
    return HEADER.pack(payload_bytes, kind | _IN_RING if in_ring else kind, count, number)


class WorkerFrameReader:
    """Finds the frames in what a socket receives. Long payloads are received in place, without another copy.

    `read_ring` returns the buffers of a frame that lies in a ring."""

    def __init__(self, read_ring: Callable[[Buffer], list[bytes]] | None = None) -> None:
        self._read_ring = read_ring
        self._scratch = bytearray(_SCRATCH)
        self._have = 0  # bytes in the scratch buffer
        self._head: tuple[int, int, int] | None = None  # of a long frame: kind, count, number
        self._long = bytearray()
        self._filled = 0

    def receive(self, end: socket.socket, frames: list[Frame]) -> int:
        """Receive once and append the complete frames; return the number of bytes received, 0 at the end of the stream.

        Raises BlockingIOError if the socket does not block and has nothing, BrokenFrame for a length out of bounds."""
        if self._head is not None:
            got = end.recv_into(memoryview(self._long)[self._filled :])
            self._filled += got
            if got and self._filled == len(self._long):
                frames.append(Frame(*self._head, memoryview(self._long)))
                self._head, self._long, self._filled = None, bytearray(), 0
            return got
        got = end.recv_into(memoryview(self._scratch)[self._have :])
        if got:
            self._have += got
            self._split(frames)
        return got

    def _split(self, frames: list[Frame]) -> None:
        scratch, have, size = self._scratch, self._have, HEADER.size
        at = 0
        while have - at >= size:
            length, kind, count, number = HEADER.unpack_from(scratch, at)
            if length > MAX_PAYLOAD:
                raise BrokenFrame(f"a frame of {length} bytes, where at most {MAX_PAYLOAD} are allowed")
            end = at + size + length
            if kind & _IN_RING and (self._read_ring is None or length > _LONGEST_PLACE):
                raise BrokenFrame(f"a frame that names a place in a ring has {length} bytes")
            if end > have:
                if length + size > len(scratch):
                    self._head = (kind, count, number)
                    self._long = bytearray(length)
                    self._filled = have - at - size
                    self._long[: self._filled] = scratch[at + size : have]
                    at = have
                break
            payload = memoryview(scratch[at + size : end])
            if kind & _IN_RING and self._read_ring is not None:
                frames.append(Frame(kind ^ _IN_RING, count, number, _NOTHING, self._read_ring(payload)))
            else:
                frames.append(Frame(kind, count, number, payload))
            at = end
        if at:
            rest = have - at
            scratch[:rest] = scratch[at:have]
            self._have = rest


def after_sending(buffers: list[memoryview], sent: int) -> list[memoryview]:
    """Return what is left of `buffers` when their first `sent` bytes are gone."""
    for i, buffer in enumerate(buffers):
        if sent < len(buffer):
            return [buffer[sent:], *buffers[i + 1 :]]
        sent -= len(buffer)
    return []
