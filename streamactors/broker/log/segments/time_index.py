"""Time index of one segment: timestamp -> offset.

Owner: LogSegment (one writer). Layout: 12-byte big-endian entries (i64 greatest timestamp so far, u32 last offset of its
batch relative to the segment's base); timestamps strictly increase. Written when the segment is closed, with one final
entry. Source: Kafka's log format (KIP-33).
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_right
from pathlib import Path
from typing import Final, NamedTuple

from streamactors.broker.log.disk import Disk

ENTRY: Final = struct.Struct(">qI")


class TimestampOffset(NamedTuple):
    """A timestamp in epoch milliseconds and its offset; (-1, -1) means none."""

    timestamp: int
    offset: int


NONE: Final = TimestampOffset(-1, -1)


class TimeIndex:
    """Entries in memory; `load` and `save` go to the file."""

    __slots__ = ("_base_offset", "_max_entries", "_offsets", "_timestamps", "path")

    def __init__(self, path: Path, base_offset: int, max_bytes: int) -> None:
        self.path = path
        self._base_offset = base_offset
        self._max_entries = max(2, max_bytes // ENTRY.size)
        self._timestamps = array("q")
        self._offsets = array("I")

    def __len__(self) -> int:
        return len(self._timestamps)

    @property
    def is_full(self) -> bool:
        """Whether only the final entry still has room."""
        return len(self._timestamps) >= self._max_entries - 1

    @property
    def last(self) -> TimestampOffset:
        """The last entry: the greatest timestamp of a closed segment. (-1, base offset) without one."""
        if not self._timestamps:
            return TimestampOffset(-1, self._base_offset)
        return TimestampOffset(self._timestamps[-1], self._offsets[-1] + self._base_offset)

    def append(self, timestamp: int, offset: int) -> None:
        """Add an entry if its timestamp is greater than the last one's."""
        if timestamp > (self._timestamps[-1] if self._timestamps else -1):
            self._timestamps.append(timestamp)
            self._offsets.append(offset - self._base_offset)

    def lookup(self, timestamp: int) -> TimestampOffset:
        """Return the last entry at or below the timestamp; (-1, base offset) if there is none. O(log n)."""
        at = bisect_right(self._timestamps, timestamp)
        if not at:
            return TimestampOffset(-1, self._base_offset)
        return TimestampOffset(self._timestamps[at - 1], self._offsets[at - 1] + self._base_offset)

    def truncate(self, offset: int) -> None:
        """Drop the entries at or after the offset."""
        while self._offsets and self._offsets[-1] + self._base_offset >= offset:
            self._offsets.pop()
            self._timestamps.pop()

    def clear(self) -> None:
        del self._offsets[:]
        del self._timestamps[:]

    def save(self, disk: Disk) -> None:
        """Write the file."""
        disk.write(self.path, b"".join(map(ENTRY.pack, self._timestamps, self._offsets)))

    def load(self, disk: Disk, end_offset: int) -> bool:
        """Read the file; return False, with no entries, if it is missing or does not fit a segment that ends there."""
        self.clear()
        try:
            data = disk.read(self.path)
        except FileNotFoundError:
            return False
        if len(data) % ENTRY.size:
            return False
        for timestamp, offset in ENTRY.iter_unpack(data):
            if timestamp == offset == 0 and self._timestamps:
                break  # A file that was not trimmed ends in zeros.
            if timestamp <= self.last.timestamp or offset + self._base_offset >= end_offset:
                self.clear()
                return False
            self._timestamps.append(timestamp)
            self._offsets.append(offset)
        return True
