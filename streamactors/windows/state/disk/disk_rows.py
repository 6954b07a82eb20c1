"""The rows of one side of a join on disk, with the rows of some keys in memory.

Owner: one side of one join of one task. The rows of a key are read together, when the first row of the key needs them, and forgotten together.
The lists are in two generations, like the objects of `hot.py`: memory is bounded by the share, except for the keys that changed since
the last cut and for the rows of one key.

A row on disk leaves at a cut: rows lie there by key and time, so one pass over all of them finds those that have expired. A cut removes at
most as many as the share holds; the next cut continues from there."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import Final

from streamactors.codec import CodecError, loads
from streamactors.windows.errors import RestoreError
from streamactors.windows.state.disk.hot import BEHIND_ENTRIES, Share
from streamactors.windows.state.disk.task_disk import TaskDisk
from streamactors.windows.state.row_store import StoredRow, insert_row, row_key
from streamactors.windows.state.serdes import Ident, key_bytes
from streamactors.windows.state.store_log import ENTRY, as_restored

_time_of: Final = attrgetter("time")
_TIME: Final = 8
_BEHIND_KEY: Final = 12  # bytes of time and sequence
_FAR_MS: Final = 1 << 56
_EXAMINED: Final = 4
"""A cut examines at most so many times as many entries as it may remove."""


class DiskRowStore:
    """A RowStore; see the module. `share`: returns the bytes of memory that the store may use."""

    def __init__(self, disk: TaskDisk, store: str, share: Callable[[], int]) -> None:
        self._disk = disk
        self._store = store
        self._share = Share(share)
        self._young: dict[Ident, list[StoredRow]] = {}  # an empty list: the key is known to have no rows
        self._old: dict[Ident, list[StoredRow]] = {}
        self._young_size = self._old_size = 0  # rows and lists
        self._kept = 0  # what the last change of generations could not forget
        self._changed: set[Ident] = set()  # since the last cut
        self._newest = _FAR_MS - 1
        self._expired_before = 0
        self._sweep_from: bytes | None = None

    # ── the rows of one key ───────────────────────────────────────────────────────────────────────────────────────

    def add(self, ident: Ident, row: StoredRow) -> None:
        rows = self._rows_of(ident)
        insert_row(rows, row)
        self._young_size += 1
        self._changed.add(ident)
        if row.time > self._newest:
            self._newest = row.time

    def between(self, ident: Ident, first_ms: int, last_ms: int) -> Sequence[StoredRow]:
        rows = self._rows_of(ident)
        if not rows or rows[-1].time < first_ms or rows[0].time > last_ms:
            return ()
        begin = 0 if rows[0].time >= first_ms else bisect_left(rows, first_ms, key=_time_of)
        end = len(rows) if rows[-1].time <= last_ms else bisect_right(rows, last_ms, begin, key=_time_of)
        return rows[begin:end]

    def take(self, ident: Ident, time_ms: int) -> Sequence[StoredRow]:
        rows = self._rows_of(ident)
        begin = bisect_left(rows, time_ms, key=_time_of)
        end = bisect_right(rows, time_ms, begin, key=_time_of)
        taken = rows[begin:end]
        if taken:
            del rows[begin:end]
            self._young_size -= len(taken)
            self._changed.add(ident)
        return taken

    def _rows_of(self, ident: Ident) -> list[StoredRow]:
        rows = self._young.get(ident)
        if rows is None:
            rows = self._old.pop(ident, None)
            if rows is None:
                rows = self._read(ident)
            else:
                self._old_size -= len(rows) + 1
            self._young[ident] = rows
            self._young_size += len(rows) + 1
        return rows

    def _read(self, ident: Ident) -> list[StoredRow]:
        """Return the rows of a key from disk. Rows of other keys, which begin with this key, may lie between them."""
        key = ENTRY + key_bytes(ident)
        whole = len(key) + _BEHIND_KEY
        behind = key + (self._newest + 1).to_bytes(_TIME, "big")
        return [
            self._decoded(at, raw) for at, raw in self._disk.scan(self._store, key, behind) if len(at) == whole
        ]  # fmt: skip

    def _decoded(self, key: bytes, raw: bytes) -> StoredRow:
        try:
            row: StoredRow = as_restored(StoredRow(*loads(raw)))
        except (CodecError, TypeError) as error:
            where = f"state of {self._store} in {self._disk.rocks.path}"
            raise RestoreError(f"{where}, key {key[1:41]!r}: {error}") from error
        self._share.weigh(1, len(raw) + len(key))
        return row

    def reach(self, newest_ms: int) -> None:
        """The store may have rows up to this time."""
        self._newest = max(self._newest, newest_ms)

    # ── all keys ──────────────────────────────────────────────────────────────────────────────────────────────────

    def expire(self, before_ms: int) -> Iterator[tuple[bytes, StoredRow]]:
        """The rows before a time may go; `sweep` removes them."""
        if before_ms > self._expired_before:
            self._expired_before = before_ms
            if self._sweep_from is None:
                self._sweep_from = ENTRY
        return iter(())

    def sweep(self) -> Iterator[tuple[bytes, StoredRow]]:
        begin, before = self._sweep_from, self._expired_before
        if begin is None:
            return
        yield from self._forget_in_memory(before)
        most = self._share.limit
        self._sweep_from = None
        removed = 0
        for examined, (at, _) in enumerate(self._disk.scan(self._store, begin, BEHIND_ENTRIES)):
            if removed >= most or examined >= _EXAMINED * most:
                self._sweep_from = at
                return
            time = int.from_bytes(at[-_BEHIND_KEY : _TIME - _BEHIND_KEY], "big")
            if time < before:
                removed += 1
                yield at[1:], as_restored(StoredRow(None, time, int.from_bytes(at[-4:], "big"), None))

    def _forget_in_memory(self, before_ms: int) -> Iterator[tuple[bytes, StoredRow]]:
        for lists in (self._young, self._old):
            for ident, rows in lists.items():
                if rows and rows[0].time < before_ms:
                    end = bisect_left(rows, before_ms, key=_time_of)
                    gone = rows[:end]
                    del rows[:end]
                    for row in gone:
                        yield row_key(ident, row), row
        self._young_size, self._old_size = _size(self._young), _size(self._old)

    # ── memory ────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def in_memory(self) -> int:
        """Number of rows and lists in memory."""
        return self._young_size + self._old_size

    @property
    def pressed(self) -> bool:
        """True if what only the next cut can write fills the memory."""
        return self._share.exceeded_by(self.in_memory)

    def weigh(self, entries: int, size: int) -> None:
        """A cut wrote so many entries of so many bytes."""
        self._share.weigh(entries, size)

    def taken(self) -> None:
        """The disk has taken a cut: what had changed can be read from it."""
        self._changed.clear()
        self._kept = 0
        limit = self._share.limit
        if self._young_size > limit:
            self._young, self._young_size = {}, 0
        if self.in_memory > limit:
            self._old, self._old_size = {}, 0

    def rest(self) -> None:
        """No row is in use: forget those of the keys that were not used for long."""
        if self._young_size > self._share.limit // 2 + self._kept:
            changed = self._changed
            kept = {ident: rows for ident, rows in self._old.items() if ident in changed}
            self._old, self._old_size = self._young, self._young_size
            self._young, self._young_size = kept, _size(kept)
            self._kept = self._young_size


def _size(lists: dict[Ident, list[StoredRow]]) -> int:
    return sum(map(len, lists.values())) + len(lists)
