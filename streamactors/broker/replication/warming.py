"""Keeping cold disks away from the data plane.

A read of a page that is not in memory blocks whoever makes it, and sendfile blocks in the same way. Before records are
sent their pages are probed with reads that refuse to wait (RWF_NOWAIT); what turns out to be cold is read once on a
helper thread, which leaves it in the page cache. Where the kernel or the file system has no such reads, everything
counts as warm."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from typing import Final

from streamactors.broker.log.log_read import LogSlice

_PROBE_EVERY: Final = 256 << 10
_READ_AT_ONCE: Final = 1 << 20
_NOWAIT: Final[int | None] = getattr(os, "RWF_NOWAIT", None)
_CANNOT_TELL: Final = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)


def read_now(piece: LogSlice) -> bytearray | None:
    """Return the slice's bytes if they can be had without waiting for a disk, else None."""
    content = bytearray(piece.length)
    try:
        if _NOWAIT is None:
            read = os.preadv(piece.fd, [content], piece.position)
        else:
            read = os.preadv(piece.fd, [content], piece.position, _NOWAIT)
    except OSError as error:
        if error.errno not in _CANNOT_TELL:
            return None  # cold, or the disk's error, which is for the helper thread to find
        read = os.preadv(piece.fd, [content], piece.position)
    return content if read == piece.length else None


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
        return error.errno not in _CANNOT_TELL  # EAGAIN, or the disk's error, which is for the helper thread to find
    return False


def warm(pieces: Iterable[LogSlice]) -> None:
    """Read the slices into the page cache. On a helper thread. Raises OSError."""
    buffer = bytearray(_READ_AT_ONCE)
    for piece in pieces:
        position, end = piece.position, piece.position + piece.length
        while position < end:
            read = os.preadv(piece.fd, [memoryview(buffer)[: end - position]], position)
            if read == 0:
                break
            position += read
