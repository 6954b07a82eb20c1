"""What both operators over tumbling, hopping and unlimited windows share: the windows of a row, state and restore.

Owner: its operator. The windows of a timestamp are the same for a whole slot (of gcd(size, advance) milliseconds, or a day of a time zone), so the
operator looks them up when a row is in another slot than the row before. A window closes when stream time reaches its
end + grace, so no row of a slot can close a window of that slot."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableMapping
from itertools import islice
from typing import Any, Final, TypeAlias

from streamactors.windows.definitions.aggregator import refuse_lost_change
from streamactors.windows.definitions.windows import TimeWindows, UnlimitedWindows, grace_of
from streamactors.windows.operators.aggregate import AggregateSpec, WindowedOperator
from streamactors.windows.operators.buffered import OpenWindows
from streamactors.windows.operators.operator import NO_TIME, Ident, TaskEnvironment
from streamactors.windows.operators.windowed.late_rows import refuse
from streamactors.windows.record import Record
from streamactors.windows.state.calendar_queue import NEVER
from streamactors.windows.state.reads import StoreEntry, StoreRequest
from streamactors.windows.state.store_log import as_restored, unpack_context
from streamactors.windows.state.stores import Cell, Form, Stores, WindowedStore, cell_key
from streamactors.windows.values import IMMUTABLE, snapshot

Opened: TypeAlias = list[tuple[int, MutableMapping[Ident, Cell]]]
"""Open windows by ascending start: (start, cells)."""

Slot: TypeAlias = tuple[int, int, Opened, list[int]]
"""Begin and end of a slot, its open windows, and the starts of its closed windows."""

MOST_COUNTED: Final = 5_000
"""A store with more windows, closed ones that can still be read included, is not counted."""
NO_SLOT: Final[Slot] = (NEVER, NEVER, [], [])


class TimeWindowOperator(WindowedOperator):
    """State and time of an aggregation over TimeWindows or UnlimitedWindows."""

    def __init__(
        self, spec: AggregateSpec[TimeWindows] | AggregateSpec[UnlimitedWindows], env: TaskEnvironment, stores: Stores
    ) -> None:
        super().__init__(spec, env)
        windows = self._windows = spec.windows
        self._add = spec.aggregator.add
        self._uses_values = spec.aggregator.kind != "count"
        self._closed_through = (
            NO_TIME  # windows that begin up to here were final before a restart, perhaps with less grace
        )
        self._in_place = False  # `add` may change a stored aggregate, and keep the value in it
        self._cells: WindowedStore[Cell] = stores.windowed(spec.store, Form(_no_fields, _cell, on_demand=True))
        self._size = windows.fixed_size_ms  # None: the ends have to be looked up
        self._grace = grace_of(windows)
        self._closes = isinstance(windows, TimeWindows)

    def _end(self, start: int) -> int:
        """The end of the window that begins at `start`."""
        return self._windows.end(start) if self._size is None else start + self._size

    def _closed_by(self, stream_time: int) -> int:
        """A time at or after the start of each window that this stream time has closed, and before the start of every other."""
        return self._windows.closed_through(stream_time - self._grace)

    def _look_up(self, timestamp: int) -> Slot:
        """Return the slot of `timestamp` with its windows."""
        begin, end = self._windows.slot(timestamp)
        opened: Opened = []
        closed: list[int] = []
        closed_through = max(self._closed_by(self.stream_time), self._closed_through)
        for start in self._windows.starts(timestamp):
            if start <= closed_through:
                closed.append(start)
            else:
                opened.append((start, self._cells.window(start)))
                if start > self._newest:
                    self._newest = start
        return begin, end, opened, closed

    def _refuse(self, record: Record, closed: list[int]) -> None:
        """The row is late for the windows that begin at `closed`."""
        for start in closed:
            refuse(self, record, start, self._end(start), self.stream_time - self._grace)

    def _folded(
        self, opened: Opened, ident: Ident, record: Record
    ) -> list[tuple[int, MutableMapping[Ident, Cell], Cell | None, Any, Any]]:
        """Yield (start, cells, cell, old, new) of each open window; empty if the aggregator raised and the row is skipped.

        Nothing is written yet, so a row changes all of its windows or none."""
        add, init, value = self._add, self._aggregator.init, record.value
        copies = type(value) not in IMMUTABLE and self._uses_values and (self._in_place or len(opened) > 1)
        start = None
        updates = []
        try:
            for start, cells in opened:
                cell = cells.get(ident)
                begins = cell is None or cell.value is None
                old = init() if cell is None or begins else cell.value
                new = add(old, snapshot(value) if copies else value)
                if new is None and begins and self._in_place and type(old) not in IMMUTABLE:
                    refuse_lost_change(add, old, init(), value)
                updates.append((start, cells, cell, old, new))
        except Exception as error:  # noqa: BLE001 - whatever user code raises
            self._failed(error, record, start, None if start is None else self._end(start))
            return []
        return updates

    def open_windows(self) -> OpenWindows | None:
        closed_through = max(self._closed_by(self.stream_time), self._closed_through)
        starts = [start for start, _ in islice(self._cells.windows(), MOST_COUNTED + 1)]
        if len(starts) > MOST_COUNTED:
            return None
        opened = [start for start in starts if start > closed_through]
        return OpenWindows(len(opened), self._end(min(opened)) + self._grace if opened and self._closes else None)

    def entries(self, request: StoreRequest) -> Iterator[StoreEntry]:
        ident = self.env.identity.of(request.key) if request.kind in ("get", "windows") else None
        expired_through = self._newest - self._retention
        for start, cells in list(self._cells.windows()):
            if start <= expired_through:
                continue
            if ident is None:
                found = list(cells.values())
            else:
                cell = cells.get(ident)
                found = [] if cell is None else [cell]
            for each in found:
                if each.value is not None:
                    yield StoreEntry(each.key, each.value, each.timestamp, start, self._end(start))

    def _forget(self, expired_through: int) -> None:
        """Remove the windows that are older than the retention; they closed long ago."""
        while (first := self._cells.first()) is not None and first <= expired_through:
            start, cells = self._cells.take_first()
            if self._log.on:
                for ident, cell in cells.items():
                    self._log.leave(cell_key(ident, start), cell)

    def _unclosed(self) -> Iterable[tuple[int, MutableMapping[Ident, Cell]]]:
        """The windows that a later row may still change, and possibly others."""
        return self._cells.windows()

    def _flushed_until(self) -> int:
        if not self._closes or not self._finals:
            return NO_TIME
        return max((self._end(start) + self._grace for start, cells in self._unclosed() if cells), default=NO_TIME)

    def _entries(self) -> Iterator[tuple[bytes, list[Any]]]:
        for (start, ident), cell in self._log.touched():
            yield cell_key(ident, start), cell.fields(start)

    def _restore_entries(self, entries: Iterable[list[Any]]) -> None:
        window, identify = self._cells.window, self.env.identity.of
        begins: int | None = None
        cells: MutableMapping[Ident, Cell] = {}
        for key, start, value, timestamp, context, prior, old in entries:
            if start != begins:
                begins, cells = start, window(start)
            cell = Cell(key, value, timestamp, unpack_context(context), prior)
            cell.old = old
            cell.dirty = False
            cell.logged = True
            cells[identify(key)] = cell


def _cell(fields: list[Any]) -> Cell:
    """Return the cell of a changelog entry."""
    key, _, value, timestamp, context, prior, old = fields
    cell: Cell = as_restored(Cell(key, value, timestamp, unpack_context(context), prior))
    cell.old = old
    return cell


def _no_fields(cell: Cell) -> list[Any]:
    raise NotImplementedError("the fields of a cell have the start of its window: see `_entries`")
