"""Tumbling and hopping windows, final results only: aggregate in place, give a window out when it closes.

Owner: WindowTask. Serves `.suppress(until_window_closes(…))` directly behind a time-windowed aggregation and
`.emit_on_window_close()`: both let a window go exactly when stream time reaches its end + grace, after the row that
moved the time was applied. The suppress buffer is then nothing but the keys of the open windows, in the order of their
ends; the values stay where the aggregation keeps them (so a store on disk needs no copy of them in memory). What a
buffer would hold and weigh is told from the same cells.

Order as in Kafka Streams: window start, then the key's bytes followed by the start (suppress) or by four zero bytes
(emit: the end of the store's keys)."""

from __future__ import annotations

import time
from collections.abc import Iterator, MutableMapping, Sequence
from typing import Any, Final

from streamactors.windows.aggregation import Aggregation
from streamactors.windows.aggregator import as_values, snapshot
from streamactors.windows.buffered import Buffered, entry_bytes
from streamactors.windows.changelog import StoreReader
from streamactors.windows.codec import key_bytes
from streamactors.windows.definitions import FOREVER, TimeWindows, UnlimitedWindows
from streamactors.windows.errors import BufferFull
from streamactors.windows.metrics import EmitMetrics, SuppressMetrics
from streamactors.windows.operator import FATAL, Ident, Surroundings
from streamactors.windows.record import Record, RecordContext
from streamactors.windows.stores import Stores
from streamactors.windows.time_cells import NEVER, Cell, TimeWindowOperator
from streamactors.windows.update import Update

_STORE_SUFFIX: Final = bytes(4)


