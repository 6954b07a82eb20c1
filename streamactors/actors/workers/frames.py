"""Frames: the messages between a process and its workers, and the buffer that finds them in a stream of bytes.

A frame is a header (bytes of payload, kind, count, number) and a payload. Pure, apart from the reads of the given socket."""

from __future__ import annotations

import socket
from collections.abc import Sequence
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


class BrokenFrame(ValueError):
    """The other process has sent bytes that are no frame."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One message. What `count` and `number` mean depends on the kind."""

    kind: int
    count: int
    number: int
    payload: memoryview


def header(kind: int, payload_bytes: int = 0, count: int = 0, number: int = 0) -> bytes:
    """Return the header of a frame. Raises BrokenFrame if the payload is too long."""
    if payload_bytes > MAX_PAYLOAD:
        raise BrokenFrame(f"a frame of {payload_bytes} bytes; at most {MAX_PAYLOAD} go to a worker process at once")
    return HEADER.pack(payload_bytes, kind, count, number)


class FrameReader:
    """Finds the frames in what a socket receives. Long payloads are received in place, without another copy."""

    def __init__(self) -> None:
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
            if end > have:
                if length + size > len(scratch):
                    self._head = (kind, count, number)
                    self._long = bytearray(length)
                    self._filled = have - at - size
                    self._long[: self._filled] = scratch[at + size : have]
                    at = have
                break
            frames.append(Frame(kind, count, number, memoryview(scratch[at + size : end])))
            at = end
        if at:
            rest = have - at
            scratch[:rest] = scratch[at:have]
            self._have = rest


def send_all(end: socket.socket, buffers: Sequence[Buffer]) -> None:
    """Send buffers over a socket that blocks. Raises OSError when the other side has closed it."""
    left = [memoryview(buffer).cast("B") for buffer in buffers if len(buffer)]
    while left:
        left = after_sending(left, end.sendmsg(left[:MOST_BUFFERS]))


def after_sending(buffers: list[memoryview], sent: int) -> list[memoryview]:
    """Return what is left of `buffers` when their first `sent` bytes are gone."""
    for i, buffer in enumerate(buffers):
        if sent < len(buffer):
            return [buffer[sent:], *buffers[i + 1 :]]
        sent -= len(buffer)
    return []
