"""The rows of one side of a join on disk: a list for each key, as `disk_lists.py` keeps them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, Final

from streamactors.windows.state.disk.disk_lists import DiskLists
from streamactors.windows.state.disk.task_disk import TaskDisk
from streamactors.windows.state.key_lists import ListForm
from streamactors.windows.state.row_store import StoredRow, insert_row, row_key
from streamactors.windows.state.serdes import Ident
from streamactors.windows.state.store_log import as_restored

_time_of: Final = attrgetter("time")


def _row(fields: list[Any]) -> StoredRow:
    row: StoredRow = as_restored(StoredRow(*fields))
    return row


def _expired(rows: list[StoredRow], before_ms: int) -> list[StoredRow]:
    end = bisect_left(rows, before_ms, key=_time_of)
    gone = rows[:end]
    del rows[:end]
    return gone


ROWS: Final[ListForm[list[StoredRow], StoredRow]] = ListForm(
    suffix=12, of=_row, listed=list, objects=iter, drop=_expired, key=row_key
)
"""The key of a row is that of `row_key`: 8 bytes of time and 4 of sequence after the key."""


class DiskRowStore(DiskLists[list[StoredRow], StoredRow]):
    """A RowStore. `share`: returns the bytes of memory that the store may use."""

    def __init__(self, disk: TaskDisk, store: str, share: Callable[[], int]) -> None:
        super().__init__(disk, store, share, ROWS)

    def add(self, ident: Ident, row: StoredRow) -> None:
        insert_row(self.list_of(ident), row)
        self.changed(ident, 1)
        self.reach(row.time)

    def between(self, ident: Ident, first_ms: int, last_ms: int) -> Sequence[StoredRow]:
        rows = self.list_of(ident)
        if not rows or rows[-1].time < first_ms or rows[0].time > last_ms:
            return ()
        begin = 0 if rows[0].time >= first_ms else bisect_left(rows, first_ms, key=_time_of)
        end = len(rows) if rows[-1].time <= last_ms else bisect_right(rows, last_ms, begin, key=_time_of)
        return rows[begin:end]

    def take(self, ident: Ident, time_ms: int) -> Sequence[StoredRow]:
        rows = self.list_of(ident)
        begin = bisect_left(rows, time_ms, key=_time_of)
        end = bisect_right(rows, time_ms, begin, key=_time_of)
        taken = rows[begin:end]
        if taken:
            del rows[begin:end]
            self.changed(ident, -len(taken))
        return taken