class TimeFinals(TimeWindowOperator):
    """`report` tells which of the two it serves: SuppressMetrics (at most `max_records` open) or EmitMetrics.

    For emit in Kafka mode: closed windows that the store hides after a jump of time are lost, and a result has the
    context of the row that closed it."""

    def __init__(
        self,
        spec: Aggregation[TimeWindows] | Aggregation[UnlimitedWindows],
        around: Surroundings,
        stores: Stores,
        report: SuppressMetrics | EmitMetrics,
        max_records: int | None = None,
    ) -> None:
        super().__init__(spec, around, stores)
        self._report = report
        self._suppresses = isinstance(report, SuppressMetrics)
        self._kafka = spec.kafka and not self._suppresses
        self._bound = max_records
        self._max_records = NEVER if max_records is None else max_records
        self._held = 0
        self._closed: dict[int, MutableMapping[Ident, Cell]] = {}  # still readable, until retention takes them
        # Nobody sees an aggregate before it is final, so `add` may change it in place, unless a failing row is to be
        # taken back.
        add = spec.aggregator.add
        self._add = add if around.on_failure is None else as_values(add)

    def process(self, rows: Sequence[Record], out: list[Any]) -> None:
        remaining = iter(rows)
        while not self._process(remaining, out):
            pass

    def _process(self, rows: Iterator[Record], out: list[Any]) -> bool:
        """Take rows up to the end (True) or the first that failed and is to be skipped (False)."""
        identity = self.around.identity
        text, identify = identity.text, identity.of
        counting = self._aggregator.kind == "count"
        granule, touch = self._granule, self._log.touch
        stream_time = self.stream_time
        close_at = self._close_at()
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
                    close_at = self._close_at()
                if counting:
                    for start, cells in opened:
                        cell = cells.get(ident)
                        if cell is None:
                            self._create(start, cells, ident, record, 1, 0, out)
                        else:
                            cell.old = count = cell.value
                            cell.value = count + 1
                            if timestamp > cell.timestamp:
                                cell.timestamp = timestamp
                            cell.context = record.context
                            if not cell.dirty:
                                touch((start, ident), cell)
                else:
                    self._fold(opened, ident, record, out)
                if closed:
                    for start in closed:
                        self._late(record, start, start + self._size, stream_time - self._grace)
                if stream_time >= close_at:
                    self._release(out, record.context)
                    close_at = self._close_at()
                    slot = NEVER
        except FATAL:
            raise
        except Exception as error:  # noqa: BLE001 - whatever user code raises
            self._failed(error, record)
            return False
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
                old = init() if cell is None or cell.value is None else cell.value
                updates.append((old, add(old, value)))
        except Exception as error:  # noqa: BLE001
            self._failed(error, record, start, None if start is None else start + self._size)
            return
        for (start, cells), (old, new) in zip(opened, updates, strict=True):
            cell = cells.get(ident)
            if cell is None:
                self._create(start, cells, ident, record, snapshot(new), old, out)
                continue
            if cell.value is None or record.timestamp > cell.timestamp:
                cell.timestamp = record.timestamp
            cell.old = old
            cell.value = new
            cell.context = record.context
            if not cell.dirty:
                self._log.touch((start, ident), cell)

    def _create(
        self,
        start: int,
        cells: MutableMapping[Ident, Cell],
        ident: Ident,
        record: Record,
        value: Any,
        prior: Any,
        out: list[Any],
    ) -> None:
        """A key's first row in a window. Raises BufferFull if that makes one too many, after letting go what is due."""
        self.around.identity.check(ident)
        cell = cells[ident] = Cell(record.key, value, record.timestamp, record.context, prior)
        self._log.touch((start, ident), cell)
        self._held += 1
        if self._held > self._max_records:
            if self.stream_time >= self._close_at():
                self._release(out, record.context)
            if self._held > self._max_records:
                raise BufferFull(self._report.node, self._held, self._bound, self.buffered().bytes, None)

    def _release(self, out: list[Any], trigger: RecordContext | None = None) -> None:
        began = time.perf_counter_ns()
        emitted = len(out)
        closed_through = self.stream_time - self._span
        lost_before = self._newest - self._retention if self._kafka else -1
        while (first := self._cells.first()) is not None and first <= closed_through:
            start, cells = self._cells.take_first()
            self._held -= len(cells)
            if self._log.on:
                for ident, cell in cells.items():
                    self._log.leave(self._log_key(ident, start), cell)
            if start >= lost_before:
                out.extend(self._results(start, cells, trigger))
            if start > self._newest - self._retention:
                self._closed[start] = cells
        for start in [start for start in self._closed if start <= self._newest - self._retention]:
            del self._closed[start]
        self._report.record(len(out) - emitted, began)

    def _results(self, start: int, cells: MutableMapping[Ident, Cell], trigger: RecordContext | None) -> list[Update]:
        """The final updates of one window; entries that ended as None give none."""
        tie = start.to_bytes(8, "big") if self._suppresses else _STORE_SUFFIX
        end = start + self._size
        ordered = sorted([(key_bytes(ident) + tie, ident, cell) for ident, cell in cells.items()])
        return [
            (
                ident,
                cell.key,
                start,
                end,
                cell.value,
                cell.old if self._suppresses else None,
                cell.timestamp,
                trigger if self._kafka and trigger is not None else cell.context,
                True,
            )
            for _, ident, cell in ordered
            if cell.value is not None
        ]

    def _next_release(self) -> int | None:
        closes_at = self._close_at()
        return closes_at if closes_at < FOREVER else None

    def restore(self, reader: StoreReader) -> None:
        super().restore(reader)
        self._held = sum(len(cells) for _, cells in self._cells.windows())

    def buffered(self) -> Buffered:
        """Entries of open windows, and the bytes a suppress buffer would count for them. O(entries)."""
        serdes = self.around.serdes
        size = 0
        for _, cells in self._cells.windows():
            for ident, cell in cells.items():
                key_size = len(key_bytes(ident)) + 8
                size += entry_bytes(serdes, key_size, cell.prior, cell.old, cell.value, cell.context)
        return Buffered(self._held, size)

    def read(self, key: Any, ident: Ident, start: int | None, end: int | None) -> tuple[Any, int | None] | None:
        assert start is not None
        cells = self._cells.peek(start)
        if cells is not None and ident in cells:
            cell = cells[ident]
            if self._suppresses:  # not out yet: what downstream knows is what was there before
                return None if cell.prior is None else (cell.prior, None)
        else:
            found = self._closed.get(start, {}).get(ident)
            if found is None:
                return None
            cell = found
        return None if cell.value is None else (cell.value, cell.timestamp)
