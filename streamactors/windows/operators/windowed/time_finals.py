"""Tumbling and hopping windows with final results only: aggregates in place, emits a window when it closes.

Owner: WindowTask. Serves `.suppress(until_window_closes(…))` directly after a time-windowed aggregation, and
`.emit_on_window_close()`. Both emit a window when stream time reaches its end + grace, after the row that moved the time
was applied. So the suppress buffer is the set of open windows ordered by end. The values stay in the aggregation's store
(a store on disk needs no copy of them in memory), and `buffered` computes from the cells what a buffer would hold.

A window that was emitted stays in the store, and can be read, until its retention is over. The store's metadata says up
to which start windows were emitted: grace, which decides it, may be another one after a restart.

Results are ordered as in Kafka Streams: by window start, then by the key's bytes followed by the start (suppress) or by
four zero bytes (emit: the end of the store's keys)."""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from math import inf
from typing import Any, Final

from streamactors.gauges import Gauge
from streamactors.windows.definitions.aggregator import as_values
from streamactors.windows.definitions.windows import FOREVER, TimeWindows, UnlimitedWindows
from streamactors.windows.errors import BufferFull
from streamactors.windows.metrics import EmitMetrics, SuppressMetrics
from streamactors.windows.operators.aggregate import Accepted, AggregateSpec
from streamactors.windows.operators.buffered import Buffered, OpenWindows, entry_bytes
from streamactors.windows.operators.operator import NO_TIME, Found, Ident, TaskEnvironment, Update
from streamactors.windows.operators.windowed.empty_windows import EmptyWindows
from streamactors.windows.operators.windowed.time_windows import NO_SLOT, Slot, TimeWindowOperator
from streamactors.windows.record import Record, RecordContext
from streamactors.windows.state.calendar_queue import NEVER
from streamactors.windows.state.serdes import key_bytes
from streamactors.windows.state.store_log import StoreReader
from streamactors.windows.state.stores import Cell, Stores
from streamactors.windows.values import snapshot

STORE_SUFFIX: Final = bytes(4)
"""The end of a key in Kafka Streams' window store."""


