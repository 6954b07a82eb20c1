"""Tumbling, hopping and unlimited windows as a table of updates: one update for each row and open window.

Owner: WindowTask. The later steps (filter, map_values, suppress, to_stream) see the updates in the order of the rows, and
those of one row by ascending window start. Closed windows stay readable until their retention is over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from streamactors.windows.definitions.aggregator import as_values
from streamactors.windows.definitions.windows import TimeWindows, UnlimitedWindows
from streamactors.windows.operators.aggregate import Accepted, AggregateSpec
from streamactors.windows.operators.operator import Found, Ident, TaskEnvironment
from streamactors.windows.operators.windowed.time_windows import NO_SLOT, TimeWindowOperator
from streamactors.windows.state.stores import Cell, Stores, cell_key
from streamactors.windows.values import IMMUTABLE, snapshot


class TimeUpdates(TimeWindowOperator):
    """The windowed table as it changes."""

    def __init__(
        self, spec: AggregateSpec[TimeWindows] | AggregateSpec[UnlimitedWindows], env: TaskEnvironment, stores: Stores
    ) -> None:
        super().__init__(spec, env, stores)
        self._add = as_values(spec.aggregator.add)
        self._old_from_init = spec.old_from_init

    def _take(self, rows: Iterator[Accepted], out: list[Any]) -> None:
        begin, end, opened, closed = NO_SLOT
        size = self._size
        for ident, record, timestamp in rows:
            if not begin <= timestamp < end:
                begin, end, opened, closed = self._look_up(timestamp)
            key, context = record.key, record.context
            for start, cells, cell, old, new in self._folded(opened, ident, record):
                newest = timestamp
                if cell is None:
                    if not self._old_from_init:
                        old = None
                    if new is not None:
                        self.env.identity.check(ident)
                        cell = cells[ident] = Cell(snapshot(key), snapshot(new), timestamp, None, None)
                        self._log.touch((start, ident), cell)
                elif new is None:
                    del cells[ident]
                    self._log.leave(cell_key(ident, start), cell)
                    newest = max(timestamp, cell.timestamp)
                else:
                    cell.value = new if type(new) in IMMUTABLE else snapshot(new)
                    if timestamp > cell.timestamp:
                        cell.timestamp = timestamp
                    newest = cell.timestamp
                    if not cell.dirty:
                        self._log.touch((start, ident), cell)
                ends = self._end(start) if size is None else start + size
                out.append((ident, key, start, ends, new, old, newest, context, False))
            if closed:
                self._refuse(record, closed)

    def _after_rows(self) -> None:
        self._forget(self._newest - self._retention)

    def read(self, ident: Ident, start: int | None, end: int | None) -> Found | None:
        assert start is not None
        cell = (self._cells.peek(start) or {}).get(ident)
        return None if cell is None else (snapshot(cell.value), cell.timestamp)
