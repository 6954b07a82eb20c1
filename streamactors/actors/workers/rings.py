"""Shared memory beside the socket of a worker process: one ring of bytes for each direction, on Linux.

Owner: each ring has one writer and one reader. The writer copies the buffers of a long frame into its ring and sends only their place over the socket. The
reader copies each buffer out as a bytes object of its own, as soon as the frame arrives, and counts the frame as free on an eventfd. So a byte
string is copied twice on its way, and no system call touches its bytes. Frames leave the ring in the order in which they came.

On other systems there is no ring, and every frame goes over the socket."""

from __future__ import annotations

import mmap
import os
import sys
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from struct import Struct
from typing import Final

from streamactors.actors.workers.frames import HEADER, MOST_PARTS, BrokenFrame, Buffer, header

RING_BYTES: Final = 4 * 1024 * 1024
"""The size of a ring in bytes: a few pieces of a chunk. A larger ring would not stay in the caches of the processor."""
_LEAST: Final = 32 * 1024
_MOST: Final = RING_BYTES // 4
"""Frames with fewer or more bytes of payload than `_LEAST` and `_MOST` go over the socket."""
_HAS_RINGS: Final = sys.platform == "linux" and hasattr(os, "eventfd") and hasattr(os, "memfd_create")


class Places:
    """Where the frames lie in a ring. Pure."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._taken: deque[tuple[int, int]] = deque()  # (first byte, bytes), oldest first

    def take(self, n: int) -> int | None:
        """Return the first of `n` bytes that are free, None if there are not as many side by side."""
        taken = self._taken
        if not taken:
            at = 0  # memory that was used last is still in the caches
        else:
            oldest = taken[0][0]
            end = sum(taken[-1])
            if end > oldest:
                at = end if self._size - end >= n else 0 if oldest >= n else -1
            else:
                at = end if oldest - end >= n else -1
        if at < 0 or n > self._size:
            return None
        taken.append((at, n))
        return at

    def free(self, frames: int) -> None:
        """The reader has read that many frames, the oldest first. Raises BrokenFrame if there were fewer."""
        if frames > len(self._taken):
            raise BrokenFrame(f"{frames} frames were read of {len(self._taken)} in the ring")
        for _ in range(frames):
            self._taken.popleft()


class RingWriter:
    """The sending end of a ring. `freed_fd` is readable when the reader has read frames. One thread at a time."""

    def __init__(self, memory: mmap.mmap, start: int, freed_fd: int) -> None:
        self._memory = memory
        self._start = start
        self._places = Places(RING_BYTES)
        self.freed_fd = freed_fd

    def place(self, frame: Sequence[Buffer]) -> list[Buffer] | None:
        """Return what goes over the socket for a frame; None if the ring has no room until the reader reads."""
        length, kind, count, number = HEADER.unpack(frame[0])
        parts = frame[1:]
        if not _LEAST <= length <= _MOST or len(parts) > MOST_PARTS or set(map(type, parts)) != {bytes}:
            return list(frame)
        with suppress(BlockingIOError):
            self._places.free(os.eventfd_read(self.freed_fd))
        at = self._places.take(length)
        if at is None:
            return None
        lengths = list(map(len, parts))
        at += self._start
        told = Struct(f"={1 + len(lengths)}I").pack(at, *lengths)
        memory = self._memory
        for part, n in zip(parts, lengths, strict=True):
            memory[at : at + n] = part
            at += n
        return [header(kind, len(told), count, number, in_ring=True), told]


class RingReader:
    """The receiving end of a ring."""

    def __init__(self, memory: mmap.mmap, start: int, freed_fd: int) -> None:
        self._memory = memory
        self._start = start
        self.freed_fd = freed_fd

    def read(self, told: Buffer) -> list[bytes]:
        """Return the buffers of the frame whose place and lengths are `told`. Raises BrokenFrame for a place outside the ring."""
        if len(told) % 4 or not told:
            raise BrokenFrame(f"{len(told)} bytes do not name a place in a ring")
        at, *lengths = memoryview(told).cast("I")
        if at < self._start or at + sum(lengths) > self._start + RING_BYTES:
            raise BrokenFrame(f"a frame at byte {at} of {sum(lengths)} bytes, which is outside the ring")
        parts = []
        memory = self._memory
        for n in lengths:
            parts.append(memory[at : at + n])
            at += n
        os.eventfd_write(self.freed_fd, 1)
        return parts


@dataclass(frozen=True, slots=True)
class Rings:
    """One process's ends of the two rings."""

    writer: RingWriter
    reader: RingReader

    def close(self) -> None:
        """Close the descriptors. The memory goes with the last reference to it."""
        os.close(self.writer.freed_fd)
        os.close(self.reader.freed_fd)


def make_rings() -> tuple[Rings, tuple[int, ...]] | None:
    """Return the parent's ends, and the descriptors that `inherited_rings` takes; the caller closes the first of them, the memory, after the spawn.

    None where the system has no such memory."""
    if not _HAS_RINGS:
        return None
    fds = [os.memfd_create("streamactors")]
    try:
        os.ftruncate(fds[0], 2 * RING_BYTES)
        fds.append(_counter())
        fds.append(_counter())
        return _ends(mmap.mmap(fds[0], 2 * RING_BYTES), fds[1:], 0), tuple(fds)
    except OSError:
        for fd in fds:
            os.close(fd)
        raise


def _counter() -> int:
    return os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)


def inherited_rings(memory: int, *freed: int) -> Rings:
    """Return the child's ends."""
    rings = _ends(mmap.mmap(memory, 2 * RING_BYTES), freed, 1)
    os.close(memory)
    return rings


def _ends(memory: mmap.mmap, freed: Sequence[int], ours: int) -> Rings:
    theirs = 1 - ours
    return Rings(
        RingWriter(memory, ours * RING_BYTES, freed[ours]), RingReader(memory, theirs * RING_BYTES, freed[theirs])
    )