class TimeFinals(TimeWindowOperator):
    """`report` is a SuppressMetrics (suppress, at most `max_records` open windows) or an EmitMetrics. `needs_old`: steps
    downstream need the old values of results.

    Emit in Kafka mode loses closed windows that the store hides after a jump of time, and gives each result the context
    of the row that closed it."""

    def __init__(
        self,
        spec: AggregateSpec[TimeWindows] | AggregateSpec[UnlimitedWindows],
        env: TaskEnvironment,
        stores: Stores,
        report: SuppressMetrics | EmitMetrics,
        max_records: int | None = None,
        *,
        needs_old: bool = False,
    ) -> None:
        super().__init__(spec, env, stores)
        self._report = report
        self._suppresses = isinstance(report, SuppressMetrics)
        self._kafka = spec.kafka and not self._suppresses
        self._counts = spec.aggregator.kind == "count"
        self._old_from_init = spec.old_from_init
        self._bound = max_records
        self._held = 0
        self._gauge = Gauge(
            f"{spec.node}: entries of open windows",
            inf if max_records is None else max_records,
            "entries",
            bounded_by="size and grace of the windows",
        )
        self._close_next = NEVER  # the stream time that closes the first window
        self._slots: dict[
            int, Slot
        ] = {}  # looked up since the last release or call; no window of them has closed since
        self._open: dict[int, MutableMapping[Ident, Cell]] = {}  # windows that were not emitted yet
        self._starts: list[int] = []  # of the open windows, a heap
        # Nobody sees an aggregate before it is final, so `add` may change it in place; not if the change of a failing
        # row must be undone, or if steps downstream need the aggregate before the last change.
        self._empty: EmptyWindows | None = None
        if spec.fill_empty_ms is not None and isinstance(spec.windows, TimeWindows):
            self._empty = EmptyWindows(spec.node, spec.windows, spec.fill_empty_ms, spec.aggregator.init)
        self._in_place = env.on_failure is None and not needs_old
        if not self._in_place:
            self._add = as_values(self._add)

    def _look_up(self, timestamp: int) -> Slot:
        begin, _ = self._windows.slot(timestamp)
        slot = self._slots.get(begin)
        if slot is None:
            slot = self._slots[begin] = super()._look_up(timestamp)
            for start, cells in slot[2]:
                self._opened(start, cells)
            self._close_next = self._close_at()
        return slot

    def _opened(self, start: int, cells: MutableMapping[Ident, Cell]) -> None:
        """A window of the store is open."""
        if start not in self._open:
            self._open[start] = cells
            heapq.heappush(self._starts, start)

    def _close_at(self) -> int:
        """The stream time that closes the first open window."""
        start = self._starts[0] if self._starts else None
        if self._empty is not None and (empty := self._empty.next_start()) is not None:
            start = empty if start is None else min(start, empty)
        return NEVER if start is None or not self._closes else self._end(start) + self._grace

    def _take(self, rows: Iterator[Accepted], out: list[Any]) -> None:
        begin, end, opened, closed = NO_SLOT
        counts, touch = self._counts, self._log.touch
        for ident, record, timestamp in rows:
            if not begin <= timestamp < end:
                begin, end, opened, closed = self._look_up(timestamp)
            if counts:
                for start, cells in opened:
                    cell = cells.get(ident)
                    if cell is None:
                        self._create(start, cells, ident, record, 1, 0, out)
                        continue
                    cell.old = count = cell.value
                    cell.value = count + 1
                    if timestamp > cell.timestamp:
                        cell.timestamp = timestamp
                    cell.context = record.context
                    if not cell.dirty:
                        touch((start, ident), cell)
            else:
                for start, cells, cell, old, new in self._folded(opened, ident, record):
                    if cell is None:
                        self._create(start, cells, ident, record, snapshot(new), old, out)
                        continue
                    if not self._in_place:
                        new = snapshot(new)
                    if cell.value is None or timestamp > cell.timestamp:
                        cell.timestamp = timestamp
                    cell.old = old
                    cell.value = new
                    cell.context = record.context
                    if not cell.dirty:
                        touch((start, ident), cell)
            if closed:
                self._refuse(record, closed)
            if timestamp >= self._close_next:
                self._release(out, record.context)

    def _after_rows(self) -> None:
        self._slots.clear()
        self._gauge.reached(self._held)

    def _advance(self, stream_time: int, out: list[Any]) -> None:
        super()._advance(stream_time, out)
        self._gauge.reached(self._held)

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
        """A key's first row in a window. Raises BufferFull if there is one too many even after a release."""
        self.env.identity.check(ident)
        cell = cells[ident] = Cell(
            snapshot(record.key), value, record.timestamp, record.context, prior if self._old_from_init else None
        )
        self._log.touch((start, ident), cell)
        self._held += 1
        if self._bound is not None and self._held > self._bound:
            if self.stream_time >= self._close_at():
                self._release(out, record.context)
            if self._held > self._bound:
                raise BufferFull(self._report.node, self._held, self._bound, self.buffered().bytes, None)

    def _release(self, out: list[Any], trigger: RecordContext | None = None) -> None:
        self._slots.clear()
        began = time.perf_counter_ns()
        emitted = len(out)
        closed_through = self._closed_by(self.stream_time)
        expired_through = self._newest - self._retention
        while self._starts and self._starts[0] <= closed_through:
            start = heapq.heappop(self._starts)
            if self._empty is not None:
                self._fill_before(start, out)
            window = self._open.pop(start)
            cells = list(window.items())
            self._held -= len(cells)
            if not self._kafka or start >= expired_through:
                results = self._results(start, cells, trigger)
                out.extend(results if self._empty is None else self._filled(start, window, results))
        if self._empty is not None:
            self._fill_before(self._closed_by(self.lasting_time) + 1, out)
        self._forget(expired_through)
        self._close_next = self._close_at()
        self._report.record(len(out) - emitted, began)

    def _fill_before(self, limit: int, out: list[Any]) -> None:
        """Append the results of the empty windows that begin before `limit`."""
        assert self._empty is not None
        while (start := self._empty.next_start()) is not None and start < limit:
            out.extend(self._filled(start, {}, []))

    def _filled(self, start: int, cells: Mapping[Ident, Cell], results: list[Update]) -> list[Update]:
        """Return the results of a window that closes, with those of keys without rows among them."""
        empty, end = self._empty, self._end(start)
        assert empty is not None
        filled = results + [
            (ident, snapshot(key), start, end, empty.init(), None, end - 1, None, True)
            for ident, key in empty.missing(start, cells)
        ]
        empty.closed(start, cells)
        return sorted(filled, key=lambda update: key_bytes(update[0]))

    def _results(self, start: int, cells: list[tuple[Ident, Cell]], trigger: RecordContext | None) -> list[Update]:
        """The final updates of one window, without those whose value is None."""
        tie = start.to_bytes(8, "big") if self._suppresses else STORE_SUFFIX
        end = self._end(start)
        ordered = sorted([(key_bytes(ident) + tie, ident, cell) for ident, cell in cells])
        return [
            (
                ident,
                snapshot(cell.key),  # the window stays readable
                start,
                end,
                snapshot(cell.value),
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
        for start, cells in self._cells.windows():
            if start > self._closed_through:
                self._opened(start, cells)
        self._held = sum(map(len, self._open.values()))
        if self._empty is not None:
            self._empty.restore(self._cells.windows(), self._closed_through)
            self._close_next = self._close_at()

    def _state(self) -> dict[str, Any]:
        return super()._state() | {"closed_through": max(self._closed_through, self._closed_by(self.lasting_time))}

    def _restore_state(self, state: dict[str, Any]) -> None:
        super()._restore_state(state)
        self._closed_through = state.get("closed_through", NO_TIME)  # without it the store has open windows only

    def _unclosed(self) -> Iterable[tuple[int, MutableMapping[Ident, Cell]]]:
        return self._open.items()

    @property
    def holds(self) -> int:
        """Number of entries of open windows."""
        return self._held

    def open_windows(self) -> OpenWindows:
        closes = self._close_at()
        return OpenWindows(len(self._open), None if closes >= FOREVER else closes)

    def buffered(self) -> Buffered:
        """Entries of open windows, and the bytes that a suppress buffer would count for them. O(entries)."""
        serdes = self.env.serdes
        size = 0
        for cells in self._open.values():
            for ident, cell in cells.items():
                key_size = len(key_bytes(ident)) + 8
                size += entry_bytes(serdes, key_size, cell.prior, cell.old, cell.value, cell.context)
        return Buffered(self._held, size)

    def read(self, ident: Ident, start: int | None, end: int | None) -> Found | None:
        assert start is not None
        if start <= self._newest - self._retention:
            return None
        cell = (self._cells.peek(start) or {}).get(ident)
        if cell is None:
            return None
        if self._suppresses and start in self._open:  # not emitted yet: downstream knows the value before
            return None if cell.prior is None else (snapshot(cell.prior), None)
        return None if cell.value is None else (snapshot(cell.value), cell.timestamp)
