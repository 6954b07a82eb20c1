"""Offset index of one segment: offset -> position in the segment's file.

Owner: LogSegment (one writer). Layout: 8-byte big-endian entries (u32 offset relative to the segment's base, u32
position), at most one per index.interval.bytes; an entry has the last offset of its batch and the position where that
batch begins. The entries are in memory and are written when the segment is closed. An index that a crash lost is
rebuilt from the segment. Source: Kafka's log format.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_right
from pathlib import Path
from typing import Final

from streamactors.broker.log.disk import Disk

ENTRY_SIZE: Final = 8


class OffsetIndex:
    """Entries in memory; `load` and `save` go to the file."""

    __slots__ = ("_base_offset", "_max_entries", "_offsets", "_positions", "path")

    def __init__(self, path: Path, base_offset: int, max_bytes: int) -> None:
        self.path = path
        self._base_offset = base_offset
        self._max_entries = max(1, max_bytes // ENTRY_SIZE)
        self._offsets = array("I")
        self._positions = array("I")

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def is_full(self) -> bool:
        return len(self._offsets) >= self._max_entries

    @property
    def last_position(self) -> int:
        """Position of the last entry, 0 without one."""
        return self._positions[-1] if self._positions else 0

    def append(self, last_offset: int, position: int) -> None:
        """Add the batch that ends with the offset and begins at the position. Both must exceed the last entry's."""
        self._offsets.append(last_offset - self._base_offset)
        self._positions.append(position)

    def lookup(self, offset: int) -> tuple[int, int]:
        """Return (position, last offset of the batch there) of the last entry at or below the offset. O(log n).

        (0, -1) if there is none: that is the segment's start."""
        at = bisect_right(self._offsets, offset - self._base_offset)
        return (self._positions[at - 1], self._offsets[at - 1] + self._base_offset) if at else (0, -1)

    def last_within(self, limit: int) -> tuple[int, int]:
        """Return (position, last offset of the batch there) of the last entry whose position is at most `limit`.

        (0, base offset - 1) if there is none: that is the segment's start.
        """
        at = bisect_right(self._positions, limit)
        if not at:
            return 0, self._base_offset - 1
        return self._positions[at - 1], self._offsets[at - 1] + self._base_offset

    def truncate(self, position: int) -> None:
        """Drop the entries of batches that begin at or after the position."""
        while self._positions and self._positions[-1] >= position:
            self._positions.pop()
            self._offsets.pop()

    def clear(self) -> None:
        del self._offsets[:]
        del self._positions[:]

    def save(self, disk: Disk) -> None:
        """Write the file."""
        both = array("I", bytes(ENTRY_SIZE * len(self._offsets)))
        both[0::2] = self._offsets
        both[1::2] = self._positions
        if sys.byteorder == "little":
            both.byteswap()
        disk.write(self.path, both.tobytes())

    def load(self, disk: Disk, segment_size: int) -> bool:
        """Read the file; return False, with no entries, if it is missing or does not fit a segment of that size."""
        self.clear()
        try:
            data = disk.read(self.path)
        except FileNotFoundError:
            return False
        if len(data) % ENTRY_SIZE:
            return False
        both = array("I")
        both.frombytes(data)
        if sys.byteorder == "little":
            both.byteswap()
        offsets, positions = both[0::2], both[1::2]
        # A file that was not trimmed ends in zeros.
        while offsets and not offsets[-1] and not positions[-1]:
            offsets.pop()
            positions.pop()
        if not _grows(offsets) or not _grows(positions) or (positions and positions[-1] >= segment_size):
            return False
        self._offsets, self._positions = offsets, positions
        return True


def _grows(values: array[int]) -> bool:
    return all(map(int.__lt__, values, values[1:]))
