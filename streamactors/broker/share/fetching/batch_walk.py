"""Finds the batches that a share fetch needs by their headers. The records stay in the page cache, from where they are sent.

Owner: a share fetch, on the data plane. Headers are read in small windows, so large batches cost one short read each."""

from __future__ import annotations

from typing import Final

from streamactors.broker.errors import CorruptMessage
from streamactors.broker.log.partition.log_read import LogSlice
from streamactors.broker.records.batch import RecordBatch
from streamactors.broker.records.header import HEADER_SIZE, MIN_LENGTH
from streamactors.broker.replication.warming import read_at, warm

_WINDOW: Final = 8 << 10

Placed = tuple[int, RecordBatch]
"""The byte of a slice at which a batch begins, and its header. A control batch is whole."""


def batches_up_to(piece: LogSlice, offset: int, *, wait: bool) -> list[Placed] | None:
    """Return the batches of the slice up to the one with `offset`. Return None if that needs the disk and may not `wait`.

    Raises CorruptMessage and OSError."""
    found: list[Placed] = []
    at = window_at = window_end = 0
    window = b""
    while piece.length - at >= HEADER_SIZE:
        if at + HEADER_SIZE > window_end:
            window, window_at, window_end = _window(piece, at, wait)
            if not window:
                return None
        batch = RecordBatch(window, at - window_at)
        if batch.length < MIN_LENGTH:
            raise CorruptMessage(f"a batch at byte {piece.position + at} says it has {batch.length} bytes")
        if batch.size > piece.length - at:
            break
        if batch.is_control and at + batch.size > window_end and batch.size <= _WINDOW:
            window, window_at, window_end = _window(piece, at, wait)
            if not window:
                return None
            batch = RecordBatch(window)
        found.append((at, batch))
        at += batch.size
        if batch.last_offset >= offset:
            break
    return found


def _window(piece: LogSlice, at: int, wait: bool) -> tuple[bytes, int, int]:
    content = read_at(piece, at, min(_WINDOW, piece.length - at), wait=wait) or b""
    return bytes(content), at, at + len(content)


def warm_up_to(piece: LogSlice, offset: int) -> None:
    """Bring the batches up to the one with `offset` into the page cache, on a helper thread. Raises CorruptMessage and OSError."""
    found = batches_up_to(piece, offset, wait=True)
    if found:
        at, last = found[-1]
        piece.narrow(0, at + last.size, last.next_offset)
        warm([piece])
