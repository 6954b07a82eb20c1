"""Keeps reads from a cold disk off the data plane.

A read or a sendfile of a page outside the page cache blocks its thread. So the pages of records are probed with reads that do
not wait (RWF_NOWAIT) before they are sent. Cold pages are read once on a helper thread, which brings them into the page cache.
If the kernel or the file system has no RWF_NOWAIT, all pages count as warm."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from typing import Final

from streamactors.broker.log.partition.log_read import LogSlice

_PROBE_EVERY: Final = 256 << 10
_READ_AT_ONCE: Final = 1 << 20
_NOWAIT: Final[int | None] = getattr(os, "RWF_NOWAIT", None)
_CANNOT_TELL: Final = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)


def read_now(piece: LogSlice) -> bytearray | None:
    """Return the bytes of the slice if reading them needs no wait for the disk, else None."""
    return read_at(piece, 0, piece.length, wait=False)


def read_at(piece: LogSlice, start: int, length: int, *, wait: bool) -> bytearray | None:
    """Return bytes of the slice from its byte `start` on. Unless it may `wait`, return None if the disk is needed. Raises OSError if it waits."""
    if wait:
        return _read_whole(piece, start, length)
    content = bytearray(length)
    position = piece.position + start
    try:
        if _NOWAIT is None:
            read = os.preadv(piece.fd, [content], position)
        else:
            read = os.preadv(piece.fd, [content], position, _NOWAIT)
    except OSError as error:
        if error.errno not in _CANNOT_TELL:
            return None  # The pages are cold, or the helper thread will get the disk error.
        read = os.preadv(piece.fd, [content], position)
    return content if read == length else None


def _read_whole(piece: LogSlice, start: int, length: int) -> bytearray:
    content = bytearray(length)
    view, at = memoryview(content), 0
    while at < length:
        read = os.preadv(piece.fd, [view[at:]], piece.position + start + at)
        if read == 0:
            raise OSError(errno.EIO, f"the file ends {length - at} bytes early")
        at += read
    return content


def is_cold(piece: LogSlice) -> bool:
    """Whether reading the slice would probably wait for a disk. Probes its ends and every 256 KiB between."""
    if _NOWAIT is None:
        return False
    byte = [bytearray(1)]
    end = piece.position + piece.length - 1
    try:
        for position in range(piece.position, end, _PROBE_EVERY):
            os.preadv(piece.fd, byte, position, _NOWAIT)
        os.preadv(piece.fd, byte, end, _NOWAIT)
    except OSError as error:
        return error.errno not in _CANNOT_TELL  # EAGAIN, or a disk error, which the helper thread will get.
    return False


def warm(pieces: Iterable[LogSlice]) -> None:
    """Read the slices into the page cache, on a helper thread. Raises OSError."""
    buffer = bytearray(_READ_AT_ONCE)
    for piece in pieces:
        position, end = piece.position, piece.position + piece.length
        while position < end:
            read = os.preadv(piece.fd, [memoryview(buffer)[: end - position]], position)
            if read == 0:
                break
            position += read
