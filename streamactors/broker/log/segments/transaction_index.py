"""Transaction index of one segment: the aborted transactions whose marker is in the segment.

Owner: LogSegment (one writer). Layout: 34-byte big-endian entries (i16 version 0, i64 producer id, i64 first offset, i64
last offset = the marker's, i64 last stable offset when it was written). A segment without aborted transactions has no
file. Source: Kafka's log format (KIP-98).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from streamactors.broker.log.disk import Disk

ENTRY: Final = struct.Struct(">hqqqq")
VERSION: Final = 0


class AbortedTransaction(NamedTuple):
    """An aborted transaction of this partition, with the offsets of its first record and of its marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    """Entries in memory, in the order of their markers."""

    __slots__ = ("_entries", "path")

    def __init__(self, path: Path) -> None:
        self.path = path
        self._entries: list[AbortedTransaction] = []

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[AbortedTransaction]:
        return iter(self._entries)

    def append(self, entry: AbortedTransaction) -> None:
        self._entries.append(entry)

    def collect(self, start: int, end: int, into: list[AbortedTransaction]) -> bool:
        """Add the aborted transactions that touch offsets in [start, end). Return True if no later one can."""
        for entry in self._entries:
            if entry.last_offset >= start and entry.first_offset < end:
                into.append(entry)
            if entry.last_stable_offset >= end:
                return True
        return False

    def truncate(self, offset: int) -> None:
        """Drop the transactions whose marker is at or after the offset."""
        while self._entries and self._entries[-1].last_offset >= offset:
            self._entries.pop()

    def clear(self) -> None:
        self._entries.clear()

    def save(self, disk: Disk) -> None:
        """Write the file, or remove it if there is nothing to write."""
        if self._entries:
            disk.write(self.path, b"".join(ENTRY.pack(VERSION, *entry) for entry in self._entries))
        else:
            disk.remove(self.path)

    def load(self, disk: Disk, base_offset: int) -> bool:
        """Read the file, if there is one. Return False, with no entries, if it is damaged. Raises OSError."""
        self.clear()
        try:
            data = disk.read(self.path)
        except FileNotFoundError:
            return True
        if len(data) % ENTRY.size:
            return False
        least = base_offset
        for version, *fields in ENTRY.iter_unpack(data):
            entry = AbortedTransaction(*fields)
            if version != VERSION or entry.last_offset < least or entry.first_offset > entry.last_offset:
                self.clear()
                return False
            least = entry.last_offset + 1
            self._entries.append(entry)
        return True
