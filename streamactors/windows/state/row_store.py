"""The rows of one side of a join: for each key, rows ordered by time, rows of equal time by arrival.

Owner: one side of one join of one task. Rows of equal key and time are all kept. `sequence` tells them apart, in the
changelog and on disk. Rows leave by `expire`, oldest first, when no row of the other side can meet them any more."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Any, Final, Protocol

from streamactors.windows.state.serdes import Ident, key_bytes
from streamactors.windows.state.store_log import Logged

_time_of: Final = attrgetter("time")


class StoredRow:
    """A row that waits for rows of the other side."""

    __slots__ = ("dirty", "key", "logged", "sequence", "time", "value")

    def __init__(self, key: Any, time: int, sequence: int, value: Any) -> None:
        self.key = key
        self.time = time
        self.sequence = sequence
        self.value = value
        self.dirty = True
        self.logged = False

    def fields(self) -> list[Any]:
        """The fields of its changelog entry."""
        return [self.key, self.time, self.sequence, self.value]


def row_key(ident: Ident, row: StoredRow) -> bytes:
    """The key of a row in the changelog: key, time (8 bytes), sequence (4 bytes), as in Kafka Streams' window store."""
    return key_bytes(ident) + row.time.to_bytes(8, "big") + row.sequence.to_bytes(4, "big")


def insert_row(rows: list[StoredRow], row: StoredRow) -> None:
    """Put a row into the rows of its key, after those of its time."""
    if not rows or rows[-1].time <= row.time:
        rows.append(row)
    else:
        rows.insert(bisect_right(rows, row.time, key=_time_of), row)


class RowStore(Protocol):
    """Rows by key and time."""

    def add(self, ident: Ident, row: StoredRow) -> None:
        """Keep a row, after the rows of its key with the same time."""

    def between(self, ident: Ident, first_ms: int, last_ms: int) -> Sequence[StoredRow]:
        """Return the rows of a key with first_ms <= time <= last_ms, in order."""

    def take(self, ident: Ident, time_ms: int) -> Sequence[StoredRow]:
        """Remove and return the rows of a key and time."""

    def expire(self, before_ms: int) -> Iterator[tuple[bytes, Logged]]:
        """Remove the rows with time < before_ms, now or in `sweep`; return those removed now with their keys in the changelog. O(keys)."""

    def sweep(self) -> Iterator[tuple[bytes, Logged]]:
        """A cut begins: remove rows that `expire` has left; return them with their keys in the changelog."""

    def reach(self, newest_ms: int) -> None:
        """After a restore: the store may have rows up to this time."""


class MemoryRowStore:
    """A RowStore of lists in a dict."""

    __slots__ = ("_by_key",)

    def __init__(self) -> None:
        self._by_key: dict[Ident, list[StoredRow]] = {}

    def __len__(self) -> int:
        """Return the number of keys."""
        return len(self._by_key)

    def add(self, ident: Ident, row: StoredRow) -> None:
        rows = self._by_key.get(ident)
        if rows is None:
            self._by_key[ident] = [row]
        else:
            insert_row(rows, row)

    def between(self, ident: Ident, first_ms: int, last_ms: int) -> Sequence[StoredRow]:
        rows = self._by_key.get(ident)
        if rows is None or rows[-1].time < first_ms or rows[0].time > last_ms:
            return ()
        begin = 0 if rows[0].time >= first_ms else bisect_left(rows, first_ms, key=_time_of)
        end = len(rows) if rows[-1].time <= last_ms else bisect_right(rows, last_ms, begin, key=_time_of)
        return rows[begin:end]

    def take(self, ident: Ident, time_ms: int) -> Sequence[StoredRow]:
        rows = self._by_key.get(ident)
        if rows is None:
            return ()
        begin = bisect_left(rows, time_ms, key=_time_of)
        end = bisect_right(rows, time_ms, begin, key=_time_of)
        taken = rows[begin:end]
        del rows[begin:end]
        if not rows:
            del self._by_key[ident]
        return taken

    def expire(self, before_ms: int) -> Iterator[tuple[bytes, StoredRow]]:
        empty = []
        gone: list[tuple[bytes, StoredRow]] = []
        for ident, rows in self._by_key.items():
            if rows[0].time < before_ms:
                end = bisect_left(rows, before_ms, key=_time_of)
                gone.extend((row_key(ident, row), row) for row in rows[:end])
                del rows[:end]
                if not rows:
                    empty.append(ident)
        for ident in empty:
            del self._by_key[ident]
        return iter(gone)

    def sweep(self) -> Iterator[tuple[bytes, StoredRow]]:
        return iter(())

    def reach(self, newest_ms: int) -> None:
        """All rows are in memory: nothing to know."""
