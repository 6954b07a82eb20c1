"""Tumbling, hopping and unlimited windows, every update: one for each row and open window.

Owner: WindowTask. Downstream (filter, map_values, suppress, to_stream) sees each of them in the order of the rows, the
windows of a row by ascending start. Closed windows stay readable until retention takes them."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, Sequence
from typing import Any

from streamactors.windows.aggregation import Aggregation
from streamactors.windows.aggregator import as_values
from streamactors.windows.definitions import TimeWindows, UnlimitedWindows
from streamactors.windows.operator import FATAL, Ident, Surroundings
from streamactors.windows.record import Record
from streamactors.windows.stores import Stores
from streamactors.windows.time_cells import NEVER, Cell, TimeWindowOperator


class TimeUpdates(TimeWindowOperator):
    """The windowed table as it changes."""

    def __init__(
        self, spec: Aggregation[TimeWindows] | Aggregation[UnlimitedWindows], around: Surroundings, stores: Stores
    ) -> None:
        super().__init__(spec, around, stores)
        self._add = as_values(spec.aggregator.add)

    def process(self, rows: Sequence[Record], out: list[Any]) -> None:
        remaining = iter(rows)
        while not self._process(remaining, out):
            pass

    def _process(self, rows: Iterator[Record], out: list[Any]) -> bool:
        """Take rows up to the end (True) or the first that failed and is to be skipped (False)."""
        identity = self.around.identity
        text, identify = identity.text, identity.of
        granule = self._granule
        stream_time = self.stream_time
        slot = NEVER
        opened: list[tuple[int, MutableMapping[Ident, Cell]]] = []
        closed: list[int] = []
        record: Any = None
        try:
            for record in rows:
                timestamp = record.timestamp
                ident = record.key
                if type(ident) is not text:
                    if ident is None:
                        self._reject(record)
                        continue
                    ident = identify(ident)
                if timestamp > stream_time:
                    self.stream_time = stream_time = timestamp
                elif timestamp < 0:
                    self._reject(record)
                    continue
                if timestamp - timestamp % granule != slot:
                    slot = timestamp - timestamp % granule
                    opened, closed = self._open(timestamp)
                self._fold(opened, ident, record, out)
                for start in closed:
                    self._late(record, start, start + self._size, stream_time - self._grace)
        except FATAL:
            raise
        except Exception as error:  # noqa: BLE001 - whatever user code raises
            self._failed(error, record)
            return False
        self._expire()
        return True

    def _fold(
        self, opened: list[tuple[int, MutableMapping[Ident, Cell]]], ident: Ident, record: Record, out: list[Any]
    ) -> None:
        """Apply a row to its open windows: to all of them, or if the aggregator raises to none."""
        add, init, value = self._add, self._aggregator.init, record.value
        start = None
        updates = []
        try:
            for start, cells in opened:  # noqa: B007 - named in the error
                cell = cells.get(ident)
                old = init() if cell is None else cell.value
                updates.append((cell, old, add(old, value)))
        except Exception as error:  # noqa: BLE001
            self._failed(error, record, start, None if start is None else start + self._size)
            return
        key, timestamp, context = record.key, record.timestamp, record.context
        for (start, cells), (cell, old, new) in zip(opened, updates, strict=True):
            newest = timestamp
            if cell is None:
                if new is not None:
                    self.around.identity.check(ident)
                    cell = cells[ident] = Cell(key, new, timestamp, None, None)
                    self._log.touch((start, ident), cell)
            elif new is None:
                del cells[ident]
                self._log.leave(self._log_key(ident, start), cell)
                if timestamp < cell.timestamp:
                    newest = cell.timestamp
            else:
                cell.value = new
                if timestamp > cell.timestamp:
                    cell.timestamp = timestamp
                newest = cell.timestamp
                if not cell.dirty:
                    self._log.touch((start, ident), cell)
            out.append((ident, key, start, start + self._size, new, old, newest, context, False))

    def _expire(self) -> None:
        """Forget windows beyond retention; they have been closed for long."""
        expired_through = self._newest - self._retention
        while (first := self._cells.first()) is not None and first <= expired_through:
            start, cells = self._cells.take_first()
            if self._log.on:
                for ident, cell in cells.items():
                    self._log.leave(self._log_key(ident, start), cell)

    def _release(self, out: list[Any]) -> None:
        """Nothing is held back here."""

    def read(self, key: Any, ident: Ident, start: int | None, end: int | None) -> tuple[Any, int | None] | None:
        assert start is not None
        cell = (self._cells.peek(start) or {}).get(ident)
        return None if cell is None else (cell.value, cell.timestamp)
